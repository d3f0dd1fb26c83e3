//! Who is still at work: what was killed is known to be dead at once, and nothing alive is taken for dead.

use std::time::Duration;

use crate::command::Running;
use crate::env::{IDEM, TestEnv, gate, root_or_leave, text, upto};
use crate::procs;

/// Far less than any lease would be, far more than a loaded machine needs.
const AT_ONCE: Duration = Duration::from_secs(20);

/// Starts an operation that has left its line, and gives the front, the keeper's and the child's PID.
fn started(t: &TestEnv, key: &str, script: &str) -> (Running, i32, i32) {
    let before = t.lines("n");
    let front = t.run(&format!("--key {key}"), script).start();
    t.upto_lines("n", before + 1);
    let (keeper, child) = (t.keeper(key), t.child(key));
    assert!(procs::alive(keeper) && procs::alive(child));
    (front, keeper, child)
}

/// Kills these and waits until they are gone.
fn kill(pids: &[i32]) {
    for pid in pids {
        procs::signal(*pid, libc::SIGKILL);
    }
    for pid in pids {
        upto("a killed process ends", || !procs::alive(*pid));
    }
}

#[test]
fn everything_killed_is_unknown_at_once() {
    let t = TestEnv::new();
    let script = "echo x >> n; exec sleep 300";
    let (front, keeper, child) = started(&t, "k", script);
    front.kill();
    kill(&[keeper, child]);
    let next = t.run("--key k", script).end();
    next.code(122)
        .within(AT_ONCE)
        .says("idem resolve")
        .says("--probe")
        .says("--if-unknown rerun");
    assert_eq!(t.state("k"), "unknown");
    assert_eq!(t.lines("n"), 1);
    let rerun = t.run("--key k --if-unknown rerun", script).start();
    t.upto_lines("n", 2);
    drop(rerun);
}

#[test]
fn a_look_alone_sees_that_it_is_unknown() {
    let t = TestEnv::new();
    let script = "echo x >> n; exec sleep 300";
    let (front, keeper, child) = started(&t, "k", script);
    assert_eq!(t.status("k")["owner"]["alive"], true);
    front.kill();
    kill(&[keeper, child]);
    let status = t.status("k");
    assert_eq!(text(&status["state"]), "unknown", "{status}");
    assert_eq!(text(&status["next"]), "ask_human", "{status}");
    t.idem("wait k").end().code(122).within(AT_ONCE);
    t.run("--key k --if-running skip", script).end().code(122);
    t.run("--key k", "echo other").end().code(121);
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn a_killed_keepers_caller_learns_it_and_the_child_works_on() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; echo y >> done", gate("go"));
    let (front, keeper, child) = started(&t, "k", &script);
    kill(&[keeper]);
    front.end().code(122).within(AT_ONCE).says("idem: ");
    assert!(procs::alive(child));
    t.run("--key k --if-running refuse", &script)
        .end()
        .code(120);
    t.run("--key k --if-unknown rerun --if-running refuse", &script)
        .end()
        .code(120);
    let next = t.run("--key k", &script).start();
    next.upto_waiting();
    t.touch("go");
    next.end().code(122);
    assert_eq!((t.lines("n"), t.lines("done")), (1, 1), "it was waited for");
    t.idem("resolve k --succeeded").end().code(0);
    t.run("--key k", &script).end().code(0);
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn a_rerun_waits_for_what_the_dead_keeper_left() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; echo y >> done", gate("go"));
    let (front, keeper, _) = started(&t, "k", &script);
    kill(&[keeper]);
    front.end().code(122);
    let next = t.run("--key k --if-unknown rerun", &script).start();
    next.upto_waiting();
    assert_eq!(t.lines("n"), 1, "it started beside the first one");
    t.touch("go");
    next.end().code(0);
    assert_eq!((t.lines("n"), t.lines("done")), (2, 2));
}

#[test]
fn a_stopped_keeper_is_alive() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; echo out", gate("go"));
    let (front, keeper, _) = started(&t, "k", &script);
    procs::signal(keeper, libc::SIGSTOP);
    upto("it stops", || procs::stopped(keeper));
    t.run("--key k --if-running refuse", &script)
        .end()
        .code(120);
    t.run("--key k --wait 300ms", &script).end().code(120);
    t.run("--key other", "true").end().code(0);
    procs::signal(keeper, libc::SIGCONT);
    t.touch("go");
    front.end().code(0).out("out\n");
    assert_eq!(t.lines("n"), 1);
}

/// The keeper is killed; the child left a descendant that tries to look like nothing of the claim.
fn still_running(t: &TestEnv, escape: &str) {
    let script = format!("{escape} & echo x >> n; wait; exec sleep 300");
    t.script(
        "stay",
        format!("#!/bin/sh\necho $$ > stayer\n{}\n", gate("go")),
    );
    let front = t.run("--key k", &script).start();
    t.upto_lines("stayer", 1);
    t.upto_lines("n", 1);
    let (keeper, child) = (t.keeper("k"), t.child("k"));
    let stayer: i32 = t.read("stayer").trim().parse().expect("a pid");
    front.kill();
    kill(&[keeper, child]);
    assert!(procs::alive(stayer));
    t.run("--key k --if-running refuse", &script)
        .end()
        .code(120);
    t.run("--key k --if-running refuse --if-unknown rerun", &script)
        .end()
        .code(120);
    kill(&[stayer]);
    // Its own last child may live on for a moment, and is at work as well.
    upto("the operation is unknown", || {
        t.run("--key k --if-running refuse", &script).end().code == 122
    });
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn a_descendant_in_another_session_is_still_at_work() {
    still_running(&TestEnv::new(), "setsid ./stay </dev/null >/dev/null 2>&1");
}

#[test]
fn a_descendant_without_our_environment_is_still_at_work() {
    still_running(
        &TestEnv::new(),
        "env -i PATH=\"$PATH\" setsid ./stay </dev/null >/dev/null 2>&1",
    );
}

#[test]
fn a_descendant_that_closed_every_descriptor_is_still_at_work() {
    let close = r#"bash -c 'for f in /proc/$BASHPID/fd/*; do f=${f##*/}; [ $f -gt 2 ] && eval "exec $f>&-"; done
        exec ./stay </dev/null >/dev/null 2>&1'"#;
    still_running(&TestEnv::new(), close);
}

#[test]
fn a_daemon_of_an_earlier_execution_is_not_this_one() {
    let t = TestEnv::new();
    let daemon = "test -e daemon || { setsid sleep 300 </dev/null >/dev/null 2>&1 & echo $! > daemon; exit 0; }";
    let script = format!("echo x >> n; {daemon}; exec sleep 300");
    t.run("--key k", &script).end().code(0);
    let daemon: i32 = t.read("daemon").trim().parse().expect("a pid");
    assert!(procs::alive(daemon), "a daemon lives on after a normal end");
    t.idem("forget k").end().code(0);
    let (front, keeper, child) = started(&t, "k", &script);
    front.kill();
    kill(&[keeper, child]);
    t.run("--key k --if-running refuse", &script)
        .end()
        .code(122)
        .within(AT_ONCE);
    assert!(procs::alive(daemon));
}

#[test]
fn a_daemon_of_a_settled_operation_holds_nothing_up() {
    let t = TestEnv::new();
    let script = "echo x >> n; setsid sleep 300 </dev/null >/dev/null 2>&1 & exit 0";
    t.run("--key k --ttl 1s", script).end().code(0);
    t.run(
        "--key f",
        "setsid sleep 300 </dev/null >/dev/null 2>&1 & exit 5",
    )
    .end()
    .code(5);
    t.run("--key f --if-failed rerun", "echo fixed")
        .end()
        .code(0)
        .within(AT_ONCE);
    upto("it expires and runs again", || {
        t.run("--key k --ttl 1s", script).end().code(0);
        t.lines("n") >= 2
    });
}

/// The lock files beside the database.
fn lock_files(t: &TestEnv) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(t.store_dir()).expect("the store's directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| path.to_string_lossy().ends_with("-locks"))
        .collect()
}

#[test]
fn a_removed_lock_file_does_not_free_what_is_running() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; echo out", gate("go"));
    let (front, ..) = started(&t, "k", &script);
    let locks = lock_files(&t);
    assert_eq!(locks.len(), 1, "{locks:?}");
    std::fs::remove_file(&locks[0]).expect("the lock file");
    t.run("--key k --if-running refuse", &script)
        .end()
        .code(120);
    t.run("--key other", "echo y >> m").end().code(0);
    t.run("--key k --if-running refuse", &script)
        .end()
        .code(120);
    t.run("--key k --if-running refuse --if-unknown rerun", &script)
        .end()
        .code(120);
    t.touch("go");
    front.end().code(0).out("out\n");
    t.run("--key k", &script).end().code(0).out("out\n");
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn the_dead_are_dead_though_the_lock_file_was_removed() {
    let t = TestEnv::new();
    let script = "echo x >> n; exec sleep 300";
    let (front, keeper, child) = started(&t, "k", script);
    std::fs::remove_file(&lock_files(&t)[0]).expect("the lock file");
    t.run("--key k --if-running refuse", script).end().code(120);
    front.kill();
    kill(&[keeper]);
    t.run("--key k --if-running refuse", script).end().code(120);
    kill(&[child]);
    t.run("--key k", script).end().code(122).within(AT_ONCE);
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn a_forgotten_keepers_late_result_is_fenced() {
    let t = TestEnv::new();
    let old = format!("echo x >> n; {}; echo old", gate("go"));
    let (front, ..) = started(&t, "k", &old);
    let first = t.status("k")["generation"].as_i64();
    t.idem("forget k").end().one_line();
    assert_eq!(
        t.state("k"),
        "running",
        "a running operation is forgotten only by force"
    );
    t.idem("forget --force k").end().code(0);
    t.run("--key k", "echo new").end().code(0).out("new\n");
    t.touch("go");
    front.end().code(0).says("idem: ");
    t.run("--key k", "echo new").end().code(0).out("new\n");
    let status = t.status("k");
    assert!(status["generation"].as_i64() > first, "{status}");
    assert_eq!(text(&status["state"]), "succeeded");
}

#[test]
fn a_forgotten_keepers_result_does_not_appear_out_of_nowhere() {
    let t = TestEnv::new();
    let old = format!("echo x >> n; {}; echo old", gate("go"));
    let (front, ..) = started(&t, "k", &old);
    t.idem("forget --force k").end().code(0);
    t.touch("go");
    front.end().code(0);
    assert_eq!(t.state("k"), "none");
}

#[test]
fn a_person_beats_a_late_keeper() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; echo late; exit 5", gate("go"));
    let (front, keeper, _) = started(&t, "k", &script);
    t.idem("resolve k --succeeded").end().one_line();
    assert_eq!(
        t.state("k"),
        "running",
        "resolve refuses a running operation"
    );
    kill(&[keeper]);
    front.end().code(122);
    t.idem("resolve k --not-done").end().one_line();
    t.touch("go");
    t.upto_state("k", "unknown");
    t.idem("resolve k --not-done").end().code(0);
    t.run("--key k", &script).end().code(5).out("late\n");
    assert_eq!(t.lines("n"), 2);
}

#[test]
fn two_names_of_one_store_see_the_same_locks() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; echo out", gate("go"));
    let (front, ..) = started(&t, "k", &script);
    std::os::unix::fs::symlink(t.store_dir(), t.path("link")).expect("a link");
    let other = t.path("link/idem.db");
    let store = other.to_str().expect("a path");
    t.run(
        &format!("--store {store} --key k --if-running refuse"),
        &script,
    )
    .end()
    .code(120);
    t.touch("go");
    front.end().code(0);
    t.run(&format!("--store {store} --key k"), &script)
        .end()
        .code(0)
        .out("out\n");
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn another_pid_namespace_sees_the_living_and_the_dead() {
    if !root_or_leave("a PID namespace") {
        return;
    }
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; exec sleep 300", gate("go"));
    let (front, keeper, child) = started(&t, "k", &script);
    let inside = |more: &str| {
        let unshare = t.command("unshare").args([
            "--pid",
            "--fork",
            "--mount-proc",
            IDEM,
            "run",
            "--key",
            "k",
        ]);
        unshare
            .args(more.split_whitespace())
            .args(["--", "sh", "-c", &script])
            .end()
    };
    inside("--if-running refuse").code(120);
    inside("--if-running refuse --if-unknown rerun").code(120);
    front.kill();
    kill(&[keeper, child]);
    // The script's last short sleep outlives it by a moment, and holds the tree's byte for that long.
    upto("nothing of it is left", || {
        inside("--if-running refuse").code == 122
    });
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn a_storm_of_kills_loses_nothing_and_repeats_nothing() {
    let t = TestEnv::new();
    let mut callers = Vec::new();
    for i in 0..24 {
        callers.push(
            t.run(
                &format!("--key k{i}"),
                &format!("echo x >> n{i}; sleep 0.2; echo y >> d{i}"),
            )
            .start(),
        );
    }
    t.upto_lines("n0", 1);
    for (pid, _) in t.running().into_iter().step_by(3) {
        procs::signal(pid, libc::SIGKILL);
    }
    drop(callers);
    for i in 0..24 {
        let done = t
            .run(
                &format!("--key k{i}"),
                &format!("echo x >> n{i}; sleep 0.2; echo y >> d{i}"),
            )
            .end();
        assert!([0, 122].contains(&done.code), "{done}");
        assert!(t.lines(&format!("n{i}")) <= 1, "k{i} ran twice");
        if done.code == 0 {
            assert_eq!(t.lines(&format!("d{i}")), 1, "k{i} was not finished");
        }
    }
}
