//! A private home for one test, and commands in it with a hard limit.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Far beyond what a loaded machine needs.
const LIMIT: Duration = Duration::from_secs(60);

pub struct Place {
    root: TempDir,
}

impl Place {
    /// An empty home, no store, no configuration.
    pub fn new() -> Place {
        let root = TempDir::with_prefix("idem-options.").expect("a temporary directory");
        for sub in ["home", "work", "state", "config/idem"] {
            fs::create_dir_all(root.path().join(sub)).expect("a private directory");
        }
        Place { root }
    }

    pub fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.path().join(name)
    }

    /// A file in the working directory.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.at("work").join(name)
    }

    pub fn store(&self) -> PathBuf {
        self.at("state/idem/idem.db")
    }

    /// The user's own configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.at("config/idem/config.toml")
    }

    /// Writes the user's own configuration.
    pub fn configure(&self, text: &str) {
        write_private(&self.config_file(), text);
    }

    /// A file in the working directory, which nobody else can write.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        write_private(&path, text);
        path
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub fn lines(&self, name: &str) -> usize {
        self.read(name).lines().count()
    }

    /// `idem` with these arguments, to be run with [`end`].
    pub fn idem<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_idem"));
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        command
            .args(arguments)
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.at("home"))
            .env("XDG_STATE_HOME", self.at("state"))
            .env("XDG_CONFIG_HOME", self.at("config"))
            .env("TZ", "UTC")
            .current_dir(self.at("work"))
            .stdin(Stdio::null());
        command
    }

    /// The same with arguments split at blanks.
    pub fn line(&self, arguments: &str) -> Command {
        self.idem(arguments.split_whitespace())
    }

    /// `idem run OPTIONS -- sh -c SCRIPT`, the options split at blanks.
    pub fn run(&self, options: &str, script: &str) -> Command {
        let mut command = self.line(&format!("run {options}"));
        command.args(["--", "sh", "-c", script]);
        command
    }
}

fn write_private(path: &Path, text: &str) {
    fs::write(path, text).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("its mode");
}

/// How a command ended.
pub struct Done {
    what: String,
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Done {
            what,
            code,
            out,
            err,
        } = self;
        write!(f, "{what}\ncode {code:?}\nstdout: {out:?}\nstderr: {err:?}")
    }
}

impl Done {
    #[track_caller]
    pub fn code(self, code: i32) -> Done {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    #[track_caller]
    pub fn says(self, part: &str) -> Done {
        assert!(self.err.contains(part), "stderr has no {part:?}\n{self}");
        self
    }

    /// Refused before anything happened: 125, nothing on stdout, one line of idem's on stderr.
    pub fn is_refused(&self) -> bool {
        let one_line = self.err.lines().count() == 1 && self.err.ends_with('\n');
        let by_idem = self.err.starts_with("idem: ");
        self.code == Some(125) && self.out.is_empty() && one_line && by_idem
    }

    #[track_caller]
    pub fn refused(self) -> Done {
        assert!(self.is_refused(), "not refused in one line\n{self}");
        self
    }
}

/// Runs it to its end and to the end of both streams.
#[track_caller]
pub fn end(mut command: Command) -> Done {
    let what: String = format!("{:?}", command.get_args().collect::<Vec<_>>());
    let what: String = what.chars().take(400).collect();
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let child = child.unwrap_or_else(|error| panic!("{what}: {error}"));
    let pid = child.id().cast_signed();
    let (tell, told) = channel();
    std::thread::spawn(move || tell.send(child.wait_with_output()));
    let output = told.recv_timeout(LIMIT).unwrap_or_else(|_| {
        // SAFETY: integers only; the child is not reaped, since its end was not told.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        panic!("{what}: no end within {LIMIT:?}")
    });
    let output = output.unwrap_or_else(|error| panic!("{what}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Done {
        what,
        code: output.status.code(),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}

/// Waits until something is so.
#[track_caller]
pub fn upto(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < until, "not within the limit: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
