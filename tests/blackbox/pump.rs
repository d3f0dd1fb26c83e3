//! Standard input of a command that may run more than once.

use std::time::Duration;

use crate::env::{TestEnv, gate};
use crate::procs;

const RETRIES: &str = "--retries 2 --backoff const:10ms";

#[test]
fn every_attempt_reads_it_from_the_start() {
    let t = TestEnv::new();
    let input = "one\ntwo\n".repeat(50_000);
    let script = "cat > got-$IDEM_ATTEMPT; exit 1";
    t.run(&format!("--key k {RETRIES}"), script)
        .input(input.as_str())
        .end()
        .code(1);
    for attempt in 1..=3 {
        assert!(
            t.read(&format!("got-{attempt}")) == input,
            "attempt {attempt} got something else"
        );
    }
}

#[test]
fn an_attempt_that_reads_a_part_leaves_all_to_the_next() {
    let t = TestEnv::new();
    let script = "head -c $IDEM_ATTEMPT >> got; echo >> got; exit 1";
    t.run(&format!("--key k {RETRIES}"), script)
        .input("abcdef")
        .end()
        .code(1);
    assert_eq!(t.words("got"), "a ab abc");
}

#[test]
fn an_idle_pipe_hangs_no_attempt() {
    let t = TestEnv::new();
    let (read, write) = std::io::pipe().expect("a pipe");
    let run = t.run(&format!("--key k {RETRIES}"), "echo x >> n; exit 1");
    run.stdin(read).end().code(1);
    assert_eq!(t.lines("n"), 3);
    drop(write);
}

#[test]
fn no_attempt_waits_for_the_inputs_end() {
    let t = TestEnv::new();
    let line = format!(
        "{{ echo early; upto test -e second; echo late; }} | idem run --key k {RETRIES} -- sh -c \
         'read -r x; echo $x >> got; test $IDEM_ATTEMPT = 1 && exit 1; touch second; read -r y; echo $y >> got'"
    );
    t.says(&line);
    assert_eq!(t.words("got"), "early early late");
}

#[test]
fn a_file_is_read_from_its_own_place_each_time() {
    let t = TestEnv::new();
    t.write("f", "one\ntwo\nthree\n");
    let line = format!(
        "exec 3< f; read -r first <&3; idem run --key k {RETRIES} -- sh -c 'cat >> got; exit 1' <&3; echo $first"
    );
    assert_eq!(t.says(&line), "one");
    assert_eq!(t.words("got"), "two three two three two three");
}

#[test]
fn empty_and_closed_input_stay_so() {
    let t = TestEnv::new();
    let script = "cat >> got; echo end >> got; exit 1";
    t.run(&format!("--key a {RETRIES}"), script)
        .input("")
        .end()
        .code(1);
    t.run(&format!("--key b {RETRIES}"), script).end().code(1);
    t.bash(&format!(
        "idem run --key c {RETRIES} -- sh -c 'echo end >> got; exit 1' <&-"
    ))
    .end()
    .code(1);
    assert_eq!(t.lines("got"), 9);
    assert!(!t.read("got").contains("cat"));
}

#[test]
fn a_writer_dies_of_a_broken_pipe_when_nobody_wants_its_input() {
    let t = TestEnv::new();
    let line = format!(
        "yes | idem run --key k {RETRIES} -- sh -c 'head -c 10 >/dev/null; exit 0'; echo ${{PIPESTATUS[0]}}"
    );
    let done = t.bash(&line).limit(Duration::from_secs(50)).end();
    done.code(0).out("141\n");
}

#[test]
fn a_gibibyte_goes_through_in_little_memory() {
    let t = TestEnv::new();
    let script = format!("wc -c > got; echo x >> n; {}", gate("go"));
    let mut source = std::process::Command::new("head")
        .args(["-c", "1073741824", "/dev/zero"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("head");
    let pipe = source.stdout.take().expect("a pipe");
    let run = t.run("--key k --retries 1", &script).stdin(pipe).start();
    t.upto_lines("n", 1);
    let peaks = [procs::peak_kib(t.keeper("k")), procs::peak_kib(run.pid())];
    t.touch("go");
    run.end().code(0);
    source.wait().expect("head");
    assert_eq!(t.words("got"), "1073741824");
    assert!(
        peaks.iter().all(|p| (1..16 * 1024).contains(p)),
        "{peaks:?} KiB"
    );
}

#[test]
fn the_kept_copy_is_nowhere_to_be_seen() {
    let t = TestEnv::new();
    let script = format!("cat > got; echo x >> n; {}; exit 1", gate("go"));
    t.write("f", "a secret word\n");
    let run = t
        .bash(&format!(
            "cat f | idem run --key k {RETRIES} -- sh -c '{script}'"
        ))
        .start();
    t.upto_lines("n", 1);
    let found = t
        .bash("grep -rlaF 'a secret word' \"$XDG_STATE_HOME\" \"$TMPDIR\"")
        .end();
    found.code(1).out("");
    t.touch("go");
    run.end().code(1);
}
