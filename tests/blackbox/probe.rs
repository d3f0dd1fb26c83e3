//! Asking instead of guessing: probe, settle, cleanup.

use std::time::Duration;

use crate::env::{TestEnv, gate, text, upto};
use crate::procs;

/// A command whose effect is one line in `effect`, and whose answer never comes.
const LOST: &str = "echo x >> effect; sleep 300";
const QUICK: &str = "--backoff const:10ms --jitter none --kill-after 300ms";

/// `idem run` with options that have blanks in them.
fn run(t: &TestEnv, options: &str, more: &[&str], script: &str) -> crate::command::Cmd {
    t.idem("run")
        .args(options.split_whitespace())
        .args(more)
        .args(["--", "sh", "-c", script])
}

#[test]
fn a_later_probe_finds_the_effect_and_its_words_are_replayed() {
    let t = TestEnv::new();
    t.run("--key k --timeout 1s", LOST).end().code(124);
    run(
        &t,
        "--key k",
        &["--probe", "test -s effect && echo found"],
        LOST,
    )
    .end()
    .code(0)
    .out("found\n")
    .err("idem: the probe found k done, so what it printed is the result\n");
    // A replay is a result like any other.
    let replayed = t.run("--key k", LOST).end();
    replayed.code(0).out("found\n").err("");
    assert_eq!(t.lines("effect"), 1);
}

#[test]
fn the_same_call_asks_too() {
    let t = TestEnv::new();
    let probe = ["--probe", "test -s effect && echo found"];
    for found in [1, 0] {
        let done = run(&t, "--key k --timeout 1s --kill-after 300ms", &probe, LOST).end();
        done.code(0).out("found\n");
        let told = done.err_text().matches("the probe found k done").count();
        assert_eq!(told, found, "{done}");
    }
    assert_eq!((t.lines("effect"), t.state("k").as_str()), (1, "succeeded"));
}

#[test]
fn a_yes_is_told_in_json_too_and_not_at_all_when_quiet() {
    let t = TestEnv::new();
    let probe = ["--probe", "true"];
    t.make_unknown("j", "kill -9 $$");
    let done = run(&t, "--key j --json", &probe, "kill -9 $$").end();
    done.code(0).says("the probe found j done");
    assert_eq!(text(&done.json()["decision"]), "executed");
    t.make_unknown("q", "kill -9 $$");
    let done = run(&t, "--key q --quiet", &probe, "kill -9 $$").end();
    done.code(0).err("");
}

#[test]
fn after_a_no_comes_the_cleanup_and_then_the_command() {
    let t = TestEnv::new();
    let script = "echo run >> log; test -e slow || { touch slow; sleep 300; }; echo ok";
    let more = [
        "--probe",
        "echo probe >> log; exit 1",
        "--cleanup",
        "echo clean >> log",
    ];
    let options = format!("--key k --timeout 2s --retries 2 {QUICK}");
    run(&t, &options, &more, script).end().code(0).out("ok\n");
    assert_eq!(t.words("log"), "run probe clean run");
}

#[test]
fn a_later_call_asks_cleans_and_runs_without_retries() {
    let t = TestEnv::new();
    let script = "echo run >> log; test -e slow || { touch slow; kill -9 $$; }; echo ok";
    t.run("--key k", script).end().code(137);
    let more = [
        "--probe",
        "echo probe >> log; exit 1",
        "--cleanup",
        "echo clean >> log",
    ];
    run(&t, "--key k", &more, script).end().code(0).out("ok\n");
    assert_eq!(t.words("log"), "run probe clean run");
}

#[test]
fn a_no_without_retries_is_a_safe_failure() {
    let t = TestEnv::new();
    let probe = ["--probe", "exit 1"];
    run(
        &t,
        "--key k --timeout 1s --kill-after 300ms",
        &probe,
        "echo x >> n; sleep 300",
    )
    .end()
    .code(124);
    assert_eq!(t.state("k"), "failed");
    let again = t.run("--key k", "echo x >> n; sleep 300").start();
    t.upto_lines("n", 2);
    again.kill();
}

#[test]
fn a_failed_cleanup_stops_everything() {
    let t = TestEnv::new();
    let script = "echo x >> n; test -e slow || { touch slow; sleep 300; }";
    let options = format!("--key k --timeout 1s --retries 2 {QUICK}");
    run(
        &t,
        &options,
        &["--probe", "exit 1", "--cleanup", "exit 4"],
        script,
    )
    .end();
    assert_eq!((t.lines("n"), t.state("k").as_str()), (1, "unknown"));
}

#[test]
fn an_answer_that_is_not_clean_is_none() {
    for (i, probe) in [
        "exit 3",
        "echo no route >&2; exit 1",
        "exit 2",
        "kill -9 $$",
        "nosuch-command",
        "sleep 300",
    ]
    .iter()
    .enumerate()
    {
        let t = TestEnv::new();
        let options = format!("--key k --timeout 1s --retries 2 {QUICK}");
        let done = run(&t, &options, &["--probe", probe], LOST).end();
        assert_eq!(
            (t.lines("effect"), t.state("k").as_str()),
            (1, "unknown"),
            "{i}: {probe}\n{done}"
        );
        let later = run(
            &t,
            "--key k --timeout 1s --kill-after 300ms",
            &["--probe", probe],
            LOST,
        )
        .end();
        later.code(122);
        assert_eq!(t.lines("effect"), 1, "{probe}");
    }
}

#[test]
fn still_under_way_is_asked_again() {
    let t = TestEnv::new();
    t.make_unknown("k", "echo x >> effect; kill -9 $$");
    let probe = "echo p >> probes; test $(wc -l < probes) -ge 3 || exit 75; echo found";
    let script = "echo x >> effect; kill -9 $$";
    run(&t, "--key k --deadline 50s", &["--probe", probe], script)
        .end()
        .code(0)
        .out("found\n");
    assert_eq!((t.lines("probes"), t.lines("effect")), (3, 1));
}

#[test]
fn still_under_way_until_the_deadline_stays_unknown() {
    let t = TestEnv::new();
    let script = "echo x >> n; kill -9 $$";
    t.make_unknown("k", script);
    let done = run(&t, "--key k --deadline 3s", &["--probe", "exit 75"], script).end();
    done.within(Duration::from_secs(30));
    assert_eq!((t.lines("n"), t.state("k").as_str()), (1, "unknown"));
}

#[test]
fn an_early_no_is_not_believed() {
    let t = TestEnv::new();
    let script = "echo x >> n; test $(wc -l < n) -ge 2 || sleep 300; echo ok";
    let options = format!("--key k --timeout 1s --retries 1 --settle 2s --deadline 50s {QUICK}");
    let done = run(
        &t,
        &options,
        &["--probe", "echo p >> probes; exit 1"],
        script,
    )
    .end();
    done.code(0).out("ok\n");
    assert!(done.elapsed >= Duration::from_secs(3), "{done}");
    assert!(t.lines("probes") >= 2);
    assert_eq!(t.lines("n"), 2);
}

#[test]
fn one_asks_and_the_others_wait() {
    let t = TestEnv::new();
    let script = "echo x >> n; kill -9 $$";
    t.make_unknown("k", script);
    let probe = format!("echo p >> probes; {}; echo found", gate("go"));
    let more = ["--probe", probe.as_str()];
    let callers: Vec<_> = (0..8)
        .map(|_| run(&t, "--key k", &more, script).start())
        .collect();
    t.upto_lines("probes", 1);
    for caller in &callers {
        caller.upto_waiting();
    }
    t.touch("go");
    for caller in callers {
        caller.end().code(0).out("found\n");
    }
    assert_eq!((t.lines("probes"), t.lines("n")), (1, 1));
}

#[test]
fn a_death_in_the_middle_of_a_probe_leaves_it_unknown() {
    let t = TestEnv::new();
    let script = "echo x >> n; kill -9 $$";
    t.make_unknown("k", script);
    let caller = run(
        &t,
        "--key k",
        &["--probe", "echo p >> probes; exec sleep 300"],
        script,
    )
    .start();
    t.upto_lines("probes", 1);
    drop(caller);
    for (pid, _) in t.running() {
        procs::signal(pid, libc::SIGKILL);
    }
    t.upto_quiet();
    t.upto_state("k", "unknown");
    run(&t, "--key k", &["--probe", "echo found"], script)
        .end()
        .code(0)
        .out("found\n");
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn an_interrupted_cleanup_runs_again_and_a_finished_one_does_not() {
    let t = TestEnv::new();
    let script = "echo run >> log; test -e two || { touch two; kill -9 $$; }; echo ok";
    t.run("--key k", script).end().code(137);
    let cleanup = format!("echo clean >> log; {}", gate("go"));
    let more = ["--if-unknown", "rerun", "--cleanup", cleanup.as_str()];
    let caller = run(&t, "--key k", &more, script).start();
    upto("the cleanup runs", || t.words("log") == "run clean");
    drop(caller);
    for (pid, _) in t.running() {
        procs::signal(pid, libc::SIGKILL);
    }
    t.upto_quiet();
    t.touch("go");
    run(&t, "--key k", &more, script).end().code(0).out("ok\n");
    assert_eq!(t.words("log"), "run clean clean run");
}

#[test]
fn a_cleanup_comes_before_a_later_run() {
    let t = TestEnv::new();
    let script = "echo run >> log; test -e two || { touch two; exit 9; }";
    for _ in 0..2 {
        run(
            &t,
            "--key k --retry-on exit:9",
            &["--cleanup", "echo clean >> log"],
            script,
        )
        .end();
    }
    assert_eq!(t.words("log"), "run clean run");
    for _ in 0..2 {
        let run = t
            .idem("run --key s --cleanup")
            .args(["echo clean >> log2", "--", "./nosuch"]);
        run.end().code(127);
    }
    assert_eq!(
        t.lines("log2"),
        0,
        "nothing had started, so there is nothing to clean"
    );
}

#[test]
fn asked_first_when_there_is_no_record() {
    let t = TestEnv::new();
    let more = [
        "--probe-first",
        "--probe",
        "test -s effect && echo found || { rc=$?; exit $rc; }",
    ];
    run(&t, "--key k", &more, "echo x >> effect; echo ran")
        .end()
        .code(0)
        .out("ran\n");
    t.idem("forget k").end().code(0);
    run(&t, "--key k", &more, "echo x >> effect; echo ran")
        .end()
        .code(0)
        .out("found\n");
    assert_eq!(t.lines("effect"), 1);
}

#[test]
fn the_ledger_has_probe_and_cleanup() {
    let t = TestEnv::new();
    let script = "test -e two || { touch two; kill -9 $$; }";
    t.make_unknown("k", script);
    let more = ["--probe", "echo asked; exit 1", "--cleanup", "echo cleaned"];
    run(&t, "--key k", &more, script).end().code(0);
    let log = t.idem("log k --json").end().code(0).out_text();
    for part in ["\"probe\"", "asked", "\"cleanup\""] {
        assert!(log.contains(part), "no {part} in {log}");
    }
    assert_eq!(text(&t.status("k")["state"]), "succeeded");
}
