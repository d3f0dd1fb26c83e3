//! Running again inside one call, and never on a guess.

use std::time::Duration;

use crate::command::Done;
use crate::env::{IDEM, TestEnv, text, upto};
use crate::procs;

const QUICK: &str = "--backoff const:10ms --jitter none";

#[test]
fn a_failing_command_is_retried_until_it_succeeds() {
    let t = TestEnv::new();
    let script = "echo x >> n; test $(wc -l < n) -ge 3 || exit 9; echo done";
    let options = format!("--key k --retries 5 {QUICK}");
    for _ in 0..2 {
        t.run(&options, script).end().code(0).out("done\n");
        assert_eq!(t.lines("n"), 3);
    }
    let status = t.status("k");
    let attempts = status["attempts"].as_array().expect("attempts");
    let codes: Vec<i64> = attempts
        .iter()
        .filter_map(|a| a["exit_code"].as_i64())
        .collect();
    assert_eq!(codes, [9, 9, 0]);
    let numbers: Vec<i64> = attempts
        .iter()
        .filter_map(|a| a["number"].as_i64())
        .collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(text(&attempts[0]["class"]), "retryable");
}

#[test]
fn spent_retries_are_not_replayed() {
    let t = TestEnv::new();
    for round in 1..=2 {
        t.run(
            &format!("--key k --retries 1 {QUICK}"),
            "echo x >> n; exit 9",
        )
        .end()
        .code(9);
        assert_eq!(t.lines("n"), 2 * round);
    }
}

#[test]
fn there_is_no_pause_after_the_last_attempt() {
    let t = TestEnv::new();
    let done = t
        .run(
            "--key k --retries 1 --backoff const:8s --jitter none",
            "exit 1",
        )
        .end();
    done.code(1).within(Duration::from_secs(15));
    assert!(done.elapsed >= Duration::from_secs(8), "{done}");
}

#[test]
fn only_the_last_attempts_output_is_the_result() {
    let t = TestEnv::new();
    let script = "echo x >> n; echo out$(wc -l < n); test $(wc -l < n) -ge 3";
    let options = format!("--key k --retries 5 {QUICK}");
    t.run(&options, script)
        .end()
        .code(0)
        .out("out1\nout2\nout3\n");
    t.run(&options, script).end().code(0).out("out3\n");
    t.idem("output k --attempt 1").end().out("out1\n");
    t.idem("output k --attempt 2").end().out("out2\n");
}

#[test]
fn an_uncertain_end_is_never_retried_by_itself() {
    let t = TestEnv::new();
    let options = format!("--key k --timeout 1s --retries 5 {QUICK}");
    let script = "echo x >> n; sleep 300";
    t.run(&options, script).end().code(124).says("unknown");
    t.run(&options, script).end().code(122);
    t.run(
        &format!("--key s --retries 5 {QUICK}"),
        "echo x >> m; kill -9 $$",
    )
    .end()
    .code(137);
    let any = format!("--key a --retries 5 --retry-on any {QUICK}");
    t.run(&any, "echo x >> a; kill -9 $$").end().code(137);
    assert_eq!((t.lines("n"), t.lines("m"), t.lines("a")), (1, 1, 1));
}

#[test]
fn an_uncertain_end_is_retried_when_the_caller_takes_it_on() {
    let t = TestEnv::new();
    let slow = "echo x >> NAME; test $(wc -l < NAME) -ge 3 || sleep 300; echo ok";
    for (name, option) in [("a", "--idempotent"), ("b", "--retry-on timeout")] {
        let options = format!("--key {name} --timeout 1s --retries 2 {QUICK} {option}");
        t.run(&options, &slow.replace("NAME", name))
            .end()
            .code(0)
            .out("ok\n");
        assert_eq!(t.lines(name), 3);
    }
    let dies = "echo x >> NAME; test $(wc -l < NAME) -ge 3 || kill -SEGV $$; echo ok";
    for (name, option) in [
        ("c", "--retry-on signal"),
        ("d", "--retry-on signal:SEGV"),
        ("e", "--idempotent"),
    ] {
        let options = format!("--key {name} --retries 2 {QUICK} {option}");
        t.run(&options, &dies.replace("NAME", name))
            .end()
            .code(0)
            .out("ok\n");
    }
    let other = format!("--key f --retries 2 {QUICK} --retry-on signal:TERM");
    t.run(&other, &dies.replace("NAME", "f")).end().code(139);
    assert_eq!(t.lines("f"), 1);
}

#[test]
fn what_is_retried_and_what_is_not_can_be_said() {
    let t = TestEnv::new();
    let runs = |key: &str, options: &str, script: &str| {
        let script = format!("echo x >> {key}; {script}");
        t.run(
            &format!("--key {key} --retries 2 {QUICK} {options}"),
            &script,
        )
        .end();
        t.lines(key)
    };
    assert_eq!(runs("code", "--retry-on exit:75", "exit 75"), 3);
    assert_eq!(runs("other", "--retry-on exit:75", "exit 76"), 1);
    assert_eq!(runs("range", "--retry-on exit:100-110", "exit 104"), 3);
    assert_eq!(runs("stop", "--stop-on exit:9", "exit 9"), 1);
    assert_eq!(runs("both", "--retry-on any --stop-on exit:9", "exit 9"), 1);
    assert_eq!(
        runs(
            "text",
            "--retry-on stderr:/busy/",
            "echo so busy >&2; exit 1"
        ),
        3
    );
    assert_eq!(
        runs(
            "split",
            "--retry-on stdout:/busy/",
            "printf bu; sleep 0.1; printf sy; exit 1"
        ),
        3
    );
    assert_eq!(
        runs("none", "--retry-on stderr:/busy/", "echo busy; exit 1"),
        1
    );
    assert_eq!(runs("ok", "--success-codes 0,3", "exit 3"), 1);
    assert_eq!(t.state("ok"), "succeeded");
    assert_eq!(runs("zero", "--success-codes 3", "exit 0"), 3);
}

#[test]
fn one_token_for_all_attempts() {
    let t = TestEnv::new();
    let script = "echo $IDEM_TOKEN >> all; echo $IDEM_ATTEMPT >> numbers; exit 9";
    for _ in 0..2 {
        t.run(&format!("--key k --retries 1 {QUICK}"), script)
            .end()
            .code(9);
    }
    assert_eq!(t.says("sort -u all | wc -l"), "1");
    assert_eq!(t.words("numbers"), "1 2 1 2");
    t.idem("forget k").end().code(0);
    t.run(&format!("--key k --retries 1 {QUICK}"), script)
        .end()
        .code(9);
    assert_eq!(t.says("sort -u all | wc -l"), "2");
}

#[test]
fn nothing_new_starts_after_an_interrupt() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGQUIT] {
        let t = TestEnv::new();
        let run = t
            .idem(&format!("run --key k --idempotent --retries 3 {QUICK}"))
            .args(["--probe", "echo x >> new; exit 1"])
            .args(["--cleanup", "echo x >> new"])
            .args(["--", "sh", "-c", "echo x >> n; exec sleep 300"])
            .start();
        t.upto_lines("n", 1);
        run.signal(signal);
        run.end().died_of(signal);
        t.upto_quiet();
        assert_eq!((t.lines("n"), t.lines("new")), (1, 0));
        assert_eq!(t.state("k"), "unknown");
    }
}

#[test]
fn a_signal_ends_a_pause() {
    let t = TestEnv::new();
    let run = t
        .run(
            "--key k --retries 3 --backoff const:500s --jitter none",
            "echo x >> n; exit 1",
        )
        .start();
    t.upto_lines("n", 1);
    run.upto_waiting();
    run.signal(libc::SIGTERM);
    let done = run.end();
    assert_ne!(done.code, 0, "{done}");
    assert_eq!(t.lines("n"), 1);
    t.upto_quiet();
}

#[test]
fn a_lost_caller_stops_no_retries() {
    let t = TestEnv::new();
    let script = "echo x >> n; test $(wc -l < n) -ge 3 || exit 9; echo done";
    let run = t
        .run(
            "--key k --retries 5 --backoff const:300ms --jitter none",
            script,
        )
        .start();
    t.upto_lines("n", 1);
    run.kill();
    t.upto_state("k", "succeeded");
    assert_eq!(t.lines("n"), 3);
}

#[test]
fn the_deadline_bounds_all_attempts() {
    let t = TestEnv::new();
    let options = "--key k --deadline 2s --retries 1000 --backoff const:200ms --jitter none";
    let done = t.run(options, "echo x >> n; exit 9").end();
    done.within(Duration::from_secs(20));
    assert!(
        (1..=12).contains(&t.lines("n")),
        "{} attempts",
        t.lines("n")
    );
}

#[test]
fn a_hint_to_wait_is_kept_and_one_past_the_deadline_stops_now() {
    let t = TestEnv::new();
    let script = "echo x >> n; test $(wc -l < n) -ge 2 || { echo retry-after=2 >> \"$IDEM_CONTROL\"; exit 9; }";
    let done = t
        .run("--key k --retries 1 --backoff const:10ms", script)
        .end();
    done.code(0);
    assert!(done.elapsed >= Duration::from_secs(2), "{done}");
    let script = "echo x >> m; echo retry-after=86400 >> \"$IDEM_CONTROL\"; exit 9";
    let done = t.run("--key h --deadline 30s --retries 1", script).end();
    done.within(Duration::from_secs(20));
    assert_eq!(t.lines("m"), 1);
}

#[test]
fn a_command_that_asks_to_wait_has_done_nothing_and_is_run_again_later() {
    let t = TestEnv::new();
    let script = "echo x >> n; echo retry-after=30 >> \"$IDEM_CONTROL\"; exit 9";
    t.run("--key k", script).end().code(9);
    let told = t.status("k");
    assert_eq!(told["attempts"][0]["class"], "throttled");
    assert_eq!(told["next"], "retry_later");
    assert!(told["retry_at"].is_string(), "{told}");
    t.run("--key k", script).end().code(9);
    assert_eq!(t.lines("n"), 2);
}

#[test]
fn the_child_can_say_what_its_end_means() {
    let t = TestEnv::new();
    let run = |key: &str, outcome: &str, code: i32| -> Done {
        let script =
            format!("echo x >> {key}; echo outcome={outcome} >> \"$IDEM_CONTROL\"; exit {code}");
        t.run(&format!("--key {key} --retries 1 {QUICK}"), &script)
            .end()
    };
    run("u", "uncertain", 1).code(1);
    run("u", "uncertain", 1).code(122);
    run("p", "permanent", 1).code(1);
    run("p", "permanent", 1).code(1);
    run("s", "safe", 1).code(1);
    run("s", "safe", 1).code(1);
    run("r", "retryable", 1).code(1);
    assert_eq!(["u", "p", "s", "r"].map(|k| t.lines(k)), [1, 1, 4, 2]);
    run("z", "uncertain", 0).code(122);
    assert_eq!(t.state("z"), "unknown");
}

#[test]
fn nothing_of_an_earlier_attempt_works_on() {
    let t = TestEnv::new();
    let script = r#"echo x >> n; test $(wc -l < n) -ge 2 && exit 0
        (trap '' TERM; echo $(exec sh -c 'echo $PPID') >> pids; sleep 300; sleep 300) & until test -s pids; do sleep 0.02; done; exit 9"#;
    t.run(
        &format!("--key k --retries 1 {QUICK} --kill-after 300ms"),
        script,
    )
    .end()
    .code(0);
    for pid in t.read("pids").split_whitespace() {
        assert!(!procs::alive(pid.parse().expect("a pid")), "{pid} works on");
    }
}

/// Options, and values that they cannot have.
const NONSENSE: [(&str, &[&str]); 9] = [
    (
        "retries",
        &["", "-1", "1.5", "abc", "NaN", "99999999999999999999"],
    ),
    (
        "backoff",
        &[
            "",
            "exp",
            "exp:",
            "exp:0s..1s",
            "exp:5s..1s",
            "const:",
            "const:-1s",
            "const:0s",
            "linear:1s",
            "cubic:1s..2s",
            "exp:1s..60s*0",
            "exp:1s..60s*NaN",
            "exp:1s..60s*-2",
            "exp:1s..60s*1e999",
            "const:1s..2s",
            "exp:1s...2s",
        ],
    ),
    (
        "jitter",
        &["", "half", "-1%", "101%", "NaN%", "%", "+", "+-1s", "1e99%"],
    ),
    (
        "retry-on",
        &[
            "",
            ",",
            "exit:",
            "exit:256",
            "exit:-1",
            "exit:9-3",
            "exit:a",
            "http:",
            "http:999",
            "http:6xx",
            "signal:FOO",
            "signal:",
            "stdout:",
            "stdout:/(/",
            "stdout:x",
            "bogus",
            "any,",
            "exit:1,,exit:2",
        ],
    ),
    ("stop-on", &["", "exit:300", "bogus", "stderr:/[/"]),
    (
        "success-codes",
        &["", "256", "-1", "a", "5-3", "0,", ",", "NaN"],
    ),
    ("classifier", &["", "nosuch"]),
    (
        "budget",
        &[
            "",
            "api",
            "api=",
            "api=0/1h",
            "api=4",
            "api=4/0s",
            "api=-1/1h",
            "=4/1h",
            "api=NaN/1h",
        ],
    ),
    ("settle", &["", "-1s", "NaN", "1"]),
];

#[test]
fn retry_options_that_make_no_sense_are_refused() {
    let t = TestEnv::new();
    for (option, values) in NONSENSE {
        for value in values {
            let run = t
                .command(IDEM)
                .args(["run", "--key", "k", &format!("--{option}={value}")]);
            let done = run.args(["--", "sh", "-c", "echo x >> n"]).end();
            done.code(125).out("").one_line();
        }
    }
    assert_eq!(t.lines("n"), 0);
}

#[test]
fn a_failure_named_as_repeatable_runs_again_in_the_next_call() {
    let t = TestEnv::new();
    let script = "echo x >> n; test $(wc -l < n) -ge 2 || exit 75; echo ok";
    t.run("--key k --retry-on exit:75", script).end().code(75);
    t.run("--key k --retry-on exit:75", script)
        .end()
        .code(0)
        .out("ok\n");
    upto("nothing is left", || t.running().is_empty());
}
