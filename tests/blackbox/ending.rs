//! Ending what an attempt started: all of it, and nothing else.

use std::os::unix::fs::{PermissionsExt, chown};
use std::time::Duration;

use crate::env::{IDEM, TestEnv, root_or_leave, text, upto};
use crate::procs;

/// Every PID that the child wrote into `pids` is gone.
#[track_caller]
fn all_gone(t: &TestEnv, count: usize) {
    let text = t.read("pids");
    let pids: Vec<i32> = text
        .split_whitespace()
        .map(|p| p.parse().expect("a pid"))
        .collect();
    assert_eq!(pids.len(), count, "{text}");
    for pid in pids {
        assert!(
            !procs::alive(pid),
            "{pid} survived: {}",
            procs::command_line(pid)
        );
    }
}

#[test]
fn a_timeout_ends_the_whole_tree() {
    let t = TestEnv::new();
    let script = r#"setsid sh -c 'echo $$ >> pids; trap "" TERM; sleep 300; sleep 300' &
        (sh -c 'echo $$ >> pids; sleep 300' &)
        (setsid sh -c '(setsid sh -c "trap \"\" TERM INT HUP; echo \$\$ >> pids; sleep 300; sleep 300" &) ; exit' &)
        trap '' TERM; echo $$ >> pids; sleep 300; sleep 300"#;
    let done = t
        .run("--key k --timeout 2s --kill-after 300ms", script)
        .end();
    done.code(124).says("unknown");
    all_gone(&t, 4);
    assert_eq!(t.state("k"), "unknown");
    assert_eq!(text(&t.status("k")["attempts"][0]["class"]), "uncertain");
    t.upto_quiet();
}

#[test]
fn a_timeout_is_a_polite_request_first() {
    let t = TestEnv::new();
    let script = "trap 'echo tidy >> tidied; exit 0' TERM; echo x >> n; sleep 300 & wait";
    let done = t.run("--key k --timeout 1s --kill-after 60s", script).end();
    done.code(124)
        .says("unknown")
        .within(Duration::from_secs(40));
    assert_eq!(t.words("tidied"), "tidy");
    assert_eq!(t.state("k"), "unknown");
    t.run("--key k --timeout 1s", "exit 0").end().code(121);
    t.run("--key k --timeout 1s", script).end().code(122);
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn a_command_that_ends_in_time_is_not_touched() {
    let t = TestEnv::new();
    for limit in [
        "--timeout 50s",
        "--deadline 50s",
        "--timeout 50s --deadline 50s --kill-after 1s",
    ] {
        let key = limit.replace([' ', '-'], "");
        let done = t
            .run(&format!("--key {key} {limit}"), "echo out; exit 3")
            .end();
        done.code(3).out("out\n").within(Duration::from_secs(40));
    }
}

#[test]
fn a_deadline_ends_the_tree_too() {
    let t = TestEnv::new();
    let script = "setsid sh -c 'echo $$ >> pids; sleep 300' & echo $$ >> pids; sleep 300";
    let done = t
        .run("--key k --deadline 2s --kill-after 300ms", script)
        .end();
    done.code(124).says("unknown");
    all_gone(&t, 2);
}

#[test]
fn a_deadline_in_the_past_runs_nothing() {
    let t = TestEnv::new();
    let done = t
        .run("--key k --deadline 2001-01-01T00:00:00Z", "echo x >> n")
        .end();
    done.code(123).out("").one_line();
    assert_eq!((t.lines("n"), t.state("k").as_str()), (0, "none"));
    t.run("--key k --deadline 2999-01-01T00:00:00Z", "echo x >> n")
        .end()
        .code(0);
    t.run("--key k --deadline 2001-01-01T00:00:00Z", "echo x >> n")
        .end()
        .code(0);
    assert_eq!(t.lines("n"), 1, "a replay passes no guard");
}

#[test]
fn a_child_that_stopped_itself_is_ended() {
    let t = TestEnv::new();
    let script = "echo $$ >> pids; trap 'echo woken >> got; exit 1' TERM; kill -STOP $$; sleep 300";
    let done = t.run("--key k --timeout 2s --kill-after 20s", script).end();
    done.code(124).within(Duration::from_secs(18));
    all_gone(&t, 1);
    assert_eq!(t.words("got"), "woken");
}

#[test]
fn a_tree_that_grows_while_it_is_killed_ends_too() {
    let t = TestEnv::new();
    let grow = r#"trap '' TERM; while :; do (trap '' TERM; setsid sleep 300) & sleep 0.01; done"#;
    let done = t.run("--key k --timeout 1s --kill-after 200ms", grow).end();
    done.code(124);
    t.upto_quiet();
}

#[test]
fn an_uncertain_end_leaves_nothing_at_work() {
    let t = TestEnv::new();
    let stay = r#"(trap '' TERM; setsid sh -c 'trap "" TERM; echo $$ >> pids; sleep 300; sleep 300') &
        until test -s pids; do sleep 0.02; done;"#;
    let done = t
        .run(
            "--key s --kill-after 300ms",
            &format!("{stay} kill -SEGV $$"),
        )
        .end();
    done.code(139);
    all_gone(&t, 1);
    std::fs::remove_file(t.path("pids")).expect("the pids");
    let run = t
        .run(
            "--key i --kill-after 300ms",
            &format!("{stay} echo x >> n; exec sleep 300"),
        )
        .start();
    t.upto_lines("n", 1);
    run.signal(libc::SIGTERM);
    run.end().died_of(libc::SIGTERM);
    all_gone(&t, 1);
    t.upto_quiet();
}

#[test]
fn a_normal_end_leaves_daemons_running() {
    let t = TestEnv::new();
    let daemon = "setsid sleep 300 </dev/null >/dev/null 2>&1 & echo $! >> pids;";
    t.run("--key ok --timeout 50s", &format!("{daemon} exit 0"))
        .end()
        .code(0);
    t.run("--key bad --timeout 50s", &format!("{daemon} exit 3"))
        .end()
        .code(3);
    for pid in t.read("pids").split_whitespace() {
        assert!(
            procs::alive(pid.parse().expect("a pid")),
            "a daemon was killed"
        );
    }
}

#[test]
fn children_that_idem_did_not_start_are_left_alone() {
    let t = TestEnv::new();
    let line = r#"sleep 300 >/dev/null 2>&1 & echo $! > sibling
        exec "$IDEM" run --key k --timeout 1s --kill-after 200ms -- sh -c 'echo hi; sleep 300' > >(cat > got; echo whole > cat-ended)"#;
    t.bash(line).end().code(124);
    t.upto_lines("cat-ended", 1);
    assert_eq!(t.read("got"), "hi\n");
    let sibling = t.read("sibling").trim().parse().expect("a pid");
    assert!(
        procs::alive(sibling),
        "a process that idem did not start was killed"
    );
}

#[test]
fn a_daemon_of_an_earlier_operation_is_left_alone() {
    let t = TestEnv::new();
    t.run(
        "--key d",
        "setsid sleep 300 </dev/null >/dev/null 2>&1 & echo $! > daemon",
    )
    .end()
    .code(0);
    t.run("--key k --timeout 1s --kill-after 200ms", "sleep 300")
        .end()
        .code(124);
    assert!(procs::alive(
        t.read("daemon").trim().parse().expect("a pid")
    ));
}

/// A world of the user `nobody`, with a set-user-ID program that becomes root.
fn nobodys_world() -> TestEnv {
    let t = TestEnv::new();
    for dir in ["", "home", "work", "state", "config", "tmp"] {
        let path = t.root().join(dir);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("chmod");
        chown(&path, Some(65534), Some(65534)).expect("chown");
    }
    t.says(&format!(
        "cp {IDEM} \"$HOME/idem\"; cp \"$(command -v setpriv)\" \"$HOME/become-root\"
         chmod 755 \"$HOME/idem\"; chmod 4755 \"$HOME/become-root\""
    ));
    t
}

#[test]
fn what_cannot_be_killed_is_said_and_not_waited_for() {
    if !root_or_leave("a process of another user") {
        return;
    }
    let t = nobodys_world();
    let child = "\"$HOME/become-root\" --reuid 0 sleep 250 & echo x >> n; exec sleep 251";
    let nobody = |options: &str| {
        let idem = t.home().join("idem");
        t.command("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(idem)
            .args([
                "run",
                "--key",
                "k",
                "--timeout",
                "2s",
                "--kill-after",
                "300ms",
            ])
            .args(options.split_whitespace())
            .args(["--", "sh", "-c", child])
            .end()
    };
    let done = nobody("");
    let left: Vec<i32> = t
        .running()
        .into_iter()
        .filter(|(_, c)| c.starts_with("sleep 250"))
        .map(|(p, _)| p)
        .collect();
    assert_eq!(
        left.len(),
        1,
        "the set-user-ID program did not work\n{done}"
    );
    done.code(124)
        .within(Duration::from_secs(40))
        .says(&left[0].to_string());
    assert_eq!(t.lines("n"), 1);
    let refused = nobody("--if-unknown rerun --if-running refuse");
    refused.code(120).says(&left[0].to_string());
    assert_eq!(t.lines("n"), 1);
    procs::signal(left[0], libc::SIGKILL);
    upto("it is gone", || !procs::alive(left[0]));
    nobody("--if-unknown rerun --if-running refuse");
    assert_eq!(t.lines("n"), 2);
}

#[test]
fn a_thousand_runs_leave_no_zombie_and_no_keeper() {
    let t = TestEnv::new();
    let line = "for i in $(seq 500); do idem run --key k$i -- true; idem run --key k$i -- true; done
        for p in $(cat /proc/$$/task/$$/children); do grep -q '^State:.Z' /proc/$p/status 2>/dev/null && echo zombie; done; exit 0";
    let done = t.bash(line).limit(Duration::from_secs(300)).end();
    done.code(0).out("").err("");
    t.upto_quiet();
}

#[test]
fn a_caller_that_adopts_orphans_is_rid_of_them_by_its_next_wait() {
    let t = TestEnv::new();
    // A keeper may outlive its front by the moment that housekeeping takes. A shell reaps what it adopted
    // whenever it waits for a command, which each turn of the loop does. The last one is `cat` itself.
    let line = "for i in $(seq 20); do \"$IDEM\" run --key k$i -- true; done
        n=0; while n=$((n + 1)); set -- $(cat /proc/$$/task/$$/children); [ $# -gt 1 ] && [ $n -lt 2000 ]; do :; done
        echo $#";
    let adopt = || {
        // SAFETY: a plain system call in the new process.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
        Ok(())
    };
    let done = t.command("dash").args(["-c", line]).before(adopt).end();
    assert_eq!(done.code(0).out_text(), "1\n", "left behind");
}
