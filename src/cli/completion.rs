//! Completion scripts for shells: generated from the definition of the options, with the keys of the
//! store added where a verb takes one.
//!
//! The scripts ask `idem __complete keys =PREFIX WORD...` for keys, where the words are those of the
//! line so far: they can name a store and a scope.

use super::parse::tree;
use clap_complete::Shell;

/// The verbs that take the key of an operation, as the shells' lists have them.
pub const VERBS_WITH_KEYS: &str = "status log output wait resolve approve reject forget export";

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

const BASH_KEYS: &str = r#"
# Completes the key of an operation from the store; everything else is left to _idem.
_idem_or_keys() {
    local verb="" i word cur="${COMP_WORDS[COMP_CWORD]}" prev="$3"
    COMPREPLY=()
    for (( i = 1; i < COMP_CWORD; i++ )); do
        case "${COMP_WORDS[i]}" in
            --store | --config | --profile) (( i++ )) ;;
            -*) ;;
            *) verb="${COMP_WORDS[i]}"; break ;;
        esac
    done
    case "${verb}:${prev}:${cur}" in
        run:--key:* | run:-k:* | key:--key:* | key:-k:*) ;;
        *:*:-* | *:--scope:* | *:--state:* | *:--task:* | *:--since:* | *:--limit:* | *:--store:* | \
            *:--config:* | *:--profile:* | *:--attempt:* | *:--wait:* | *:--stdout:* | *:--exit-code:*) _idem "$@"; return ;;
        @VERBS@) ;;
        *) _idem "$@"; return ;;
    esac
    # The word as it was typed: bash splits it at colons and equals signs.
    word="${COMP_LINE:0:COMP_POINT}"
    word="${word##*[[:space:]]}"
    local before="${word%"$cur"}"
    while IFS= read -r i; do
        printf -v i '%q' "$i"
        COMPREPLY+=("${i#"$before"}")
    done < <("$1" __complete keys "=$word" "${COMP_WORDS[@]:1}" 2>/dev/null)
}

"#;

fn bash(script: &str) -> String {
    let verbs: Vec<String> = VERBS_WITH_KEYS
        .split(' ')
        .map(|verb| format!("{verb}:*"))
        .collect();
    let keys = BASH_KEYS.replace("@VERBS@", &verbs.join(" | "));
    let (functions, registration) = match script.rfind("\nif [[ \"${BASH_VERSINFO") {
        Some(at) => script.split_at(at),
        None => (script, ""),
    };
    let registration = registration.replace("complete -F _idem ", "complete -F _idem_or_keys ");
    format!("{functions}{keys}{}", registration.trim_start())
}

const ZSH_KEYS: &str = r#"(( $+functions[_idem_keys] )) ||
_idem_keys() {
    local -a keys
    keys=(${(f)"$(command idem __complete keys "=${(Q)PREFIX}" "${(@Q)words}" 2>/dev/null)"})
    compadd -a keys
}

"#;

fn zsh(script: &str) -> String {
    let mut out = String::new();
    for line in script.lines() {
        if line.starts_with("if [ \"$funcstack[1]\"") {
            out.push_str(ZSH_KEYS);
        }
        let takes_key = line.contains("key -- ") || line.contains(":TEMPLATE:");
        match (takes_key, line.contains(":_default'")) {
            (true, true) => out.push_str(&line.replace(":_default'", ":_idem_keys'")),
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

const FISH_KEYS: &str = r#"
function __fish_idem_keys
    set -l words (commandline -opc)
    command idem __complete keys "="(commandline -ct) $words[2..-1] 2>/dev/null
end
for verb in @VERBS@
    complete -c idem -n "__fish_idem_using_subcommand $verb" -f -a "(__fish_idem_keys)"
end
for verb in run key
    complete -c idem -n "__fish_idem_using_subcommand $verb" -s k -l key -x -a "(__fish_idem_keys)"
end
"#;

fn fish(script: &str) -> String {
    let keys = FISH_KEYS.replace("@VERBS@", VERBS_WITH_KEYS);
    format!("{script}{keys}")
}

const ELVISH_KEYS: &str = r#"    if (and (> (count $words) 2) (has-value [@VERBS@] $words[1]) (not (str:has-prefix $words[-1] '-'))) {
        try {
            (external idem) __complete keys '='$words[-1] (all $words[1..-1]) 2>/dev/null | from-lines
        } catch { }
    }
    if (has-key $completions $command) {
        $completions[$command]
    }
"#;

fn elvish(script: &str) -> String {
    let keys = ELVISH_KEYS.replace("@VERBS@", VERBS_WITH_KEYS);
    script.replace("    $completions[$command]\n", &keys)
}

const POWERSHELL_KEYS: &str = r#"    $words = @($commandElements | Select-Object -Skip 1 | ForEach-Object { "$_" })
    $verb = $words | Where-Object { -not $_.StartsWith('-') } | Select-Object -First 1
    if (('@VERBS@' -split ' ') -contains $verb -and $verb -ne $wordToComplete -and -not $wordToComplete.StartsWith('-')) {
        $completions += @(& idem __complete keys "=$wordToComplete" @words 2>$null | ForEach-Object {
            $text = if ($_ -match '^[\w./:+=-]+$') { $_ } else { "'" + $_.Replace("'", "''") + "'" }
            [CompletionResult]::new($text, $_, [CompletionResultType]::ParameterValue, $_)
        })
    }

    $completions.Where"#;

fn powershell(script: &str) -> String {
    let keys = POWERSHELL_KEYS.replace("@VERBS@", VERBS_WITH_KEYS);
    script.replace("    $completions.Where", &keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::verbs;

    const SHELLS: [Shell; 5] = [
        Shell::Bash,
        Shell::Zsh,
        Shell::Fish,
        Shell::Elvish,
        Shell::PowerShell,
    ];

    #[test]
    fn every_script_asks_for_keys_and_knows_every_verb() {
        for shell in SHELLS {
            let script = script(shell);
            assert_eq!(script.matches("__complete keys").count(), 1, "{shell}");
            for verb in verbs::ALL {
                assert!(script.contains(verb.name), "{shell}: {}", verb.name);
            }
        }
        assert!(script(Shell::Bash).ends_with("idem\nfi\n"));
        assert!(!script(Shell::Bash).contains("complete -F _idem "));
    }

    #[test]
    fn zsh_completes_every_key_argument() {
        let zsh = script(Shell::Zsh);
        let options = 4; // --key and -k of run and of key
        let verbs = VERBS_WITH_KEYS.split(' ').count();
        assert_eq!(zsh.matches(":_idem_keys'").count(), options + verbs);
    }

    #[test]
    fn the_verbs_with_keys_are_those_that_take_one() {
        let takes_key = |verb: &&'static verbs::Verb| {
            let command = verbs::command(verb);
            command.get_positionals().any(|arg| arg.get_id() == "key")
        };
        let names: Vec<&str> = verbs::ALL
            .iter()
            .filter(takes_key)
            .map(|verb| verb.name)
            .collect();
        assert_eq!(names, VERBS_WITH_KEYS.split(' ').collect::<Vec<_>>());
    }
}
