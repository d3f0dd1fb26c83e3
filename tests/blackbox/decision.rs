//! What a call does about the state that it finds: one test for each cell that the other files do not have.

use serde_json::Value;

use crate::command::Done;
use crate::env::{TestEnv, gate, text};

/// The parts of an operation that a refusal must not change.
fn record(t: &TestEnv, key: &str) -> Value {
    t.status(key)
}

/// A child that leaves one line, then dies of a signal.
const DIES: &str = "echo x >> n; echo half; kill -9 $$";

#[test]
fn death_by_a_signal_leaves_the_operation_unknown() {
    let t = TestEnv::new();
    let done = t.make_unknown("k", DIES);
    done.code(137).out("half\n").says("unknown");
    let status = t.status("k");
    let last = status["attempts"]
        .as_array()
        .and_then(|a| a.last())
        .expect("an attempt");
    assert_eq!(text(&last["class"]), "uncertain");
    assert_eq!(last["signal"], 9);
    assert_eq!(text(&status["next"]), "ask_human");
    assert!(status["expires_at"].is_null(), "{status}");
}

#[test]
fn unknown_is_refused_with_the_ways_out() {
    let t = TestEnv::new();
    t.make_unknown("k", DIES);
    let before = record(&t, "k");
    let done = t.run("--key k", DIES).end();
    done.code(122).out("").one_line();
    done.says("idem resolve")
        .says("--probe")
        .says("--if-unknown rerun");
    t.run("--key k --if-unknown refuse", DIES)
        .end()
        .code(122)
        .out("");
    assert_eq!(t.lines("n"), 1);
    assert_eq!(record(&t, "k"), before);
}

#[test]
fn unknown_under_another_command_is_a_mismatch_even_when_it_may_run_again() {
    let t = TestEnv::new();
    t.make_unknown("k", DIES);
    let before = record(&t, "k");
    for options in [
        "",
        " --idempotent",
        " --if-unknown rerun",
        " --if-failed rerun",
    ] {
        let done = t
            .run(&format!("--key k{options}"), "echo x >> n; exit 0")
            .end();
        done.code(121).one_line();
    }
    assert_eq!(t.lines("n"), 1);
    assert_eq!(record(&t, "k"), before);
}

#[test]
fn unknown_runs_again_when_the_caller_takes_it_on() {
    let t = TestEnv::new();
    let script = "echo x >> n; test $(wc -l < n) -ge 2 || kill -9 $$; echo whole";
    for (key, option) in [("a", "--idempotent"), ("b", "--if-unknown rerun")] {
        std::fs::remove_file(t.path("n")).ok();
        t.make_unknown(key, script);
        let first = t.status(key)["generation"].as_i64();
        t.run(&format!("--key {key} {option}"), script)
            .end()
            .code(0)
            .out("whole\n");
        assert_eq!(t.lines("n"), 2);
        assert!(t.status(key)["generation"].as_i64() > first);
        t.run(&format!("--key {key}"), script)
            .end()
            .code(0)
            .out("whole\n");
        assert_eq!(t.lines("n"), 2);
    }
}

#[test]
fn if_failed_rerun_is_no_word_about_unknown() {
    let t = TestEnv::new();
    t.make_unknown("k", DIES);
    t.run("--key k --if-failed rerun", DIES).end().code(122);
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn unknown_outlives_its_time_to_live() {
    let t = TestEnv::new();
    let script = "echo x >> n; kill -9 $$";
    t.run("--key k --ttl 1s --failed-ttl 1s", script)
        .end()
        .code(137);
    t.run("--key short --ttl 1s", "echo x >> m").end().code(0);
    crate::env::upto("another result expires meanwhile", || {
        t.run("--key short --ttl 1s", "echo x >> m").end().code(0);
        t.lines("m") >= 3
    });
    t.run("--key k --ttl 1s --failed-ttl 1s", script)
        .end()
        .code(122);
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn running_elsewhere_is_refused_skipped_or_waited_for() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; echo out; exit 3", gate("go"));
    let owner = t.run("--key deploy-42", &script).start();
    t.upto_lines("n", 1);
    let call = |more: &str| t.run(&format!("--key deploy-42 {more}"), &script).end();
    let before = record(&t, "deploy-42");
    call("--if-running refuse")
        .code(120)
        .out("")
        .one_line()
        .says("deploy-42");
    call("--if-running skip").code(0).out("").err("");
    call("--wait 300ms").code(120).out("").says("deploy-42");
    assert_eq!(record(&t, "deploy-42"), before);
    t.touch("go");
    owner.end().code(3).out("out\n");
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn another_command_while_one_is_running_is_a_mismatch_at_once() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}", gate("go"));
    let owner = t.run("--key k", &script).start();
    t.upto_lines("n", 1);
    for options in [
        "",
        " --if-running skip",
        " --if-running refuse",
        " --if-running wait",
    ] {
        t.run(&format!("--key k{options}"), "echo x >> n")
            .end()
            .code(121)
            .one_line();
    }
    t.touch("go");
    owner.end().code(0);
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn what_could_not_start_is_no_obstacle() {
    let t = TestEnv::new();
    t.idem("run --key k -- ./tool")
        .end()
        .code(127)
        .out("")
        .says("idem: ");
    assert_eq!(t.state("k"), "failed");
    t.idem("run --key k -- ./tool").end().code(127);
    t.script("tool", "#!/bin/sh\necho now\n");
    t.idem("run --key k -- ./tool").end().code(0).out("now\n");
    t.idem("run --key q -- ./other").end().code(127);
    t.run("--key q", "echo corrected")
        .end()
        .code(0)
        .out("corrected\n");
}

#[test]
fn generations_only_grow() {
    let t = TestEnv::new();
    let mut last = 0;
    for round in 0..3 {
        for key in ["a", "b"] {
            t.run(&format!("--key {key}"), "true").end().code(0);
            let generation = t.status(key)["generation"].as_i64().expect("a number");
            assert!(
                generation > last,
                "round {round}: {generation} after {last}"
            );
            last = generation;
        }
        t.idem("forget a b").end().code(0);
    }
}

#[test]
fn a_token_lives_as_long_as_its_record() {
    let t = TestEnv::new();
    let script = "echo $IDEM_TOKEN >> n; kill -9 $$";
    t.make_unknown("k", script);
    t.run("--key k --if-unknown rerun", script).end().code(137);
    let words = t.words("n");
    let tokens: Vec<&str> = words.split(' ').collect();
    assert_eq!(tokens[0], tokens[1], "a re-execution has the same token");
    t.idem("forget --force k").end().code(0);
    t.run("--key k", script).end().code(137);
    t.run("--key other", script).end().code(137);
    let words = t.words("n");
    let mut tokens: Vec<&str> = words.split(' ').skip(1).collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 3, "{words}");
}

/// Calls with the key of a living ancestor from inside the child.
fn nested(options: &str) -> Done {
    let t = TestEnv::new();
    let inner =
        format!("\"$IDEM\" run --key self --fingerprint none {options} -- sh -c 'echo x >> n'");
    let done = t.run("--key self --fingerprint none", &inner).end();
    assert_eq!(t.lines("n"), 0, "{done}");
    done
}

#[test]
fn a_call_for_its_own_ancestor_is_refused_at_once() {
    nested("").code(125).says("idem: ");
    nested("--wait 50s").code(125);
}

#[test]
fn an_ancestor_further_up_counts_too() {
    let t = TestEnv::new();
    let script = r#""$IDEM" run --key b -- sh -c '"$IDEM" run --key a --fingerprint none -- true'"#;
    t.run("--key a --fingerprint none", script).end().code(125);
    assert_eq!(t.state("b"), "failed");
}

#[test]
fn a_dead_ancestor_counts_for_nothing() {
    let t = TestEnv::new();
    let later = format!(
        "{}; \"$IDEM\" run --key a --ttl 1s --fingerprint none -- sh -c 'echo y >> n'",
        gate("go")
    );
    let script = format!("echo x >> n; ({later}) >log 2>&1 &");
    t.run("--key a --ttl 1s --fingerprint none", &script)
        .end()
        .code(0);
    t.idem("forget a").end().code(0);
    t.touch("go");
    t.upto_lines("n", 2);
}
