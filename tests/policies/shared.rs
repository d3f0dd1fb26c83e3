//! What many calls pay for together: budgets, and the retries of a task.

use rand::RngExt;

use crate::command::Running;
use crate::env::TestEnv;
use crate::procs;
use crate::random::seeded;

const QUICK: &str = "--backoff const:20ms --jitter none";

/// Executions beyond the first of each call.
fn retries(t: &TestEnv, calls: usize) -> usize {
    let of = |call| t.lines(&format!("n{call}")).saturating_sub(1);
    (0..calls).map(of).sum()
}

fn start(t: &TestEnv, call: usize, options: &str) -> Running {
    let script = format!("echo x >> n{call}; exit 9");
    t.run(&format!("--key k{call} {QUICK} {options}"), &script)
        .start()
}

#[test]
fn a_budget_is_never_overspent_whoever_is_killed() {
    let t = TestEnv::new();
    let mut random = seeded();
    let options = "--retries 9 --budget api=12/1000h";
    let calls: Vec<Running> = (0..8).map(|call| start(&t, call, options)).collect();
    t.upto_lines("n0", 2);
    for call in &calls {
        if random.random_bool(0.4) {
            call.signal(libc::SIGKILL);
        }
    }
    for (pid, _) in t.running() {
        if random.random_bool(0.3) {
            procs::signal(pid, libc::SIGKILL);
        }
    }
    drop(calls);
    t.upto_quiet();
    // What was killed between the payment and the retry is spent all the same; nothing is lost for good.
    start(&t, 8, "--retries 30 --budget api=12/1000h")
        .end()
        .code(9);
    let spent = retries(&t, 9);
    assert!(spent <= 12, "{spent} retries of a budget of 12");
    let left = t
        .run("--key k9 --dry-run --json --budget api=12/1000h", "true")
        .end()
        .json();
    assert_eq!(left["guards"][0]["stands"], "has 0 of 12 retries left");
    let more = t.run(
        &format!("--key k9 {QUICK} {options}"),
        "echo x >> n9; exit 9",
    );
    more.end().code(9);
    assert_eq!(t.lines("n9"), 1, "a first attempt is free");
}

#[test]
fn without_kills_a_budget_is_spent_to_the_last() {
    let t = TestEnv::new();
    let options = "--retries 9 --budget api=7/1000h";
    let calls: Vec<Running> = (0..6).map(|call| start(&t, call, options)).collect();
    for call in calls {
        call.end().code(9);
    }
    assert_eq!(retries(&t, 6), 7);
}

#[test]
fn the_retries_of_a_task_are_shared_exactly() {
    let t = TestEnv::new();
    t.idem("task open t --retries 7").end().code(0);
    let calls: Vec<Running> = (0..6)
        .map(|call| {
            let script = format!("echo x >> n{call}; exit 9");
            let options = format!("--task t --step s{call} --retries 9 {QUICK}");
            t.run(&options, &script).start()
        })
        .collect();
    for call in calls {
        call.end().code(9);
    }
    assert_eq!(retries(&t, 6), 7);
    let shown = t.idem("task show t --json").end().code(0).json();
    assert_eq!(shown["retries_used"], 7);
    assert_eq!(shown["steps"].as_array().unwrap().len(), 6);
}

#[test]
fn a_task_survives_the_death_of_its_steps() {
    let t = TestEnv::new();
    t.idem("task open t --retries 3").end().code(0);
    for call in 0..2 {
        let options = format!("--task t --step s{call} --retries 9 {QUICK}");
        let script =
            format!("echo x >> n{call}; test $(wc -l < n{call}) -lt 2 || sleep 300; exit 9");
        let running = t.run(&options, &script).own_group().start();
        t.upto_lines(&format!("n{call}"), 2);
        let keeper = t.keeper(&format!("t/s{call}"));
        procs::signal(keeper, libc::SIGKILL);
        running.end().code(122);
        procs::kill_home(&t.home());
        t.upto_quiet();
    }
    let shown = t.idem("task show t --json").end().code(0).json();
    assert_eq!(
        (&shown["retries_used"], &shown["retries_left"]),
        (&2.into(), &1.into())
    );
    let last = t.run(
        &format!("--task t --step s2 --retries 9 {QUICK}"),
        "echo x >> n2; exit 9",
    );
    last.end().code(9);
    assert_eq!(t.lines("n2"), 2);
}
