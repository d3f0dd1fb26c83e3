//! Signals: passed on once each, and the child's end is the caller's.

use crate::command::Running;
use crate::env::{TestEnv, gate, text, upto};
use crate::procs;

/// A child that counts the signals which it gets, until the test opens the gate.
fn counting(more: &str) -> String {
    format!(
        "for s in INT TERM QUIT USR1 USR2 HUP; do trap \"echo $s >> got\" $s; done; echo x >> n; {}; echo out; {more}",
        gate("go")
    )
}

fn started(t: &TestEnv, options: &str, script: &str) -> Running {
    let run = t.run(options, script).own_group().start();
    t.upto_lines("n", 1);
    run
}

const PASSED_ON: [(i32, &str); 5] = [
    (libc::SIGINT, "INT"),
    (libc::SIGTERM, "TERM"),
    (libc::SIGQUIT, "QUIT"),
    (libc::SIGUSR1, "USR1"),
    (libc::SIGUSR2, "USR2"),
];

#[test]
fn a_signal_to_the_front_reaches_the_child_once() {
    let t = TestEnv::new();
    let run = started(&t, "--key k", &counting("exit 3"));
    for (i, (signal, name)) in PASSED_ON.iter().enumerate() {
        run.signal(*signal);
        upto(name, || t.lines("got") == i + 1);
    }
    t.touch("go");
    run.end().code(3).out("out\n");
    assert_eq!(t.words("got"), "INT TERM QUIT USR1 USR2");
}

#[test]
fn a_signal_to_the_keeper_counts_as_passed_on_once() {
    let t = TestEnv::new();
    let run = started(&t, "--key k", &counting("exit 3"));
    let keeper = t.keeper("k");
    for (i, (signal, name)) in PASSED_ON.iter().enumerate() {
        procs::signal(keeper, *signal);
        upto(name, || t.lines("got") == i + 1);
    }
    assert!(procs::alive(keeper));
    t.touch("go");
    run.end().code(3).out("out\n");
    assert_eq!(t.words("got"), "INT TERM QUIT USR1 USR2");
    assert_eq!(t.state("k"), "unknown");
}

#[test]
fn a_signal_to_the_callers_group_reaches_the_child_once() {
    let t = TestEnv::new();
    let run = started(&t, "--key k", &counting("exit 3"));
    for (i, (signal, name)) in PASSED_ON.iter().enumerate() {
        procs::signal_group(run.pid(), *signal);
        upto(name, || t.lines("got") == i + 1);
    }
    t.touch("go");
    run.end().code(3);
    assert_eq!(t.words("got"), "INT TERM QUIT USR1 USR2");
}

#[test]
fn a_signal_reaches_the_childs_whole_group() {
    let t = TestEnv::new();
    let inner = "trap 'echo inner >> got; exit 0' TERM; echo x >> n; sleep 300 & wait";
    let script = format!(
        "sh -c \"{inner}\" & trap 'wait; echo outer >> got; exit 9' TERM; echo x >> n; wait; wait"
    );
    let run = t.run("--key k", &script).start();
    t.upto_lines("n", 2);
    run.signal(libc::SIGTERM);
    run.end().code(9);
    let mut got: Vec<String> = t.read("got").lines().map(str::to_owned).collect();
    got.sort();
    assert_eq!(got, ["inner", "outer"]);
}

#[test]
fn the_callers_code_after_a_signal_is_the_childs_own() {
    let t = TestEnv::new();
    let script = "trap 'echo bye; exit 40' TERM; echo x >> n; sleep 300 & wait";
    let run = started(&t, "--key k", script);
    run.signal(libc::SIGTERM);
    run.end().code(40).out("bye\n").says("unknown");
    assert_eq!(t.state("k"), "unknown");
    t.run("--key k", script).end().code(122);
}

#[test]
fn interrupted_is_never_a_success() {
    for (signal, code) in [
        (libc::SIGINT, 130),
        (libc::SIGTERM, 143),
        (libc::SIGQUIT, 131),
    ] {
        let t = TestEnv::new();
        let script = "trap 'exit 0' INT TERM QUIT; echo x >> n; sleep 300 & wait";
        let run = started(&t, "--key k", script);
        run.signal(signal);
        run.end().code(code).says("unknown");
        assert_eq!(t.state("k"), "unknown");
        assert_eq!(text(&t.status("k")["attempts"][0]["class"]), "uncertain");
    }
}

#[test]
fn a_user_signal_says_nothing_about_the_outcome() {
    let t = TestEnv::new();
    let run = started(&t, "--key k", &counting("exit 0"));
    run.signal(libc::SIGUSR1);
    upto("it arrives", || t.lines("got") == 1);
    t.touch("go");
    run.end().code(0).out("out\n");
    assert_eq!(t.state("k"), "succeeded");
}

#[test]
fn the_callers_process_dies_of_the_childs_signal() {
    for signal in [
        libc::SIGTERM,
        libc::SIGINT,
        libc::SIGKILL,
        libc::SIGUSR1,
        libc::SIGSEGV,
        libc::SIGABRT,
    ] {
        let t = TestEnv::new();
        let done = t
            .run("--key k", &format!("echo out; kill -{signal} $$"))
            .end();
        done.died_of(signal).out("out\n").says("unknown");
        assert_eq!(t.state("k"), "unknown");
        assert_eq!(t.status("k")["attempts"][0]["signal"], signal);
    }
}

#[test]
fn a_core_dumping_end_dumps_no_core_of_idem() {
    let t = TestEnv::new();
    let script = "ulimit -c unlimited; idem run --key k -- sh -c 'ulimit -c 0; kill -SEGV $$'; echo $?; ls | grep -c core";
    let done = t.bash(script).end();
    assert!(done.out_text().starts_with("139\n0\n"), "{done}");
}

#[test]
fn a_signal_ignored_on_entry_is_neither_caught_nor_passed_on() {
    for (signal, name) in PASSED_ON {
        let t = TestEnv::new();
        t.write("script", format!("echo x >> n; {}; echo out", gate("go")));
        let line = format!("trap '' {name}; exec \"$IDEM\" run --key k -- sh -c \"$(cat script)\"");
        let run = t.bash(&line).start();
        t.upto_lines("n", 1);
        let bit = 1u64 << (signal - 1);
        for pid in [run.pid(), t.keeper("k")] {
            let set = |field| {
                u64::from_str_radix(&procs::status_field(pid, field).unwrap_or_default(), 16)
                    .unwrap_or(0)
            };
            assert_ne!(set("SigIgn") & bit, 0, "{name} is not ignored by {pid}");
            assert_eq!(set("SigCgt") & bit, 0, "{name} is caught by {pid}");
        }
        run.signal(signal);
        procs::signal(t.keeper("k"), signal);
        t.touch("go");
        run.end().code(0).out("out\n");
        assert_eq!(t.state("k"), "succeeded");
    }
}

#[test]
fn an_ignored_child_signal_breaks_nothing() {
    let t = TestEnv::new();
    let ignore = || {
        // SAFETY: a plain system call in the new process.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        Ok(())
    };
    for _ in 0..2 {
        t.run("--key k", "echo x >> n; echo out; exit 5")
            .before(ignore)
            .end()
            .code(5)
            .out("out\n");
    }
    assert_eq!(t.lines("n"), 1);
    let done = t
        .run("--key t --timeout 500ms", "exec sleep 300")
        .before(ignore)
        .end();
    done.code(124);
}

#[test]
fn a_child_that_shrugs_the_signal_off_ends_as_it_likes_but_not_as_a_success() {
    let t = TestEnv::new();
    let script = format!(
        "trap 'echo shrug >> got' TERM; echo x >> n; {}; echo whole",
        gate("go")
    );
    let run = started(&t, "--key k", &script);
    run.signal(libc::SIGTERM);
    upto("it shrugs", || t.lines("got") == 1);
    t.touch("go");
    run.end().code(143).out("whole\n").says("unknown");
    assert_eq!(t.state("k"), "unknown");
}

#[test]
fn every_copy_of_a_repeated_signal_is_passed_on() {
    let t = TestEnv::new();
    let run = started(&t, "--key k", &counting("exit 1"));
    for i in 1..=5 {
        run.signal(libc::SIGTERM);
        t.upto_lines("got", i);
    }
    t.touch("go");
    run.end().code(1);
    assert_eq!(t.lines("got"), 5);
}

#[test]
fn a_stopped_and_continued_front_misses_nothing() {
    let t = TestEnv::new();
    let run = started(&t, "--key k", &counting("exit 0"));
    run.signal(libc::SIGSTOP);
    upto("it stops", || procs::stopped(run.pid()));
    t.touch("go");
    run.signal(libc::SIGCONT);
    run.end().code(0).out("out\n");
    assert_eq!(t.state("k"), "succeeded");
}

#[test]
fn a_signal_before_the_child_starts_is_not_lost() {
    let t = TestEnv::new();
    t.run("--key warm", "true").end().code(0);
    t.upto_quiet();
    let lock = t.lock_store();
    let run = t.run("--key k", "echo x >> n; sleep 300").start();
    upto("the keeper is there", || t.running().len() >= 2);
    run.signal(libc::SIGTERM);
    drop(lock);
    let done = run.end();
    assert_ne!(done.code, 0, "{done}");
    t.upto_quiet();
    assert!(t.lines("n") <= 1);
}
