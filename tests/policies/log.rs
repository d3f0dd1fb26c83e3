//! What `idem log` tells of six stories, with times, process IDs and names of machines made equal.

use crate::env::TestEnv;

/// The lines about one operation, without what differs from run to run.
fn told(t: &TestEnv, key: &str) -> String {
    let log = t.idem(&format!("log {key}")).end().code(0).out_text();
    log.lines().map(normal).collect::<Vec<_>>().join("\n")
}

fn normal(line: &str) -> String {
    // The moment comes first, and is always as long.
    let line = line.split_once("  ").expect("a moment").1;
    let line = between(line, " (", "@", ", pid ", ")", "(somebody)");
    let line = between(&line, "(pid ", "", "", ")", "(pid)");
    let line = line
        .split_once(" after ")
        .map_or(line.clone(), |(before, rest)| {
            let rest = rest.split_once(", ").map_or("", |(_, rest)| rest);
            format!("{before}, {rest}")
        });
    between(&line, " by ", "@", "", ":", " by somebody:")
}

/// Replaces what stands from `open` to `close`, if it has the marks in between.
fn between(line: &str, open: &str, first: &str, second: &str, close: &str, with: &str) -> String {
    let Some(start) = line.find(open) else {
        return line.to_owned();
    };
    let Some(length) = line[start..].find(close) else {
        return line.to_owned();
    };
    let inside = &line[start..start + length];
    if !(inside.contains(first) && inside.contains(second)) {
        return line.to_owned();
    }
    let with = if open.starts_with(' ') && !with.starts_with(' ') {
        format!(" {with}")
    } else {
        with.to_owned()
    };
    format!(
        "{}{with}{}",
        &line[..start],
        &line[start + length + close.len()..]
    )
}

const QUICK: &str = "--backoff const:10ms --jitter none";

#[test]
fn a_success_after_retries() {
    let t = TestEnv::new();
    let script = "echo x >> n; test $(wc -l < n) -ge 2";
    t.run(&format!("--key k --retries 3 {QUICK}"), script)
        .end()
        .code(0);
    assert_eq!(
        told(&t, "k"),
        "\
g1  claimed: there is no record (somebody)
g1  attempt 1 started (pid)
g1  attempt 1 ended, exit 1, retryable: exit code 1, and --retries repeats failures
g1  waiting 10ms
g1  attempt 2 started (pid)
g1  attempt 2 ended, exit 0, success: exit code 0
g1  settled as succeeded, exit 0: exit code 0"
    );
}

#[test]
fn a_timeout_that_a_probe_clears_up() {
    let t = TestEnv::new();
    let idem = |probe: &str| {
        t.idem("run --key k --timeout 300ms --probe")
            .args([probe, "--", "sleep", "300"])
            .end()
    };
    idem("exit 2").code(124);
    idem("echo found").code(0).out("found\n");
    assert_eq!(
        told(&t, "k"),
        "\
g1  claimed: there is no record (somebody)
g1  attempt 1 started (pid)
g1  attempt 1 ended, signal 15, uncertain: timed out
g1  probe `exit 2`: could not tell (exit 2)
g1  settled as unknown: timed out; the probe could not tell
g2  claimed: its outcome is unknown, and the caller declared how to go on (somebody)
g2  probe `echo found`: it happened (exit 0)
g2  settled as succeeded, exit 0: the probe says that it happened"
    );
}

#[test]
fn a_cleanup_before_another_run() {
    let t = TestEnv::new();
    let script = "echo x >> n; test $(wc -l < n) -ge 2 || exit 9";
    t.idem(&format!("run --key k --retries 1 {QUICK} --cleanup"))
        .args(["echo tidy", "--", "sh", "-c", script])
        .end()
        .code(0);
    assert_eq!(
        told(&t, "k"),
        "\
g1  claimed: there is no record (somebody)
g1  attempt 1 started (pid)
g1  attempt 1 ended, exit 9, retryable: exit code 9, and --retries repeats failures
g1  cleanup `echo tidy`: done (exit 0)
g1  waiting 10ms
g1  attempt 2 started (pid)
g1  attempt 2 ended, exit 0, success: exit code 0
g1  settled as succeeded, exit 0: exit code 0"
    );
}

#[test]
fn a_person_settles_what_nobody_knew() {
    let t = TestEnv::new();
    let script = "test -e again || { touch again; kill -9 $$; }";
    t.make_unknown("k", script);
    t.idem("resolve k --not-done").end().code(0);
    t.run("--key k", script).end().code(0);
    assert_eq!(
        told(&t, "k"),
        "\
g1  claimed: there is no record (somebody)
g1  attempt 1 started (pid)
g1  attempt 1 ended, signal 9, uncertain: killed by signal 9
g1  settled as unknown: killed by signal 9
g2  resolved as failed by somebody: a person said that it did not happen
g3  claimed: it failed before, in a way that may be tried again (somebody)
g3  attempt 1 started (pid)
g3  attempt 1 ended, exit 0, success: exit code 0
g3  settled as succeeded, exit 0: exit code 0"
    );
}

#[test]
fn a_breaker_that_refuses_and_a_budget_that_ends() {
    let t = TestEnv::new();
    let fails = "echo x >> n; exit 9";
    t.run(
        &format!("--key k --retries 5 {QUICK} --budget b=1/1h"),
        fails,
    )
    .end()
    .code(9);
    assert_eq!(
        told(&t, "k"),
        "\
g1  claimed: there is no record (somebody)
g1  attempt 1 started (pid)
g1  attempt 1 ended, exit 9, retryable: exit code 9, and --retries repeats failures
g1  waiting 10ms
g1  attempt 2 started (pid)
g1  attempt 2 ended, exit 9, retryable: exit code 9, and --retries repeats failures
g1  refused by budget: the retries of budget b are used up
g1  settled as failed, exit 9: exit code 9, and --retries repeats failures; the retries of budget b are used up"
    );
    t.idem("breaker api --trip").end().code(0);
    t.run("--key r --breaker api", fails).end().code(123);
    let told = told(&t, "r");
    assert!(
        told.starts_with("g0  refused by breaker: breaker api is open for "),
        "{told}"
    );
    assert!(
        told.ends_with("nothing was run; try again later, or look at it with `idem breaker api`"),
        "{told}"
    );
}

#[test]
fn an_owner_that_was_killed() {
    let t = TestEnv::new();
    let runs = t.run("--key k", "echo x >> n; exec sleep 300").start();
    t.upto_lines("n", 1);
    crate::procs::signal(t.keeper("k"), libc::SIGKILL);
    runs.end().code(122);
    crate::procs::kill_home(&t.home());
    t.upto_quiet();
    t.run("--key k", "echo x >> n; exec sleep 300")
        .end()
        .code(122);
    assert_eq!(
        told(&t, "k"),
        "\
g1  claimed: there is no record (somebody)
g1  attempt 1 started (pid)
g1  found unknown: whoever ran it is gone"
    );
}
