//! `--tty`: the child has a terminal for both streams, whatever the caller has.

use crate::env::{TestEnv, gate};
use crate::pty::{PROMPT, Pty};

/// Terminal output ends its lines with a carriage return; the tests do not care.
fn plain(text: &str) -> String {
    text.replace('\r', "")
}

#[test]
fn both_streams_are_a_terminal_and_one_stream() {
    let t = TestEnv::new();
    let script = "test -t 1 && echo out-tty; test -t 2 && echo err-tty >&2; echo last; exit 3";
    for _ in 0..2 {
        let done = t.run("--tty --key k", script).end();
        done.code(3);
        assert!(
            plain(&done.out_text()).contains("out-tty\nerr-tty\nlast\n"),
            "{done}"
        );
    }
    let done = t.run("--key n", "test -t 1 || echo no-tty").end();
    done.code(0).out("no-tty\n");
}

#[test]
fn the_order_is_exact() {
    let t = TestEnv::new();
    let script = "i=0; while [ $i -lt 200 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done";
    let wanted: String = (0..200).map(|i| format!("o{i}\ne{i}\n")).collect();
    for _ in 0..2 {
        let done = t.run("--tty --key k", script).end();
        assert!(plain(&done.code(0).out_text()) == wanted, "{done}");
    }
}

#[test]
fn a_program_that_colours_terminals_does() {
    let t = TestEnv::new();
    std::fs::create_dir(t.path("dir")).expect("a directory");
    let run = || {
        let ls = "ls -d --color=auto dir";
        t.run("--tty --key k", ls).env("TERM", "xterm").end()
    };
    let done = run();
    assert!(done.code(0).stdout.contains(&0x1b), "{done}");
    run().code(0).out(&done.stdout);
}

#[test]
fn piped_input_ends() {
    let t = TestEnv::new();
    let done = t
        .run("--tty --key k", "cat; echo end")
        .input("line\n")
        .end();
    assert_eq!(plain(&done.code(0).out_text()), "line\nend\n");
    t.run("--tty --key e", "cat; echo end").end().code(0);
}

#[test]
fn a_grandchild_that_holds_the_terminal_does_not_hold_the_caller() {
    let t = TestEnv::new();
    let done = t.run("--tty --key k", "sleep 300 & echo hi; exit 3").end();
    assert_eq!(plain(&done.code(3).out_text()), "hi\n");
}

#[test]
fn a_large_output_is_whole() {
    let t = TestEnv::new();
    let script = "i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done";
    let done = t.run("--tty --key k", script).end();
    assert_eq!(plain(&done.code(0).out_text()).len(), 220_000);
}

#[test]
fn the_window_has_the_callers_size_and_follows_it() {
    let t = TestEnv::new();
    let mut pty = Pty::shell(&t, "bash");
    pty.resize(33, 111);
    let script = format!(
        "#!/bin/sh\nstty size <&1; trap 'stty size <&1' WINCH; echo up-$((40+2)); {}; echo out-$((50+1))\n",
        gate("go")
    );
    t.script("size", script);
    pty.line("$IDEM run --tty --key k -- ./size");
    pty.expect("33 111");
    pty.expect("up-42");
    pty.resize(44, 122);
    pty.expect("44 122");
    t.touch("go");
    pty.expect("out-51");
    pty.expect(PROMPT);
}

#[test]
fn control_c_and_the_end_of_input_work() {
    let t = TestEnv::new();
    let mut pty = Pty::shell(&t, "bash");
    let before = pty.modes();
    pty.line("$IDEM run --tty --key k -- sed 's/^/line-/'");
    t.upto_state("k", "running");
    pty.line("one");
    pty.expect("line-one");
    pty.control('d');
    pty.expect(PROMPT);
    assert_eq!(t.state("k"), "succeeded");
    pty.line("$IDEM run --tty --key c -- sh -c 'echo up-$((40+2)); exec sleep 300'");
    pty.expect("up-42");
    pty.control('c');
    pty.expect(PROMPT);
    t.upto_state("c", "unknown");
    assert_eq!(pty.modes(), before);
}

#[test]
fn json_stays_json() {
    let t = TestEnv::new();
    let json = t
        .run("--tty --json --key k", "echo out; echo err >&2")
        .end()
        .code(0)
        .json();
    assert_eq!(
        plain(json["stdout"].as_str().unwrap_or_default()),
        "out\nerr\n"
    );
}
