//! The line that says what a call waits for, on a terminal.

use crate::env::{TestEnv, gate};
use crate::pty::{PROMPT, Pty};

#[test]
fn a_waiter_on_a_terminal_says_at_once_what_it_waits_for() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; echo out-$((50+1))", gate("go"));
    t.write("script", &script);
    let owner = t.run("--key k", &script).start();
    t.upto_lines("n", 1);
    let mut pty = Pty::shell(&t, "bash");
    pty.line("$IDEM run --key k -- sh -c \"$(cat script)\"");
    pty.expect("waiting for");
    t.touch("go");
    owner.end().code(0);
    pty.expect("out-51");
    pty.expect(PROMPT);
}

#[test]
fn a_waiter_that_is_interrupted_leaves_no_line_behind() {
    let t = TestEnv::new();
    t.write("script", format!("echo x >> n; {}", gate("go")));
    let owner = t
        .bash(r#"idem run --key l -- sh -c "$(cat script)""#)
        .start();
    t.upto_lines("n", 1);
    let mut pty = Pty::shell(&t, "bash");
    for call in ["run --key l -- sh -c \"$(cat script)\"", "wait l"] {
        pty.line(&format!("$IDEM {call}; echo ended-$?"));
        pty.expect("waiting for l: running");
        pty.control('c');
        pty.expect(PROMPT);
    }
    pty.still_works();
    let screen = pty.screen();
    assert!(!screen.text().contains("waiting for"), "{screen}");
    t.touch("go");
    owner.end().code(0);
}

#[test]
fn a_retry_pause_is_told_below_the_output_and_goes() {
    let t = TestEnv::new();
    let mut pty = Pty::shell(&t, "bash");
    t.write("script", "printf part-$((6*7)); exit 75");
    pty.line("$IDEM run -k k -r 1 --backoff const:10m --jitter none -- sh script");
    pty.expect("waiting for k: attempt 2 in ");
    let screen = pty.screen();
    let shown = screen.unwrapped().text();
    assert!(
        shown.contains("\npart-42\nidem: waiting for k: attempt 2 in 10m"),
        "{shown}"
    );
    assert!(shown.contains(", after exit code 75"), "{shown}");
    pty.control('c');
    pty.expect(PROMPT);
    pty.still_works();
    let shown = pty.screen().text();
    assert!(shown.contains("\npart-42\n"), "{shown}");
    assert!(!shown.contains("waiting for"), "{shown}");
}

#[test]
fn a_probe_and_the_pause_before_it_is_asked_again_are_told() {
    let t = TestEnv::new();
    let mut pty = Pty::shell(&t, "bash");
    let ask = format!(
        "{}; test -e done || exit 75; echo found-$((50+1))",
        gate("go")
    );
    t.write("ask", ask);
    pty.line(
        "$IDEM run --key k --probe 'sh ask' --backoff const:1h --jitter none -- sh -c 'kill -9 $$'",
    );
    pty.expect("waiting for k: probe running");
    t.touch("go");
    pty.expect("waiting for k: probe asked again in 1h");
    pty.control('c');
    pty.expect(PROMPT);
    t.touch("done");
    pty.line("$IDEM run --key k --probe 'sh ask' -- sh -c 'kill -9 $$'");
    pty.expect("found-51");
    pty.expect(PROMPT);
    let shown = pty.screen().text();
    assert!(!shown.contains("waiting for"), "{shown}");
}

#[test]
fn a_permit_is_waited_for_in_a_row_that_goes() {
    let t = TestEnv::new();
    let holder = t
        .run(
            "--key a --bulkhead db=1",
            &format!("echo x >> n; {}", gate("go")),
        )
        .start();
    t.upto_lines("n", 1);
    let mut pty = Pty::shell(&t, "bash");
    pty.line("$IDEM run --key b --bulkhead db=1 -- echo got-$((50+1))");
    pty.expect("waiting for one of 1 permits of db");
    t.touch("go");
    pty.expect("got-51");
    pty.expect(PROMPT);
    holder.end().code(0);
    let shown = pty.screen().text();
    assert!(!shown.contains("waiting for"), "{shown}");
}

#[test]
fn the_hint_of_an_approval_fits_into_its_row() {
    let t = TestEnv::new();
    let key = "deploy-of-the-shop-to-prod-123";
    let mut pty = Pty::shell(&t, "bash");
    pty.line(&format!("$IDEM run -k {key} --hold --wait 50s -- true"));
    pty.expect(&format!("waiting for `idem approve {key}`, held"));
    pty.screen().unwrapped();
    let long = format!("{key}-and-more");
    t.run(&format!("--key {long} --hold"), "true")
        .end()
        .code(122);
    let mut other = Pty::shell(&t, "bash");
    other.line(&format!("$IDEM run -k {long} --hold -- sh -c true"));
    other.expect(PROMPT);
    other.line(&format!("$IDEM run -k {long} --wait 50s -- sh -c true"));
    other.expect("waiting for approval: `idem status --state held`, held");
    t.idem(&format!("approve {key} --yes")).end().code(0);
    pty.expect(PROMPT);
    let shown = pty.screen().text();
    assert!(!shown.contains("waiting for"), "{shown}");
    assert_eq!(t.state(key), "succeeded");
}

#[test]
fn a_quiet_call_has_no_line() {
    let t = TestEnv::new();
    let mut pty = Pty::shell(&t, "bash");
    let shown =
        pty.run("$IDEM run -q --key k --retries 1 --backoff const:1s --jitter none -- false");
    assert!(!shown.contains("waiting for"), "{shown}");
}
