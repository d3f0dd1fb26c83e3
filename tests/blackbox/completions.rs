//! Shell completions and manual pages.

use crate::env::{IDEM, TestEnv, tool_or_leave};
use crate::pty::{PROMPT, Pty};

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

/// Lines, and what a press of the tab key makes of them where everything of [`stocked`] is live.
const LINES: [(&str, &str); 16] = [
    ("idem statu", "idem status"),
    ("idem status li", "idem status live-key"),
    ("idem forget other li", "idem forget other live-key"),
    ("idem run -k li", "idem run -k live-key"),
    (
        "idem status --state failed li",
        "idem status --state failed live-key",
    ),
    ("idem status ns:", "idem status ns:key"),
    ("idem status ns:k", "idem status ns:key"),
    ("idem status --scope pr", "idem status --scope prod"),
    ("idem status --scope=pr", "idem status --scope=prod"),
    (
        "idem status --scope prod o",
        "idem status --scope prod of-prod",
    ),
    ("idem status --task bu", "idem status --task build"),
    ("idem task show st", "idem task show steps"),
    ("idem run --breaker ap", "idem run --breaker api"),
    ("idem breaker ap", "idem breaker api"),
    ("idem --profile de", "idem --profile deploy"),
    ("idem run --profile de", "idem run --profile deploy"),
];

/// A store and a configuration with one of everything, and `idem` on the path.
fn stocked() -> TestEnv {
    let mut t = TestEnv::new();
    for options in [
        "--key live-key",
        "--key other",
        "--key ns:key",
        "--key of-prod --scope prod",
        "--task steps --step one",
        "--key over --breaker api:failures=3",
    ] {
        t.run(options, "true").end().code(0);
    }
    t.idem("task open build").end().code(0);
    let config = t.root().join("config/idem");
    std::fs::create_dir(&config).expect("a directory");
    std::fs::write(config.join("config.toml"), "[profile.deploy]\nttl = '1h'\n").expect("a file");
    let programs = std::path::Path::new(IDEM).parent().expect("a directory");
    t.prepend_path(programs);
    for (shell, file) in SHELLS {
        let script = t.idem(&format!("completions {shell}")).end();
        t.write(file, &script.code(0).stdout);
    }
    t
}

/// Types each line and the tab key in an interactive shell, and has the shell tell what it understood.
#[track_caller]
fn completes_by_tab(t: &TestEnv, mut pty: Pty, setup: &str) {
    pty.run(setup);
    for (line, wanted) in LINES {
        // The beginning of the line is at Ctrl-A.
        pty.send(&format!("{line}\t\x01echo got-$((1+1)) \n"));
        pty.expect("got-2 ");
        let told = pty.expect(PROMPT);
        assert_eq!(
            told.lines().next().map(str::trim_end),
            Some(wanted),
            "{line:?}"
        );
    }
    drop(pty);
    t.upto_quiet();
}

#[test]
fn bash_completes_what_is_live() {
    let t = stocked();
    let shell = t
        .command("bash")
        .args(["--noprofile", "--norc", "-i"])
        .env("PS1", PROMPT)
        .env("TERM", "dumb")
        .env("HISTFILE", "");
    let mut pty = Pty::start(shell);
    pty.expect(PROMPT);
    completes_by_tab(&t, pty, ". ./idem.bash");
}

#[test]
fn zsh_completes_what_is_live() {
    if !tool_or_leave("zsh") {
        return;
    }
    let t = stocked();
    let shell = t
        .command("zsh")
        .args(["-f", "-i"])
        .env("PS1", PROMPT)
        .env("TERM", "dumb");
    let mut pty = Pty::start(shell);
    pty.expect(PROMPT);
    let setup = "bindkey -e; fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D";
    completes_by_tab(&t, pty, setup);
}

#[test]
fn fish_completes_what_is_live() {
    if !tool_or_leave("fish") {
        return;
    }
    let t = stocked();
    let script = "source idem.fish; for line in $argv; complete -C $line; echo; end";
    let lines = LINES.map(|(line, _)| line);
    let done = t
        .command("fish")
        .args(["--no-config", "-c", script])
        .args(lines)
        .end();
    let out = done.code(0).err("").out_text();
    let answers: Vec<&str> = out.split("\n\n").collect();
    for ((line, wanted), answer) in LINES.iter().zip(answers) {
        // What it offers has a description behind it, or none.
        let offers: Vec<&str> = answer
            .lines()
            .filter_map(|line| line.split('\t').next())
            .collect();
        let word = wanted.rsplit(' ').next().expect("a word");
        assert_eq!(offers, [word], "{line:?}");
    }
}

#[test]
fn where_nothing_is_live_the_options_are_completed() {
    let t = stocked();
    let script = r#"
        unset -f idem; . ./idem.bash
        complete_line() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
            COMP_TYPE=9 COMP_KEY=9; COMPREPLY=(); _idem_live idem "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
            echo "${COMPREPLY[@]}"; }
        complete_line idem run --if-r; complete_line idem run --if-running sk
        complete_line idem status nosuch; complete_line idem gc --pro"#;
    assert_eq!(t.says(script), "--if-running\nskip\n\n--profile");
    for line in ["gc ", "run -- --scope "] {
        let words = line.trim_end().split(' ');
        t.idem("__complete here =")
            .args(words)
            .end()
            .code(1)
            .out("");
    }
    t.idem("__complete scopes = --store /nosuch/idem.db")
        .end()
        .code(0)
        .out("")
        .err("");
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

#[test]
fn a_store_that_does_not_answer_is_not_waited_for() {
    let t = TestEnv::new();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let store = format!("postgres://x:y@{address}/z");
    let done = t
        .idem("__complete keys = --scope s --store")
        .arg(store)
        .limit(std::time::Duration::from_secs(30))
        .end();
    assert_eq!(
        (done.out_text().as_str(), done.err_text().as_str()),
        ("", ""),
        "{done}"
    );
}
