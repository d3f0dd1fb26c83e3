//! Shell completions and manual pages.

use crate::env::{IDEM, TestEnv, tool_or_leave};

/// The shells and the committed files, as their shells want them named.
const SHELLS: [(&str, &str); 5] = [
    ("bash", "idem.bash"),
    ("zsh", "_idem"),
    ("fish", "idem.fish"),
    ("elvish", "idem.elv"),
    ("powershell", "_idem.ps1"),
];

#[test]
fn the_committed_completions_are_fresh() {
    let t = TestEnv::new();
    for (shell, file) in SHELLS {
        let fresh = t.idem(&format!("completions {shell}")).end();
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("completions")
            .join(file);
        let committed = std::fs::read(&path).unwrap_or_default();
        assert!(
            fresh.code(0).err("").stdout == committed,
            "{} is stale: idem completions {shell} > completions/{file}",
            path.display()
        );
    }
}

#[test]
fn bash_completes_options_verbs_and_live_keys() {
    let t = TestEnv::new();
    t.run("--key live-key", "true").end().code(0);
    t.run("--key other", "true").end().code(0);
    let script = r#"
        PATH=$(dirname "$IDEM"):$PATH; unset -f idem
        . <(idem completions bash)
        spec=$(complete -p idem); fn=${spec##*-F }; fn=${fn%% *}
        complete_line() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
            COMP_TYPE=9 COMP_KEY=9; COMPREPLY=(); $fn idem "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
            echo "${COMPREPLY[@]}"; }
        complete_line idem stat; complete_line idem run --if-r; complete_line idem status li
        complete_line idem forget li; complete_line idem output ot"#;
    let out = t.says(script);
    let lines: Vec<&str> = out.lines().map(str::trim).collect();
    assert!(lines[0].contains("status"), "{out}");
    assert!(lines[1].contains("--if-running"), "{out}");
    assert_eq!(lines[2..], ["live-key", "live-key", "other"], "{out}");
}

#[test]
fn the_scripts_parse() {
    let t = TestEnv::new();
    for (shell, check) in [("bash", "-n"), ("zsh", "-n"), ("fish", "-n")] {
        if !tool_or_leave(shell) {
            continue;
        }
        let script = t.idem(&format!("completions {shell}")).end();
        t.write(shell, &script.code(0).stdout);
        t.command(shell).args([check, shell]).end().code(0).err("");
    }
}

#[test]
fn manual_pages_are_roff() {
    let t = TestEnv::new();
    let done = t.idem("man").end();
    let page = done.code(0).err("").out_text();
    assert!(page.contains(".TH"), "{page:.300}");
    assert!(page.to_lowercase().contains("idem"), "{page:.300}");
    let file = std::fs::File::create(t.path("idem.1")).expect("a file");
    t.command(IDEM).arg("man").stdout(file).end().code(0);
    assert!(!t.read("idem.1").is_empty());
}
