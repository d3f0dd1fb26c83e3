//! The caller goes away: the work goes on, and its result lands.

use std::process::Stdio;
use std::time::Duration;

use crate::env::{TestEnv, gate, upto};
use crate::procs;

#[test]
fn a_killed_callers_result_lands() {
    let t = TestEnv::new();
    let script = format!(
        "echo x >> n; {}; echo late; echo warn >&2; exit 3",
        gate("go")
    );
    let caller = t.run("--key k", &script).start();
    t.upto_lines("n", 1);
    caller.kill();
    let next = t.run("--key k", &script).start();
    next.upto_waiting();
    t.touch("go");
    next.end().code(3).out("late\n").says("warn\n");
    t.run("--key k", &script).end().code(3).out("late\n");
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn a_kill_of_the_callers_whole_group_loses_nothing() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; echo late", gate("go"));
    t.write("script", &script);
    let harness = r#"idem run --key g -- sh -c "$(cat script)" | cat; echo never >> after"#;
    let caller = t.bash(harness).own_group().start();
    t.upto_lines("n", 1);
    procs::signal_group(caller.pid(), libc::SIGKILL);
    caller.end().died_of(libc::SIGKILL).out("");
    t.touch("go");
    t.run("--key g", &script).end().code(0).out("late\n");
    assert_eq!((t.lines("n"), t.lines("after")), (1, 0));
}

#[test]
fn a_lost_callers_pipe_is_let_go_at_once() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; echo late; echo late >&2", gate("go"));
    t.write("script", &script);
    let substitution = r#"o=$(idem_run() { exec "$IDEM" run --key k -- sh -c "$(cat script)" 2>&1; }
        idem_run & echo $! > front; wait); echo "got [$o]""#;
    let caller = t.bash(substitution).start();
    t.upto_lines("n", 1);
    t.upto_lines("front", 1);
    procs::signal(
        t.read("front").trim().parse().expect("a pid"),
        libc::SIGKILL,
    );
    let done = caller.end();
    done.code(0).out("got []\n");
    assert_eq!(t.state("k"), "running");
    t.touch("go");
    t.run("--key k", &script)
        .end()
        .code(0)
        .out("late\n")
        .says("late\n");
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn the_keeper_keeps_nothing_of_a_lost_caller() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}", gate("go"));
    let caller = t.run("--key k", &script).start();
    t.upto_lines("n", 1);
    let keeper = t.keeper("k");
    caller.kill();
    for fd in 0..3 {
        upto("the keeper lets go", || {
            procs::descriptor(keeper, fd).as_deref() == Some("/dev/null")
        });
    }
    t.touch("go");
    t.upto_state("k", "succeeded");
}

#[test]
fn a_time_limit_that_kills_the_caller_does_not_wait_for_the_work() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; echo late", gate("go"));
    let caller =
        t.command("timeout")
            .args(["-s", "KILL", "3", crate::env::IDEM, "run", "--key", "k"]);
    let done = caller.args(["--", "sh", "-c", &script]).end();
    done.out("").within(Duration::from_secs(30));
    upto("it had started", || t.lines("n") == 1);
    t.touch("go");
    t.run("--key k", &script).end().code(0).out("late\n");
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn a_hangup_is_the_loss_of_the_caller() {
    let t = TestEnv::new();
    let script = format!(
        "trap 'echo x >> hup' HUP; echo x >> n; {}; echo late",
        gate("go")
    );
    let caller = t.run("--key k", &script).start();
    t.upto_lines("n", 1);
    caller.signal(libc::SIGHUP);
    let done = caller.end();
    assert_ne!(done.code, 0, "{done}");
    assert_eq!(t.state("k"), "running");
    t.touch("go");
    t.run("--key k", &script).end().code(0).out("late\n");
    assert_eq!((t.lines("n"), t.lines("hup")), (1, 0));
}

#[test]
fn an_ignored_hangup_stays_ignored() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; echo out", gate("go"));
    t.write("script", &script);
    let caller = t
        .bash(r#"trap '' HUP; exec "$IDEM" run --key k -- sh -c "$(cat script)""#)
        .start();
    t.upto_lines("n", 1);
    caller.signal(libc::SIGHUP);
    procs::signal(t.child("k"), libc::SIGHUP);
    t.touch("go");
    caller.end().code(0).out("out\n");
}

#[test]
fn the_loss_of_the_caller_ends_the_child_when_asked() {
    let t = TestEnv::new();
    let script = "echo x >> n; exec sleep 300";
    for (key, signal) in [("kill", libc::SIGKILL), ("hup", libc::SIGHUP)] {
        std::fs::remove_file(t.path("n")).ok();
        let options = format!("--key {key} --on-caller-loss kill");
        let caller = t.run(&options, script).start();
        t.upto_lines("n", 1);
        let child = t.child(key);
        caller.signal(signal);
        upto("the child ends", || !procs::alive(child));
        t.upto_state(key, "unknown");
        drop(caller);
        t.run(&options, script).end().code(122);
        assert_eq!(t.lines("n"), 1);
    }
}

#[test]
fn a_caller_that_is_still_there_is_not_lost() {
    let t = TestEnv::new();
    let script = "echo x >> n; sleep 0.5; echo out";
    t.run("--key k --on-caller-loss kill", script)
        .end()
        .code(0)
        .out("out\n");
    t.run("--key n --on-caller-loss kill", script)
        .stdin(Stdio::null())
        .end()
        .code(0)
        .out("out\n");
}

#[test]
fn a_caller_that_dies_before_the_claim_cancels_it() {
    let t = TestEnv::new();
    t.run("--key warm", "true").end().code(0);
    t.upto_quiet();
    let lock = t.lock_store();
    let caller = t.run("--key k", "echo x >> n").start();
    upto("the keeper is there", || t.running().len() >= 2);
    caller.kill();
    drop(lock);
    t.upto_quiet();
    assert_eq!(t.state("k"), "none");
    assert_eq!(t.lines("n"), 0);
    t.run("--key k", "echo x >> n").end().code(0);
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn many_killed_callers_lose_no_result() {
    let t = TestEnv::new();
    let script = |i: usize| format!("echo x >> n{i}; {}; echo out{i}", gate("go"));
    let callers: Vec<_> = (0..10)
        .map(|i| t.run(&format!("--key k{i}"), &script(i)).start())
        .collect();
    for i in 0..10 {
        t.upto_lines(&format!("n{i}"), 1);
    }
    for caller in callers {
        caller.kill();
    }
    t.touch("go");
    for i in 0..10 {
        let done = t.run(&format!("--key k{i}"), &script(i)).end();
        done.code(0).out(format!("out{i}\n"));
        assert_eq!(t.lines(&format!("n{i}")), 1);
    }
}
