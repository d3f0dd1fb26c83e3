//! Check first, then confirm.

use crate::command::Cmd;
use crate::env::{TestEnv, text};

const APPLY: &str = "echo x >> n; echo applied";

fn hold(t: &TestEnv, key: &str, script: &str) -> Cmd {
    t.run(&format!("--key {key} --hold"), script)
}

#[test]
fn held_approved_run_once() {
    let t = TestEnv::new();
    let run = t
        .idem("run --key k --hold --preview")
        .args(["echo will-apply", "--", "sh", "-c", APPLY])
        .end();
    run.code(122).says("idem approve");
    assert_eq!((t.lines("n"), t.state("k").as_str()), (0, "held"));
    assert!(
        t.idem("status k")
            .end()
            .code(0)
            .out_text()
            .contains("will-apply")
    );
    assert_eq!(text(&t.status("k")["preview"]).trim_end(), "will-apply");
    hold(&t, "k", APPLY).end().code(122);
    t.run("--key k", APPLY).end().code(122);
    t.run("--key k --idempotent", APPLY).end().code(122);
    assert_eq!(t.lines("n"), 0);
    t.idem("approve k --yes").end().code(0);
    hold(&t, "k", "echo other").end().code(121);
    hold(&t, "k", APPLY).end().code(0).out("applied\n");
    hold(&t, "k", APPLY).end().code(0).out("applied\n");
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn rejected_is_refused() {
    let t = TestEnv::new();
    hold(&t, "k", APPLY).end().code(122);
    t.idem("reject k --yes").end().code(0);
    hold(&t, "k", APPLY).end().code(122);
    t.run("--key k", APPLY).end().code(122);
    assert_eq!(t.lines("n"), 0);
}

#[test]
fn an_approval_needs_a_terminal_or_a_yes() {
    let t = TestEnv::new();
    hold(&t, "k", APPLY).end().code(122);
    let done = t.idem("approve k").input("y\n").end();
    assert_ne!(done.code, 0, "{done}");
    assert_eq!(t.state("k"), "held");
    t.idem("approve nosuch --yes").end().code(1).one_line();
    t.idem("approve k --yes --generation 999999")
        .end()
        .one_line();
    hold(&t, "k", APPLY).end().code(122);
    assert_eq!(t.lines("n"), 0);
}

#[test]
fn a_failed_approved_run_needs_a_new_approval() {
    let t = TestEnv::new();
    let script = "echo x >> n; exit 3";
    hold(&t, "k", script).end().code(122);
    t.idem("approve k --yes").end().code(0);
    hold(&t, "k", script).end().code(3);
    t.run("--key k --hold --if-failed rerun", script)
        .end()
        .code(122);
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn another_directory_or_another_script_is_another_command() {
    let t = TestEnv::new();
    std::fs::create_dir(t.path("sub")).expect("a directory");
    t.script("apply", "#!/bin/sh\necho x >> n\n");
    t.idem("run --key k --hold -- ./apply").end().code(122);
    t.idem("approve k --yes").end().code(0);
    t.script("apply", "#!/bin/sh\necho x >> n; echo changed\n");
    t.idem("run --key k --hold -- ./apply").end().code(121);
    hold(&t, "d", APPLY).end().code(122);
    t.idem("approve d --yes").end().code(0);
    hold(&t, "d", APPLY).cwd(t.path("sub")).end().code(121);
    assert_eq!(t.lines("n"), 0);
}

#[test]
fn a_waiter_for_an_approval_gets_it() {
    let t = TestEnv::new();
    let waiter = t.run("--key k --hold --wait 50s", APPLY).start();
    t.upto_state("k", "held");
    t.idem("approve k --yes").end().code(0);
    waiter.end().code(0).out("applied\n");
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn what_another_command_left_half_done_is_cleaned_up_before_the_approved_one() {
    let t = TestEnv::new();
    t.run("--key k", "touch half; exit 3").end().code(3);
    let call = || {
        t.idem("run --key k --hold --cleanup")
            .args(["rm half; echo x >> cleaned", "--", "sh", "-c"])
            .arg("test ! -e half && echo applied")
    };
    call().end().code(122);
    t.idem("approve k --yes").end().code(0);
    call().end().code(0).out("applied\n");
    call().end().code(0).out("applied\n");
    assert_eq!(t.lines("cleaned"), 1);
}

#[test]
fn an_approval_pays_for_the_retries_of_one_execution() {
    let t = TestEnv::new();
    let script = "echo x >> n; test $(wc -l <n) = 3 || exit 75";
    let call = || t.run("--key k --hold --retries 2 --backoff const:1ms", script);
    call().end().code(122);
    t.idem("approve k --yes").end().code(0);
    call().end().code(0);
    assert_eq!(t.lines("n"), 3);
    let never = "echo x >> m; exit 75";
    let call = || t.run("--key l --hold --retries 2 --backoff const:1ms", never);
    call().end().code(122);
    t.idem("approve l --yes").end().code(0);
    call().end().code(75);
    call().end().code(122);
    assert_eq!(t.lines("m"), 3);
}
