//! Odd input: whatever is typed gives exit 125 and one clear line, and nothing runs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::env::{IDEM, TestEnv};

/// Values that no duration can have.
const NO_DURATION: [&str; 14] = [
    "",
    " ",
    "-1",
    "-1s",
    "--",
    "NaN",
    "inf",
    "1",
    "abc",
    "1x",
    "s",
    "1e400s",
    "99999999999999999999999d",
    "1s,2s",
];

/// Values that no size can have.
const NO_SIZE: [&str; 9] = [
    "",
    "-1",
    "NaN",
    "abc",
    "1XB",
    "99999999999999999999999TiB",
    "1.5.2MB",
    "MB",
    "inf",
];

/// Values that no count can have.
const NO_COUNT: [&str; 8] = [
    "",
    "-1",
    "1.5",
    "abc",
    "NaN",
    "99999999999999999999999",
    "1 2",
    "0x10",
];

/// `idem run OPTION=VALUE`, which must be refused before anything happens.
#[track_caller]
fn refused(t: &TestEnv, option: &str, value: impl AsRef<OsStr>) {
    let mut joined = OsString::from(format!("--{option}="));
    joined.push(value.as_ref());
    let run = t
        .idem("run --key k")
        .arg(&joined)
        .args(["--", "sh", "-c", "echo x >> n"]);
    let done = run.end();
    done.code(125).out("").one_line();
    assert!(
        done.err_text().contains(option) || value.as_ref().to_str().is_none(),
        "which option?\n{done}"
    );
    assert_eq!(t.lines("n"), 0, "it ran with {joined:?}");
}

#[track_caller]
fn all_refused(t: &TestEnv, option: &str, values: &[&str]) {
    for value in values {
        refused(t, option, value);
    }
    refused(t, option, OsStr::from_bytes(b"\xff\xfe"));
}

#[test]
fn durations() {
    let t = TestEnv::new();
    for option in ["ttl", "failed-ttl", "timeout", "kill-after", "wait"] {
        all_refused(&t, option, &NO_DURATION);
    }
    for option in ["ttl", "timeout", "deadline"] {
        all_refused(&t, option, &["0s", "0", "0ms"]);
    }
    assert!(!t.store().exists(), "a refused call left a store");
}

#[test]
fn deadlines() {
    let t = TestEnv::new();
    all_refused(
        &t,
        "deadline",
        &["", "-1s", "NaN", "abc", "1", "99999999999999999999999d"],
    );
    all_refused(
        &t,
        "deadline",
        &[
            "2026-13-01T00:00:00Z",
            "2026-02-30T00:00:00Z",
            "2026-01-01",
            "2026-01-01T25:00:00Z",
            "2026-01-01T00:00:00",
            "99999-01-01T00:00:00Z",
        ],
    );
}

#[test]
fn sizes() {
    let t = TestEnv::new();
    all_refused(&t, "max-output", &NO_SIZE);
    all_refused(&t, "max-output", &["0"]);
}

#[test]
fn words() {
    let t = TestEnv::new();
    for option in [
        "if-running",
        "if-unknown",
        "if-failed",
        "on-replay",
        "on-caller-loss",
        "stdin",
    ] {
        all_refused(&t, option, &["", "maybe", "WAIT", "refuse ", "0"]);
    }
}

#[test]
fn names_and_parts() {
    let t = TestEnv::new();
    all_refused(&t, "scope", &["a\nb", &"x".repeat(256), "\u{200b}"]);
    all_refused(&t, "fingerprint", &["", "bogus", "argv,,cwd"]);
    all_refused(&t, "per", &["", "-1m", "NaN", "0m"]);
    let bare = |option: &str| {
        let done = t.idem(&format!("run {option}= -- true")).end();
        done.code(125).out("").one_line();
    };
    for option in ["--key", "--key-from", "--key-file", "--task", "--step"] {
        bare(option);
    }
}

#[test]
fn options_that_do_not_exist_or_lack_a_value() {
    let t = TestEnv::new();
    for args in [
        "run",
        "run --key k",
        "run --key k --",
        "run --key",
        "run --key k --no-such-option -- true",
        "run --key k --ttl",
        "run --key k --json=yes -- true",
        "run -Z -- true",
        "nosuchverb",
        "--nosuch",
        "run --key a --key b -- true",
        "run --key k --ttl 1h --ttl 2h -- true",
        "status a b c --nosuch",
        "output",
        "wait",
        "resolve",
        "resolve k",
        "resolve k --succeeded --failed",
        "forget",
        "batch",
        "completions",
        "completions nosuchshell",
        "resolve k --not-done --exit-code 3",
    ] {
        t.idem(args).end().code(125).out("").one_line();
    }
    assert!(!t.store().exists(), "a refused call left a store");
}

#[test]
fn an_unknown_option_that_is_no_utf8() {
    let t = TestEnv::new();
    for bytes in [b"--\xff".as_slice(), b"--\xff=x", b"-\xff", b"\xff"] {
        let odd = OsStr::from_bytes(bytes);
        t.idem("").arg(odd).end().code(125).out("").one_line();
        t.idem("run").arg(odd).end();
        let done = t.idem("status").arg(odd).end();
        assert!([1, 125].contains(&done.code), "{done}");
        done.out("").one_line();
    }
}

#[test]
fn numbers_of_the_verbs() {
    let t = TestEnv::new();
    t.run("--key k", "true").end().code(0);
    let verb = |args: &[&str], value: &str| {
        t.command(IDEM)
            .args(args)
            .arg(value)
            .end()
            .code(125)
            .out("")
            .one_line();
    };
    for value in NO_COUNT {
        verb(&["status", "--limit"], value);
        verb(&["resolve", "k", "--failed", "--exit-code"], value);
        verb(&["resolve", "k", "--succeeded", "--exit-code"], value);
    }
    verb(&["status", "--limit"], "0");
    for value in ["256", "-1", "1000"] {
        verb(&["resolve", "k", "--failed", "--exit-code"], value);
    }
    verb(&["resolve", "k", "--failed", "--exit-code"], "0");
    for value in NO_DURATION {
        verb(&["wait", "k", "--wait"], value);
        if value != "--" {
            verb(&["status", "--since"], value);
        }
    }
    verb(&["status", "--state"], "");
    verb(&["status", "--state"], "bogus");
}

#[test]
fn odd_stores() {
    let t = TestEnv::new();
    let script = ["run", "--key", "k", "--", "sh", "-c", "echo x >> n"];
    t.write("file", "");
    let long = format!("/{}", "x".repeat(5000));
    for store in [
        "",
        ".",
        "/",
        "/dev/null",
        "file/s.db",
        "/proc/s.db",
        "bogus://host/db",
        &long,
    ] {
        let done = t
            .command(IDEM)
            .args([
                "run",
                "--store",
                store,
                "--key",
                "k",
                "--",
                "sh",
                "-c",
                "echo x >> n",
            ])
            .end();
        done.code(125).out("").one_line();
        if store.is_empty() {
            continue; // an empty variable may as well be none
        }
        let done = t.command(IDEM).args(script).env("IDEM_STORE", store).end();
        done.code(125).out("").one_line();
    }
    assert_eq!(t.lines("n"), 0);
}

#[test]
fn a_store_path_that_is_no_utf8_is_a_store_or_refused() {
    let t = TestEnv::new();
    let odd = t.path(OsStr::from_bytes(b"s\xff.db"));
    let run = || {
        t.run("--key k", "echo x >> n")
            .env("IDEM_STORE", &odd)
            .end()
    };
    let code = run().code;
    match code {
        0 => assert_eq!((run().code, t.lines("n")), (0, 1)),
        _ => assert_eq!((code, t.lines("n")), (125, 0)),
    }
}

#[test]
fn a_huge_but_possible_value_is_taken() {
    let t = TestEnv::new();
    let options = "--ttl 300y --timeout 300y --deadline 300y --wait 300y --kill-after 300y --max-output 8000TiB";
    t.run(&format!("--key k {options}"), "echo out")
        .end()
        .code(0)
        .out("out\n");
    t.run(&format!("--key k {options}"), "echo out")
        .end()
        .code(0)
        .out("out\n");
}

#[test]
fn help_is_no_error_and_goes_to_stdout() {
    let t = TestEnv::new();
    for args in [
        "--help",
        "-h",
        "run --help",
        "run -h",
        "status --help",
        "--version",
    ] {
        let done = t.idem(args).end();
        assert!(!done.code(0).err("").stdout.is_empty(), "{done}");
    }
    let short = t.idem("run -h").end().out_text();
    let long = t.idem("run --help").end().out_text();
    for option in [
        "--key",
        "--ttl",
        "--timeout",
        "--per",
        "--if-running",
        "--json",
    ] {
        assert!(
            short.contains(option),
            "{option} is an everyday option: {short}"
        );
    }
    assert!(
        long.len() > short.len() && long.contains("--redact-args"),
        "{long}"
    );
    assert!(
        short.matches("idem run").count() >= 3,
        "three examples: {short}"
    );
}

#[test]
fn environment_values_that_make_no_sense_are_refused() {
    let t = TestEnv::new();
    let run = |name: &str, value: &OsStr| {
        t.run("--key k", "echo x >> n")
            .env(name, value)
            .end()
            .code(125)
            .out("")
            .one_line()
            .clone()
    };
    run("IDEM_SCOPE", OsStr::new("a\nb"));
    run("IDEM_SCOPE", OsStr::from_bytes(b"\xff"));
    run("IDEM_STORE", OsStr::new("bogus://x"));
    assert_eq!(t.lines("n"), 0);
}

#[test]
fn a_forged_ancestry_neither_blocks_nor_crashes() {
    let t = TestEnv::new();
    for (i, odd) in [
        "",
        "x",
        ":::",
        "1:2:3",
        "\u{fffd}",
        "99999999999999999999",
        "k",
        &"a,".repeat(9000),
    ]
    .iter()
    .enumerate()
    {
        let run = t
            .run(&format!("--key k{i}"), "echo x >> n")
            .env("IDEM_ANCESTRY", odd);
        run.env("IDEM_DEADLINE", "").end().code(0);
    }
    let raw = OsStr::from_bytes(b"\xff\xfe");
    t.run("--key raw", "echo x >> n")
        .env("IDEM_ANCESTRY", raw)
        .end()
        .code(0);
    assert_eq!(t.lines("n"), 9);
}
