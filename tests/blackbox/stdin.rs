//! Standard input: not a byte more is taken than the child reads.

use std::fs::File;

use crate::env::{TestEnv, gate};

#[test]
fn not_a_byte_too_many_is_read() {
    let t = TestEnv::new();
    t.write("f", "abcdef");
    assert_eq!(
        t.says("(idem run --key file -- head -c3; echo; cat) < f"),
        "abc\ndef"
    );
    assert_eq!(
        t.says("printf abcdef | (idem run --key pipe -- head -c3; echo; cat)"),
        "abc\ndef"
    );
}

#[test]
fn a_replay_a_refusal_and_a_wait_read_nothing() {
    let t = TestEnv::new();
    t.run("--key k", "cat").input("first\n").end().code(0);
    let line = "printf 'one\\ntwo\\n' | (idem run --key k -- sh -c cat; idem run --key k -- true 2>/dev/null; cat)";
    assert_eq!(t.says(line), "first\none\ntwo");
    let script = format!("echo x >> n; {}; echo out", gate("go"));
    let owner = t.run("--key r", &script).start();
    t.upto_lines("n", 1);
    t.write("script", &script);
    let waiter = t
        .bash(r#"printf 'left\n' | (idem run --key r -- sh -c "$(cat script)"; cat)"#)
        .start();
    t.touch("go");
    owner.end().code(0);
    waiter.end().code(0).out("out\nleft\n");
}

#[test]
fn a_loop_over_lines_keeps_its_lines() {
    let t = TestEnv::new();
    let line = r#"printf '1\n2\n3\n' | while read -r x; do idem run --key loop-$x -- sh -c "echo $x >> seen"; done"#;
    t.says(line);
    t.says(line);
    assert_eq!(t.words("seen"), "1 2 3");
}

#[test]
fn null_takes_nothing() {
    let t = TestEnv::new();
    let line = "printf '1\\n2\\n' | (idem run --key k --stdin null -- cat; cat)";
    assert_eq!(t.says(line), "1\n2");
    t.run("--key t --stdin null", "cat; echo end")
        .input("text")
        .end()
        .code(0)
        .out("end\n");
}

#[test]
fn inherited_input_reaches_the_child() {
    let t = TestEnv::new();
    let big = "0123456789abcdef".repeat(100_000);
    t.run("--key a", "cat")
        .input(big.as_str())
        .end()
        .code(0)
        .out(&big);
    t.run("--key b --stdin inherit", "wc -c")
        .input(big.as_str())
        .end()
        .code(0)
        .out("1600000\n");
    t.write("f", &big);
    let file = File::open(t.path("f")).expect("a file");
    t.run("--key c", "cat").stdin(file).end().code(0).out(&big);
}

#[test]
fn a_child_that_reads_nothing_is_no_trouble() {
    let t = TestEnv::new();
    let big = "x".repeat(1_000_000);
    t.run("--key a", "exit 3").input(big.as_str()).end().code(3);
    t.run("--key b --stdin buffer", "exit 3")
        .input(big.as_str())
        .end()
        .code(3);
}

#[test]
fn an_idle_pipe_hangs_nothing() {
    let t = TestEnv::new();
    let (read, write) = std::io::pipe().expect("a pipe");
    for (key, options) in [("a", ""), ("b", " --stdin null")] {
        let run = t.run(&format!("--key {key}{options}"), "echo out");
        run.stdin(read.try_clone().expect("a pipe"))
            .end()
            .code(0)
            .out("out\n");
    }
    drop(write);
}

#[test]
fn the_buffer_holds_all_of_it() {
    let t = TestEnv::new();
    let big = "0123456789\n".repeat(300_000);
    t.run("--key k --stdin buffer", "cat")
        .input(big.as_str())
        .end()
        .code(0)
        .out(&big);
    t.run("--key e --stdin buffer", "cat; echo end")
        .input("")
        .end()
        .code(0)
        .out("end\n");
}

#[test]
fn lines_arrive_while_the_writer_goes_on() {
    let t = TestEnv::new();
    let line = r#"{ echo one; upto grep -q one got; echo two; } | idem run --key k -- sh -c 'while read -r l; do echo $l >> got; done'"#;
    t.says(line);
    assert_eq!(t.words("got"), "one two");
}

#[test]
fn the_childs_input_is_the_callers_own_file() {
    let t = TestEnv::new();
    t.write("f", "a\nb\nc\n");
    let line = "exec 3< f; read -r first <&3; idem run --key k -- sh -c 'read -r x; echo $x' <&3; cat <&3 | wc -l";
    let said = t.says(line);
    assert!(said.starts_with("b\n"), "{said}");
}
