//! A private world for one test: its own home, store, working directory and environment, commands
//! with a hard limit, and the end of every process that was started in it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::command::{Cmd, Done};
use crate::procs;

/// How long a command may take before the test fails: far beyond what a loaded machine needs.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The binary under test.
pub const IDEM: &str = env!("CARGO_BIN_EXE_idem");

/// What every bash script of the tests can use: `idem` and a wait with a limit.
const PRELUDE: &str = r#"
set -u
idem() { "$IDEM" "$@"; }
lines() { if [ -e "$1" ]; then wc -l <"$1"; else echo 0; fi; }
upto() { local end=$((SECONDS + 40)); until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || { echo "not within the limit: $*" >&2; exit 99; }; sleep 0.02; done; }
"#;

/// One test's world. Dropping it kills everything that runs in it and removes its files.
pub struct TestEnv {
    root: TempDir,
    vars: Vec<(OsString, OsString)>,
}

impl TestEnv {
    /// An empty home, no store yet, nothing inherited but the search path.
    pub fn new() -> TestEnv {
        let root = TempDir::with_prefix("idem-test.").expect("a temporary directory");
        for sub in ["home", "work", "state", "config", "tmp"] {
            fs::create_dir(root.path().join(sub)).expect("a private directory");
        }
        let at = |sub: &str| root.path().join(sub).into_os_string();
        let vars = vec![
            (
                "PATH".into(),
                std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()),
            ),
            ("HOME".into(), at("home")),
            ("XDG_STATE_HOME".into(), at("state")),
            ("XDG_CONFIG_HOME".into(), at("config")),
            ("TMPDIR".into(), at("tmp")),
            ("LC_ALL".into(), "C".into()),
            ("TZ".into(), "UTC".into()),
            ("IDEM".into(), IDEM.into()),
        ];
        TestEnv { root, vars }
    }

    /// Puts a directory in front of the search path.
    pub fn prepend_path(&mut self, directory: &Path) {
        let old = self.vars.iter().find(|(name, _)| name == "PATH");
        let old = old.map(|(_, value)| value.clone()).unwrap_or_default();
        let mut path = directory.as_os_str().to_owned();
        path.push(":");
        path.push(&old);
        self.set("PATH", path);
    }

    /// Gives every command this variable.
    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.vars.retain(|(known, _)| known != name);
        self.vars.push((name.into(), value.into()));
    }

    /// The private home; every process of this test has it in its environment.
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// The directory that everything of this test lives in.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// A file in the working directory of the commands.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.path().join("work").join(name)
    }

    /// The directory of the default store.
    pub fn store_dir(&self) -> PathBuf {
        self.root.path().join("state/idem")
    }

    /// The database of the default store.
    pub fn store(&self) -> PathBuf {
        self.store_dir().join("idem.db")
    }

    /// Keeps everybody else from writing to the default store until it is dropped.
    pub fn lock_store(&self) -> rusqlite::Connection {
        let store = rusqlite::Connection::open(self.store()).expect("the store");
        store
            .execute_batch("BEGIN IMMEDIATE")
            .expect("the write lock");
        store
    }

    /// Any program, in this environment.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Cmd {
        let mut command = std::process::Command::new(program);
        self.dress(&mut command);
        command.stdin(Stdio::null());
        Cmd::new(command, &self.home())
    }

    /// Gives a command this environment and this working directory.
    pub fn dress(&self, command: &mut std::process::Command) {
        command
            .env_clear()
            .envs(self.vars.iter().map(|(k, v)| (k, v)))
            .current_dir(self.path(""));
    }

    /// `idem` with arguments split at blanks.
    pub fn idem(&self, args: &str) -> Cmd {
        self.command(IDEM).args(args.split_whitespace())
    }

    /// `idem run OPTIONS -- sh -c SCRIPT`, the options split at blanks.
    pub fn run(&self, options: &str, script: &str) -> Cmd {
        self.idem("run")
            .args(options.split_whitespace())
            .args(["--", "sh", "-c", script])
    }

    /// A bash script that can call `idem`, `lines` and `upto`.
    pub fn bash(&self, script: &str) -> Cmd {
        self.command("bash")
            .args(["-c", &format!("{PRELUDE}{script}")])
    }

    /// Runs a bash script that must end with 0, and gives its standard output without final newlines.
    #[track_caller]
    pub fn says(&self, script: &str) -> String {
        self.bash(script)
            .end()
            .code(0)
            .out_text()
            .trim_end_matches('\n')
            .into()
    }

    /// The number of lines of a file, 0 if there is none.
    pub fn lines(&self, name: &str) -> usize {
        match fs::read(self.path(name)) {
            Ok(bytes) => bytes.iter().filter(|b| **b == b'\n').count(),
            Err(_) => 0,
        }
    }

    /// A file's text, lossily; empty if there is none.
    pub fn read(&self, name: &str) -> String {
        fs::read(self.path(name))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// A file's words in their order, joined by one blank.
    pub fn words(&self, name: &str) -> String {
        self.read(name)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Writes a file in the working directory.
    #[track_caller]
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).expect("a file of the test");
    }

    /// Writes an executable file by way of a process of its own: were it written here, a child that
    /// another test forks meanwhile could hold it open for writing, and it could not be executed.
    #[track_caller]
    pub fn script(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "cat >\"$1\" && chmod 755 \"$1\"", "sh"])
            .arg(self.path(name))
            .stdin(Stdio::piped())
            .spawn()
            .expect("sh");
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(bytes.as_ref()).expect("the script");
        drop(input);
        assert!(child.wait().expect("sh").success());
    }

    /// Creates an empty file: opens a gate that a child waits at, see [`gate`].
    #[track_caller]
    pub fn touch(&self, name: &str) {
        self.write(name, "");
    }

    /// Creates a named pipe, for a child that waits with `read x <NAME`: unlike [`gate`] that forks
    /// nothing, and so it can be stopped at any moment.
    #[track_caller]
    pub fn fifo(&self, name: &str) {
        self.command("mkfifo").arg(name).end().code(0);
    }

    /// Lets the child that reads from a named pipe go on.
    #[track_caller]
    pub fn open_fifo(&self, name: &str) {
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = fs::OpenOptions::new();
        options.write(true).custom_flags(libc::O_NONBLOCK);
        let mut pipe = None;
        upto("the pipe has a reader", || {
            pipe = options.open(self.path(name)).ok();
            pipe.is_some()
        });
        let mut pipe = pipe.expect("an open pipe");
        pipe.write_all(b"go\n").expect("a line for the child");
    }

    /// Waits until a file has at least so many lines.
    #[track_caller]
    pub fn upto_lines(&self, name: &str, count: usize) {
        upto(&format!("{count} lines in {name}"), || {
            self.lines(name) >= count
        });
    }

    /// The operation as `idem status KEY --json` tells it.
    #[track_caller]
    pub fn status(&self, key: &str) -> Value {
        self.command(IDEM)
            .args(["status", key, "--json"])
            .end()
            .code(0)
            .json()
    }

    /// The operation's state, or `none`.
    #[track_caller]
    pub fn state(&self, key: &str) -> String {
        let done = self.command(IDEM).args(["status", key, "--json"]).end();
        match done.code {
            0 => text(&done.json()["state"]),
            1 => "none".into(),
            _ => panic!("status of {key}: {done}"),
        }
    }

    /// Waits until the operation is in this state.
    #[track_caller]
    pub fn upto_state(&self, key: &str, state: &str) {
        upto(&format!("{key} is {state}"), || self.state(key) == state);
    }

    /// The keeper's PID of an operation.
    #[track_caller]
    pub fn keeper(&self, key: &str) -> i32 {
        pid(&self.status(key)["owner"]["pid"])
    }

    /// The child's PID of an operation's last attempt.
    #[track_caller]
    pub fn child(&self, key: &str) -> i32 {
        let status = self.status(key);
        let attempts = status["attempts"].as_array().expect("attempts");
        pid(&attempts.last().expect("an attempt")["pid"])
    }

    /// Makes an operation unknown: its child runs once (a line in `file`) and dies of a signal.
    #[track_caller]
    pub fn make_unknown(&self, key: &str, script: &str) -> Done {
        let done = self
            .command(IDEM)
            .args(["run", "--key", key, "--", "sh", "-c", script])
            .end();
        assert_eq!(self.state(key), "unknown", "{done}");
        done
    }

    /// Everything of this test that still runs, as command lines.
    pub fn running(&self) -> Vec<(i32, String)> {
        procs::of_home(&self.home())
    }

    /// Waits until nothing of this test runs any more.
    #[track_caller]
    pub fn upto_quiet(&self) {
        let end = Instant::now() + LIMIT;
        while !self.running().is_empty() {
            assert!(Instant::now() < end, "still running: {:?}", self.running());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        procs::kill_home(&self.home());
    }
}

/// A JSON string's text; the JSON itself for anything else.
pub fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// The keys of a list of operations, in its order.
#[track_caller]
pub fn keys(list: &Value) -> Vec<String> {
    let list = list.as_array().expect("a list");
    list.iter().map(|op| text(&op["key"])).collect()
}

/// A JSON number as a PID.
#[track_caller]
pub fn pid(value: &Value) -> i32 {
    let number = value.as_i64().unwrap_or_else(|| panic!("no pid: {value}"));
    i32::try_from(number).expect("a pid")
}

/// Shell code that waits until a file exists: the child goes on when the test says so.
pub fn gate(name: &str) -> String {
    format!("until test -e {name}; do sleep 0.02; done")
}

/// Waits until a condition holds; the test fails when it does not within the limit.
#[track_caller]
pub fn upto(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < end, "not within the limit: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the test binary runs as root. A test that needs root says so and leaves otherwise; under
/// `CI=true` a missing right is a failure.
#[track_caller]
pub fn root_or_leave(why: &str) -> bool {
    // SAFETY: geteuid has no preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    may_leave(root, &format!("needs root: {why}"))
}

/// Whether a program is there; like [`root_or_leave`].
#[track_caller]
pub fn tool_or_leave(name: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).any(|dir| dir.join(name).is_file());
    may_leave(found, &format!("needs {name}"))
}

/// Says that a test is left out, or fails it where nothing may be left out.
#[track_caller]
pub fn may_leave(met: bool, what: &str) -> bool {
    if !met {
        let strict = std::env::var_os("CI").is_some_and(|ci| ci == "true");
        assert!(!strict, "{what}");
        eprintln!("left out: {what}");
    }
    met
}
