//! How an inner idem's end reaches the outer one, and where it does not.

use crate::env::{TestEnv, gate, text};

fn class(t: &TestEnv, key: &str) -> String {
    let status = t.status(key);
    let attempts = status["attempts"].as_array().expect("attempts");
    text(&attempts.last().expect("an attempt")["class"])
}

/// `idem run OUTER -- idem run INNER -- sh -c SCRIPT`.
fn direct(t: &TestEnv, outer: &str, inner: &str, script: &str) -> crate::command::Cmd {
    let idem = crate::env::IDEM;
    t.idem(&format!("run {outer} -- {idem} run {inner} -- sh -c"))
        .arg(script)
}

#[test]
fn an_inner_call_that_is_all_there_is_speaks_for_the_outer_one() {
    let t = TestEnv::new();
    let says = |class: &str| format!("echo outcome={class} >> \"$IDEM_CONTROL\"; exit 7");
    for wanted in ["safe", "throttled", "retryable", "permanent", "uncertain"] {
        let (outer, inner) = (format!("--key o{wanted}"), format!("--key i{wanted}"));
        direct(&t, &outer, &inner, &says(wanted)).end().code(7);
        assert_eq!(class(&t, &format!("o{wanted}")), wanted);
    }
}

#[test]
fn a_part_does_not_make_the_whole_safe_to_repeat() {
    let t = TestEnv::new();
    let script = "echo x >> n; \"$IDEM\" run --key i -- sh -c 'echo outcome=safe >> \"$IDEM_CONTROL\"; exit 7'";
    for _ in 0..3 {
        t.run("--key o", script).end().code(7);
    }
    assert_eq!(
        t.lines("n"),
        1,
        "what else the script did is not known to be nothing"
    );
    assert_eq!(class(&t, "o"), "permanent");
}

#[test]
fn an_uncertain_part_makes_a_failed_whole_uncertain() {
    let t = TestEnv::new();
    let inner = "\"$IDEM\" run --key i --timeout 200ms --kill-after 1s -- sleep 300";
    t.run(
        "--key o --retries 3 --backoff const:10ms",
        &format!("echo x >> n; {inner}; exit 9"),
    )
    .end()
    .code(9);
    assert_eq!((t.state("o").as_str(), t.lines("n")), ("unknown", 1));
}

#[test]
fn a_script_that_deals_with_a_failure_is_not_spoilt_by_it() {
    let t = TestEnv::new();
    let fails = |how: &str| format!("\"$IDEM\" run --key i -- sh -c '{how}'");
    let script = format!("{} || true; echo done", fails("kill -9 $$"));
    t.run("--key o", &script).end().code(0).out("done\n");
    assert_eq!(t.state("o"), "succeeded");
    // A permanent part that was dealt with does not end the retries of what fails later.
    let inner = "\"$IDEM\" run --key p -- sh -c 'exit 4'";
    let script = format!("echo x >> n; {inner} || true; test $(wc -l < n) -ge 2 || exit 9");
    t.run("--key q --retries 3 --backoff const:10ms", &script)
        .end()
        .code(0);
    assert_eq!(t.lines("n"), 2);
    // One whose code is passed on does.
    let script = format!("echo x >> m; {inner}");
    t.run("--key r --retries 3 --backoff const:10ms", &script)
        .end()
        .code(4);
    assert_eq!(t.lines("m"), 1);
}

#[test]
fn refusals_are_told_as_well() {
    let t = TestEnv::new();
    t.make_unknown("u", "kill -9 $$");
    direct(&t, "--key o122", "--key u", "kill -9 $$")
        .end()
        .code(122);
    assert_eq!(t.state("o122"), "unknown");
    t.idem("breaker api --trip --cooldown 1h").end().code(0);
    direct(&t, "--key o123", "--key b --breaker api", "true")
        .end()
        .code(123);
    assert_eq!(
        (t.state("o123").as_str(), class(&t, "o123").as_str()),
        ("failed", "safe")
    );
    t.idem("breaker api --reset").end().code(0);
    direct(&t, "--key o123", "--key b --breaker api", "true")
        .end()
        .code(0);
    let script = format!("echo x >> in; {}", gate("go"));
    let runs = t.run("--key r", &script).start();
    t.upto_lines("in", 1);
    direct(&t, "--key o120", "--key r --if-running refuse", &script)
        .end()
        .code(120);
    assert_eq!(t.state("o120"), "unknown");
    t.touch("go");
    runs.end().code(0);
    direct(&t, "--key o121", "--key r", "another")
        .end()
        .code(121);
    assert_eq!(class(&t, "o121"), "permanent");
    let lost = t.run("--key old", "exit 5").end();
    lost.code(5);
    direct(&t, "--key oreplay", "--key old", "exit 5")
        .end()
        .code(5);
    assert_eq!(class(&t, "oreplay"), "permanent");
}

#[test]
fn an_inner_wish_to_wait_is_kept_by_the_outer_retries() {
    let t = TestEnv::new();
    let inner =
        "echo retry-after=1 >> \"$IDEM_CONTROL\"; echo x >> n; test $(wc -l < n) -ge 2 || exit 9";
    let outer = "--key o --retries 2 --backoff const:10ms --jitter none";
    let done = direct(&t, outer, "--key i --retries 1", inner).end();
    done.code(0);
    assert_eq!(t.lines("n"), 2);
    let log = t.idem("log o").end().code(0).out_text();
    let waits: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("waiting"))
        .collect();
    assert_eq!(waits.len(), 1, "{log}");
    assert!(!waits[0].ends_with("waiting 10ms"), "{log}");
}
