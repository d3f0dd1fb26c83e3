//! Completion scripts for shells: generated from the definition of the options, with what is in the store
//! and the configuration added.
//!
//! The scripts ask `idem __complete KIND =PREFIX WORD...`, where the words are those of the line before the
//! one being typed: they can name a store and a scope. The kind is one of [`Live`], or `here`: then idem
//! finds out from the words, and ends with 1 where the place is none of these.

use super::live::Live;
use super::parse::tree;
use super::verbs;
use clap_complete::Shell;

/// The script for a shell.
pub fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut tree(), "idem", &mut script);
    let script = String::from_utf8_lossy(&script);
    match shell {
        Shell::Bash => bash(&script),
        Shell::Zsh => zsh(&script),
        Shell::Fish => fish(&script),
        Shell::Elvish => elvish(&script),
        Shell::PowerShell => powershell(&script),
        _ => script.into_owned(),
    }
}

const BASH_LIVE: &str = r#"
# Completes keys, scopes, tasks, breakers and profiles; everything else is left to _idem.
_idem_live() {
    local word found before cur="${COMP_WORDS[COMP_CWORD]}" words
    # The words as they were typed: bash splits them at colons and equals signs.
    read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
    word="${COMP_LINE:0:COMP_POINT}"
    word="${word##*[[:space:]]}"
    [[ -z "$word" ]] || unset 'words[-1]'
    if [[ "$word" == --*=* ]]; then
        words+=("${word%%=*}")
        word="${word#*=}"
    fi
    [[ "$cur" == [:=] ]] && cur=""
    before="${word%"$cur"}"
    COMPREPLY=()
    if ! found="$("$1" __complete here "=$word" "${words[@]:1}" 2>/dev/null)"; then
        _idem "$@"
        return
    fi
    while IFS= read -r word; do
        [[ -n "$word" ]] || continue
        printf -v word '%q' "$word"
        COMPREPLY+=("${word#"$before"}")
    done <<<"$found"
}

"#;

fn bash(script: &str) -> String {
    let (functions, registration) = match script.rfind("\nif [[ \"${BASH_VERSINFO") {
        Some(at) => script.split_at(at),
        None => (script, ""),
    };
    let registration = registration.replace("complete -F _idem ", "complete -F _idem_live ");
    format!("{functions}{BASH_LIVE}{}", registration.trim_start())
}

const ZSH_LIVE: &str = r#"(( $+functions[_idem_live] )) ||
_idem_live() {
    local -a found
    found=(${(f)"$(command idem __complete $@[-1] "=${(Q)PREFIX}" "${(@Q)words[1,CURRENT-1]}" 2>/dev/null)"})
    compadd "${@[1,-2]}" -a found
}

"#;

fn zsh(script: &str) -> String {
    let mut out = String::new();
    for line in script.lines() {
        if line.starts_with("if [ \"$funcstack[1]\"") {
            out.push_str(ZSH_LIVE);
        }
        match zsh_live(line) {
            Some(live) => {
                let action = format!(":_idem_live {}'", live.word());
                out.push_str(&line.replace(":_default'", &action));
            }
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

/// What a line of the generated script describes an argument for.
fn zsh_live(line: &str) -> Option<Live> {
    let spec = line.trim_start_matches(['\'', '*', ':', '(']);
    let is = |names: &[&str]| names.iter().any(|name| spec.starts_with(name));
    if line.contains(":TEMPLATE:") || is(&["key -- "]) {
        Some(Live::Keys)
    } else if is(&["--scope="]) {
        Some(Live::Scopes)
    } else if is(&["--task=", "name -- The task"]) {
        Some(Live::Tasks)
    } else if is(&["--breaker=", "name -- One breaker"]) {
        Some(Live::Breakers)
    } else if is(&["--profile="]) {
        Some(Live::Profiles)
    } else {
        None
    }
}

const FISH_LIVE: &str = r#"
function __fish_idem_live
    set -l words (commandline -opc)
    set -l typed (commandline -ct | string replace -r -- '^--[a-z-]+=' '')
    command idem __complete $argv[1] "=$typed" $words[2..-1] 2>/dev/null
end
"#;

/// Every argument that has something live, as fish wants it told.
fn fish(script: &str) -> String {
    let mut out = format!("{script}{FISH_LIVE}");
    let mut add = |condition: &str, what: &str| {
        out.push_str(&format!("complete -c idem -n \"{condition}\" {what}\n"));
    };
    let names: Vec<&str> = verbs::ALL.iter().map(|verb| verb.name).collect();
    // fish's own condition for the place before the verb fails at an option that still lacks its value.
    add(
        &format!("not __fish_seen_subcommand_from {}", names.join(" ")),
        "-l profile -x -a \"(__fish_idem_live profiles)\"",
    );
    for verb in verbs::ALL {
        let condition = format!("__fish_idem_using_subcommand {}", verb.name);
        for arg in verbs::command(verb).get_arguments() {
            let Some(live) = Live::of_arg(verb.name, arg) else {
                continue;
            };
            let Some(long) = arg.get_long() else {
                add(&condition, "-f -a \"(__fish_idem_live here)\"");
                continue;
            };
            let short = arg
                .get_short()
                .map_or(String::new(), |c| format!("-s {c} "));
            let what = format!(
                "{short}-l {long} -x -a \"(__fish_idem_live {})\"",
                live.word()
            );
            add(&condition, &what);
        }
    }
    out
}

const ELVISH_LIVE: &str = r#"    if (> (count $words) 2) {
        try {
            (external idem) __complete here '='$words[-1] (all $words[1..-1]) 2>/dev/null | from-lines
        } catch { }
    }
    if (has-key $completions $command) {
        $completions[$command]
    }
"#;

fn elvish(script: &str) -> String {
    script.replace("    $completions[$command]\n", ELVISH_LIVE)
}

const POWERSHELL_LIVE: &str = r#"    $words = @($commandElements | Select-Object -Skip 1 | ForEach-Object { "$_" })
    if ($wordToComplete -ne '') { $words = @($words | Select-Object -SkipLast 1) }
    $completions += @(& idem __complete here "=$wordToComplete" @words 2>$null | ForEach-Object {
        $text = if ($_ -match '^[\w./:+=-]+$') { $_ } else { "'" + $_.Replace("'", "''") + "'" }
        [CompletionResult]::new($text, $_, [CompletionResultType]::ParameterValue, $_)
    })

    $completions.Where"#;

fn powershell(script: &str) -> String {
    script.replace("    $completions.Where", POWERSHELL_LIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHELLS: [Shell; 5] = [
        Shell::Bash,
        Shell::Zsh,
        Shell::Fish,
        Shell::Elvish,
        Shell::PowerShell,
    ];

    #[test]
    fn every_script_asks_for_what_is_live_and_knows_every_verb() {
        for shell in SHELLS {
            let script = script(shell);
            assert_eq!(
                script.matches("idem_live() {").count(),
                usize::from(shell == Shell::Bash || shell == Shell::Zsh)
            );
            assert_eq!(script.matches(" __complete ").count(), 1, "{shell}");
            for verb in verbs::ALL {
                assert!(script.contains(verb.name), "{shell}: {}", verb.name);
            }
        }
        assert!(script(Shell::Bash).ends_with("idem\nfi\n"));
        assert!(!script(Shell::Bash).contains("complete -F _idem "));
    }

    #[test]
    fn zsh_completes_every_argument_that_has_something_live() {
        let zsh = script(Shell::Zsh);
        let commands: Vec<clap::Command> = verbs::ALL.iter().map(verbs::command).collect();
        for live in Live::ALL {
            let of_verbs = commands.iter().flat_map(|command| {
                let args = command.get_arguments();
                args.filter(|arg| Live::of_arg(command.get_name(), arg) == Some(live))
            });
            let names = of_verbs.map(|arg| 1 + usize::from(arg.get_short().is_some()));
            // A profile can also stand before the verb.
            let wanted = names.sum::<usize>() + usize::from(live == Live::Profiles);
            let action = format!(":_idem_live {}'", live.word());
            assert_eq!(zsh.matches(&action).count(), wanted, "{}", live.word());
        }
    }
}
