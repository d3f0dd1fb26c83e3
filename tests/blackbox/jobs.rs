//! Job control beyond the plain cases: who may have the terminal, what stops whom, and `--tty` in a
//! shell's job.

use crate::env::{TestEnv, gate, upto};
use crate::procs;
use crate::pty::{PROMPT, Pty};

const SHELLS: [&str; 2] = ["bash", "dash"];

/// Reads one line from the terminal and tells what it got.
const ASK: &str = "printf 'name-%s? ' 1 >/dev/tty; read -r x </dev/tty; echo \"got-$x-$?\"";

/// A world with a script `outer` that runs `command` under idem and goes on after it.
fn outer(t: &TestEnv, shell: &str, options: &str, command: &str) {
    t.script("inner", format!("#!/bin/sh\n{command}\n"));
    t.script(
        "outer",
        format!(
            "#!/usr/bin/env {shell}\n\"$IDEM\" run --key k {options} -- ./inner\necho after-$?-\n"
        ),
    );
}

/// A world with `inner`, which says that it is up and then waits for the file `go`.
fn working(t: &TestEnv, first: &str) {
    let work = format!(
        "{first}; echo up-$((40+2)); {}; echo out-$((50+1))",
        gate("go")
    );
    t.script("inner", format!("#!/bin/sh\n{work}\n"));
}

#[track_caller]
fn upto_child(t: &TestEnv, what: &str, holds: fn(i32) -> bool) -> i32 {
    let child = t.child("k");
    upto(what, || holds(child));
    child
}

fn runs(pid: i32) -> bool {
    procs::alive(pid) && !procs::stopped(pid)
}

/// The front below a shell that runs a script, or the shell's own job.
fn front_below(pid: i32) -> i32 {
    let mut front = 0;
    upto("the front is there", || {
        let found = procs::children(pid);
        front = found.first().copied().unwrap_or(0);
        front != 0
    });
    front
}

#[test]
fn a_child_that_ignores_the_stop_key_is_not_left_behind() {
    for shell in SHELLS {
        let t = TestEnv::new();
        working(&t, "trap '' TSTP");
        let mut pty = Pty::shell(&t, shell);
        pty.line("$IDEM run --key k -- ./inner; echo code-$?-");
        pty.expect("up-42");
        for _ in 0..2 {
            pty.control('z');
            pty.expect("^Z");
        }
        t.touch("go");
        pty.expect("out-51");
        let shown = pty.expect("code-0-");
        assert!(!shown.contains("Stopped"), "{shown}");
        pty.expect(PROMPT);
    }
}

#[test]
fn a_child_that_stops_itself_stops_the_job() {
    for shell in SHELLS {
        let t = TestEnv::new();
        t.script(
            "inner",
            "#!/bin/sh\necho up-$((40+2)); kill -STOP $$; echo out-$((50+1))\n",
        );
        let mut pty = Pty::shell(&t, shell);
        pty.line("$IDEM run --key k -- ./inner");
        pty.expect("up-42");
        pty.expect(PROMPT);
        upto_child(&t, "the child is stopped", procs::stopped);
        pty.line("fg");
        pty.expect("out-51");
        pty.expect(PROMPT);
        assert_eq!(t.state("k"), "succeeded");
    }
}

#[test]
fn a_child_that_stops_itself_can_be_continued_from_elsewhere() {
    for options in ["", "--tty"] {
        let t = TestEnv::new();
        outer(
            &t,
            "sh",
            options,
            "echo up-$((40+2)); kill -STOP $$; echo out-$((50+1))",
        );
        let mut pty = Pty::shell(&t, "bash");
        pty.line("./outer");
        pty.expect("up-42");
        let child = upto_child(&t, "the child is stopped", procs::stopped);
        procs::signal(child, libc::SIGCONT);
        pty.expect("out-51");
        pty.expect("after-0-");
        pty.expect(PROMPT);
    }
}

#[test]
fn a_timeout_ends_a_child_that_stopped_itself() {
    let t = TestEnv::new();
    let done = t
        .run("--key n --timeout 1s", "kill -STOP $$; echo late")
        .end();
    done.code(124).out("");
    for options in ["", "--tty"] {
        outer(
            &t,
            "sh",
            &format!("--if-unknown rerun --timeout 1s {options}"),
            "echo up-$((40+2)); kill -STOP $$",
        );
        let mut pty = Pty::shell(&t, "bash");
        pty.line("./outer");
        pty.expect("up-42");
        pty.expect("after-124-");
        pty.expect(PROMPT);
        pty.upto_shell_in_front();
    }
}

#[test]
fn a_timeout_ends_a_prompt_and_gives_the_terminal_back() {
    for shell in SHELLS {
        let t = TestEnv::new();
        outer(
            &t,
            shell,
            "--timeout 1s",
            &format!("stty -echo </dev/tty; {ASK}"),
        );
        let mut pty = Pty::shell(&t, shell);
        pty.line("stty -a >before; ./outer; stty -a >after");
        pty.expect("name-1? ");
        pty.expect("after-124-");
        pty.expect(PROMPT);
        pty.upto_shell_in_front();
        assert_eq!(t.read("before"), t.read("after"));
        assert!(pty.run("echo still-$((1+1))").contains("still-2"));
    }
}

#[test]
fn a_script_in_the_background_stops_as_a_whole_and_goes_on_in_the_foreground() {
    for shell in SHELLS {
        let t = TestEnv::new();
        outer(&t, shell, "", ASK);
        let mut pty = Pty::shell(&t, shell);
        pty.run("./outer &");
        pty.expect("name-1? ");
        upto_child(&t, "the child is stopped", procs::stopped);
        let script = procs::children(pty.pid())[0];
        upto("the script is stopped", || procs::stopped(script));
        assert_eq!(pty.foreground(), pty.pid());
        pty.run("bg");
        upto("the script is stopped again", || procs::stopped(script));
        assert_eq!(pty.foreground(), pty.pid());
        pty.line("fg");
        upto("the child has the terminal", || {
            pty.foreground() == t.child("k")
        });
        pty.line("ann");
        pty.expect("got-ann-0");
        pty.expect("after-0-");
        pty.expect(PROMPT);
    }
}

#[test]
fn nobody_waits_for_a_terminal_that_nobody_can_give() {
    let t = TestEnv::new();
    t.script("inner", format!("#!/bin/sh\n{ASK}\n"));
    let mut pty = Pty::shell(&t, "bash");
    // The shell in between is gone: its group cannot be put in the foreground by any shell.
    pty.run("(\"$IDEM\" run --key k -- ./inner >shown 2>&1 &)");
    t.upto_lines("shown", 1);
    t.upto_state("k", "succeeded");
    assert!(
        t.read("shown").contains("got--1\n") || t.read("shown").contains("got--2\n"),
        "{}",
        t.read("shown")
    );
    assert!(pty.run("echo still-$((1+1))").contains("still-2"));
}

#[test]
fn a_prompt_whose_caller_was_killed_fails_and_takes_no_keys() {
    for shell in SHELLS {
        let t = TestEnv::new();
        outer(&t, shell, "", &format!("trap '' HUP; {ASK} | tee end"));
        let mut pty = Pty::shell(&t, shell);
        pty.line("./outer");
        pty.expect("name-1? ");
        upto("the child has the terminal", || {
            pty.foreground() == t.child("k")
        });
        let front = front_below(procs::children(pty.pid())[0]);
        procs::signal(front, libc::SIGKILL);
        pty.expect("after-137-");
        pty.expect(PROMPT);
        pty.upto_shell_in_front();
        t.upto_lines("end", 1);
        assert!(!t.read("end").contains("-0\n"), "{}", t.read("end"));
        t.upto_state("k", "succeeded");
        for i in 0..3 {
            assert!(
                pty.run(&format!("echo still-$(({i}+1))"))
                    .contains(&format!("still-{}", i + 1))
            );
        }
    }
}

#[test]
fn a_stopped_job_whose_front_is_killed_works_on() {
    for shell in SHELLS {
        let t = TestEnv::new();
        working(&t, ":");
        let mut pty = Pty::shell(&t, shell);
        pty.line("$IDEM run --key k -- ./inner");
        pty.expect("up-42");
        let front = front_below(pty.pid());
        pty.control('z');
        pty.expect(PROMPT);
        upto_child(&t, "the child is stopped", procs::stopped);
        procs::signal(front, libc::SIGKILL);
        upto_child(&t, "the child goes on", runs);
        t.touch("go");
        t.upto_state("k", "succeeded");
    }
}

#[test]
fn a_child_that_stopped_itself_works_on_when_its_front_is_killed() {
    for options in ["", "--tty"] {
        let t = TestEnv::new();
        t.script("inner", "#!/bin/sh\necho up-$((40+2)); kill -STOP $$\n");
        let mut pty = Pty::shell(&t, "bash");
        pty.line(&format!("$IDEM run --key k {options} -- ./inner"));
        pty.expect("up-42");
        pty.expect(PROMPT);
        upto_child(&t, "the child is stopped", procs::stopped);
        procs::signal(front_below(pty.pid()), libc::SIGKILL);
        t.upto_state("k", "succeeded");
    }
}

#[test]
fn a_retry_after_a_prompt_whose_caller_was_killed_ends_too() {
    let t = TestEnv::new();
    outer(
        &t,
        "dash",
        "--retries 1 --backoff const:10ms",
        &format!("trap '' HUP; {{ {ASK}; }} >>ends; test $x"),
    );
    let mut pty = Pty::shell(&t, "dash");
    pty.line("./outer");
    pty.expect("name-1? ");
    upto("the child has the terminal", || {
        pty.foreground() == t.child("k")
    });
    procs::signal(front_below(procs::children(pty.pid())[0]), libc::SIGKILL);
    pty.expect("after-137-");
    pty.expect(PROMPT);
    pty.upto_shell_in_front();
    t.upto_state("k", "failed");
    assert_eq!(t.lines("ends"), 2, "{}", t.read("ends"));
    assert!(!t.read("ends").contains("-0\n"), "{}", t.read("ends"));
    pty.still_works();
}

#[test]
fn a_stop_between_two_attempts() {
    let t = TestEnv::new();
    t.script(
        "inner",
        "#!/bin/sh\necho x >> n; echo up-$(wc -l < n)-; test $(wc -l < n) = 2\n",
    );
    let mut pty = Pty::shell(&t, "bash");
    pty.line("$IDEM run --key k --retries 1 --backoff const:2s --jitter none -- ./inner");
    pty.expect("up-1-");
    pty.control('z');
    pty.expect("Stopped");
    pty.expect(PROMPT);
    assert_eq!(t.state("k"), "running");
    pty.line("fg");
    pty.expect("up-2-");
    pty.expect(PROMPT);
    assert_eq!(t.state("k"), "succeeded");
}

#[test]
fn a_member_of_the_childs_group_that_stops_late_goes_on() {
    let t = TestEnv::new();
    let late = "sh -c 'sleep 0.05; kill -STOP $$; echo late >>late' & ";
    t.script("inner", format!("#!/bin/sh\n{late}{ASK}; wait\n"));
    let mut pty = Pty::shell(&t, "bash");
    pty.line("$IDEM run --key k -- ./inner");
    pty.expect("name-1? ");
    t.upto_lines("late", 1);
    pty.line("tom");
    pty.expect("got-tom-0");
    pty.expect(PROMPT);
}

#[test]
fn another_process_of_the_job_gets_the_terminal_when_it_asks() {
    for shell in SHELLS {
        let t = TestEnv::new();
        t.script(
            "first",
            format!("#!/bin/sh\n{ASK}; {}; echo first-done\n", gate("go")),
        );
        t.script(
            "second",
            "#!/bin/sh\nread -r line; echo \"$line\"; printf 'second-%s? ' 1 >/dev/tty; read -r y </dev/tty
             touch go; echo \"second-got-$y\"; cat\n",
        );
        let mut pty = Pty::shell(&t, shell);
        pty.line("$IDEM run --key k -- ./first | ./second");
        pty.expect("name-1? ");
        pty.line("one");
        pty.expect("got-one-0");
        pty.expect("second-1? ");
        pty.line("two");
        pty.expect("second-got-two");
        pty.expect("first-done");
        pty.expect(PROMPT);
        pty.upto_shell_in_front();
    }
}

#[test]
fn idem_under_idem_hands_the_terminal_down() {
    for shell in SHELLS {
        let t = TestEnv::new();
        t.script("ask", format!("#!/bin/sh\n{ASK}\n"));
        t.script(
            "inner",
            "#!/bin/sh\n\"$IDEM\" run --key inner -- ./ask; echo inner-$?-\n",
        );
        let mut pty = Pty::shell(&t, shell);
        for _ in 0..2 {
            pty.line("$IDEM run --key k --if-unknown rerun -- ./inner; echo outer-$?-");
            pty.expect("name-1? ");
            pty.control('c');
            pty.expect(PROMPT);
            pty.upto_shell_in_front();
            t.upto_state("k", "unknown");
            t.command(crate::env::IDEM)
                .args(["forget", "--force", "inner"])
                .end()
                .code(0);
        }
        pty.line("$IDEM run --key k --if-unknown rerun -- ./inner; echo outer-$?-");
        pty.expect("name-1? ");
        pty.control('z');
        pty.expect(PROMPT);
        pty.upto_shell_in_front();
        pty.line("fg");
        upto("the inner child has the terminal", || {
            pty.foreground() == t.child("inner")
        });
        pty.line("ann");
        pty.expect("got-ann-0");
        pty.expect("inner-0-");
        pty.expect(PROMPT);
        pty.upto_shell_in_front();
        assert_eq!(t.state("k"), "succeeded");
    }
}

#[test]
fn a_child_hears_of_a_new_window_size() {
    let t = TestEnv::new();
    working(&t, "trap 'stty size </dev/tty' WINCH");
    let mut pty = Pty::shell(&t, "bash");
    pty.line("$IDEM run --key k -- ./inner");
    pty.expect("up-42");
    pty.resize(31, 97);
    pty.expect("31 97");
    t.touch("go");
    pty.expect("out-51");
    pty.expect(PROMPT);
}

#[test]
fn an_interactive_shell_under_idem_has_its_own_job_control() {
    for options in ["", "--tty"] {
        let t = TestEnv::new();
        let mut pty = Pty::shell(&t, "bash");
        pty.line(&format!("PS1='in''ner> ' $IDEM run --key k {options} -- bash --noprofile --norc --noediting -i; echo code-$?-"));
        pty.expect("inner> ");
        pty.line("sleep 300");
        upto("the sleep is in the foreground", || {
            procs::children(t.child("k"))
                .iter()
                .any(|pid| procs::command_line(*pid).starts_with("sleep"))
        });
        pty.control('z');
        pty.expect("Stopped");
        pty.expect("inner> ");
        pty.line("fg");
        pty.expect("sleep 300");
        upto("the sleep goes on", || {
            procs::children(t.child("k")).into_iter().all(runs)
        });
        pty.control('c');
        pty.expect("inner> ");
        pty.line("exit 7");
        pty.expect("code-7-");
        pty.expect(PROMPT);
        pty.upto_shell_in_front();
    }
}

#[test]
fn the_stop_key_works_with_a_terminal_of_the_childs_own() {
    for shell in SHELLS {
        let t = TestEnv::new();
        let mut pty = Pty::shell(&t, shell);
        t.script(
            "inner",
            "#!/bin/sh\nstty -echo; echo up-$((40+2)); while read -r x; do echo got-$x-; done\n",
        );
        let before = pty.modes();
        pty.line("$IDEM run --tty --key k -- ./inner");
        pty.expect("up-42");
        for i in 0..3 {
            pty.line(&format!("a{i}"));
            pty.expect(&format!("got-a{i}-"));
            pty.control('z');
            pty.expect(PROMPT);
            upto_child(&t, "the child is stopped", procs::stopped);
            pty.upto_shell_in_front();
            assert_eq!(pty.modes(), before);
            assert!(pty.run("echo still-$((1+1))").contains("still-2"));
            pty.line("fg");
            upto_child(&t, "the child goes on", runs);
        }
        pty.control('d');
        pty.expect(PROMPT);
        pty.upto_shell_in_front();
        assert_eq!((pty.modes(), t.state("k").as_str()), (before, "succeeded"));
    }
}

#[test]
fn the_keys_of_a_terminal_of_the_childs_own_make_signals() {
    for shell in SHELLS {
        let t = TestEnv::new();
        let command = "ulimit -c 0; echo up-$((40+2)); exec sleep 300";
        outer(&t, shell, "--tty", command);
        let mut pty = Pty::shell(&t, shell);
        let before = pty.modes();
        pty.line("./outer");
        pty.expect("up-42");
        pty.control('c');
        let shown = pty.expect(PROMPT);
        assert!(!shown.contains("after"), "{shell}: {shown}");
        t.upto_state("k", "unknown");
        pty.line("$IDEM run --tty --key q -- ./inner; echo code-$?-");
        pty.expect("up-42");
        pty.control('\\');
        pty.expect("code-131-");
        pty.expect(PROMPT);
        pty.upto_shell_in_front();
        assert_eq!(pty.modes(), before);
    }
}

#[test]
fn a_terminal_of_the_childs_own_in_the_background_takes_nothing() {
    for shell in SHELLS {
        let t = TestEnv::new();
        t.script(
            "inner",
            format!(
                "#!/bin/sh\necho up-$((40+2)); {}; read -r x; echo got-$x-\n",
                gate("go")
            ),
        );
        let mut pty = Pty::shell(&t, shell);
        let before = pty.modes();
        pty.run("$IDEM run --tty --key k -- ./inner &");
        pty.expect("up-42");
        t.touch("go");
        assert!(pty.run("echo still-$((1+1))").contains("still-2"));
        assert_eq!((pty.foreground(), pty.modes()), (pty.pid(), before));
        pty.line("fg");
        upto("the job is in the foreground", || {
            pty.foreground() != pty.pid()
        });
        pty.control('z');
        pty.expect(PROMPT);
        pty.line("fg");
        upto_child(&t, "the child goes on", runs);
        pty.line("bob");
        pty.expect("got-bob-");
        pty.expect(PROMPT);
    }
}

#[test]
fn the_callers_modes_come_back_when_idem_is_killed() {
    for (shell, keeper) in [
        ("bash", true),
        ("dash", true),
        ("bash", false),
        ("dash", false),
    ] {
        let t = TestEnv::new();
        outer(&t, shell, "--tty", "echo up-$((40+2)); exec sleep 300");
        let mut pty = Pty::shell(&t, shell);
        let before = pty.modes();
        pty.line("./outer");
        pty.expect("up-42");
        upto("the terminal is read key by key", || pty.modes() != before);
        let victim = if keeper {
            t.keeper("k")
        } else {
            front_below(procs::children(pty.pid())[0])
        };
        procs::signal(victim, libc::SIGKILL);
        pty.expect(if keeper { "after-122-" } else { "after-137-" });
        pty.expect(PROMPT);
        pty.upto_shell_in_front();
        // After the front's death it is the keeper's doing, which the shell does not wait for.
        upto("the modes are back", || pty.modes() == before);
        assert!(pty.run("echo still-$((1+1))").contains("still-2"));
    }
}

#[test]
fn input_of_the_childs_own_terminal_ends_with_its_caller() {
    let t = TestEnv::new();
    t.script(
        "inner",
        "#!/bin/sh\necho up-$((40+2)); cat >taken; echo end\n",
    );
    let mut pty = Pty::shell(&t, "bash");
    pty.line("$IDEM run --tty --key k -- ./inner");
    pty.expect("up-42");
    pty.line("one");
    t.upto_lines("taken", 1);
    procs::signal(front_below(pty.pid()), libc::SIGKILL);
    t.upto_state("k", "succeeded");
    assert_eq!(t.read("taken"), "one\n");
}

#[test]
fn the_callers_terminal_is_there_for_prompts_when_input_is_a_pipe() {
    let t = TestEnv::new();
    t.script("inner", format!("#!/bin/sh\ncat >taken; {ASK}\n"));
    let mut pty = Pty::shell(&t, "bash");
    pty.line("echo da-$((1+1))-ta | $IDEM run --tty --key k -- ./inner");
    pty.expect("name-1? ");
    pty.line("eve");
    pty.expect("got-eve-0");
    pty.expect(PROMPT);
    pty.upto_shell_in_front();
    assert_eq!(t.read("taken"), "da-2-ta\n");
}

#[test]
fn a_terminal_without_a_caller_on_one_has_a_usual_size() {
    let t = TestEnv::new();
    let done = t.run("--tty --key k", "stty size <&1").end();
    assert_eq!(done.code(0).out_text(), "24 80\r\n");
}

#[test]
fn a_daemon_outlives_the_terminal_of_its_command() {
    let t = TestEnv::new();
    let daemon =
        "(while ! test -e go; do sleep 0.02; done; echo more; echo on; echo x >> n) & echo hi";
    t.run("--tty --key k", daemon).end().code(0).out("hi\r\n");
    t.touch("go");
    t.upto_lines("n", 1);
    t.upto_quiet();
}
