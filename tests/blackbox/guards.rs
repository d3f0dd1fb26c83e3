//! Breakers, bulkheads, budgets and fallbacks, across processes.

use std::time::Duration;

use crate::command::Done;
use crate::env::{IDEM, TestEnv, text, upto};
use crate::procs;

const FAILS: &str = "echo x >> n; exit 9";

fn breaker(t: &TestEnv, key: &str, more: &str, script: &str) -> Done {
    let options =
        format!("--key {key} --breaker api:failures=2,cooldown=3s,probes=1 --retry-on any {more}");
    t.run(&options, script).end()
}

#[test]
fn a_breaker_opens_after_its_failures_and_says_until_when() {
    let t = TestEnv::new();
    for key in ["a", "b"] {
        breaker(&t, key, "", FAILS).code(9);
    }
    breaker(&t, "c", "", FAILS)
        .code(123)
        .out("")
        .one_line()
        .says("breaker")
        .says("api");
    let json = breaker(&t, "c", "--json", FAILS).code(123).json();
    assert_eq!(text(&json["next"]), "retry_later");
    assert!(!json["retry_at"].is_null(), "{json}");
    assert_eq!(t.lines("n"), 2);
    let done = t
        .idem("run --key d --breaker api:failures=2,cooldown=3s --fallback")
        .args(["echo stale", "--", "sh", "-c", FAILS])
        .end();
    done.code(0).out("stale\n").says("degraded");
    assert_eq!(t.lines("n"), 2);
}

#[test]
fn the_failure_that_opens_a_breaker_says_when_to_try_again() {
    let t = TestEnv::new();
    let call = |key: &str, script: &str| {
        let breaker = "--breaker api:failures=2,cooldown=5m --retry-on any";
        let done = t.run(&format!("--key {key} --json {breaker}"), script);
        done.end().json()
    };
    let first = call("a", FAILS);
    assert_eq!(text(&first["next"]), "retry_later");
    assert!(first["retry_at"].is_null(), "at any time: {first}");
    let (opens, refused) = (call("b", FAILS), call("c", FAILS));
    assert_eq!(text(&refused["decision"]), "refused");
    let moment = |told: &serde_json::Value| -> jiff::Timestamp {
        let moment = text(&told["retry_at"]);
        moment.parse().unwrap_or_else(|e| panic!("{told}: {e}"))
    };
    let apart = moment(&opens).duration_until(moment(&refused));
    assert!(apart.abs().as_secs() < 1, "{opens} {refused}");
    // Where a person must decide first, the breaker's time is none to come back at.
    let options = "--key d --json --breaker other:failures=1,cooldown=5m";
    let lost = t.run(options, "kill -9 $$").end().json();
    assert_eq!(text(&lost["next"]), "ask_human");
    assert!(lost["retry_at"].is_null(), "{lost}");
    assert_eq!(t.lines("n"), 2);
}

#[test]
fn racers_at_a_half_open_breaker_are_one_probe() {
    let t = TestEnv::new();
    for key in ["a", "b"] {
        breaker(&t, key, "", FAILS).code(9);
    }
    upto("the cooldown ends", || {
        breaker(&t, "probe", "", "echo x >> probes; exit 9").code == 9
    });
    std::fs::remove_file(t.path("probes")).expect("a probe");
    std::thread::sleep(Duration::from_millis(3200));
    let script = "echo x >> probes; sleep 1; exit 9";
    let racers: Vec<_> = (0..15)
        .map(|i| {
            let options =
                format!("--key p{i} --breaker api:failures=2,cooldown=3s,probes=1 --retry-on any");
            t.run(&options, script).start()
        })
        .collect();
    for racer in racers {
        racer.end();
    }
    assert_eq!(t.lines("probes"), 1);
    upto("a good probe closes it", || {
        breaker(&t, "ok", "", "exit 0").code == 0
    });
    breaker(&t, "ok2", "", "exit 0").code(0);
}

#[test]
fn a_killed_probe_frees_the_breaker() {
    let t = TestEnv::new();
    for key in ["a", "b"] {
        breaker(&t, key, "", FAILS).code(9);
    }
    std::thread::sleep(Duration::from_millis(3200));
    let options = "--key p --breaker api:failures=2,cooldown=3s,probes=1 --retry-on any";
    let probe = t.run(options, "echo x >> probes; exec sleep 300").start();
    t.upto_lines("probes", 1);
    breaker(&t, "q", "", FAILS).code(123);
    drop(probe);
    for (pid, _) in t.running() {
        procs::signal(pid, libc::SIGKILL);
    }
    t.upto_quiet();
    upto("another probe is let in", || {
        breaker(&t, "r", "", "exit 0").code == 0
    });
}

#[test]
fn permanent_failures_do_not_trip_a_breaker() {
    let t = TestEnv::new();
    for i in 0..5 {
        t.run(&format!("--key k{i} --breaker api:failures=2"), "exit 1")
            .end()
            .code(1);
    }
}

#[test]
fn a_bulkhead_lets_one_in_at_a_time() {
    let t = TestEnv::new();
    let script = "echo in >> l; sleep 0.3; echo out >> l";
    let callers: Vec<_> = (0..4)
        .map(|i| {
            t.run(&format!("--key k{i} --bulkhead db=1"), script)
                .start()
        })
        .collect();
    for caller in callers {
        caller.end().code(0);
    }
    assert_eq!(t.words("l"), "in out in out in out in out");
}

#[test]
fn without_a_permit_nothing_runs() {
    let t = TestEnv::new();
    let holder = t
        .run("--key h --bulkhead db=1", "echo x >> up; exec sleep 300")
        .start();
    t.upto_lines("up", 1);
    let done = t.run("--key w --bulkhead db=1 --wait 500ms", FAILS).end();
    done.code(123)
        .out("")
        .one_line()
        .within(Duration::from_secs(20));
    assert_eq!(t.lines("n"), 0);
    t.run("--key w --limit db=1 --wait 500ms", FAILS)
        .end()
        .code(123);
    let (keeper, child) = (t.keeper("h"), t.child("h"));
    holder.kill();
    procs::signal(keeper, libc::SIGKILL);
    procs::signal(child, libc::SIGKILL);
    t.run("--key b --bulkhead db=1 --wait 50s", "true")
        .end()
        .code(0);
}

#[test]
fn a_budget_pays_for_retries_only() {
    let t = TestEnv::new();
    for i in 0..3 {
        let options = format!("--key k{i} --retries 3 --backoff const:10ms --budget api=4/1h");
        t.run(&options, FAILS).end().code(9);
    }
    assert_eq!(t.lines("n"), 7, "three first attempts and four retries");
}

#[test]
fn a_fallback_answers_for_what_may_be_tried_again() {
    let t = TestEnv::new();
    let run = |key: &str, options: &str, script: &str| {
        t.idem("run --fallback")
            .args(["echo stale; exit 3", "--key", key])
            .args(options.split_whitespace())
            .args(["--", "sh", "-c", script])
            .end()
    };
    run("r", "--retry-on exit:9", "exit 9")
        .code(3)
        .says("degraded");
    run("t", "--timeout 1s --kill-after 300ms", "sleep 300")
        .code(3)
        .says("degraded");
    assert_eq!(t.state("t"), "unknown");
    run("t", "--timeout 1s --kill-after 300ms", "sleep 300")
        .code(122)
        .out("");
    run("p", "", "exit 7")
        .code(7)
        .out("")
        .never_says("degraded");
    let json = run("j", "--retry-on exit:9 --json", "exit 9")
        .code(3)
        .json();
    assert!(
        !json["degraded"].is_null() && json["degraded"] != false,
        "{json}"
    );
}

#[test]
fn guards_that_make_no_sense_are_refused() {
    let t = TestEnv::new();
    let cases: [(&str, &[&str]); 2] = [
        (
            "breaker",
            &[
                "",
                ":",
                "api:",
                "api:failures=0",
                "api:failures=-1",
                "api:failures=x",
                "api:ratio=150%/20/1m",
                "api:ratio=NaN%/2/1m",
                "api:ratio=50%/0/1m",
                "api:ratio=50%/20/0s",
                "api:cooldown=0s",
                "api:cooldown=-1s",
                "api:probes=0",
                "api:bogus=1",
                "api:failures=1,ratio=50%/20/1m",
                "api:failures=99999999999999999999",
            ],
        ),
        (
            "bulkhead",
            &[
                "",
                "db",
                "db=",
                "=1",
                "db=0",
                "db=-1",
                "db=x",
                "db=NaN",
                "db=99999999999999999999",
            ],
        ),
    ];
    for (option, values) in cases {
        for value in values {
            let run = t
                .command(IDEM)
                .args(["run", "--key", "k", &format!("--{option}={value}")]);
            run.args(["--", "sh", "-c", FAILS])
                .end()
                .code(125)
                .out("")
                .one_line();
        }
    }
    assert_eq!(t.lines("n"), 0);
}
