//! Permits that many processes share.

use std::time::Duration;

use rand::RngExt;

use crate::command::Running;
use crate::env::{TestEnv, gate};
use crate::procs;
use crate::random::seeded;

/// Notes itself, counts who else is inside and alive, and says where that are too many.
const INSIDE: &str = r#"
mkdir -p inside; echo $PPID > inside/$$; alive=0
for f in inside/*; do
    # Whoever was killed may stay a zombie for as long as nobody asks for its status.
    case $(sed -n 's/^State:[[:space:]]*//p' "/proc/${f##*/}/status" 2>/dev/null) in
        '' | Z* | X*) ;;
        *) alive=$((alive + 1)) ;;
    esac
done
test $alive -le 2 || echo "$alive inside" >> violations
echo x >> entered; sleep 0.15; rm -f inside/$$
"#;

fn enter(t: &TestEnv, key: &str) -> Running {
    t.run(&format!("--key {key} --bulkhead db=2"), INSIDE)
        .start()
}

#[test]
fn never_more_inside_than_permits_whoever_is_killed() {
    let t = TestEnv::new();
    let mut random = seeded();
    let calls: Vec<Running> = (0..12).map(|call| enter(&t, &format!("k{call}"))).collect();
    for kills in 1..5 {
        t.upto_lines("entered", 2 * kills);
        let inside = std::fs::read_dir(t.path("inside")).expect("the directory");
        let child = inside.flatten().next().map(|entry| entry.file_name());
        let Some(child) = child else { continue };
        let child: i32 = child.to_string_lossy().parse().expect("a pid");
        // The keeper alone, whose child then keeps the permit; or both.
        let keeper = t.read(&format!("inside/{child}"));
        if let Ok(keeper) = keeper.trim().parse() {
            procs::signal(keeper, libc::SIGKILL);
        }
        if random.random_bool(0.5) {
            procs::signal(child, libc::SIGKILL);
        }
    }
    for call in calls {
        call.end();
    }
    t.upto_quiet();
    assert_eq!(t.read("violations"), "");
    assert_eq!(t.lines("entered"), 12, "nobody waits for ever");
    // All permits are free again: two come in at once.
    let script = |n: u32| format!("echo x >> both; {}; echo {n}", gate("go"));
    let both: Vec<Running> = (1..3)
        .map(|n| {
            t.run(&format!("--key b{n} --bulkhead db=2"), &script(n))
                .start()
        })
        .collect();
    t.upto_lines("both", 2);
    t.touch("go");
    for call in both {
        call.end().code(0);
    }
}

#[test]
fn a_killed_keeper_leaves_its_permit_to_its_child() {
    let t = TestEnv::new();
    let holder = t
        .run(
            "--key h --bulkhead db=1",
            &format!("echo x >> in; {}", gate("go")),
        )
        .start();
    t.upto_lines("in", 1);
    procs::signal(t.keeper("h"), libc::SIGKILL);
    holder.end().code(122);
    let refused = t
        .run("--key w --bulkhead db=1 --wait 200ms", "echo x >> n")
        .end();
    refused.code(123).one_line().says("bulkhead db");
    let waiting = t.run("--key w --bulkhead db=1", "echo x >> n").start();
    assert_eq!(t.lines("n"), 0);
    t.touch("go");
    waiting.end().code(0).within(Duration::from_secs(30));
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn a_daemon_that_is_left_running_holds_no_permit() {
    let t = TestEnv::new();
    let script = "setsid sleep 300 >/dev/null 2>&1 & exit 0";
    t.run("--key d --bulkhead db=1", script).end().code(0);
    let next = t
        .run("--key n --bulkhead db=1 --wait 10s", "echo x >> n")
        .end();
    next.code(0);
    assert!(!t.running().is_empty(), "the daemon is still there");
}

#[test]
fn an_auxiliary_call_gives_way() {
    let t = TestEnv::new();
    let holder = t
        .run(
            "--key h --bulkhead db=2",
            &format!("echo x >> in; {}", gate("go")),
        )
        .start();
    t.upto_lines("in", 1);
    let aside = "--bulkhead db=2 --auxiliary --wait 100ms";
    t.run(&format!("--key a {aside}"), "echo x >> n")
        .end()
        .code(123);
    t.run("--key b --bulkhead db=2 --wait 100ms", "echo x >> n")
        .end()
        .code(0);
    t.touch("go");
    holder.end().code(0);
    t.run(&format!("--key a {aside}"), "echo x >> n")
        .end()
        .code(0);
    assert_eq!(t.lines("n"), 2);
}
