use std::ffi::OsString;

use super::*;
use crate::process::spawn::Spawn;
use crate::process::testing::{environment, own_process, script, shell, until};
use crate::process::wait;

/// An empty list of PIDs.
const NOBODY: [i32; 0] = [];

fn end(pid: i32) {
    // SAFETY: signals an unreaped child of the test's own.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    wait::reap_blocking(pid).expect("our child");
}

#[test]
fn a_name_can_hold_anything() {
    let stat = b"42 (a) R 1 (b) c) S 7 8 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 3 0 12345 99 1 2";
    let process = parse_stat(stat).expect("whole");
    assert_eq!(process.id.pid, 42);
    assert_eq!(process.id.start_ticks, 12345);
    assert_eq!((process.parent, process.group, process.session), (7, 8, 9));
    assert!(!process.ended);
    assert_eq!(parse_stat(b"42 (a) S 7 8"), None);
    assert_eq!(parse_stat(b""), None);
}

#[test]
fn a_first_thread_can_end_before_its_process() {
    let stat = |threads: i32| format!("1 (x) Z 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 {threads} 0 5 0");
    assert!(parse_stat(stat(1).as_bytes()).expect("whole").ended);
    assert!(!parse_stat(stat(2).as_bytes()).expect("whole").ended);
}

#[test]
fn this_process_is_alive_and_has_its_parent() {
    let this = this().expect("alive");
    assert!(is_alive(this).expect("known"));
    let parent = process(this.pid).expect("alive").parent;
    assert_eq!(parent, std::os::unix::process::parent_id().cast_signed());
    let earlier = ProcessRef {
        start_ticks: this.start_ticks - 1,
        ..this
    };
    assert!(!is_alive(earlier).expect("known"));
    assert!(open(this).expect("known").is_some());
    assert!(open(earlier).expect("known").is_none());
}

#[test]
fn a_stopped_process_leaves_its_signals_pending() {
    let child = shell("trap : USR1; kill -STOP $$; sleep 300").process.pid;
    until(|| process(child).expect("unreaped").stopped);
    // SAFETY: signals an unreaped child of the test's own.
    unsafe { libc::kill(child, libc::SIGTSTP) };
    assert!(is_pending(child, libc::SIGTSTP));
    assert!(!is_pending(child, libc::SIGTERM));
    assert!(has_default_action(child, libc::SIGTERM));
    assert!(!has_default_action(child, libc::SIGUSR1));
    end(child);
    assert!(!has_default_action(child, libc::SIGTERM));
}

#[test]
fn an_ended_process_is_not_alive_but_still_there() {
    let child = shell("exit 0").process;
    until(|| wait::peek(child.pid).expect("our child").is_some());
    assert!(!is_alive(child).expect("known"));
    assert!(process(child.pid).expect("unreaped").ended);
    wait::reap(child.pid).expect("our child");
    assert!(!is_alive(child).expect("known"));
}

#[test]
fn descendants_are_found_across_sessions_and_foreign_trees_are_not() {
    let child = shell("setsid sh -c 'sleep 1000 & exec sleep 1000' & exec sleep 1000").process;
    let below = || {
        Listing::take()
            .expect("processes")
            .descendants(child.pid, &[])
    };
    until(|| below().len() == 2 && below().iter().all(|process| process.session != 0));
    let found = below();
    let listing = Listing::take().expect("processes");
    let leader: Vec<_> = listing
        .children(child.pid)
        .map(|process| process.id)
        .collect();
    assert_eq!(leader.len(), 1);
    assert!(found.iter().any(|process| process.id == leader[0]));
    assert!(listing.descendants(child.pid, &leader).is_empty());
    assert!(
        listing
            .members(child.pid)
            .any(|process| process.id == child)
    );
    for process in found {
        // SAFETY: a descendant of the test's own child, whose parent lives and does not reap it.
        unsafe { libc::kill(process.id.pid, libc::SIGKILL) };
    }
    end(child.pid);
}

#[test]
fn a_listing_with_a_missing_parent_is_not_whole() {
    let mut listing = Listing::take().expect("processes");
    let this = process(std::process::id().cast_signed()).expect("alive");
    listing.processes.insert(
        this.id.pid,
        Process {
            parent: i32::MAX,
            ..this
        },
    );
    assert!(!listing.is_whole());
}

#[test]
fn a_process_is_known_by_what_stands_in_its_environment() {
    let nonce = format!("nonce-{}-environ", std::process::id());
    let mut env = environment();
    env.push((
        "IDEM_ANCESTRY".into(),
        format!("outer:{nonce}:inner").into(),
    ));
    let words = ["sleep", "1000"].map(OsString::from);
    let child = Spawn::new(&words, &env)
        .expect("no NUL")
        .fork()
        .expect("fork");
    let pid = child.open_gate().expect("exec").process.pid;
    let other = script("exec sleep 1000", &[]).fork().expect("fork");
    let other = other.open_gate().expect("exec").process.pid;
    // In the middle of its exec a process shows no environment.
    until(|| with_environment(&nonce, &HashSet::new()).expect("processes") == [pid]);
    assert_eq!(
        with_environment(&nonce, &HashSet::from([pid])).expect("processes"),
        NOBODY
    );
    assert_eq!(
        with_environment("", &HashSet::new()).expect("processes"),
        NOBODY
    );
    end(pid);
    end(other);
}

#[test]
fn this_namespace_is_the_one_of_its_children() {
    let child = script("readlink /proc/self/ns/pid", &[]);
    let (link, _) = crate::process::testing::output(child);
    let expected = format!("pid:[{}]", pid_namespace().expect("/proc"));
    assert_eq!(link.trim(), expected);
}

#[test]
fn the_children_of_every_thread_are_this_processs() {
    own_process!("the_children_of_every_thread_are_this_processs", || {
        let (here, there) = (
            shell("exec sleep 1000"),
            std::thread::spawn(|| shell("exec sleep 1000")),
        );
        let pids = [
            here.process.pid,
            there.join().expect("no panic").process.pid,
        ];
        let mut children = children().expect("/proc");
        children.sort_unstable();
        assert_eq!(children, pids);
        for pid in pids {
            end(pid);
        }
    });
}

#[test]
fn the_length_of_an_environment_is_told_by_its_place() {
    let stat = |state: &str, flags: u32, start: u64, end: u64| {
        let middle = "0 ".repeat(40);
        format!("1 (a b) {state} 0 0 0 0 0 {flags} {middle}{start} {end} 0")
    };
    let bytes = |stat: String| environment_bytes(stat.as_bytes());
    assert_eq!(
        bytes(stat("R", 0, 100, 150)),
        Some(EnvironmentBytes::Known(50))
    );
    assert_eq!(bytes(stat("S", 0, 7, 7)), Some(EnvironmentBytes::Known(0)));
    assert_eq!(bytes(stat("R", 0, 0, 0)), Some(EnvironmentBytes::NotYet));
    assert_eq!(bytes(stat("R", KERNEL_THREAD, 0, 0)), None);
    assert_eq!(bytes(stat("Z", 0, 0, 0)), None);
    assert_eq!(bytes("1 (a) R 0".to_owned()), None);
    let own = fs::read("/proc/self/stat").expect("this process");
    let length = fs::read("/proc/self/environ").expect("this process").len() as u64;
    assert_eq!(
        environment_bytes(&own),
        Some(EnvironmentBytes::Known(length))
    );
}

#[test]
fn a_process_is_found_however_often_it_executes_something() {
    let nonce = format!("nonce-{}-executes", std::process::id());
    let argv = [
        "sh",
        "-c",
        "exec sh -c \"$0\" \"$0\"",
        "exec sh -c \"$0\" \"$0\"",
    ];
    let argv: Vec<OsString> = argv.map(OsString::from).into();
    let mut env = environment();
    env.push(("NONCE".into(), nonce.clone().into()));
    let spawn = Spawn::new(&argv, &env).expect("sh");
    let running = spawn.fork().expect("a child");
    let child = running.open_gate().expect("sh").process;
    let nobody = HashSet::new();
    let looks = (0..200).map(|_| with_environment(&nonce, &nobody).expect("processes"));
    let wrong: Vec<Vec<i32>> = looks.filter(|found| *found != [child.pid]).collect();
    end(child.pid);
    assert!(
        wrong.is_empty(),
        "{} was looked for, and found was {wrong:?}",
        child.pid
    );
}
