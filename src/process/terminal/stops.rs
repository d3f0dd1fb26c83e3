//! The front's part in job control: stopping with the child, and the terminal if the keeper dies.
//!
//! A stop signal stays pending until the child has stopped, and is let through then. So the kernel's own
//! rule holds between the two: a SIGCONT that comes meanwhile takes the pending stop away, and a job that
//! was continued at once is not stopped after that.

use super::{Modes, STOPPING, Terminal};
use crate::process::clock::monotonic;
use crate::process::proc;
use crate::process::session::poll;
use crate::process::signal::{SignalFd, SignalSet};
use crate::process::split::{Link, ToKeeper};
use crate::process::sys;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::time::Duration;

/// How long a group may take to stop before nobody waits for it any more.
const LONGEST_STOP: Duration = Duration::from_millis(300);

/// What the front knows of the job and its terminal.
#[derive(Debug)]
pub struct Stops {
    /// Readable while a stop is pending; read only to throw the stop away.
    pending: SignalFd,
    /// The keeper was asked about a stop by this signal.
    asked: Option<i32>,
    terminal: Option<Terminal>,
    modes: Option<Modes>,
    lent_to: Option<i32>,
}

impl Stops {
    /// Blocks the stop signals, except those that were ignored at the start.
    pub fn new() -> io::Result<Stops> {
        let mut stops = Stops {
            pending: SignalFd::catching(SignalSet::of(&STOPPING))?,
            asked: None,
            terminal: Terminal::of_session(),
            modes: None,
            lent_to: None,
        };
        stops.note_modes();
        Ok(stops)
    }

    /// Whether the job runs on a terminal.
    pub fn has_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// What to poll for a stop; -1 while one is being dealt with.
    pub fn poll_fd(&self) -> RawFd {
        match self.asked {
            Some(_) => -1,
            None => self.pending.as_fd().as_raw_fd(),
        }
    }

    /// Tells the keeper of a stop that came.
    pub fn look(&mut self, link: &Link) {
        if self.asked.is_some() {
            return;
        }
        let pending = SignalSet::pending();
        let blocked = self.pending.blocked();
        let mut stops = STOPPING.into_iter().filter(|stop| blocked.contains(*stop));
        if let Some(signal) = stops.find(|stop| pending.contains(*stop)) {
            self.asked = Some(signal);
            link.send(ToKeeper::Stopped(signal));
        }
    }

    /// The child has stopped: so does this process, unless it was continued since.
    pub fn child_stopped(&mut self, link: &Link) {
        if self.asked.is_none() {
            return;
        }
        let stops = self.pending.blocked();
        // The process stands between these two.
        let _ = stops.unblock();
        let _ = stops.block();
        if !SignalSet::pending().contains(libc::SIGCONT) {
            // The kernel lets a group run that nobody could continue.
            self.asked = None;
            link.send(ToKeeper::CannotStop);
        }
    }

    /// The job is not to stop after all: whoever in this group asked for the terminal can have it now.
    pub fn go_on(&mut self) {
        self.asked = None;
        // SAFETY: integers only; group 0 is this process's own.
        unsafe { libc::kill(0, libc::SIGCONT) };
    }

    /// SIGCONT came.
    pub fn continued(&mut self, link: &Link) {
        self.asked = None;
        self.note_modes();
        link.send(ToKeeper::Continued);
    }

    /// The keeper is about to give the terminal to this group.
    pub fn lent(&mut self, group: i32) {
        self.lent_to = Some(group);
    }

    /// The keeper is gone: takes the terminal back if that group still has it.
    pub fn restore(&self) {
        let (Some(terminal), Some(group)) = (&self.terminal, self.lent_to) else {
            return;
        };
        if terminal.foreground() != Some(group) {
            return;
        }
        // A read that has begun would go on, and take what is typed for the shell; after a stop it
        // starts anew.
        let _ = sys::signal_group(group, libc::SIGSTOP);
        wait_for_stop(group);
        if let Some(modes) = &self.modes {
            let _ = terminal.set_modes(modes);
        }
        // SAFETY: no arguments, no failure.
        let _ = terminal.set_foreground(unsafe { libc::getpgrp() });
        let _ = sys::signal_group(group, libc::SIGCONT);
    }

    /// Throws pending stops away, so that they do not stop a process that is about to end.
    pub fn discard(&self) {
        while let Ok(Some(_)) = self.pending.read() {}
    }

    /// The modes count as the job's own only while it is in the foreground.
    fn note_modes(&mut self) {
        if let Some(terminal) = &self.terminal {
            // SAFETY: no arguments, no failure.
            let own = unsafe { libc::getpgrp() };
            if terminal.foreground() == Some(own) {
                self.modes = terminal.modes();
            }
        }
    }
}

/// Waits for a short while until the leader of a group has stopped. Nobody tells of that but `/proc`: it
/// is not this process's child.
fn wait_for_stop(leader: i32) {
    let end = monotonic().saturating_add(LONGEST_STOP);
    while monotonic() < end && proc::process(leader).is_ok_and(|it| !it.stopped && !it.ended) {
        poll(&mut [], Some(Duration::from_millis(1)));
    }
}
