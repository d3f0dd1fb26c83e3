//! Commands of a test: run to their end with a hard limit, or kept in the background.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::env::LIMIT;
use crate::procs;

/// A command before it starts.
pub struct Cmd {
    command: Command,
    home: PathBuf,
    input: Option<Vec<u8>>,
    limit: Duration,
    out_piped: bool,
    err_piped: bool,
}

impl Cmd {
    /// Takes a prepared command; `home` marks the processes that belong to its test.
    pub fn new(command: Command, home: &Path) -> Cmd {
        Cmd {
            command,
            home: home.into(),
            input: None,
            limit: LIMIT,
            out_piped: true,
            err_piped: true,
        }
    }

    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Cmd {
        self.command.arg(arg);
        self
    }

    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Cmd {
        self.command.args(args);
        self
    }

    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Cmd {
        self.command.env(name, value);
        self
    }

    pub fn unset(mut self, name: impl AsRef<OsStr>) -> Cmd {
        self.command.env_remove(name);
        self
    }

    pub fn cwd(mut self, dir: impl AsRef<Path>) -> Cmd {
        self.command.current_dir(dir);
        self
    }

    /// Writes these bytes into a pipe and closes it.
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Cmd {
        self.command.stdin(Stdio::piped());
        self.input = Some(bytes.into());
        self
    }

    /// A descriptor instead of the empty standard input.
    pub fn stdin(mut self, stdin: impl Into<Stdio>) -> Cmd {
        self.command.stdin(stdin);
        self
    }

    /// Standard output goes here instead of into [`Done`].
    pub fn stdout(mut self, stdout: impl Into<Stdio>) -> Cmd {
        self.command.stdout(stdout);
        self.out_piped = false;
        self
    }

    /// Standard error goes here instead of into [`Done`].
    pub fn stderr(mut self, stderr: impl Into<Stdio>) -> Cmd {
        self.command.stderr(stderr);
        self.err_piped = false;
        self
    }

    /// Both streams into one file.
    pub fn both_to(self, file: &Path) -> Cmd {
        let out = File::create(file).expect("a file for the output");
        let err = out.try_clone().expect("its second descriptor");
        self.stdout(out).stderr(err)
    }

    /// A process group of its own, to be killed as a whole.
    pub fn own_group(mut self) -> Cmd {
        self.command.process_group(0);
        self
    }

    /// Runs in the new process before the program does.
    pub fn before(
        mut self,
        act: impl FnMut() -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Cmd {
        // SAFETY: the tests pass only closures that make plain system calls.
        unsafe { self.command.pre_exec(act) };
        self
    }

    pub fn limit(mut self, limit: Duration) -> Cmd {
        self.limit = limit;
        self
    }

    /// Starts it in the background.
    #[track_caller]
    pub fn start(self) -> Running {
        let what = what(&self.command);
        self.try_start()
            .unwrap_or_else(|e| panic!("cannot start {what}: {e}"))
    }

    /// Starts it in the background, if the system lets it.
    pub fn try_start(mut self) -> std::io::Result<Running> {
        if self.out_piped {
            self.command.stdout(Stdio::piped());
        }
        if self.err_piped {
            self.command.stderr(Stdio::piped());
        }
        let what = what(&self.command);
        let started = Instant::now();
        let mut child = self.command.spawn()?;
        if let (Some(bytes), Some(mut pipe)) = (self.input, child.stdin.take()) {
            // A child that does not read its input closes the pipe early; that is its right.
            std::thread::spawn(move || drop(pipe.write_all(&bytes)));
        }
        Ok(Running {
            out: Reader::new(child.stdout.take()),
            err: Reader::new(child.stderr.take()),
            child,
            home: self.home,
            limit: self.limit,
            what,
            started,
            ended: None,
        })
    }

    /// Runs it to its end: until it has exited and both streams are closed.
    #[track_caller]
    pub fn end(self) -> Done {
        self.start().end()
    }
}

/// Collects a stream while the process runs.
struct Reader {
    bytes: Arc<Mutex<Vec<u8>>>,
    closed: Option<Receiver<()>>,
}

impl Reader {
    fn new(stream: Option<impl Read + Send + 'static>) -> Reader {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let closed = stream.map(|stream| {
            let (tell, closed) = channel();
            let sink = Arc::clone(&bytes);
            std::thread::spawn(move || {
                pump(stream, &sink);
                tell.send(()).ok();
            });
            closed
        });
        Reader { bytes, closed }
    }

    fn so_far(&self) -> Vec<u8> {
        self.bytes.lock().expect("the reader's bytes").clone()
    }

    /// Whether the stream was closed before `end`.
    fn closes_before(&self, end: Instant) -> bool {
        match &self.closed {
            None => true,
            Some(closed) => closed
                .recv_timeout(end.saturating_duration_since(Instant::now()))
                .is_ok(),
        }
    }
}

/// Reads a stream to its end.
fn pump(mut stream: impl Read, sink: &Mutex<Vec<u8>>) {
    let mut chunk = [0u8; 65536];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return,
            Ok(n) => sink
                .lock()
                .expect("the reader's bytes")
                .extend_from_slice(&chunk[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// A command in the background. Dropping it kills it.
pub struct Running {
    child: Child,
    out: Reader,
    err: Reader,
    home: PathBuf,
    limit: Duration,
    what: String,
    started: Instant,
    ended: Option<ExitStatus>,
}

impl Running {
    /// Its PID, which is also its group's after [`Cmd::own_group`].
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid")
    }

    pub fn signal(&self, signal: i32) {
        procs::signal(self.pid(), signal);
    }

    /// Kills it and waits for it, whatever else it started.
    pub fn kill(mut self) {
        self.signal(libc::SIGKILL);
        drop(self.child.wait());
    }

    /// What it has written on standard output so far.
    pub fn out_so_far(&self) -> String {
        String::from_utf8_lossy(&self.out.so_far()).into_owned()
    }

    /// What it has written on standard error so far.
    pub fn err_so_far(&self) -> String {
        String::from_utf8_lossy(&self.err.so_far()).into_owned()
    }

    /// Waits until it sleeps and nothing about it moves: it waits for something.
    #[track_caller]
    pub fn upto_waiting(&self) {
        crate::env::upto(&format!("{} waits", self.what), || procs::waits(self.pid()));
    }

    /// Waits for its end and the end of both streams.
    #[track_caller]
    pub fn end(mut self) -> Done {
        let end = Instant::now() + self.limit;
        let status = loop {
            match self.child.try_wait().expect("its status") {
                Some(status) => break status,
                None if Instant::now() > end => self.too_late("it has not ended"),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        if !(self.out.closes_before(end) && self.err.closes_before(end)) {
            self.too_late("its streams are held open");
        }
        self.ended = Some(status);
        Done {
            what: self.what.clone(),
            code: status
                .code()
                .or(status.signal().map(|n| 128 + n))
                .unwrap_or(-1),
            signal: status.signal(),
            stdout: self.out.so_far(),
            stderr: self.err.so_far(),
            elapsed: self.started.elapsed(),
        }
    }

    #[track_caller]
    fn too_late(&mut self, why: &str) -> ! {
        let tree = procs::of_home(&self.home);
        procs::kill_home(&self.home);
        panic!(
            "{why} within {:?}: {}\nout: {}\nerr: {}\nrunning: {tree:?}",
            self.limit,
            self.what,
            self.out_so_far(),
            self.err_so_far()
        );
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended.is_none() {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

/// How a command ended. The checks print all of it when they fail.
#[derive(Clone)]
pub struct Done {
    pub what: String,
    /// The exit code, or 128 plus the signal's number, as a shell sees it.
    pub code: i32,
    pub signal: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// From the start to the end of the process and of both streams.
    pub elapsed: Duration,
}

impl Done {
    #[track_caller]
    pub fn code(&self, code: i32) -> &Done {
        assert_eq!(self.code, code, "exit code\n{self}");
        self
    }

    #[track_caller]
    pub fn died_of(&self, signal: i32) -> &Done {
        assert_eq!(self.signal, Some(signal), "signal\n{self}");
        self
    }

    /// Standard output, exactly.
    #[track_caller]
    pub fn out(&self, wanted: impl AsRef<[u8]>) -> &Done {
        assert!(
            self.stdout == wanted.as_ref(),
            "stdout, wanted {:?}\n{self}",
            shown(wanted.as_ref())
        );
        self
    }

    /// Standard error, exactly.
    #[track_caller]
    pub fn err(&self, wanted: impl AsRef<[u8]>) -> &Done {
        assert!(
            self.stderr == wanted.as_ref(),
            "stderr, wanted {:?}\n{self}",
            shown(wanted.as_ref())
        );
        self
    }

    /// A part of standard error.
    #[track_caller]
    pub fn says(&self, part: &str) -> &Done {
        assert!(
            self.err_text().contains(part),
            "stderr has no {part:?}\n{self}"
        );
        self
    }

    #[track_caller]
    pub fn never_says(&self, part: &str) -> &Done {
        assert!(
            !self.err_text().contains(part),
            "stderr has {part:?}\n{self}"
        );
        self
    }

    /// Standard error is one line of idem's and nothing else.
    #[track_caller]
    pub fn one_line(&self) -> &Done {
        let text = self.err_text();
        let one = text.starts_with("idem: ") && text.ends_with('\n') && text.lines().count() == 1;
        assert!(one, "stderr is not one line of idem's\n{self}");
        self
    }

    /// It took less than this: a check that something was not waited for, never a measurement.
    #[track_caller]
    pub fn within(&self, limit: Duration) -> &Done {
        assert!(self.elapsed < limit, "took {:?}\n{self}", self.elapsed);
        self
    }

    /// Standard output as one JSON value and nothing else.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|e| panic!("stdout is not one JSON value: {e}\n{self}"))
    }

    pub fn out_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn err_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.what)?;
        writeln!(
            f,
            "code {}, signal {:?}, after {:?}",
            self.code, self.signal, self.elapsed
        )?;
        writeln!(f, "stdout: {:?}", shown(&self.stdout))?;
        write!(f, "stderr: {:?}", shown(&self.stderr))
    }
}

/// The arguments of a command, for messages.
fn what(command: &Command) -> String {
    let all = format!("{:?}", command.get_args().collect::<Vec<_>>());
    all.chars().take(400).collect()
}

/// The first part of some bytes, as text.
fn shown(bytes: &[u8]) -> String {
    let part = &bytes[..bytes.len().min(1500)];
    String::from_utf8_lossy(part).into_owned()
}
