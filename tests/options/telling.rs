//! `--log` and `--on-unknown`: who is told of a decision, and who of a new unknown outcome.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::place::{Place, end, upto};

fn logged(place: &Place, name: &str) -> Vec<Value> {
    let text = place.read(name);
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect(line))
        .collect()
}

#[test]
fn one_line_is_logged_for_every_decision() {
    let place = Place::new();
    let run = |options: &str, script: &str| end(place.run(&format!("--log log {options}"), script));
    run("--key k --scope s", "echo out").code(0);
    run("--key k --scope s", "echo out").code(0);
    run("--key k --scope s", "echo other").code(121);
    run("--key bad", "exit 3").code(3);
    run("--key slow --timeout 50ms", "sleep 600").code(124);
    run("--key slow", "sleep 600").code(122);
    let lines = logged(&place, "log");
    let told: Vec<_> = lines
        .iter()
        .map(|line| {
            let text = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
            let (exit_code, status) = (line["exit_code"].as_i64(), line["status"].as_i64());
            (
                text("decision"),
                text("key"),
                exit_code,
                status.expect("a status"),
            )
        })
        .collect();
    let row = |decision: &str, key: &str, exit_code, status| {
        (decision.to_owned(), key.to_owned(), exit_code, status)
    };
    assert_eq!(
        told,
        [
            row("executed", "k", Some(0), 0),
            row("replayed", "k", Some(0), 0),
            row("refused", "k", Some(0), 121),
            row("executed", "bad", Some(3), 3),
            row("executed", "slow", None, 124),
            row("refused", "slow", None, 122),
        ]
    );
    let first = &lines[0];
    assert_eq!(first["scope"], "s");
    assert_eq!(first["generation"], 1);
    assert!(first["at"].as_str().is_some_and(|at| at.ends_with('Z')));
    assert!(first["source"]["pid"].is_i64() && first["source"]["host"].is_string());
    assert_eq!(lines[4]["reason"], "timed out");
    let mode = fs::metadata(place.path("log"))
        .expect("the log")
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
}

#[test]
fn lines_of_many_calls_do_not_mix() {
    let place = Place::new();
    let calls: Vec<_> = (0..24)
        .map(|i| {
            let mut command = place.run(&format!("--log log --key k{}", i % 6), "true");
            command.spawn().expect("a call")
        })
        .collect();
    for mut call in calls {
        assert!(call.wait().expect("its end").success());
    }
    let lines = logged(&place, "log");
    assert_eq!(lines.len(), 24);
    let executed = lines.iter().filter(|line| line["decision"] == "executed");
    assert_eq!(executed.count(), 6);
}

#[test]
fn a_log_that_cannot_be_written_is_mentioned_and_changes_nothing() {
    let place = Place::new();
    let made = Command::new("mkfifo").arg(place.path("fifo")).status();
    assert!(made.expect("mkfifo").success());
    for (i, log) in ["no/log", ".", "/dev/full", "fifo"].iter().enumerate() {
        let options = format!("--key k{i} --log {log}");
        let done = end(place.run(&options, "echo out; exit 3")).code(3);
        assert_eq!(done.out, "out\n");
        let done = done.says("the log").says("could not be written");
        assert_eq!(done.err.lines().count(), 1, "{done}");
        let quiet = end(place.run(&format!("{options} -q"), "echo out; exit 3")).code(3);
        assert_eq!((quiet.out.as_str(), quiet.err.as_str()), ("out\n", ""));
    }
}

const TELL: &str = r#"echo "$IDEM_OPERATION $IDEM_GENERATION $IDEM_REASON" >> told"#;

/// A place whose configuration tells of every unknown.
fn telling(command: &str) -> Place {
    let place = Place::new();
    place.configure(&format!("[defaults]\non-unknown = '''{command}'''\n"));
    place
}

fn told_upto(place: &Place, lines: usize) -> String {
    upto("it is told", || place.lines("told") >= lines);
    place.read("told")
}

#[test]
fn a_new_unknown_is_told_once() {
    let place = telling(TELL);
    let call = |options: &str| {
        let options = format!("--key k --scope s --timeout 50ms {options}");
        end(place.run(&options, "sleep 600"))
    };
    call("").code(124);
    assert_eq!(told_upto(&place, 1), "s/k 1 timed out\n");
    call("").code(122);
    call("--probe false-alarm-that-does-not-exist").code(122);
    call("").code(122);
    // Another execution whose outcome nobody knows is news.
    call("--if-unknown rerun").code(124);
    let told = told_upto(&place, 2);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 2, "{told}");
    assert!(
        lines[1].ends_with(" timed out") && lines[1] != lines[0],
        "{told}"
    );
}

#[test]
fn what_is_known_is_told_to_nobody() {
    let place = telling("echo x >> told");
    end(place.run("--key a", "true")).code(0);
    end(place.run("--key b", "exit 3")).code(3);
    end(place.run("--key c --timeout 50ms --probe true", "sleep 600")).code(0);
    // The last one is told, so the earlier ones would have been before.
    end(place.run("--key d --timeout 50ms", "sleep 600")).code(124);
    assert_eq!(told_upto(&place, 1), "x\n");
}

#[test]
fn the_caller_does_not_wait_for_the_telling() {
    let place = telling("until [ -e go ]; do sleep 0.02; done; echo x >> told");
    // Both streams must have ended as well.
    end(place.run("--key k --timeout 50ms", "echo out; sleep 600")).code(124);
    assert_eq!(place.lines("told"), 0);
    place.write("go", "");
    assert_eq!(told_upto(&place, 1), "x\n");
}

#[test]
fn the_one_who_is_told_has_nothing_of_the_callers() {
    let place =
        telling("read x || true; echo to-nobody; echo to-nobody >&2; env > environment; exit 3");
    let mut command = place.run("--key k --timeout 50ms", "sleep 600");
    command.env("IDEM_KEY", "outer").env("MINE", "kept");
    let done = end(command).code(124);
    assert!(
        !done.out.contains("to-nobody") && !done.err.contains("to-nobody"),
        "{done}"
    );
    upto("it is told", || {
        place.read("environment").contains("MINE=kept")
    });
    upto("it is noted", || {
        end(place.line("log k --json"))
            .code(0)
            .out
            .contains("\"told\"")
    });
    let environment = place.read("environment");
    for name in [
        "IDEM_KEY=",
        "IDEM_TOKEN=",
        "IDEM_ANCESTRY=",
        "IDEM_CONTROL=",
    ] {
        assert!(!environment.contains(name), "{environment}");
    }
    let log = end(place.line("log k --json")).code(0).out;
    let told = log.lines().last().expect("an event");
    let told: Value = serde_json::from_str(told).expect("one object");
    assert_eq!(
        (&told["event"], &told["exit_code"]),
        (&"told".into(), &3.into())
    );
    assert_eq!(told["generation"], 1);
}

/// Starts an execution that goes on alone, and kills everything of it.
fn lose(place: &Place) {
    let options = "--config /dev/null --key k --detach";
    end(place.run(options, "echo x >> n; exec sleep 600")).code(0);
    upto("it runs", || place.lines("n") == 1);
    let status = end(place.line("status k --json")).code(0);
    let operation: Value = serde_json::from_str(&status.out).expect("one object");
    let pid = |value: &Value| i32::try_from(value.as_i64().expect("a pid")).expect("a pid");
    for pid in [
        pid(&operation["owner"]["pid"]),
        pid(&operation["attempts"][0]["pid"]),
    ] {
        assert!(pid > 1);
        // SAFETY: integers only; both processes are this test's own and have not ended.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
    upto("it is gone", || {
        let status = end(place.line("status k --json")).code(0);
        let operation: Value = serde_json::from_str(&status.out).expect("one object");
        operation["state"] == "unknown"
    });
}

#[test]
fn of_many_observers_one_tells_that_the_owner_is_gone() {
    let place = telling(TELL);
    lose(&place);
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let mut command = place.run("--key k", "echo x >> n; exec sleep 600");
            command.stderr(Stdio::null()).spawn().expect("a call")
        })
        .collect();
    for mut call in calls {
        assert_eq!(call.wait().expect("its end").code(), Some(122));
    }
    assert_eq!(told_upto(&place, 1), "k 1 whoever ran it is gone\n");
    end(place.run("--key k", "echo x >> n; exec sleep 600")).code(122);
    upto("it is noted", || {
        end(place.line("log k --json"))
            .code(0)
            .out
            .contains("\"told\"")
    });
    assert_eq!(place.lines("told"), 1);
    assert_eq!(place.lines("n"), 1, "it ran once");
}

#[test]
fn an_owner_gone_is_told_without_holding_the_observer_up() {
    let place = telling("until [ -e go ]; do sleep 0.02; done; echo x >> told");
    lose(&place);
    end(place.run("--key k", "echo x >> n; exec sleep 600")).code(122);
    assert_eq!(place.lines("told"), 0);
    place.write("go", "");
    assert_eq!(told_upto(&place, 1), "x\n");
}
