//! One child from its gate to its end: output as it comes, signals handed on, limits kept, its tree
//! ended where it has to be.

use super::clock::monotonic;
use super::session::{News, Session, poll, pollfd};
use super::spawn::Running;
use super::spool::Recorder;
use super::stdin::{Feed, Pump};
use super::terminal::pty::Pty;
use super::terminate::{Progress, Target, Termination};
use super::waiting_line::WaitingLine;
use super::{sys, wait};
use crate::domain::frames::Stream;
use crate::domain::outcome::{Cut, Exit};
use crate::domain::owner::ProcessRef;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd};
use std::time::Duration;

/// After the child's end its output counts as complete once nothing came for this long,
const DRAIN_IDLE: Duration = Duration::from_millis(200);
/// and at the latest after this long: a grandchild may hold the pipe for days.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);
/// What is queued for a caller that does not read while the output is drained.
const DRAIN_QUEUE_BYTES: usize = 4 * 1024 * 1024;
/// One read.
const READ_BYTES: usize = 64 * 1024;

/// When a child is to be ended.
#[derive(Debug, Clone, Copy)]
pub struct TimeLimits {
    /// Moment of the attempt's timeout, by [`Session::clock`].
    pub timeout_at: Option<Duration>,
    /// Moment of the call's deadline.
    pub deadline_at: Option<Duration>,
    /// From SIGTERM to SIGKILL.
    pub kill_after: Duration,
}

/// Takes the output as it is read.
pub trait Listener {
    /// The next bytes of a stream.
    fn heard(&mut self, stream: Stream, bytes: &[u8]);
}

/// How a child ended.
#[derive(Debug)]
pub struct ChildEnd {
    /// Its code or signal.
    pub exit: Exit,
    /// Why idem ended it, if it did.
    pub cut: Option<Cut>,
    /// Processes that could not be ended.
    pub survivors: Vec<i32>,
    /// The pipes, where something still holds them.
    pub held_pipes: Vec<OwnedFd>,
    /// A key that was typed has killed it.
    pub held_terminal: bool,
}

/// The end of the child's output pipes that the keeper reads.
#[derive(Debug)]
pub struct Pipes {
    /// Its standard output; none once it has ended.
    pub stdout: Option<File>,
    /// Its standard error; none where both are one terminal.
    pub stderr: Option<File>,
    /// The way to its standard input, where that is pumped.
    pub feed: Option<Feed>,
    /// That terminal.
    pub pty: Option<Pty>,
}

impl Pipes {
    /// Two pipes, and the child's ends of them.
    pub fn open() -> io::Result<(Pipes, [OwnedFd; 2])> {
        let (stdout, out) = sys::pipe()?;
        let (stderr, err) = sys::pipe()?;
        let pipes = Pipes {
            stdout: Some(stdout.into()),
            stderr: Some(stderr.into()),
            feed: None,
            pty: None,
        };
        Ok((pipes, [out, err]))
    }

    /// One terminal for both streams, and the child's ends.
    pub fn of_terminal(pty: Pty) -> io::Result<(Pipes, [OwnedFd; 2])> {
        let ends = [
            pty.slave().try_clone_to_owned()?,
            pty.slave().try_clone_to_owned()?,
        ];
        let pipes = Pipes {
            stdout: Some(pty.master().try_clone_to_owned()?.into()),
            stderr: None,
            feed: None,
            pty: Some(pty),
        };
        Ok((pipes, ends))
    }
}

/// A child under way.
pub struct Child<'a> {
    session: &'a mut Session,
    process: ProcessRef,
    pidfd: OwnedFd,
    pipes: Pipes,
    recorder: &'a mut Recorder,
    listener: &'a mut dyn Listener,
    /// Whether its output is shown to the caller.
    live: bool,
    pump: Option<&'a mut Pump>,
    told: Option<Told<'a>>,
    limits: TimeLimits,
    foreign: &'a [ProcessRef],
    exit: Option<Exit>,
    cut: Option<Cut>,
    termination: Option<Ending>,
    survivors: Vec<i32>,
    held_terminal: bool,
    /// When the child ended, and when its output last moved since.
    drain: Option<(Duration, Duration)>,
    buffer: Vec<u8>,
}

/// The end of the child's tree under way, and when to look at it again.
struct Ending {
    termination: Termination,
    wake_at: Duration,
}

/// What a child's end has to do with the rest of the keeper.
pub struct Company<'a> {
    /// The caller.
    pub session: &'a mut Session,
    /// Where the output is kept.
    pub recorder: &'a mut Recorder,
    /// Who else hears it.
    pub listener: &'a mut dyn Listener,
    /// Whether the caller sees it live.
    pub live: bool,
    /// Where the standard input comes from, where it is pumped.
    pub pump: Option<&'a mut Pump>,
    /// What the caller is told while the child runs.
    pub told: Option<Told<'a>>,
    /// Processes below the keeper that it did not start.
    pub foreign: &'a [ProcessRef],
}

/// The line for a caller who waits for a child that shows nothing.
pub struct Told<'a> {
    /// Where it stands.
    pub line: &'a mut WaitingLine,
    /// What it says after so long.
    pub what: &'a dyn Fn(Duration) -> String,
}

impl<'a> Child<'a> {
    /// A child that was just let go.
    pub fn new(
        running: Running,
        pipes: Pipes,
        company: Company<'a>,
        limits: TimeLimits,
    ) -> Child<'a> {
        let own_session = pipes.pty.as_ref().is_some_and(Pty::is_interactive);
        company
            .session
            .child_starts(running.process.pid, own_session);
        Child {
            session: company.session,
            process: running.process,
            pidfd: running.pidfd,
            pipes,
            recorder: company.recorder,
            listener: company.listener,
            live: company.live,
            pump: company.pump,
            told: company.told,
            limits,
            foreign: company.foreign,
            exit: None,
            cut: None,
            termination: None,
            survivors: Vec::new(),
            held_terminal: false,
            drain: None,
            buffer: Vec::with_capacity(READ_BYTES),
        }
    }

    /// Stays with the child until it has ended and its output is complete.
    pub fn run(mut self) -> ChildEnd {
        self.catch_up();
        while !self.is_over() {
            self.turn();
        }
        if let Some(told) = &mut self.told {
            told.line.end();
        }
        ChildEnd {
            // What could not even be killed is told as killed; its PID is among the survivors.
            exit: self.exit.unwrap_or(Exit::Signal(libc::SIGKILL)),
            cut: self.cut,
            survivors: self.survivors,
            held_pipes: [self.pipes.stdout, self.pipes.stderr]
                .into_iter()
                .flatten()
                .map(OwnedFd::from)
                .collect(),
            held_terminal: self.held_terminal,
        }
    }

    /// What happened between the claim and the gate: the caller may be gone, a signal may have come.
    fn catch_up(&mut self) {
        if let Some(signal) = self.session.ended_by() {
            self.hand_on(signal);
        }
        if self.session.kills_on_loss() && !self.session.caller_here() {
            self.end_tree(Cut::CallerLost);
        }
    }

    fn is_over(&self) -> bool {
        if self.termination.is_some() || (self.exit.is_none() && self.survivors.is_empty()) {
            return false;
        }
        let silent = self.pipes.stdout.is_none() && self.pipes.stderr.is_none();
        silent || self.drain_ends_at().is_some_and(|at| monotonic() >= at)
    }

    fn drain_ends_at(&self) -> Option<Duration> {
        self.drain
            .map(|(since, moved)| (moved + DRAIN_IDLE).min(since + DRAIN_LIMIT))
    }

    /// One wait and what follows from it.
    fn turn(&mut self) {
        let mut fds = Vec::with_capacity(8);
        let [link, signals] = self.session.poll_fds();
        fds.push(pollfd(
            if self.session.caller_here() { link } else { -1 },
            libc::POLLIN,
        ));
        fds.push(pollfd(signals, libc::POLLIN));
        let pid = if self.exit.is_none() {
            self.pidfd.as_raw_fd()
        } else {
            -1
        };
        fds.push(pollfd(pid, libc::POLLIN));
        fds.push(pollfd(self.readable(Stream::Stdout), libc::POLLIN));
        fds.push(pollfd(self.readable(Stream::Stderr), libc::POLLIN));
        fds.extend(self.feed_fds().map(|(fd, events)| pollfd(fd, events)));
        let [keyboard, typing] = self.typing();
        fds.push(pollfd(keyboard, libc::POLLIN));
        fds.push(pollfd(typing, libc::POLLOUT));
        let again = self.tell();
        let mirrors: Vec<_> = self.session.mirrors.poll_fds().collect();
        fds.extend(mirrors.iter().map(|(_, fd, events)| pollfd(*fd, *events)));
        poll(
            &mut fds,
            again.into_iter().chain(self.until_next_timer()).min(),
        );
        // Output first: what the child wrote before it ended belongs before its end.
        for (stream, fd) in [(Stream::Stdout, &fds[3]), (Stream::Stderr, &fds[4])] {
            if fd.revents != 0 {
                self.read(stream);
            }
        }
        if fds[5].revents != 0 || fds[6].revents != 0 {
            self.feed(fds[5].revents & libc::POLLERR != 0, fds[6].revents != 0);
        }
        for ((stream, ..), fd) in mirrors.iter().zip(&fds[9..]) {
            if fd.revents != 0 {
                self.session.mirrors.on_writable(*stream);
            }
        }
        self.type_on([&fds[7], &fds[8]].map(|fd| fd.revents != 0));
        if fds[..3].iter().any(|fd| fd.revents != 0) {
            self.news();
        }
        self.timers();
    }

    /// Returns how long until there is something to tell.
    fn tell(&mut self) -> Option<Duration> {
        let told = self.told.as_mut().filter(|_| self.exit.is_none())?;
        self.session.say_waiting(told.line, told.what)
    }

    fn feed_fds(&self) -> [(i32, libc::c_short); 2] {
        match (&self.pipes.feed, &self.pump) {
            (Some(feed), Some(pump)) if self.exit.is_none() => feed.poll_fds(pump),
            _ => [(-1, 0), (-1, 0)],
        }
    }

    fn feed(&mut self, closed: bool, readable: bool) {
        if let (Some(feed), Some(pump)) = (&mut self.pipes.feed, &mut self.pump) {
            feed.go_on(pump, closed, readable);
            if pump.broken().is_some() {
                self.end_tree(Cut::InputLost);
            }
        }
    }

    /// The pipe of a stream, if it should be read now.
    fn readable(&self, stream: Stream) -> i32 {
        let pipe = match stream {
            Stream::Stdout => &self.pipes.stdout,
            Stream::Stderr => &self.pipes.stderr,
        };
        let Some(pipe) = pipe else { return -1 };
        let room = !self.live
            || self.session.mirrors.wants_more(stream)
            || (self.exit.is_some() && self.session.mirrors.queued_bytes() < DRAIN_QUEUE_BYTES);
        if room { pipe.as_raw_fd() } else { -1 }
    }

    /// The caller's terminal, if it should be read now, and the child's, if keys wait for it.
    fn typing(&self) -> [i32; 2] {
        let Some(pty) = &self.pipes.pty else {
            return [-1, -1];
        };
        let keyboard = self.session.job().keyboard();
        let keyboard = keyboard.filter(|_| pty.wants_input());
        [
            keyboard.map_or(-1, |fd| fd.as_raw_fd()),
            pty.waits_to_type().unwrap_or(-1),
        ]
    }

    fn type_on(&mut self, [typed, room]: [bool; 2]) {
        let Some(pty) = &mut self.pipes.pty else {
            return;
        };
        if room {
            pty.type_on();
        }
        if typed
            && let Some(keyboard) = self.session.job().keyboard()
            && pty.take_input(keyboard)
        {
            self.session.job_mut().stop_key();
        }
    }

    fn until_next_timer(&self) -> Option<Duration> {
        let now = monotonic();
        let limits = if self.cut.is_none() && self.exit.is_none() {
            [self.limits.timeout_at, self.limits.deadline_at]
        } else {
            [None, None]
        };
        let limits = limits.map(|at| self.session.until(at?));
        let wake = self.termination.as_ref().map(|ending| ending.wake_at);
        let look = self.session.job().wake_at();
        let timers = [wake, look, self.drain_ends_at()];
        let timers = timers.map(|at| Some(at?.saturating_sub(now)));
        limits.into_iter().chain(timers).flatten().min()
    }

    fn read(&mut self, stream: Stream) {
        let pipe = match stream {
            Stream::Stdout => &mut self.pipes.stdout,
            Stream::Stderr => &mut self.pipes.stderr,
        };
        let Some(file) = pipe else { return };
        let count = match sys::read_into(file.as_fd(), &mut self.buffer) {
            Ok(count) => count,
            Err(error) if is_no_end(&error) => return,
            // A pseudo-terminal whose last user is gone ends with EIO.
            Err(_) => 0,
        };
        if count == 0 {
            *pipe = None;
            return;
        }
        let bytes = &self.buffer[..];
        self.recorder.record(stream, bytes);
        self.listener.heard(stream, bytes);
        if self.live {
            self.session.mirrors.push(stream, bytes);
        }
        if let Some((_, moved)) = &mut self.drain {
            *moved = monotonic();
        }
    }

    fn news(&mut self) {
        for news in self.session.take_news() {
            match news {
                News::Signal(signal) => self.hand_on(signal),
                News::CallerGone => self.caller_gone(),
                News::Resized => self.resized(),
                News::ChildChanged => {
                    if let Some(ending) = &mut self.termination {
                        ending.wake_at = Duration::ZERO;
                    }
                }
            }
        }
        self.look_at_child();
    }

    fn caller_gone(&mut self) {
        if let Some(pty) = &mut self.pipes.pty {
            pty.end_input();
        }
        if self.session.kills_on_loss() {
            self.end_tree(Cut::CallerLost);
        }
    }

    /// The child hears of a new window size as it would in the foreground.
    fn resized(&mut self) {
        if self.exit.is_some() {
            return;
        }
        match (&self.pipes.pty, self.session.window()) {
            (Some(pty), Some(size)) => pty.follow(size, self.process.pid),
            (Some(_), None) => {}
            (None, _) => drop(sys::signal_group(self.process.pid, libc::SIGWINCH)),
        }
    }

    /// The same signal, once, to the child's whole group.
    fn hand_on(&mut self, signal: i32) {
        if self.exit.is_some() {
            return;
        }
        if self.session.ended_by() == Some(signal) {
            self.cut.get_or_insert(Cut::Interrupted(signal));
        }
        // A group that refuses (another user's) is no reason to stop: the child's end decides.
        let _ = sys::signal_group(self.process.pid, signal);
    }

    fn look_at_child(&mut self) {
        while self.exit.is_none() {
            match wait::next_change(self.process.pid) {
                Ok(Some(wait::Change::Ended(exit))) => self.ended(exit),
                Ok(Some(wait::Change::Stopped(signal))) => self.session.child_stopped(signal),
                Ok(Some(wait::Change::Continued)) => self.session.child_continued(),
                Ok(None) => return,
                // Somebody else reaped it, which nothing here does: its code is lost.
                Err(_) => self.ended(Exit::Signal(libc::SIGKILL)),
            }
        }
    }

    fn ended(&mut self, exit: Exit) {
        self.exit = Some(exit);
        self.leave_terminal(exit);
        let now = monotonic();
        self.drain = Some((now, now));
        // While its tree is being ended the number must stay the child's own: its group is signalled.
        if self.termination.is_none() {
            let _ = wait::reap(self.process.pid);
        }
    }

    /// The terminal is the caller's again. What is left of a terminal of the child's own is its output.
    fn leave_terminal(&mut self, exit: Exit) {
        if self.session.child_ended(exit) && self.cut.is_none() {
            self.held_terminal = true;
            self.cut = self.session.ended_by().map(Cut::Interrupted);
        }
        if let (Some(_), Some(master)) = (self.pipes.pty.take(), &self.pipes.stdout) {
            sys::set_blocking(master.as_fd());
        }
    }

    fn end_tree(&mut self, cut: Cut) {
        if self.exit.is_some() || self.termination.is_some() {
            return;
        }
        self.cut.get_or_insert(cut);
        let target = Target {
            child: self.process,
            foreign: self.foreign.to_vec(),
        };
        let now = monotonic();
        let termination = Termination::begin(target, now, self.limits.kill_after);
        self.termination = Some(Ending {
            termination,
            wake_at: now,
        });
    }

    fn timers(&mut self) {
        let clock = self.session.clock();
        if self.cut.is_none() && self.exit.is_none() && !self.session.job().is_stopped() {
            if self.limits.deadline_at.is_some_and(|at| clock >= at) {
                self.end_tree(Cut::Deadline);
            } else if self.limits.timeout_at.is_some_and(|at| clock >= at) {
                self.end_tree(Cut::Timeout);
            }
        }
        let now = monotonic();
        self.session.job_mut().look_again(now);
        self.go_on_ending(now);
    }

    fn go_on_ending(&mut self, now: Duration) {
        let Some(ending) = &mut self.termination else {
            return;
        };
        if now < ending.wake_at {
            return;
        }
        match ending.termination.poll(now) {
            Progress::Pending { wake_at } => ending.wake_at = wake_at,
            Progress::Done { survivors } => {
                self.survivors = survivors;
                self.termination = None;
                self.look_at_child();
                if self.exit.is_none() {
                    self.leave_terminal(Exit::Signal(libc::SIGKILL));
                }
                let _ = wait::reap(self.process.pid);
                self.drain.get_or_insert((now, now));
            }
        }
    }
}

/// Ends everything below this process that idem started, after its child has been reaped; what is read
/// from `pipes` meanwhile is thrown away. Returns those that could not be ended.
pub fn end_leftovers(
    session: &mut Session,
    pipes: &mut Vec<OwnedFd>,
    target: Target,
    kill_after: Duration,
) -> Vec<i32> {
    let mut termination = Termination::begin(target, monotonic(), kill_after);
    loop {
        match termination.poll(monotonic()) {
            Progress::Done { survivors } => return survivors,
            Progress::Pending { wake_at } => {
                let mut fds: Vec<_> = pipes
                    .iter()
                    .map(|fd| pollfd(fd.as_raw_fd(), libc::POLLIN))
                    .collect();
                let [link, signals] = session.poll_fds();
                fds.push(pollfd(
                    if session.caller_here() { link } else { -1 },
                    libc::POLLIN,
                ));
                fds.push(pollfd(signals, libc::POLLIN));
                poll(&mut fds, Some(wake_at.saturating_sub(monotonic())));
                discard_readable(pipes, &fds);
                session.take_news();
            }
        }
    }
}

fn discard_readable(pipes: &mut Vec<OwnedFd>, fds: &[libc::pollfd]) {
    let mut ready = fds.iter().map(|fd| fd.revents != 0);
    pipes.retain(|pipe| !ready.next().unwrap_or(false) || discard_some(pipe));
}

fn is_no_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
    )
}

/// Reads once and throws it away; false at the end of the pipe.
fn discard_some(pipe: &OwnedFd) -> bool {
    let mut buffer = [0u8; 4096];
    let Ok(copy) = pipe.as_fd().try_clone_to_owned() else {
        return false;
    };
    match File::from(copy).read(&mut buffer) {
        Ok(count) => count > 0,
        Err(error) => is_no_end(&error),
    }
}
