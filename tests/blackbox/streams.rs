//! The caller's stdout and stderr, however odd they are.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::env::{TestEnv, gate, text, upto};

/// A pipe whose ends no other test's child inherits.
fn pipe() -> (File, File) {
    let mut ends = [0; 2];
    // SAFETY: pipe2 fills the array; each descriptor gets one owner.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        let owned = ends.map(|fd| OwnedFd::from_raw_fd(fd));
        let [read, write] = owned;
        (File::from(read), File::from(write))
    }
}

/// The status flags of an open file, shared by everyone who has it.
fn flags(file: &File) -> i32 {
    // SAFETY: F_GETFL on an open descriptor.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) }
}

fn set_non_blocking(file: &File) {
    // SAFETY: F_SETFL on an open descriptor.
    assert_eq!(
        unsafe {
            libc::fcntl(
                file.as_raw_fd(),
                libc::F_SETFL,
                flags(file) | libc::O_NONBLOCK,
            )
        },
        0
    );
}

#[test]
fn a_reader_that_leaves_early_changes_neither_the_run_nor_the_record() {
    let t = TestEnv::new();
    let script = format!(
        "echo a; {}; echo b; echo c; echo x >> n; exit 7",
        gate("go")
    );
    t.write("script", &script);
    let line = r#"idem run --key k -- sh -c "$(cat script)" | head -1; echo ${PIPESTATUS[0]}"#;
    let run = t.bash(line).start();
    upto("head has its line", || run.out_so_far().contains('a'));
    t.touch("go");
    let done = run.end();
    assert_eq!(done.out_text(), "a\n7\n", "{done}");
    t.idem("output k").end().code(7).out("a\nb\nc\n");
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn an_endless_writer_inside_the_command_still_dies_of_its_pipe() {
    let t = TestEnv::new();
    t.run("--key k", "yes | head -3")
        .end()
        .code(0)
        .out("y\ny\ny\n");
    let line = "set -o pipefail; yes | head -1 >/dev/null; echo $?";
    let done = t.idem("run --key b -- bash -c").arg(line).end();
    done.code(0).out("141\n");
}

#[test]
fn a_closed_stdout_keeps_the_record() {
    let t = TestEnv::new();
    for (key, code) in [("zero", 0), ("seven", 7)] {
        let line = format!(
            "idem run --key {key} -- sh -c 'echo x >> n; echo hi; exit {code}' >&- 2>e; echo $?"
        );
        let seen = if code == 0 { "125" } else { "7" };
        assert_eq!(t.says(&line), seen);
        assert!(t.read("e").contains("idem: "), "{}", t.read("e"));
        t.run(
            &format!("--key {key}"),
            &format!("echo x >> n; echo hi; exit {code}"),
        )
        .end()
        .code(code)
        .out("hi\n");
    }
    assert_eq!(t.lines("n"), 2);
}

#[test]
fn a_full_device_keeps_the_record() {
    let t = TestEnv::new();
    let full = || {
        OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full")
    };
    let script = "echo x >> n; echo hi";
    t.run("--key k", script)
        .stdout(full())
        .end()
        .code(125)
        .says("idem: ");
    t.run("--key k", script)
        .stdout(full())
        .end()
        .code(125)
        .says("idem: ");
    t.run("--key k", script).end().code(0).out("hi\n");
    t.run("--key f", "echo x >> n; echo hi; exit 9")
        .stdout(full())
        .end()
        .code(9);
    t.run("--key f", "echo x >> n; echo hi; exit 9")
        .end()
        .code(9)
        .out("hi\n");
    t.run("--key e", "echo x >> n; echo hi >&2; exit 9")
        .stderr(full())
        .end()
        .code(9);
    t.run("--key s", "echo x >> n; echo hi; echo err >&2")
        .stderr(full())
        .end()
        .out("hi\n");
    t.run("--key s", "echo x >> n; echo hi; echo err >&2")
        .end()
        .code(0)
        .out("hi\n")
        .err("err\n");
    assert_eq!(t.lines("n"), 4);
}

#[test]
fn a_stdout_that_is_only_readable_keeps_the_record() {
    let t = TestEnv::new();
    t.touch("f");
    let script = "echo x >> n; echo hi";
    let run = t
        .run("--key k", script)
        .stdout(File::open(t.path("f")).expect("a file"));
    run.end().code(125).says("idem: ");
    t.run("--key k", script).end().code(0).out("hi\n");
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn a_non_blocking_stdout_loses_nothing() {
    let t = TestEnv::new();
    let script = "yes abcdefg | head -c 3000000";
    for decision in ["executed", "replayed"] {
        let (mut read, write) = pipe();
        set_non_blocking(&write);
        let run = t
            .run("--key k", script)
            .stdout(write.try_clone().expect("a descriptor"))
            .start();
        upto("the pipe is full", || {
            let mut waiting = 0i32;
            // SAFETY: FIONREAD stores one int.
            unsafe { libc::ioctl(read.as_raw_fd(), libc::FIONREAD, &raw mut waiting) };
            waiting >= 60_000
        });
        assert_ne!(
            flags(&write) & libc::O_NONBLOCK,
            0,
            "idem changed the caller's descriptor"
        );
        drop(write);
        let mut bytes = Vec::new();
        read.read_to_end(&mut bytes).expect("the output");
        run.end().code(0);
        assert_eq!(bytes.len(), 3_000_000, "{decision}");
    }
}

#[test]
fn a_blocking_stdout_stays_blocking() {
    let t = TestEnv::new();
    let (read, write) = pipe();
    let before = flags(&write);
    t.run("--key k", "echo hi")
        .stdout(write.try_clone().expect("a descriptor"))
        .end()
        .code(0);
    assert_eq!(flags(&write), before);
    drop(read);
}

#[test]
fn a_blocked_stdout_does_not_delay_a_time_limit() {
    let t = TestEnv::new();
    for option in ["--timeout", "--deadline"] {
        let (read, write) = pipe();
        let key = option.trim_start_matches('-');
        let run = t
            .run(
                &format!("--key {key} {option} 2s"),
                "echo x >> n; yes; sleep 300",
            )
            .stdout(write)
            .start();
        run.end().code(124).within(Duration::from_secs(40));
        assert_eq!(t.state(key), "unknown");
        drop(read);
    }
    assert_eq!(t.lines("n"), 2);
}

#[test]
fn a_blocked_stdout_does_not_delay_a_signal() {
    let t = TestEnv::new();
    let (read, write) = pipe();
    let run = t
        .run("--key k", "echo x >> n; exec yes")
        .stdout(write)
        .start();
    t.upto_lines("n", 1);
    run.upto_waiting();
    run.signal(libc::SIGTERM);
    run.end().died_of(libc::SIGTERM);
    drop(read);
}

#[test]
fn a_gibibyte_goes_through() {
    let t = TestEnv::new();
    let line = "idem run --key k --max-output 64KiB -- head -c 1073741824 /dev/zero 2>e | wc -c";
    assert_eq!(t.says(line), "1073741824");
    assert_eq!(t.status("k")["truncated"], true);
    assert!(t.read("e").contains("idem: "), "{}", t.read("e"));
}

#[test]
fn output_stays_in_its_place_in_a_shared_file() {
    let t = TestEnv::new();
    let line = "{ echo before; idem run --key k -- sh -c 'echo out; echo err >&2'; echo between
        idem run --key k -- sh -c 'echo out; echo err >&2'; echo after; } > f 2>&1; cat f";
    assert_eq!(t.says(line), "before\nout\nerr\nbetween\nout\nerr\nafter");
}

#[test]
fn a_daemon_outlives_its_first_line_and_holds_nobody() {
    let t = TestEnv::new();
    let later = format!("{}; echo log; echo log >&2; echo x >> up", gate("go"));
    let script = format!("({later}) & echo started");
    t.run("--key d", &script).end().code(0).out("started\n");
    assert_eq!(t.lines("up"), 0);
    t.touch("go");
    t.upto_lines("up", 1);
    t.run("--key d", &script).end().code(0).out("started\n");
}

#[test]
fn a_daemon_that_never_stops_writing_is_not_killed_and_fills_nothing() {
    let t = TestEnv::new();
    let writer = "while echo noise; do echo x >> alive; sleep 0.05; done";
    let script = format!("({writer}) & echo started");
    let done = t.run("--key d", &script).end();
    assert!(done.code(0).out_text().contains("started"), "{done}");
    let seen = t.lines("alive");
    t.upto_lines("alive", seen + 20);
    assert_eq!(t.state("d"), "succeeded");
}

#[test]
fn a_daemons_keeper_leaves_with_it() {
    let t = TestEnv::new();
    t.run("--key d", &format!("({}) & echo started", gate("go")))
        .end()
        .code(0);
    let keeper = t.keeper("d");
    t.touch("go");
    upto("the keeper leaves", || !crate::procs::alive(keeper));
    t.upto_quiet();
}

#[test]
fn late_output_within_the_drain_is_part_of_the_result() {
    let t = TestEnv::new();
    let script = "(sleep 0.05; echo late) & echo early; exit 0";
    t.run("--key k", script).end().code(0);
    let stored = t.idem("output k").end();
    let again = t.run("--key k", script).end();
    again.code(0).out(&stored.stdout);
    assert!(stored.out_text().starts_with("early\n"), "{stored}");
}

#[test]
fn a_replay_into_a_slow_reader_is_whole() {
    let t = TestEnv::new();
    let script = "yes | head -c 1000000";
    t.run("--key k", script).end().code(0);
    let line = format!(
        "idem run --key k -- sh -c '{script}' | (dd bs=1000 count=1 2>/dev/null | wc -c; sleep 0.5; cat | wc -c)"
    );
    let said = t.says(&line);
    let sizes: Vec<usize> = said
        .lines()
        .map(|l| l.trim().parse().expect("a size"))
        .collect();
    assert_eq!(sizes.iter().sum::<usize>(), 1_000_000, "{said}");
}

#[test]
fn a_caller_that_closes_both_streams_gets_only_the_code() {
    let t = TestEnv::new();
    let line =
        "idem run --key k -- sh -c 'echo x >> n; echo a; echo b >&2; exit 6' >&- 2>&-; echo $?";
    assert_eq!(t.says(line), "6");
    let report = t
        .run("--key k --json", "echo x >> n; echo a; echo b >&2; exit 6")
        .end()
        .code(6)
        .json();
    assert_eq!(text(&report["stdout"]) + &text(&report["stderr"]), "a\nb\n");
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn a_socket_as_stdout_works() {
    let t = TestEnv::new();
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
    let run = t
        .run("--key k", "echo hi")
        .stdout(OwnedFd::from(theirs))
        .start();
    run.end().code(0);
    let mut said = String::new();
    ours.read_to_string(&mut said).expect("the output");
    assert_eq!(said, "hi\n");
    ours.flush().expect("an open socket");
}
