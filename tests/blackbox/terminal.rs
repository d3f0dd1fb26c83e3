//! On a real terminal idem behaves like any job of the shell.

use std::time::Duration;

use crate::env::{TestEnv, gate, upto};
use crate::procs;
use crate::pty::{PROMPT, Pty};

const SHELLS: [&str; 2] = ["bash", "dash"];

/// A world with a program `ask` that reads a name from the terminal itself, as a password prompt does.
fn asking() -> TestEnv {
    let t = TestEnv::new();
    t.script("ask", "#!/bin/sh\nprintf 'name-%s? ' 1 >/dev/tty; read -r x </dev/tty; echo \"got-$x\"; echo x >> n\n");
    t.script(
        "secret",
        "#!/bin/sh\nold=$(stty -g </dev/tty); stty -echo </dev/tty; printf 'secret-%s? ' 1 >/dev/tty
         read -r x </dev/tty; stty \"$old\" </dev/tty; echo; echo \"len-${#x}\"\n",
    );
    t
}

/// A program `work` that says when it is up and waits, without a child of its own, until the test lets it go.
fn working(t: &TestEnv) {
    t.fifo("go");
    t.script(
        "work",
        "#!/bin/sh\necho up-$((40+2)); read -r x <go; echo out-$((50+1))\n",
    );
}

/// A script for a shell that runs one command under idem and says when it goes on after it.
fn wrapper(t: &TestEnv, shell: &str, name: &str, command: &str) {
    t.script(name, format!("#!/usr/bin/env {shell}\n\"$IDEM\" run --key k -- {command}\necho after-$?-; touch went-on\n"));
}

/// The stopped or running child's PID.
fn child_in(t: &TestEnv, state: fn(i32) -> bool) -> i32 {
    let child = t.child("k");
    upto("the child's state", || state(child));
    child
}

#[test]
fn a_child_asks_at_the_terminal() {
    for shell in SHELLS {
        let t = asking();
        let mut pty = Pty::shell(&t, shell);
        pty.line("$IDEM run --key k -- ./ask");
        pty.expect("name-1? ");
        pty.line("bob");
        pty.expect("got-bob");
        pty.expect(PROMPT);
        pty.upto_shell_in_front();
        assert!(pty.run("$IDEM run --key k -- ./ask").contains("got-bob"));
        assert_eq!(t.lines("n"), 1);
    }
}

#[test]
fn a_child_asks_from_inside_a_script() {
    for shell in SHELLS {
        let t = asking();
        wrapper(&t, shell, "outer", "./ask");
        let mut pty = Pty::shell(&t, shell);
        pty.line("./outer");
        pty.expect("name-1? ");
        pty.line("eve");
        pty.expect("got-eve");
        pty.expect("after-0-");
        pty.expect(PROMPT);
        pty.upto_shell_in_front();
    }
}

#[test]
fn a_password_prompt_hides_what_is_typed() {
    let t = asking();
    wrapper(&t, "dash", "outer", "./secret");
    let mut pty = Pty::shell(&t, "bash");
    for command in ["$IDEM run --key s -- ./secret", "./outer"] {
        let before = pty.modes();
        pty.line(command);
        pty.expect("secret-1? ");
        pty.line("hunter2");
        let shown = pty.expect("len-7");
        assert!(!shown.contains("hunter2"), "{shown}");
        pty.expect(PROMPT);
        assert_eq!(pty.modes(), before);
    }
}

#[test]
fn a_child_reads_the_terminal_as_its_input() {
    let t = TestEnv::new();
    let mut pty = Pty::shell(&t, "bash");
    pty.line("$IDEM run --key k -- sed -u 's/^/line-/'");
    t.upto_state("k", "running");
    pty.line("one");
    pty.expect("line-one");
    pty.line("two");
    pty.expect("line-two");
    pty.control('d');
    pty.expect(PROMPT);
    assert_eq!(t.state("k"), "succeeded");
}

#[test]
fn control_c_aborts_a_script() {
    for shell in SHELLS {
        let t = TestEnv::new();
        wrapper(
            &t,
            shell,
            "outer",
            "sh -c 'echo up-$((40+2)); exec sleep 300'",
        );
        let mut pty = Pty::shell(&t, shell);
        pty.line("./outer");
        pty.expect("up-42");
        pty.control('c');
        let shown = pty.expect(PROMPT);
        assert!(!shown.contains("after"), "{shell}: {shown}");
        assert!(
            !t.path("went-on").exists(),
            "{shell} went on with the script"
        );
        t.upto_state("k", "unknown");
        pty.still_works();
    }
}

#[test]
fn control_c_at_a_prompt_aborts_a_script() {
    for shell in SHELLS {
        let t = asking();
        wrapper(&t, shell, "outer", "./ask");
        let mut pty = Pty::shell(&t, shell);
        pty.line("./outer");
        pty.expect("name-1? ");
        pty.control('c');
        let shown = pty.expect(PROMPT);
        assert!(!shown.contains("after"), "{shell}: {shown}");
        assert!(
            !t.path("went-on").exists(),
            "{shell} went on with the script"
        );
        t.upto_state("k", "unknown");
        pty.upto_shell_in_front();
        pty.still_works();
    }
}

#[test]
fn control_c_reaches_the_child_once() {
    let t = TestEnv::new();
    let script = format!(
        "#!/bin/sh\ntrap 'echo hit >> hits' INT; echo up-$((40+2)); {}; exit 5\n",
        gate("go")
    );
    t.script("count", script);
    let mut pty = Pty::shell(&t, "bash");
    pty.line("$IDEM run --key k -- ./count; echo code-$?-");
    pty.expect("up-42");
    for i in 1..=3 {
        pty.control('c');
        t.upto_lines("hits", i);
    }
    t.touch("go");
    pty.expect("code-5-");
    assert_eq!(t.lines("hits"), 3);
}

#[test]
fn control_backslash_quits() {
    let t = TestEnv::new();
    let mut pty = Pty::shell(&t, "bash");
    pty.line("$IDEM run --key k -- sh -c 'ulimit -c 0; echo up-$((40+2)); exec sleep 300'");
    pty.expect("up-42");
    pty.control('\\');
    pty.expect(PROMPT);
    assert!(pty.run("echo code-$?-").contains("code-131-"));
    t.upto_state("k", "unknown");
}

#[test]
fn control_z_stops_the_job_and_fg_goes_on() {
    for shell in SHELLS {
        let t = TestEnv::new();
        let mut pty = Pty::shell(&t, shell);
        working(&t);
        pty.line("$IDEM run --key k -- ./work");
        pty.expect("up-42");
        pty.control('z');
        pty.expect(PROMPT);
        child_in(&t, procs::stopped);
        pty.upto_shell_in_front();
        pty.still_works();
        pty.line("fg");
        child_in(&t, |pid| procs::alive(pid) && !procs::stopped(pid));
        t.open_fifo("go");
        pty.expect("out-51");
        pty.expect(PROMPT);
        assert_eq!(t.state("k"), "succeeded");
    }
}

#[test]
fn control_z_and_bg_leave_the_terminal_to_the_shell() {
    for shell in SHELLS {
        let t = TestEnv::new();
        let mut pty = Pty::shell(&t, shell);
        working(&t);
        pty.line("$IDEM run --key k -- ./work");
        pty.expect("up-42");
        pty.control('z');
        pty.expect(PROMPT);
        pty.run("bg");
        child_in(&t, |pid| procs::alive(pid) && !procs::stopped(pid));
        pty.still_works();
        assert_eq!(pty.foreground(), pty.pid());
        t.open_fifo("go");
        pty.expect("out-51");
        t.upto_state("k", "succeeded");
    }
}

/// Stops a child that asks at the terminal with Ctrl-Z, and brings it back.
fn stop_while_asking(shell: &str, wait_for_the_child: bool) {
    let t = asking();
    let mut pty = Pty::shell(&t, shell);
    pty.line("$IDEM run --key k -- ./ask");
    pty.expect("name-1? ");
    if wait_for_the_child {
        let child = t.child("k");
        upto("the child reads the terminal", || {
            pty.foreground() == child && procs::state(child) == Some('S')
        });
    }
    pty.control('z');
    pty.expect(PROMPT);
    pty.upto_shell_in_front();
    child_in(&t, procs::stopped);
    pty.still_works();
    pty.line("fg");
    child_in(&t, |pid| procs::alive(pid) && !procs::stopped(pid));
    pty.line("ann");
    pty.expect("got-ann");
    pty.expect(PROMPT);
    assert_eq!(t.state("k"), "succeeded");
}

#[test]
fn control_z_while_the_child_has_the_terminal() {
    for shell in SHELLS {
        stop_while_asking(shell, true);
    }
}

#[test]
fn control_z_while_the_child_is_about_to_get_the_terminal() {
    for shell in [SHELLS, SHELLS].concat() {
        stop_while_asking(shell, false);
    }
}

#[test]
fn control_z_twice() {
    let t = TestEnv::new();
    let mut pty = Pty::shell(&t, "bash");
    working(&t);
    pty.line("$IDEM run --key k -- ./work");
    pty.expect("up-42");
    for _ in 0..3 {
        pty.control('z');
        pty.expect(PROMPT);
        child_in(&t, procs::stopped);
        pty.line("fg");
        child_in(&t, |pid| procs::alive(pid) && !procs::stopped(pid));
    }
    t.open_fifo("go");
    pty.expect("out-51");
    pty.expect(PROMPT);
}

#[test]
fn timers_pause_while_the_job_is_stopped() {
    let t = TestEnv::new();
    let mut pty = Pty::shell(&t, "bash");
    working(&t);
    pty.line("$IDEM run --key k --timeout 10s --deadline 11s -- ./work");
    pty.expect("up-42");
    pty.control('z');
    pty.expect(PROMPT);
    child_in(&t, procs::stopped);
    // The time itself is what is tested: longer than both limits.
    std::thread::sleep(Duration::from_secs(13));
    assert_eq!(t.state("k"), "running");
    pty.line("fg");
    t.open_fifo("go");
    pty.expect("out-51");
    pty.expect(PROMPT);
    assert_eq!(t.state("k"), "succeeded");
}

#[test]
fn a_background_job_steals_nothing() {
    for shell in SHELLS {
        let t = asking();
        let mut pty = Pty::shell(&t, shell);
        pty.run("$IDEM run --key k -- ./ask &");
        pty.expect("name-1? ");
        let front = pty.pid();
        child_in(&t, procs::stopped);
        for i in 0..5 {
            let shown = pty.run(&format!("echo still-$(({i}+1))"));
            assert!(shown.contains(&format!("still-{}", i + 1)), "{shown}");
            assert_eq!(pty.foreground(), front);
        }
        pty.line("fg");
        child_in(&t, |pid| procs::alive(pid) && !procs::stopped(pid));
        pty.line("joe");
        pty.expect("got-joe");
        pty.expect(PROMPT);
        assert_eq!(t.lines("n"), 1);
    }
}

#[test]
fn a_background_job_that_asks_nothing_just_runs() {
    let t = TestEnv::new();
    let mut pty = Pty::shell(&t, "bash");
    t.script(
        "work",
        format!("#!/bin/sh\n{}; echo out-$((50+1)); exit 3\n", gate("go")),
    );
    pty.run("$IDEM run --key k -- ./work &");
    pty.control('c');
    pty.expect(PROMPT);
    t.touch("go");
    pty.expect("out-51");
    t.upto_state("k", "failed");
}

#[test]
fn the_terminal_comes_back_when_a_child_with_odd_modes_is_killed() {
    for (shell, end) in [
        ("bash", "kill -9 $$"),
        ("dash", "kill -9 $$"),
        ("bash", "kill -SEGV $$"),
        ("dash", "exit 3"),
    ] {
        let t = TestEnv::new();
        t.script(
            "odd",
            format!(
                "#!/bin/sh\nulimit -c 0; stty -echo -icanon </dev/tty; echo odd-$((40+2)); {end}\n"
            ),
        );
        t.script(
            "outer",
            "#!/bin/sh\nstty -g > before\n\"$IDEM\" run --key k -- ./odd\nstty -g > after\n",
        );
        let mut pty = Pty::shell(&t, shell);
        pty.line("./outer");
        pty.expect("odd-42");
        pty.expect(PROMPT);
        pty.upto_shell_in_front();
        assert_eq!(t.read("after"), t.read("before"), "{shell}: {end}");
        assert!(!t.read("before").is_empty());
    }
}

#[test]
fn the_terminal_comes_back_when_idem_is_killed() {
    for (shell, keeper) in [
        ("bash", true),
        ("dash", true),
        ("bash", false),
        ("dash", false),
    ] {
        let t = asking();
        let mut pty = Pty::shell(&t, shell);
        t.script(
            "outer",
            "#!/bin/sh\necho $$ > outer.pid; \"$IDEM\" run --key k -- ./ask\necho after-$?-\n",
        );
        pty.line("./outer");
        pty.expect("name-1? ");
        let victim = if keeper {
            t.keeper("k")
        } else {
            let outer: i32 = t.read("outer.pid").trim().parse().expect("a pid");
            *procs::children(outer).first().expect("the front")
        };
        let child = t.child("k");
        procs::signal(victim, libc::SIGKILL);
        pty.expect(if keeper { "after-122-" } else { "after-137-" });
        pty.expect(PROMPT);
        pty.upto_shell_in_front();
        upto("the child's read has failed", || !procs::alive(child));
        pty.still_works();
    }
}

#[test]
fn a_vanished_terminal_loses_no_result() {
    for (shell, options) in [("bash", ""), ("dash", ""), ("bash", "--tty")] {
        let t = TestEnv::new();
        let script = format!("echo x >> n; {}; echo late", gate("go"));
        t.write("script", &script);
        let mut pty = Pty::shell(&t, shell);
        pty.line(&format!(
            "$IDEM run --key k {options} -- sh -c \"$(cat script)\""
        ));
        t.upto_lines("n", 1);
        let (keeper, leader) = (t.keeper("k"), pty.pid());
        pty.vanish();
        upto("the shell is gone", || !procs::alive(leader));
        assert!(procs::alive(keeper));
        t.touch("go");
        let done = t.run("--key k", &script).end();
        assert_eq!(done.code(0).out_text().replace('\r', ""), "late\n");
        assert_eq!(t.lines("n"), 1);
    }
}

#[test]
fn a_terminal_that_vanishes_while_the_job_is_stopped_loses_no_result() {
    for shell in SHELLS {
        let t = TestEnv::new();
        let mut pty = Pty::shell(&t, shell);
        working(&t);
        pty.line("$IDEM run --key k -- ./work");
        pty.expect("up-42");
        pty.control('z');
        pty.expect(PROMPT);
        let child = child_in(&t, procs::stopped);
        pty.vanish();
        upto("the child goes on", || {
            procs::alive(child) && !procs::stopped(child)
        });
        t.open_fifo("go");
        t.upto_state("k", "succeeded");
    }
}

#[test]
fn a_terminal_that_vanishes_at_a_prompt_ends_in_a_known_state() {
    let t = asking();
    let mut pty = Pty::shell(&t, "bash");
    pty.line("$IDEM run --key k -- ./ask");
    pty.expect("name-1? ");
    pty.vanish();
    t.upto_quiet();
    assert_ne!(t.state("k"), "running");
}

#[test]
fn a_pipeline_on_a_terminal_works() {
    let t = asking();
    let mut pty = Pty::shell(&t, "bash");
    pty.line("$IDEM run --key k -- ./ask | sed 's/^/through-/'");
    pty.expect("name-1? ");
    pty.line("pip");
    pty.expect("through-got-pip");
    pty.expect(PROMPT);
}

#[test]
fn a_table_may_be_coloured_on_a_terminal_but_not_against_the_users_wish() {
    let t = TestEnv::new();
    t.run("--key k", "exit 3").end().code(3);
    let mut pty = Pty::shell(&t, "bash");
    let shown = pty.run("NO_COLOR=1 $IDEM status");
    assert!(
        shown.contains("failed") && !shown.contains('\u{1b}'),
        "{shown}"
    );
}
