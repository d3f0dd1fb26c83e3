//! Any number of callers at once, one execution.

use crate::command::{Done, Running};
use crate::env::{TestEnv, gate, text};

/// Ends every caller.
fn ends(callers: Vec<Running>) -> Vec<Done> {
    callers.into_iter().map(Running::end).collect()
}

/// One owner at its gate and `count` waiters that were seen waiting.
fn owner_and_waiters(
    t: &TestEnv,
    count: usize,
    options: &str,
    script: &str,
) -> (Running, Vec<Running>) {
    let owner = t.run(options, script).start();
    t.upto_lines("n", 1);
    let waiters: Vec<Running> = (0..count).map(|_| t.run(options, script).start()).collect();
    for waiter in &waiters {
        waiter.upto_waiting();
    }
    (owner, waiters)
}

#[test]
fn thirty_callers_are_one_run() {
    let t = TestEnv::new();
    let script = "echo x >> n; sleep 0.5; echo out; echo err >&2";
    let callers = (0..30).map(|_| t.run("--key k", script).start()).collect();
    for done in ends(callers) {
        done.code(0).out("out\n").says("err\n");
    }
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn waiters_get_the_streams_and_the_code_of_a_failure() {
    let t = TestEnv::new();
    let script = format!(
        "echo x >> n; {}; printf '\\0out'; echo err >&2; exit 9",
        gate("go")
    );
    let (owner, waiters) = owner_and_waiters(&t, 8, "--key k", &script);
    t.touch("go");
    owner.end().code(9).out(b"\0out").err("err\n");
    for done in ends(waiters) {
        done.code(9).out(b"\0out").says("err\n");
    }
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn waiters_get_a_large_result_whole() {
    let t = TestEnv::new();
    let script = format!(
        "echo x >> n; {}; yes abcdefgh | head -c 3000000",
        gate("go")
    );
    let (owner, waiters) = owner_and_waiters(&t, 4, "--key k", &script);
    t.touch("go");
    let first = owner.end();
    assert_eq!(first.code(0).stdout.len(), 3_000_000);
    for done in ends(waiters) {
        done.code(0).out(&first.stdout);
    }
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn waiters_get_122_and_the_streams_when_nobody_knows() {
    let t = TestEnv::new();
    let script = format!(
        "echo x >> n; {}; echo half; echo why >&2; kill -9 $$",
        gate("go")
    );
    let (owner, waiters) = owner_and_waiters(&t, 3, "--key k", &script);
    t.touch("go");
    owner.end().code(137).out("half\n");
    for done in ends(waiters) {
        done.code(122)
            .out("half\n")
            .says("why\n")
            .says("idem: ")
            .says("unknown");
    }
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn a_waiter_never_executes_even_if_it_may_run_again() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; exit 4", gate("go"));
    let owner = t.run("--key k", &script).start();
    t.upto_lines("n", 1);
    let waiters: Vec<Running> = ["--if-failed rerun", "--idempotent", "--if-unknown rerun"]
        .iter()
        .map(|more| t.run(&format!("--key k {more}"), &script).start())
        .collect();
    for waiter in &waiters {
        waiter.upto_waiting();
    }
    t.touch("go");
    owner.end().code(4);
    for done in ends(waiters) {
        done.code(4);
    }
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn waiters_get_their_result_though_it_expired_at_once() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; echo out", gate("go"));
    let (owner, waiters) = owner_and_waiters(&t, 4, "--key k --ttl 1ms", &script);
    t.touch("go");
    owner.end().code(0);
    for done in ends(waiters) {
        done.code(0).out("out\n");
    }
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn waiters_of_a_command_that_could_not_start_do_not_try_in_turn() {
    let t = TestEnv::new();
    let callers: Vec<Running> = (0..10)
        .map(|_| t.idem("run --key k -- ./nosuch").start())
        .collect();
    for done in ends(callers) {
        done.code(127).says("idem: ");
    }
    assert_eq!(t.state("k"), "failed");
}

#[test]
fn a_waiter_says_so_in_json() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; echo out", gate("go"));
    let (owner, waiters) = owner_and_waiters(&t, 1, "--key k --json", &script);
    t.touch("go");
    assert_eq!(text(&owner.end().code(0).json()["decision"]), "executed");
    for done in ends(waiters) {
        let json = done.code(0).json();
        assert_eq!(text(&json["decision"]), "waited");
        assert_eq!(text(&json["stdout"]), "out\n");
    }
}

#[test]
fn a_wait_that_runs_out_leaves_the_execution_alone() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; echo out", gate("go"));
    let owner = t.run("--key k", &script).start();
    t.upto_lines("n", 1);
    t.run("--key k --wait 200ms", &script)
        .end()
        .code(120)
        .one_line();
    t.run("--key k --wait 1ms", &script)
        .end()
        .code(120)
        .one_line();
    t.touch("go");
    owner.end().code(0).out("out\n");
    t.run("--key k --wait 200ms", &script)
        .end()
        .code(0)
        .out("out\n");
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn a_waiter_that_is_interrupted_ends_alone() {
    let t = TestEnv::new();
    let script = format!(
        "trap 'echo hit >> hits' INT TERM; echo x >> n; {}; echo out",
        gate("go")
    );
    let (owner, waiters) = owner_and_waiters(&t, 3, "--key k", &script);
    for (waiter, signal) in waiters
        .iter()
        .zip([libc::SIGINT, libc::SIGTERM, libc::SIGKILL])
    {
        waiter.signal(signal);
    }
    for done in ends(waiters) {
        assert_ne!(done.code, 0, "{done}");
        done.out("");
    }
    t.touch("go");
    owner.end().code(0).out("out\n");
    assert_eq!((t.lines("n"), t.lines("hits")), (1, 0));
}

#[test]
fn a_waiter_whose_generation_was_forgotten_decides_anew() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; echo out", gate("go"));
    let (owner, waiters) = owner_and_waiters(&t, 2, "--key k", &script);
    t.idem("forget --force k").end().code(0);
    t.touch("go");
    owner.end().code(0).out("out\n");
    for done in ends(waiters) {
        done.code(0).out("out\n");
    }
    assert_eq!(
        t.lines("n"),
        2,
        "the forgotten one and one more for both waiters"
    );
}

#[test]
fn the_wait_verb_ends_like_a_waiter() {
    let t = TestEnv::new();
    let script = format!(
        "echo x >> n; {}; echo out; echo err >&2; exit 6",
        gate("go")
    );
    let owner = t.run("--key k", &script).start();
    t.upto_lines("n", 1);
    t.idem("wait k --wait 200ms")
        .end()
        .code(120)
        .out("")
        .one_line();
    let waiter = t.idem("wait k").start();
    waiter.upto_waiting();
    t.touch("go");
    owner.end().code(6);
    waiter.end().code(6).out("out\n").says("err\n");
    t.idem("wait k").end().code(6).out("out\n");
    t.idem("wait nosuch").end().code(1).out("").one_line();
    t.make_unknown("u", "echo half; kill -9 $$");
    t.idem("wait u").end().code(122).out("half\n");
}

#[test]
fn forty_keys_at_once_find_no_store_busy() {
    let t = TestEnv::new();
    let callers = (0..40)
        .map(|i| {
            t.run(&format!("--key k{i}"), "echo x >> n; echo out")
                .start()
        })
        .collect();
    for done in ends(callers) {
        done.code(0).out("out\n").err("");
    }
    assert_eq!(t.lines("n"), 40);
    for i in 0..40 {
        t.run(&format!("--key k{i}"), "echo x >> n; echo out")
            .end()
            .code(0)
            .out("out\n");
    }
    assert_eq!(t.lines("n"), 40);
}

#[test]
fn racers_for_an_unknown_operation_run_it_once_more() {
    let t = TestEnv::new();
    let script = "echo x >> n; test $(wc -l < n) -ge 2 || kill -9 $$; sleep 0.3; echo out";
    t.make_unknown("k", script);
    let callers = (0..12)
        .map(|_| t.run("--key k --if-unknown rerun", script).start())
        .collect();
    for done in ends(callers) {
        done.code(0).out("out\n");
    }
    assert_eq!(t.lines("n"), 2);
}

#[test]
fn racers_with_different_commands_run_one_and_refuse_the_others() {
    let t = TestEnv::new();
    let callers: Vec<Running> = (0..12)
        .map(|i| {
            t.run("--key k", &format!("echo x >> n; sleep 0.3; echo {i}"))
                .start()
        })
        .collect();
    let codes: Vec<_> = ends(callers).into_iter().map(|done| done.code).collect();
    assert_eq!(codes.iter().filter(|c| **c == 0).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|c| **c == 121).count(), 11, "{codes:?}");
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn the_child_is_not_held_up_by_a_stopped_waiter() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; echo out", gate("go"));
    let (owner, waiters) = owner_and_waiters(&t, 1, "--key k", &script);
    waiters[0].signal(libc::SIGSTOP);
    t.touch("go");
    owner.end().code(0);
    t.run("--key other", "true").end().code(0);
    waiters[0].signal(libc::SIGCONT);
    for done in ends(waiters) {
        done.code(0).out("out\n");
    }
}
