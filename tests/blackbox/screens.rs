//! What people see, on terminals of 80 and of 200 columns: no line wraps, and each screen is as it is
//! stored beside this file. `IDEM_UPDATE_SNAPSHOTS=1` stores them anew.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use regex::Regex;
use serde_json::{Value, json};

use crate::env::{IDEM, TestEnv, gate};
use crate::pty::{PROMPT, Pty};

const WIDTHS: [u16; 2] = [80, 200];

/// A key that takes more than a row of 80 columns.
const LONG: &str =
    "deploy/of-the-shop/to-production/in-every-region/with-a-key-that-is-longer-than-a-row";

/// What `idem ARGS` shows on a terminal.
#[track_caller]
fn screen(t: &TestEnv, args: &[&str], columns: u16) -> String {
    let command = t.command(IDEM).args(args).env("TERM", "xterm");
    let screen = Pty::start_of_width(command, columns).last_screen();
    screen.unwrapped().text()
}

/// Compares with what is stored.
#[track_caller]
fn is_as_stored(name: &str, shown: &str) {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/blackbox/snapshots");
    let path = place.join(format!("{name}.txt"));
    if std::env::var_os("IDEM_UPDATE_SNAPSHOTS").is_some_and(|on| on == "1") {
        std::fs::write(&path, shown).expect("a stored screen");
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == shown,
        "{} is not what is shown. Stored:\n{stored}\nShown:\n{shown}",
        path.display()
    );
}

/// The same for the words, with everything that differs from run to run replaced.
#[track_caller]
fn words_are_as_stored(name: &str, t: &TestEnv, shown: &str) {
    let root = t.root().to_string_lossy();
    let mut text = shown.replace(&*root, "/ROOT");
    for (pattern, name) in [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "MOMENT"),
        (r"\b\d+(ms|s|m|h|d)( \d+(ms|s|m|h))?\b", "TIME"),
        (r"just now|TIME ago", "AGO"),
        (r"\b[0-9a-f]{64}\b", "DIGEST"),
        (r"\bpid \d+", "pid PID"),
        (
            r"\S+@\S+, pid PID, from \S+",
            "USER@HOST, pid PID, from PARENT",
        ),
        (r"on \S+ by \S+, pid", "on HOST by USER, pid"),
        (r"on \S+ by \S+$", "on HOST by USER"),
        // What was replaced has another width.
        (r"(\S) {2,}", "$1  "),
    ] {
        let pattern = Regex::new(&format!("(?m){pattern}")).expect("a pattern");
        text = pattern.replace_all(&text, name).into_owned();
    }
    is_as_stored(name, &text);
}

/// A record as an export has it, whose state was entered so many seconds ago.
fn record(key: &str, scope: &str, state: &str, seconds_ago: i64, more: Value) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock");
    let at = i64::try_from(now.as_millis()).expect("a moment") - seconds_ago * 1000;
    let mut record = json!({
        "idem_export": 1, "scope": scope, "key": key, "state": state, "token": "t",
        "fingerprint": "00".repeat(32), "argv": ["make", key], "cwd": "/srv/app",
        "created_at_ms": at - 2000,
        "since": {"at_ms": at, "boot_ms": 0, "boot": "another"},
        "ttl_ms": 30 * 86_400_000_i64, "failed_ttl_ms": 30 * 86_400_000_i64,
        "class": null, "reason": null, "exit_code": null, "retry_at_ms": null,
        "attempts": 1, "dirty": false,
        "source": {"host": "web-1", "user": "deploy", "pid": 40, "parent": "cron", "label": null},
        "proposal": null, "decided_by": null, "output": null,
    });
    for (name, value) in more.as_object().expect("an object") {
        record[name] = value.clone();
    }
    format!("{record}\n")
}

#[test]
fn the_list() {
    let t = TestEnv::new();
    // Far from the next unit of an age, so that a slow test shows the same.
    let (hours, days) = (3 * 3600 + 725, 5 * 86_400 + 1800);
    let proposal = json!({
        "proposal": {"argv": "00".repeat(32), "executable": "00".repeat(32), "cwd": "/srv/app", "preview": "",
            "verdict": "pending", "decided_by": null, "decided_at_ms": null, "note": null},
        "attempts": 0,
    });
    let class = |class: &str, code: Option<i32>| json!({"class": class, "exit_code": code});
    let records = [
        record(
            "backup-2026-11-30",
            "",
            "succeeded",
            hours,
            class("success", Some(0)),
        ),
        record(
            LONG,
            "",
            "failed",
            hours + 3600,
            class("permanent", Some(7)),
        ),
        record(
            "report",
            "",
            "failed",
            hours + 7200,
            class("retryable", Some(75)),
        ),
        record(
            "pay-1234",
            "billing",
            "unknown",
            days,
            class("uncertain", None),
        ),
        record("apply-7", "", "held", days + 86_400, proposal),
    ];
    t.idem("import").input(records.concat()).end().code(0);
    for columns in WIDTHS {
        is_as_stored(
            &format!("list-{columns}"),
            &screen(&t, &["status"], columns),
        );
    }
    // A pipe has no width, so nothing is cut.
    for options in ["status", "status --json"] {
        let piped = t.idem(options).env("COLUMNS", "80").end();
        assert!(piped.out_text().contains(LONG), "{piped}");
    }
}

#[test]
fn the_page_of_one_operation() {
    let t = TestEnv::new();
    let run =
        |options: &str, key: &str, script: &str| t.run(options, script).env("IDEM_KEY", key).end();
    run(
        "--retries 2 --backoff const:1ms",
        "tried",
        "echo x >> n; test $(wc -l <n) = 2 || exit 75",
    )
    .code(0);
    run(
        "--timeout 100ms --kill-after 100ms",
        LONG,
        "sleep 300; echo 'a script that is longer than a row of the screen: it goes on'",
    )
    .code(124);
    run("--stop-on exit:3", "said-no", "echo no >&2; exit 3").code(3);
    t.idem("run --key apply-7 --hold --preview")
        .arg("echo 'Plan: 3 to add, 0 to change, 1 to destroy, and a line that is longer than a row of 80 columns'; seq 3")
        .args(["--", "terraform", "apply", "-input=false", "-auto-approve", "-no-color", "-lock-timeout=5m", "-var-file=production.tfvars"])
        .end()
        .code(122);
    for (name, key) in [
        ("succeeded", "tried"),
        ("unknown", LONG),
        ("failed", "said-no"),
        ("held", "apply-7"),
    ] {
        for columns in WIDTHS {
            let shown = screen(&t, &["status", key], columns);
            words_are_as_stored(&format!("page-{name}-{columns}"), &t, &shown);
        }
    }
}

#[test]
fn the_line_of_a_waiter() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}", gate("go"));
    let owner = t.run(&format!("--key {LONG}"), &script).start();
    t.upto_lines("n", 1);
    t.run("--key apply-7 --hold", "true").end().code(122);
    for columns in WIDTHS {
        for (name, args) in [
            ("caller", format!("wait {LONG}")),
            ("approval", "run -k apply-7 --wait 1h -- sh -c true".into()),
        ] {
            let mut pty = Pty::shell_of_width(&t, "bash", columns);
            pty.run("clear() { printf '\\e[H\\e[J'; }");
            pty.line(&format!("clear; $IDEM {args}"));
            pty.expect("waiting for ");
            pty.expect("\x1b[K");
            let shown = pty.screen().text();
            let line = shown.lines().last().expect("a line");
            assert!(line.len() < columns.into(), "{line}");
            words_are_as_stored(
                &format!("waiter-{name}-{columns}"),
                &t,
                &format!("{line}\n"),
            );
            pty.control('c');
            pty.expect(PROMPT);
        }
    }
    t.touch("go");
    owner.end().code(0);
}

#[test]
fn the_help() {
    let t = TestEnv::new();
    let verbs = "run status log output wait resolve approve reject forget key batch task breaker \
        explain stats gc doctor export import init sync completions man";
    let all = t.idem("--help").end().code(0).out_text();
    for verb in verbs.split_whitespace() {
        assert!(all.contains(&format!("\n  {verb} ")), "{verb}: {all}");
    }
    for columns in WIDTHS {
        is_as_stored("help", &screen(&t, &["--help"], columns));
        is_as_stored("help-short", &screen(&t, &["-h"], columns));
        is_as_stored("help-run-short", &screen(&t, &["run", "-h"], columns));
        for verb in verbs.split_whitespace() {
            is_as_stored(
                &format!("help-{verb}"),
                &screen(&t, &[verb, "--help"], columns),
            );
        }
    }
}
