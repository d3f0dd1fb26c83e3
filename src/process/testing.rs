//! What the tests of this directory share. They wait for conditions, with a limit, and never for time.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsFd;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use super::clock::monotonic;
use super::spawn::{Running, Spawn, Stdio};
use super::{sys, wait};
use crate::domain::outcome::Exit;

/// Far more than any condition takes on a loaded machine.
pub const LIMIT: Duration = Duration::from_secs(60);

const ROLE: &str = "IDEM_TEST_OWN_PROCESS";

/// Waits until the condition holds; fails the test when it does not within [`LIMIT`].
pub fn until(mut condition: impl FnMut() -> bool) {
    let end = monotonic() + LIMIT;
    while !condition() {
        assert!(monotonic() < end, "the condition did not come true in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The environment of this process.
pub fn environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// Prepares `sh -c SCRIPT`, with `$1` and so on from `args`.
pub fn script<'a>(script: &str, args: &[&str]) -> Spawn<'a> {
    let mut command: Vec<OsString> = ["sh", "-c", script, "sh"].map(OsString::from).to_vec();
    command.extend(args.iter().map(OsString::from));
    Spawn::new(&command, &environment()).expect("no NUL")
}

/// Runs `sh -c SCRIPT`.
pub fn shell(text: &str) -> Running {
    let child = script(text, &[]).fork().expect("fork");
    child.open_gate().expect("exec")
}

/// What a child writes to its stdout, and how it ended.
pub fn output(spawn: Spawn<'_>) -> (String, Exit) {
    let (read, write) = sys::pipe().expect("pipe");
    let spawn = spawn.stdio(Stdio::Inherit, Stdio::Fd(write.as_fd()), Stdio::Inherit);
    let child = spawn.fork().expect("fork").open_gate().expect("exec");
    drop(write);
    let mut text = Vec::new();
    File::from(read).read_to_end(&mut text).expect("pipe");
    let exit = wait::reap_blocking(child.process.pid).expect("our child");
    (String::from_utf8_lossy(&text).into_owned(), exit)
}

/// This program again, executing nothing but one test, behind the words of `wrapper`. Returns nothing
/// if this is already that process.
pub fn again(test: &str, wrapper: &[&str]) -> Option<Command> {
    let test = test.split_once("::").map_or(test, |(_crate, path)| path);
    if std::env::var(ROLE).is_ok_and(|role| role == test) {
        return None;
    }
    let program = std::env::current_exe().expect("own path");
    let mut words = wrapper.iter().map(OsString::from).chain([program.into()]);
    let mut command = Command::new(words.next().expect("at least the program"));
    command
        .args(words)
        .args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(ROLE, test).stdin(std::process::Stdio::null());
    Some(command)
}

/// Runs a command to its end, and returns what it wrote. That goes through a file: the end of a pipe
/// would only come when whatever a failed test has left behind is gone as well.
pub fn run(mut command: Command) -> (ExitStatus, String) {
    let mut file = tempfile::tempfile().expect("file");
    let another = || file.try_clone().expect("duplicate");
    command.stdout(another()).stderr(another());
    let status = command.status().expect("started");
    let mut text = String::new();
    file.rewind().expect("file");
    file.read_to_string(&mut text).expect("UTF-8");
    (status, text)
}

/// Runs the body of a test in a process of its own, behind the words of `wrapper`. The only other thread
/// there is the harness's, which waits.
pub fn run_in_own_process(test: &str, wrapper: &[&str], body: impl FnOnce()) {
    let Some(command) = again(test, wrapper) else {
        return body();
    };
    let (status, text) = run(command);
    assert!(status.success() && text.contains("1 passed"), "{text}");
}

/// [`run_in_own_process`] for a test of the calling module.
macro_rules! own_process {
    ($test:literal, $body:expr) => {
        own_process!($test, &[], $body)
    };
    ($test:literal, $wrapper:expr, $body:expr) => {
        $crate::process::testing::run_in_own_process(
            concat!(module_path!(), "::", $test),
            $wrapper,
            $body,
        )
    };
}
pub(crate) use own_process;
