use std::fs;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use crate::process::locks::{HIGH_DESCRIPTOR, LockFile};
use crate::process::testing::{again, environment, output, own_process, run, script, until};

fn spawn(words: &[&str]) -> Spawn<'static> {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    Spawn::new(&words, &environment()).expect("no NUL")
}

fn failure(words: &[&str], path: &str) -> CannotStart {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    let spawn = Spawn::new(&words, &[("PATH".into(), path.into())]).expect("no NUL");
    let started = spawn.fork().expect("fork").open_gate();
    started.expect_err("must not start")
}

fn write_file(path: &Path, text: &[u8], mode: u32) {
    let _still = no_forks();
    fs::write(path, text).expect("write");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

#[test]
fn nothing_is_executed_before_the_gate_opens() {
    let home = tempfile::tempdir().expect("directory");
    let log = home.path().join("log");
    let child = script("echo ran >> $1", &[log.to_str().expect("UTF-8")]);
    let child = child.fork().expect("fork");
    let process = child.process();
    assert_eq!(
        proc::process(process.pid).expect("alive").group,
        process.pid
    );
    assert!(!log.exists());
    let running = child.open_gate().expect("exec");
    assert_eq!(running.process, process);
    assert_eq!(
        wait::reap_blocking(process.pid).expect("our child"),
        Exit::Code(0)
    );
    assert_eq!(lines(&log), 1);
}

#[test]
fn an_abandoned_child_has_executed_nothing_and_is_reaped() {
    let home = tempfile::tempdir().expect("directory");
    let log = home.path().join("log");
    let path = log.to_str().expect("UTF-8");
    let abandoned = script("echo ran >> $1", &[path]).fork().expect("fork");
    let dropped = script("echo ran >> $1", &[path]).fork().expect("fork");
    let processes = [abandoned.process(), dropped.process()];
    abandoned.abandon();
    drop(dropped);
    for process in processes {
        assert!(wait::peek(process.pid).is_err());
    }
    assert!(!log.exists());
}

#[test]
fn a_stopped_child_can_be_abandoned() {
    let child = script("exit", &[]).fork().expect("fork");
    let pid = child.process().pid;
    // SAFETY: signals an unreaped child of ours.
    unsafe { libc::kill(pid, libc::SIGSTOP) };
    until(|| wait::next_change(pid).expect("child") == Some(wait::Change::Stopped(libc::SIGSTOP)));
    child.abandon();
    assert!(wait::peek(pid).is_err());
}

#[test]
fn a_child_killed_at_its_gate_has_not_started() {
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let home = tempfile::tempdir().expect("directory");
        let log = home.path().join("log");
        let child = script("echo ran >> $1", &[log.to_str().expect("UTF-8")]);
        let child = child.fork().expect("fork");
        // SAFETY: signals an unreaped child of ours.
        unsafe { libc::kill(child.process().pid, signal) };
        let failure = child.open_gate().expect_err("killed");
        assert_eq!((failure.code, failure.errno), (128 + signal, 0));
        assert!(!log.exists());
    }
}

/// Forks two children, tells their PIDs, and dies.
fn keeper_that_dies(home: &Path) -> ! {
    let log = home.join("log");
    let child = || {
        script("echo ran >> $1", &[log.to_str().expect("UTF-8")])
            .fork()
            .expect("fork")
    };
    let (first, second) = (child(), child());
    let text = format!("{} {}", first.process().pid, second.process().pid);
    fs::write(home.join("pids"), text).expect("write");
    // SAFETY: ends this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    unreachable!("killed");
}

#[test]
fn a_child_whose_keeper_is_killed_ends_without_executing() {
    const HOME: &str = "IDEM_TEST_HOME";
    let test = concat!(
        module_path!(),
        "::a_child_whose_keeper_is_killed_ends_without_executing"
    );
    let Some(mut keeper) = again(test, &[]) else {
        let home = std::env::var_os(HOME).expect("home");
        keeper_that_dies(Path::new(&home));
    };
    let home = tempfile::tempdir().expect("directory");
    keeper.env(HOME, home.path());
    let (status, text) = run(keeper);
    assert!(!status.success(), "{text}");
    let pids = fs::read_to_string(home.path().join("pids")).expect("pids");
    for pid in pids.split(' ').map(|pid| pid.parse().expect("a PID")) {
        // Its new parent may leave it unreaped.
        until(|| proc::process(pid).map_or(true, |process| process.ended));
    }
    assert!(!home.path().join("log").exists());
}

#[test]
fn signals_are_as_idem_found_them() {
    let wrapper = [
        "env",
        "--ignore-signal=HUP",
        "--ignore-signal=CHLD",
        "--block-signal=USR1",
    ];
    own_process!("signals_are_as_idem_found_them", &wrapper, || {
        super::super::signal::SignalFd::catching(SignalSet::of(&[libc::SIGTERM])).expect("caught");
        let (status, exit) = output(spawn(&["cat", "/proc/self/status"]));
        assert_eq!(exit, Exit::Code(0), "its exit code is not lost");
        // The C library of whoever started this test may ignore the two signals that it keeps for itself.
        let internal = SignalSet::of(&[32, 33]);
        let set = |name: &str| {
            let line = status
                .lines()
                .find(|line| line.starts_with(name))
                .expect("line");
            let bits = line.split_whitespace().nth(1).expect("bits");
            let bits = u64::from_str_radix(bits, 16).expect("hexadecimal");
            SignalSet::from_bits(bits).without(internal)
        };
        assert_eq!(set("SigIgn"), SignalSet::of(&[libc::SIGHUP, libc::SIGCHLD]));
        assert_eq!(set("SigBlk"), SignalSet::of(&[libc::SIGUSR1]));
        assert_eq!(set("SigCgt"), SignalSet::EMPTY);
    });
}

fn is_inherited(fd: &RawFd) -> bool {
    // SAFETY: F_GETFD touches no memory.
    unsafe { libc::fcntl(*fd, libc::F_GETFD) == 0 }
}

#[test]
fn descriptors_are_as_idem_found_them_and_the_tree_lock() {
    let wrapper = ["sh", "-c", "exec 7</dev/null <&-; exec \"$@\"", "sh"];
    own_process!(
        "descriptors_are_as_idem_found_them_and_the_tree_lock",
        &wrapper,
        || {
            // 0 was closed, so the shell opens the directory of its pattern there.
            let mut expected: Vec<RawFd> = (0..1024).filter(is_inherited).collect();
            assert!(expected.starts_with(&[0, 1, 2]) && expected.contains(&7));
            let home = tempfile::tempdir().expect("directory");
            let locks = LockFile::open(&home.path().join("locks")).expect("lock file");
            let byte = locks.hold(5).expect("free");
            let tree = byte.into_inheritable_fd(HIGH_DESCRIPTOR).expect("high");
            expected.push(tree.as_raw_fd());
            let child = script("cd /proc/self/fd; echo *", &[]).tree_lock(tree.as_fd());
            let (listed, _) = output(child);
            let listed = listed.split_whitespace().map(|fd| fd.parse());
            let mut listed: Vec<RawFd> = listed.collect::<Result<_, _>>().expect("numbers");
            listed.sort_unstable();
            expected.sort_unstable();
            assert_eq!(listed, expected);
            assert!(!is_inherited(&tree.as_raw_fd()), "nothing else gets it");
            let (_, exit) = output(script("exec cat 2>/dev/null", &[]));
            assert_ne!(exit, Exit::Code(0), "stdin is closed");
        }
    );
}

#[test]
fn given_descriptors_may_be_each_others_targets() {
    own_process!("given_descriptors_may_be_each_others_targets", || {
        let (read, write) = sys::pipe().expect("pipe");
        let (read_other, write_other) = sys::pipe().expect("pipe");
        let replace = |target: RawFd, fd: &OwnedFd| {
            // SAFETY: the process is the test's own, and what stood here is put back below.
            check(unsafe { libc::dup2(fd.as_raw_fd(), target) }).expect("dup2");
            // SAFETY: 1 and 2 stay open.
            unsafe { BorrowedFd::borrow_raw(target) }
        };
        let stdio = [io::stdout().as_fd(), io::stderr().as_fd()].map(|fd| fd.try_clone_to_owned());
        let (out, err) = (replace(1, &write), replace(2, &write_other));
        let child = script("echo out; echo err >&2", &[]);
        let child = child.stdio(Stdio::Inherit, Stdio::Fd(err), Stdio::Fd(out));
        let started = child.fork().and_then(GatedChild::open_gate);
        for (target, fd) in (1..).zip(stdio) {
            replace(target, &fd.expect("duplicated"));
        }
        let pid = started.expect("exec").process.pid;
        wait::reap_blocking(pid).expect("our child");
        let mut texts = [[0; 4]; 2];
        File::from(read)
            .read_exact(&mut texts[0])
            .expect("stderr went to the first");
        File::from(read_other)
            .read_exact(&mut texts[1])
            .expect("stdout went to the second");
        assert_eq!(texts, [*b"err\n", *b"out\n"]);
    });
}

#[test]
fn bytes_and_duplicates_pass_unchanged() {
    let odd = OsString::from_vec(vec![0xff, b' ', 0xfe]);
    let word = |text: &str| OsString::from(text);
    let command = [
        word("/bin/sh"),
        word("-c"),
        word("printf %s \"$1\" | od -An -tx1"),
        word("sh"),
        odd,
    ];
    let (bytes, _) = output(Spawn::new(&command, &environment()).expect("no NUL"));
    assert_eq!(bytes.trim(), "ff 20 fe");
    let twice = [
        (word("A"), word("1")),
        (word("A"), word("2")),
        (word(""), word("x")),
    ];
    let (variables, _) = output(Spawn::new(&[word("env")], &twice).expect("no NUL"));
    assert_eq!(variables, "A=1\nA=2\n=x\n");
}

#[test]
fn a_script_without_an_interpreter_runs_under_the_shell() {
    let home = tempfile::tempdir().expect("directory");
    let file = home.path().join("-script");
    write_file(&file, b"echo \"$0 $#\"\n", 0o755);
    let (text, exit) = output(spawn(&[file.to_str().expect("UTF-8"), "a", "b"]));
    assert_eq!(
        (text, exit),
        (format!("{} 2\n", file.display()), Exit::Code(0))
    );
}

#[test]
fn what_cannot_be_invoked_is_126_and_what_is_not_found_is_127() {
    let home = tempfile::tempdir().expect("directory");
    let path = |name: &str| home.path().join(name);
    fs::create_dir(path("dir")).expect("mkdir");
    write_file(&path("plain"), b"echo\n", 0o644);
    write_file(&path("junk"), b"\x7fELF\0junk", 0o755);
    write_file(&path("script"), b"#!/nonexistent/sh -e\n", 0o755);
    let at = |name: &str| path(name).to_str().expect("UTF-8").to_owned();
    let search = format!("/nonexistent:{}", home.path().display());
    for (word, code, text) in [
        (at("dir"), 126, "is a directory"),
        (at("plain"), 126, "permission denied"),
        (at("junk"), 126, "cannot execute binary file"),
        (at("plain/x"), 126, "not a directory"),
        (at("nothing"), 127, "no such file or directory"),
        (
            at("script"),
            127,
            "bad interpreter /nonexistent/sh: no such file",
        ),
        ("dir".to_owned(), 127, "dir: command not found"),
        ("nothing".to_owned(), 127, "nothing: command not found"),
        ("plain".to_owned(), 126, "permission denied"),
        ("script".to_owned(), 127, "bad interpreter"),
        (String::new(), 127, "command not found"),
    ] {
        let failure = failure(&[&word], &search);
        assert_eq!(failure.code, code, "{word}: {failure}");
        assert!(failure.message.contains(text), "{word}: {failure}");
    }
}

#[test]
fn a_file_without_permission_does_not_hide_a_later_one() {
    let home = tempfile::tempdir().expect("directory");
    write_file(&home.path().join("env"), b"", 0o644);
    let path = format!("{}:/usr/bin:/bin", home.path().display());
    let spawn = Spawn::new(&["env".into()], &[("PATH".into(), path.clone().into())]);
    let (text, _) = output(spawn.expect("no NUL"));
    assert_eq!(text, format!("PATH={path}\n"));
}

#[test]
fn too_many_arguments_are_126() {
    let failure = failure(&["true", &"x".repeat(1 << 20)], "/usr/bin:/bin");
    assert_eq!((failure.code, failure.errno), (126, libc::E2BIG));
    assert!(
        failure.message.ends_with("argument list too long"),
        "{failure}"
    );
}

#[test]
fn a_raised_limit_is_not_the_childs() {
    own_process!(
        "a_raised_limit_is_not_the_childs",
        &["sh", "-c", "ulimit -S -n 99; exec \"$@\"", "sh"],
        || {
            let limit = sys::raise_soft_limit(libc::RLIMIT_NOFILE as c_int).expect("raised");
            let (raised, _) = output(script("ulimit -n", &[]));
            assert_ne!(raised.trim(), "99");
            let (restored, _) = output(script("ulimit -n", &[]).restore_limit(limit));
            assert_eq!(restored.trim(), "99");
        }
    );
}
