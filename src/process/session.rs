//! The keeper's side of its caller: what came from the front and by signals, and whether the caller is
//! still there to be written to.

use super::entry;
use super::mirror::MirrorPair;
use super::signal::{Disposition, SignalFd, SignalSet, set_disposition};
use super::split::{Link, Received, ToFront, ToKeeper};
use super::sys::{check, uninterrupted};
use super::terminal::Size;
use super::terminal::job::Job;
use super::waiting_line::WaitingLine;
use crate::domain::outcome::Exit;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;

/// Signals that a front hands on to the child, and that count the same when sent to the keeper.
pub const FORWARDED: [i32; 5] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// Those of them that mean the end: nothing new starts afterwards.
const ENDING: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGQUIT];

/// What the keeper must survive: its own terminal being taken (it works in the background), readers
/// that close, limits that are the child's business, and a hang-up, which is caller loss.
const SURVIVED: [i32; 6] = [
    libc::SIGHUP,
    libc::SIGPIPE,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGTSTP,
    libc::SIGXFSZ,
];

/// Something that the caller's side wants of the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// This signal is to reach the child.
    Signal(i32),
    /// A child changed its state.
    ChildChanged,
    /// The caller is gone.
    CallerGone,
    /// The terminal's size changed.
    Resized,
}

/// The caller as the keeper sees it.
#[derive(Debug)]
pub struct Session {
    link: Link,
    signals: SignalFd,
    /// Live output.
    pub mirrors: MirrorPair,
    job: Job,
    caller_here: bool,
    ended_by: Option<i32>,
    kill_on_loss: bool,
}

impl Session {
    /// Sets up the keeper: a process group of its own, so that what kills the caller's group does not
    /// reach it, and signals as something to poll.
    pub fn new(link: Link, mirrors: MirrorPair, kill_on_loss: bool) -> io::Result<Session> {
        let job = Job::of_front();
        // SAFETY: integers only.
        check(unsafe { libc::setpgid(0, 0) })?;
        for signal in SURVIVED {
            set_disposition(signal, Disposition::Ignore)?;
        }
        let forwarded = SignalSet::of(&FORWARDED).without(entry::state().ignored());
        super::signal::keep_ended_children()?;
        Ok(Session {
            link,
            signals: SignalFd::catching_all(forwarded.with(libc::SIGCHLD).with(libc::SIGWINCH))?,
            mirrors,
            job,
            caller_here: true,
            ended_by: None,
            kill_on_loss,
        })
    }

    /// The signal that ended the call, if one did; nothing new starts afterwards.
    pub fn ended_by(&self) -> Option<i32> {
        self.ended_by
    }

    /// Whether the caller is there.
    pub fn caller_here(&self) -> bool {
        self.caller_here
    }

    /// Whether nothing new may start: an ending signal came, or the caller's loss means the end.
    pub fn is_over(&self) -> bool {
        self.ended_by.is_some() || (self.kill_on_loss && !self.caller_here)
    }

    /// Whether the caller's loss ends the child.
    pub fn kills_on_loss(&self) -> bool {
        self.kill_on_loss
    }

    /// Tells the front something; whether it is still there to hear it does not matter here.
    pub fn tell(&self, message: ToFront) {
        self.link.send(message);
    }

    /// The monotonic clock, which stands still while the user has stopped the job.
    pub fn clock(&self) -> Duration {
        self.job.clock()
    }

    /// The caller's job and its terminal.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The same, to act upon.
    pub fn job_mut(&mut self) -> &mut Job {
        &mut self.job
    }

    /// How long until a moment of [`Session::clock`]; none while the clock stands still.
    pub fn until(&self, at: Duration) -> Option<Duration> {
        (!self.job.is_stopped()).then(|| at.saturating_sub(self.clock()))
    }

    /// The size of the caller's window, if there is one.
    pub fn window(&self) -> Option<Size> {
        let terminal = self
            .job
            .terminal()
            .map(|terminal| terminal.as_fd().as_raw_fd());
        terminal.into_iter().chain(0..=2).find_map(Size::of)
    }

    /// A child runs; see [`Job::child_starts`].
    pub fn child_starts(&mut self, group: i32, own_session: bool) {
        self.job.child_starts(group, own_session, &self.link);
    }

    /// A signal has stopped the child.
    pub fn child_stopped(&mut self, signal: i32) {
        self.job.child_stopped(signal, self.caller_here, &self.link);
    }

    /// The child was continued.
    pub fn child_continued(&mut self) {
        self.job.child_continued();
    }

    /// The child has ended and is not reaped yet. Returns whether the kernel, and nobody else, has killed
    /// it by a key that was typed: then the user has interrupted the whole call.
    pub fn child_ended(&mut self, exit: Exit) -> bool {
        let held = self.job.child_ended(&self.link);
        let typed = held && matches!(exit, Exit::Signal(libc::SIGINT | libc::SIGQUIT));
        if let (true, None, Exit::Signal(signal)) = (typed, self.ended_by, exit) {
            self.ended_by = Some(signal);
            return true;
        }
        false
    }

    /// What to poll for news.
    pub fn poll_fds(&self) -> [RawFd; 2] {
        [self.link.as_raw_fd(), self.signals.as_fd().as_raw_fd()]
    }

    /// Takes everything that has come.
    pub fn take_news(&mut self) -> Vec<News> {
        let mut news = Vec::new();
        while let Ok(Some(received)) = self.signals.read() {
            news.push(match received.signal {
                libc::SIGCHLD => News::ChildChanged,
                libc::SIGWINCH => News::Resized,
                signal => News::Signal(signal),
            });
        }
        while self.caller_here {
            match self.link.receive() {
                Received::Nothing => break,
                Received::Gone => {
                    self.lose_caller();
                    news.push(News::CallerGone);
                }
                Received::Message(ToKeeper::Signal(signal)) => news.push(News::Signal(signal)),
                Received::Message(ToKeeper::Stopped(signal)) => {
                    self.job.asked_to_stop(signal, &self.link);
                }
                Received::Message(ToKeeper::CannotStop) => self.job.cannot_stop(&self.link),
                Received::Message(ToKeeper::Continued) => self.job.continued(&self.link),
                Received::Message(ToKeeper::Resized) => news.push(News::Resized),
            }
        }
        for one in &news {
            if let News::Signal(signal) = one
                && ENDING.contains(signal)
            {
                self.ended_by.get_or_insert(*signal);
            }
        }
        news
    }

    /// Waits for news or for `limit` (for ever if there is none), and delivers meanwhile what is queued for
    /// the caller; whatever comes is in the answer.
    pub fn wait(&mut self, limit: Option<Duration>) -> Vec<News> {
        self.job.pauses(&self.link);
        let mut fds = self.poll_fds().map(|fd| pollfd(fd, libc::POLLIN)).to_vec();
        if !self.caller_here {
            fds[0].fd = -1;
        }
        let streams: Vec<_> = self.mirrors.poll_fds().collect();
        fds.extend(streams.iter().map(|(_, fd, events)| pollfd(*fd, *events)));
        poll(&mut fds, limit);
        for ((stream, ..), fd) in streams.iter().zip(&fds[2..]) {
            if fd.revents != 0 {
                self.mirrors.on_writable(*stream);
            }
        }
        self.take_news()
    }

    /// Tells the caller what is waited for, below the output that it has been shown; see
    /// [`WaitingLine::tell`].
    pub fn say_waiting(
        &mut self,
        line: &mut WaitingLine,
        what: impl FnOnce(Duration) -> String,
    ) -> Option<Duration> {
        if !self.caller_here {
            line.let_go();
            return None;
        }
        line.tell_below(&mut self.mirrors.open_row, what)
    }

    /// Lets go of the caller's descriptors at once, so that nobody who reads from them is held up.
    pub fn lose_caller(&mut self) {
        self.caller_here = false;
        self.job.front_lost(&self.link);
        self.mirrors.detach();
        let_go(&[0, 1, 2]);
    }

    /// Delivers what is queued for the caller, for at most `limit` (for ever if there is none).
    pub fn flush(&mut self, limit: Option<Duration>) {
        let until = limit.map(|limit| super::clock::monotonic().saturating_add(limit));
        while self.mirrors.queued_bytes() > 0 && self.caller_here {
            let mut fds = vec![pollfd(self.link.as_raw_fd(), libc::POLLIN)];
            let streams: Vec<_> = self.mirrors.poll_fds().collect();
            fds.extend(streams.iter().map(|(_, fd, events)| pollfd(*fd, *events)));
            let left = until.map(|until| until.saturating_sub(super::clock::monotonic()));
            if left == Some(Duration::ZERO) {
                return;
            }
            poll(&mut fds, left);
            for ((stream, ..), fd) in streams.iter().zip(&fds[1..]) {
                if fd.revents != 0 {
                    self.mirrors.on_writable(*stream);
                }
            }
            self.take_news();
        }
    }
}

/// Puts `/dev/null` in the place of descriptors; one that cannot be replaced is closed.
pub fn let_go(fds: &[RawFd]) {
    // SAFETY: a constant path, and integers.
    let null = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    for fd in fds {
        // SAFETY: integers only; nothing of this process uses what was there before.
        unsafe {
            if null < 0 || libc::dup2(null, *fd) < 0 {
                libc::close(*fd);
            }
        }
    }
    if null > 2 {
        // SAFETY: ours alone.
        unsafe { libc::close(null) };
    }
}

/// One entry of a poll.
pub fn pollfd(fd: RawFd, events: libc::c_short) -> libc::pollfd {
    libc::pollfd {
        fd,
        events,
        revents: 0,
    }
}

/// Waits for events, at most `limit` (for ever if there is none). An interrupted wait counts as none.
pub fn poll(fds: &mut [libc::pollfd], limit: Option<Duration>) {
    let spec = limit.map(|limit| libc::timespec {
        tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: limit.subsec_nanos() as libc::c_long,
    });
    let spec = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    for fd in fds.iter_mut() {
        fd.revents = 0;
    }
    let count = fds.len() as libc::nfds_t;
    // SAFETY: the array and the time live through the call, and the count is the array's.
    let _ =
        uninterrupted(|| unsafe { libc::ppoll(fds.as_mut_ptr(), count, spec, std::ptr::null()) });
}
