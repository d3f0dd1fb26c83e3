//! Work that nobody waits for, and a kill of everything at once.

use std::fs;
use std::path::{Path, PathBuf};

use crate::env::{IDEM, TestEnv, gate, may_leave, text, upto};
use crate::procs;

#[test]
fn detach_returns_once_the_claim_is_durable() {
    let t = TestEnv::new();
    let script = format!(
        "{}; echo x >> n; echo out; echo err >&2; exit 4",
        gate("go")
    );
    let done = t.run("--key k --detach", &script).end();
    assert_eq!(done.code(0).out_text().trim_end(), "k", "{done}");
    assert_eq!(t.state("k"), "running");
    t.run("--key k --if-running refuse", &script)
        .end()
        .code(120);
    let waiter = t.idem("wait k").start();
    waiter.upto_waiting();
    t.touch("go");
    waiter.end().code(4).out("out\n").says("err\n");
    t.idem("output k").end().code(4).out("out\n");
    t.run("--key k", &script).end().code(4).out("out\n");
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn detached_work_survives_its_callers_group() {
    let t = TestEnv::new();
    t.write("script", format!("echo x >> n; {}; echo out", gate("go")));
    let line = r#"idem run --key k --detach -- sh -c "$(cat script)"; touch told; exec sleep 300"#;
    let caller = t.bash(line).own_group().start();
    t.upto_lines("n", 1);
    upto("the caller is told", || t.path("told").exists());
    procs::signal_group(caller.pid(), libc::SIGKILL);
    caller.end().died_of(libc::SIGKILL);
    t.touch("go");
    t.idem("wait k").end().code(0).out("out\n");
}

#[test]
fn detach_without_a_key_prints_the_derived_one() {
    let t = TestEnv::new();
    let key = t
        .run("--detach", "echo out")
        .end()
        .code(0)
        .out_text()
        .trim_end()
        .to_owned();
    t.command(IDEM)
        .args(["wait", &key])
        .end()
        .code(0)
        .out("out\n");
}

#[test]
fn detach_meets_a_record_as_any_call_does() {
    let t = TestEnv::new();
    t.run("--key k", "true").end().code(0);
    t.run("--key k --detach", "echo other")
        .end()
        .code(121)
        .out("")
        .one_line();
    t.make_unknown("u", "kill -9 $$");
    t.run("--key u --detach", "kill -9 $$")
        .end()
        .code(122)
        .out("");
    t.run("--key d --detach", "echo x >> n").end().code(0);
    t.upto_state("d", "succeeded");
    t.run("--key d --detach", "echo x >> n").end().code(0);
    t.upto_quiet();
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn detach_does_not_wait_for_what_another_call_runs() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; echo out", gate("go"));
    let owner = t.run("--key k", &script).start();
    t.upto_lines("n", 1);
    t.run("--key k --detach", &script)
        .end()
        .code(0)
        .out("k\n")
        .err("");
    let told = t
        .run("--key k --detach --json", &script)
        .end()
        .code(0)
        .json();
    assert_eq!(text(&told["decision"]), "detached", "{told}");
    assert_eq!(text(&told["state"]), "running", "{told}");
    assert_eq!(text(&told["next"]), "wait", "{told}");
    assert_eq!(told["generation"], t.status("k")["generation"], "{told}");
    t.run("--key k --detach --if-running refuse", &script)
        .end()
        .code(120)
        .out("");
    t.run("--key k --detach --if-running skip", &script)
        .end()
        .code(0)
        .out("");
    t.run("--key k --detach", "echo other")
        .end()
        .code(121)
        .out("");
    t.touch("go");
    owner.end().code(0).out("out\n");
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn of_many_detached_calls_at_once_one_runs_and_all_return() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}", gate("go"));
    let calls: Vec<_> = (0..8)
        .map(|_| t.run("--key k --detach", &script).start())
        .collect();
    for call in calls {
        call.end().code(0).out("k\n").err("");
    }
    assert_eq!(t.state("k"), "running");
    t.touch("go");
    t.idem("wait k").end().code(0);
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn detached_failures_are_kept_for_the_next_call() {
    let t = TestEnv::new();
    t.run("--key s --detach", "kill -9 $$").end().code(0);
    t.upto_state("s", "unknown");
    t.idem("run --key n --detach -- ./nosuch").end();
    t.upto_state("n", "failed");
    t.run("--key t --detach --timeout 500ms", "exec sleep 300")
        .end()
        .code(0);
    t.upto_state("t", "unknown");
}

/// A new control group under the first hierarchy that lets us make one and put a process into it.
fn new_group(name: &str) -> Option<PathBuf> {
    let bases = ["", "/unified", "/pids", "/systemd"].map(|sub| format!("/sys/fs/cgroup{sub}"));
    let groups = bases
        .iter()
        .filter(|base| Path::new(base).join("cgroup.procs").exists());
    groups.map(|base| Path::new(base).join(name)).find(|group| {
        let made = fs::create_dir(group).is_ok();
        let enter = std::process::Command::new("sh")
            .args(["-c", "echo $$ > \"$0\""])
            .arg(group.join("cgroup.procs"))
            .stderr(std::process::Stdio::null())
            .status();
        let usable = made && enter.is_ok_and(|status| status.success());
        if made && !usable {
            fs::remove_dir(group).ok();
        }
        usable
    })
}

#[test]
fn a_kill_of_the_whole_control_group_ends_in_unknown() {
    let group = new_group(&format!("idem-test-{}", std::process::id()));
    // SAFETY: geteuid has no preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    let Some(group) = group else {
        may_leave(!root, "needs a control group of its own");
        return;
    };
    let t = TestEnv::new();
    let procs_file = group.join("cgroup.procs");
    let line =
        r#"echo $$ > "$0" && exec "$IDEM" run --key k -- sh -c 'echo x >> n; exec sleep 300'"#;
    let run = t
        .command("bash")
        .args(["-c", line])
        .arg(&procs_file)
        .start();
    t.upto_lines("n", 1);
    let members = || fs::read_to_string(&procs_file).unwrap_or_default();
    assert!(
        members().lines().count() >= 3,
        "front, keeper and child are in the group: {}",
        members()
    );
    upto("everything in the group is dead", || {
        for pid in members().lines().filter_map(|p| p.parse().ok()) {
            procs::signal(pid, libc::SIGKILL);
        }
        members().is_empty()
    });
    run.end().died_of(libc::SIGKILL);
    fs::remove_dir(&group).ok();
    let status = t.status("k");
    assert_eq!(text(&status["state"]), "unknown", "{status}");
    t.run("--key k", "echo x >> n; exec sleep 300")
        .end()
        .code(122);
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn detached_work_that_ends_at_once_says_nothing_to_the_caller() {
    let t = TestEnv::new();
    for i in 0..40 {
        let done = t
            .run(&format!("--key j{i} --detach --json"), "exit 0")
            .end();
        assert_eq!(text(&done.code(0).json()["decision"]), "detached");
        let done = t.run(&format!("--key k{i} --detach"), "kill -9 $$").end();
        done.code(0).out(format!("k{i}\n")).err("");
    }
}
