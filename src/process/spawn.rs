//! Children behind a gate: forked early, so that the claim can record their PID, and executing nothing
//! until the claim is durable.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};

use libc::{c_int, pid_t};

use super::exec::{ExecFailure, Image};
use super::signal::{SignalSet, keep_ended_children};
use super::sys::{self, SavedLimit, check, errno_text};
use super::{entry, proc, wait};
use crate::domain::outcome::Exit;
use crate::domain::owner::ProcessRef;

/// The exit code of a child whose gate was closed: it executed nothing and nobody reads the code.
const NOT_STARTED: c_int = 125;

/// Where one of a child's descriptors 0–2 comes from.
#[derive(Debug, Clone, Copy)]
pub enum Stdio<'a> {
    /// The one that idem has; closed if idem's caller had closed it.
    Inherit,
    /// This one.
    Fd(BorrowedFd<'a>),
}

/// A child to be: what it executes and what it is given. Everything else (working directory, umask,
/// priority, limits, further descriptors of the caller) it inherits.
#[derive(Debug)]
pub struct Spawn<'a> {
    image: Image,
    stdio: [Stdio<'a>; 3],
    tree_lock: Option<BorrowedFd<'a>>,
    limits: Vec<SavedLimit>,
    own_session: bool,
}

impl<'a> Spawn<'a> {
    /// Prepares a command with exactly this environment. The first word is looked up as a shell does it,
    /// along the first `PATH` of that environment; bytes need not be UTF-8, and duplicates are kept.
    pub fn new(
        command: &[OsString],
        env: &[(OsString, OsString)],
    ) -> Result<Spawn<'a>, CannotStart> {
        let image = Image::new(command, env).map_err(|_| {
            let name = command
                .first()
                .map_or("".into(), |name| name.to_string_lossy());
            CannotStart::by_system(&name, &io::Error::from_raw_os_error(libc::EINVAL))
        })?;
        Ok(Spawn {
            image,
            stdio: [Stdio::Inherit; 3],
            tree_lock: None,
            limits: Vec::new(),
            own_session: false,
        })
    }

    /// What becomes the child's stdin, stdout and stderr.
    pub fn stdio(mut self, stdin: Stdio<'a>, stdout: Stdio<'a>, stderr: Stdio<'a>) -> Self {
        self.stdio = [stdin, stdout, stderr];
        self
    }

    /// The descriptor that carries the tree's byte: the child and all its descendants inherit it under
    /// the same number. It is close-on-exec here and stays so.
    pub fn tree_lock(mut self, lock: BorrowedFd<'a>) -> Self {
        self.tree_lock = Some(lock);
        self
    }

    /// A limit that idem changed for itself and the child gets back.
    pub fn restore_limit(mut self, limit: SavedLimit) -> Self {
        self.limits.push(limit);
        self
    }

    /// Gives the child a session of its own, whose controlling terminal is the child's stdin.
    pub fn own_session(mut self) -> Self {
        self.own_session = true;
        self
    }

    /// Forks the child into a process group of its own and leaves it waiting at its gate, with the signal
    /// dispositions of idem's own start and every signal blocked until it executes.
    ///
    /// If this process dies, the gate closes and the child ends without having executed anything.
    pub fn fork(mut self) -> Result<GatedChild, CannotStart> {
        let name = self.image.name().into_owned();
        let cannot = |error| CannotStart::by_system(&name, &error);
        keep_ended_children().map_err(cannot)?;
        let (pid, gate, report) = self.fork_behind_gate().map_err(cannot)?;
        match watch(pid, self.own_session) {
            Ok((process, pidfd)) => Ok(GatedChild {
                process,
                pidfd,
                gate,
                report,
                image: self.image,
                leash: Leash(Some(pid)),
            }),
            Err(error) => {
                discard(pid);
                Err(cannot(error))
            }
        }
    }

    /// Returns the child's PID, the write end of its gate and the read end of its report.
    fn fork_behind_gate(&mut self) -> io::Result<(pid_t, OwnedFd, OwnedFd)> {
        // The report's closing tells that the child executes, so no other child may inherit its write end.
        let _turn = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
        let pipes = Pipes::open()?;
        // Blocked, so that no handler of this process ever runs in the child.
        let mask = SignalSet::ALL.set_mask()?;
        // SAFETY: the child's branch calls async-signal-safe functions only and never returns.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            self.run_in_child(&pipes);
        }
        let forked = check(pid);
        mask.set_mask()?;
        Ok((forked?, pipes.gate.1, pipes.report.0))
    }

    /// The child's side of the fork. Async-signal-safe: no allocation, no lock, no panic.
    fn run_in_child(&mut self, pipes: &Pipes) -> ! {
        let report = pipes.report.1.as_raw_fd();
        let failure = match self.set_up_child(pipes) {
            Ok(()) => {
                send(report, [STARTING, 0, 0]);
                let ExecFailure { errno, candidate } = self.image.exec();
                [EXEC_FAILED, errno, c_int::try_from(candidate).unwrap_or(-1)]
            }
            Err(error) => [SET_UP_FAILED, error.raw_os_error().unwrap_or(0), 0],
        };
        send(report, failure);
        // SAFETY: ends the child without running anything of its parent's.
        unsafe { libc::_exit(NOT_STARTED) }
    }

    fn set_up_child(&self, pipes: &Pipes) -> io::Result<()> {
        if self.own_session {
            // SAFETY: no arguments.
            check(unsafe { libc::setsid() })?;
        } else {
            // The parent does the same: whoever comes first, the group exists before the other goes on.
            // SAFETY: integers only.
            check(unsafe { libc::setpgid(0, 0) })?;
        }
        // The gate must have its only write end in the parent, or its closing would go unnoticed.
        // SAFETY: the child never touches these two again, and runs no destructors.
        unsafe {
            libc::close(pipes.gate.1.as_raw_fd());
            libc::close(pipes.report.0.as_raw_fd());
        }
        self.set_up_stdio()?;
        if self.own_session {
            // SAFETY: integers only.
            check(unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) })?;
        }
        if let Some(lock) = self.tree_lock {
            // SAFETY: F_SETFD takes an integer.
            check(unsafe { libc::fcntl(lock.as_raw_fd(), libc::F_SETFD, 0) })?;
        }
        for limit in &self.limits {
            limit.restore()?;
        }
        entry::state().restore_dispositions();
        wait_at_gate(pipes.gate.0.as_raw_fd());
        entry::state().restore_mask()
    }

    fn set_up_stdio(&self) -> io::Result<()> {
        let mut sources = [-1; 3];
        for (source, stdio) in sources.iter_mut().zip(self.stdio) {
            if let Stdio::Fd(fd) = stdio {
                *source = out_of_the_way(fd.as_raw_fd())?;
            }
        }
        for (target, source) in (0..).zip(sources) {
            if source >= 0 {
                // SAFETY: dup2 takes integers.
                sys::uninterrupted(|| unsafe { libc::dup2(source, target) })?;
            } else if entry::state().was_closed(target) {
                // SAFETY: nothing in the child uses what the runtime opened here.
                unsafe { libc::close(target) };
            }
        }
        Ok(())
    }
}

/// Held from the making of a child's pipes until this process has closed the child's ends of them.
static FORKING: Mutex<()> = Mutex::new(());

/// Keeps other threads of a test from forking, for instance while a file is open for writing that is
/// executed next.
#[cfg(test)]
pub(super) fn no_forks() -> std::sync::MutexGuard<'static, ()> {
    FORKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Each is `(read end, write end)`.
struct Pipes {
    /// One byte lets the child go.
    gate: (OwnedFd, OwnedFd),
    /// What the child tells about its start.
    report: (OwnedFd, OwnedFd),
}

impl Pipes {
    fn open() -> io::Result<Pipes> {
        Ok(Pipes {
            gate: sys::pipe()?,
            report: sys::pipe()?,
        })
    }
}

/// One message of a child: what happened, an error number, the number of a candidate.
type Message = [c_int; 3];
const MESSAGE_BYTES: usize = size_of::<Message>();
/// Everything is set up; the next thing is to execute.
const STARTING: c_int = 1;
const SET_UP_FAILED: c_int = 2;
const EXEC_FAILED: c_int = 3;

fn send(report: RawFd, message: Message) {
    // Shorter than PIPE_BUF, it is written whole or not at all, and if not, the parent sees a child that
    // ended too early.
    // SAFETY: the kernel reads exactly the message.
    let write = || unsafe { libc::write(report, message.as_ptr().cast(), MESSAGE_BYTES) as c_int };
    let _ = sys::uninterrupted(write);
}

/// Returns once the gate was opened; ends the process if it was closed.
fn wait_at_gate(gate: RawFd) {
    let mut byte = 0_u8;
    // SAFETY: the kernel writes at most one byte into `byte`; _exit runs nothing of the parent's.
    unsafe {
        let read = || libc::read(gate, (&raw mut byte).cast(), 1) as c_int;
        match sys::uninterrupted(read) {
            Ok(1) => {}
            _ => libc::_exit(NOT_STARTED),
        }
    }
}

/// A descriptor below 3 could be overwritten before it is used: takes a duplicate above.
fn out_of_the_way(fd: RawFd) -> io::Result<RawFd> {
    if fd > 2 {
        return Ok(fd);
    }
    // SAFETY: fcntl with an integer argument.
    check(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) })
}

/// What the parent knows of a new child. Its PID cannot be reused, since nobody has reaped it.
fn watch(pid: pid_t, own_session: bool) -> io::Result<(ProcessRef, OwnedFd)> {
    // The leader of a group could not begin a session. It has begun it before it says that it starts.
    if !own_session {
        // Fails only if the child has already died, and then its group does not matter.
        // SAFETY: integers only.
        unsafe { libc::setpgid(pid, pid) };
    }
    let pidfd = sys::pidfd_open(pid)?;
    let start_ticks = proc::start_ticks(pid)?;
    Ok((ProcessRef { pid, start_ticks }, pidfd))
}

/// Ends a child that has executed nothing, and reaps it. A closed gate alone would do, but not for a
/// child that somebody has stopped.
fn discard(pid: pid_t) -> Option<Exit> {
    // SAFETY: the child is unreaped, so the PID is its own.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    wait::reap_blocking(pid).ok()
}

/// A child that is killed and reaped when this is dropped.
#[derive(Debug)]
struct Leash(Option<pid_t>);

impl Leash {
    fn end(mut self) -> Option<Exit> {
        self.0.take().and_then(discard)
    }

    fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.0.take().and_then(discard);
    }
}

/// A forked child that has executed nothing yet, and leads a process group of its own. Dropping it closes
/// the gate: the child ends without having executed anything, and is reaped.
#[derive(Debug)]
pub struct GatedChild {
    process: ProcessRef,
    pidfd: OwnedFd,
    /// The write end.
    gate: OwnedFd,
    /// The read end.
    report: OwnedFd,
    image: Image,
    leash: Leash,
}

impl GatedChild {
    /// The child, for the claim.
    pub fn process(&self) -> ProcessRef {
        self.process
    }

    /// Lets the child execute, and returns when it does or cannot. A child that could not is reaped.
    pub fn open_gate(self) -> Result<Running, CannotStart> {
        // Fails if the child was killed at its gate; its report is empty then.
        let _ = File::from(self.gate).write_all(&[1]);
        let mut report = Vec::new();
        let read = File::from(self.report).read_to_end(&mut report);
        let failure = match (read, messages(&report)) {
            (Ok(_), [Some([STARTING, ..]), None]) => {
                self.leash.release();
                return Ok(Running {
                    process: self.process,
                    pidfd: self.pidfd,
                });
            }
            (Ok(_), failure) => failure,
            (Err(_), _) => [None, None],
        };
        let exit = self.leash.end();
        Err(CannotStart::by_report(&self.image, failure, exit))
    }

    /// Closes the gate: the child ends without having executed anything, and is reaped.
    pub fn abandon(self) {
        drop(self);
    }
}

/// The one or two messages of a report.
fn messages(report: &[u8]) -> [Option<Message>; 2] {
    let (words, _) = report.as_chunks::<{ size_of::<c_int>() }>();
    let (messages, _) = words.as_chunks::<3>();
    let message = |number| {
        let words: &[[u8; 4]; 3] = messages.get(number)?;
        Some(words.map(c_int::from_ne_bytes))
    };
    [message(0), message(1)]
}

/// A child that executes its program. It stays to be reaped with [`wait::reap`].
#[derive(Debug)]
pub struct Running {
    /// The child, leader of its own process group.
    pub process: ProcessRef,
    /// Readable once the child has ended.
    pub pidfd: OwnedFd,
}

/// A command that was certainly not executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CannotStart {
    /// The exit code: 127 not found, 126 cannot be invoked, 128+n killed by signal n before it executed.
    pub code: i32,
    /// The system's error number; 0 if it was killed.
    pub errno: i32,
    /// What happened, in the words of idem's messages, without their prefix.
    pub message: String,
}

impl CannotStart {
    fn by_system(name: &str, error: &io::Error) -> CannotStart {
        let errno = error.raw_os_error().unwrap_or(0);
        CannotStart {
            code: 126,
            errno,
            message: format!("{name}: cannot be started: {}", errno_text(errno)),
        }
    }

    fn by_report(image: &Image, report: [Option<Message>; 2], exit: Option<Exit>) -> CannotStart {
        match report {
            [_, Some([EXEC_FAILED, errno, candidate])] => {
                let candidate = usize::try_from(candidate).unwrap_or(usize::MAX);
                let failure = ExecFailure { errno, candidate };
                CannotStart {
                    code: failure.code(),
                    errno,
                    message: image.explain(failure),
                }
            }
            [Some([SET_UP_FAILED, errno, _]), _] => {
                CannotStart::by_system(&image.name(), &io::Error::from_raw_os_error(errno))
            }
            _ => CannotStart::killed(image, exit),
        }
    }

    fn killed(image: &Image, exit: Option<Exit>) -> CannotStart {
        let signal = match exit {
            Some(Exit::Signal(signal)) => signal,
            Some(Exit::Code(_)) | None => libc::SIGKILL,
        };
        CannotStart {
            code: 128 + signal,
            errno: 0,
            message: format!(
                "{}: killed by signal {signal} before it started",
                image.name()
            ),
        }
    }
}

impl fmt::Display for CannotStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CannotStart {}

#[cfg(test)]
mod tests;
