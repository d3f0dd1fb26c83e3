//! A server program of a test's own, which ends with the test's process however that ends.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::tools;

/// Far more than anything here takes on a loaded machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Nobody's numbers: the servers do not run as root.
const NOBODY: u32 = 65534;

/// The program, its supervisor, and its directory.
pub struct Supervised {
    place: PathBuf,
    supervisor: Mutex<Supervisor>,
}

struct Supervisor {
    child: Child,
    /// None once the end was asked for.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    pid: Option<u32>,
}

impl Supervised {
    /// Prepares a directory's server; nothing runs yet. From here on the directory is the supervisor's.
    pub fn new(place: TempDir, end: &str, command: &[&str]) -> Supervised {
        let place = place.keep();
        let mut supervisor = Command::new("sh");
        supervisor
            .args(["-c", include_str!("supervise.sh"), "sh"])
            .arg(&place)
            .arg(end);
        if tools::is_root() {
            supervisor.args([
                "setpriv",
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                "--",
            ]);
        }
        let mut child = supervisor
            .args(command)
            .current_dir(&place)
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let supervisor = Supervisor {
            orders: child.stdin.take(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            pid: None,
            child,
        };
        Supervised {
            place,
            supervisor: Mutex::new(supervisor),
        }
    }

    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Starts the program, which was not running.
    pub fn start(&self) {
        let mut supervisor = self.supervisor();
        let pid = supervisor.order("start").parse().unwrap();
        supervisor.pid = Some(pid);
    }

    /// The program's process.
    pub fn pid(&self) -> u32 {
        self.supervisor().pid.expect("it was started")
    }

    /// Waits until the program has ended.
    pub fn wait(&self) {
        assert_eq!(self.supervisor().order("wait"), "ended");
    }

    /// What the program has said so far.
    pub fn log(&self) -> String {
        let log = std::fs::read(self.place.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    fn supervisor(&self) -> MutexGuard<'_, Supervisor> {
        self.supervisor
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Supervisor {
    fn order(&mut self, order: &str) -> String {
        writeln!(self.orders.as_mut().unwrap(), "{order}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim().to_owned()
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        let mut supervisor = self.supervisor();
        supervisor.orders = None;
        let _ = supervisor.child.wait();
    }
}

/// A new directory that the servers' user can use.
pub fn directory() -> TempDir {
    let place = TempDir::with_prefix("idem-server.").unwrap();
    hand_over(place.path());
    place
}

/// Gives a file or directory to the servers' user.
pub fn hand_over(path: &Path) {
    if tools::is_root() {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// Runs a program of the servers' user to its successful end.
pub fn prepare(place: &Path, command: &[&str]) {
    let mut run = match tools::is_root() {
        true => {
            let mut run = Command::new("setpriv");
            run.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
            run.args(command);
            run
        }
        false => {
            let mut run = Command::new(command[0]);
            run.args(&command[1..]);
            run
        }
    };
    let ran = run
        .current_dir(place)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

/// Sends a signal to a process.
pub fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

/// Waits until the condition holds.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A port on the loopback that nobody listens at. It is below those that the kernel gives to clients, so
/// that it is still free after a restart.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 15_000).unwrap();
    loop {
        let number =
            first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(7)) % 15_000;
        let port = 15_000 + number;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
