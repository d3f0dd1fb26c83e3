//! What the tests of this directory share. They wait for conditions, with a limit, and never for time.

use std::ffi::OsString;
use std::process::{Command, Stdio as StdStdio};
use std::time::Duration;

use super::clock::monotonic;
use super::spawn::{Running, Spawn};

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

/// Runs the body of a test in a process of its own, which executes nothing but that one test.
pub fn run_in_own_process(test: &str, body: impl FnOnce()) {
    let test = test.split_once("::").map_or(test, |(_crate, path)| path);
    if std::env::var(ROLE).is_ok_and(|role| role == test) {
        return body();
    }
    let mut command = Command::new(std::env::current_exe().expect("own path"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(ROLE, test).stdin(StdStdio::null());
    let output = command.output().expect("this program again");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{errors}"
    );
}

/// [`run_in_own_process`] for a test of the calling module.
macro_rules! own_process {
    ($test:literal, $body:expr) => {
        $crate::process::testing::run_in_own_process(concat!(module_path!(), "::", $test), $body)
    };
}
pub(crate) use own_process;
