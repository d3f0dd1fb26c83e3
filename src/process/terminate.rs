//! The end of a tree: politely first, then by force, and never a wait for what cannot be killed.

use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use libc::c_int;

use super::proc::{self, Listing, Process};
use super::{sys, wait};
use crate::domain::owner::ProcessRef;

/// How long after SIGKILL a process may stay before it counts as not killable.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(5);

/// Pauses between two looks at what SIGKILL has left: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// How often one round of killing looks for processes that were forked meanwhile.
const SWEEPS: usize = 32;

/// How signals are sent; the kernel's way, except in tests.
pub trait Signals {
    /// Sends a signal to every member of a process group.
    fn to_group(&mut self, group: i32, signal: c_int) -> io::Result<()>;
    /// Sends a signal to exactly this process; succeeds if it is gone.
    fn to_process(&mut self, process: ProcessRef, signal: c_int) -> io::Result<()>;
}

/// Signals as the kernel sends them.
#[derive(Debug, Default)]
pub struct Kernel;

impl Signals for Kernel {
    fn to_group(&mut self, group: i32, signal: c_int) -> io::Result<()> {
        sys::signal_group(group, signal)
    }

    fn to_process(&mut self, process: ProcessRef, signal: c_int) -> io::Result<()> {
        let Some(pidfd) = proc::open(process)? else {
            return Ok(());
        };
        match sys::pidfd_signal(pidfd.as_fd(), signal) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            other => other,
        }
    }
}

/// What is to end: everything below this process except what idem did not start.
#[derive(Debug, Clone)]
pub struct Target {
    /// The child. It leads its process group, and is never reaped here: its exit code is its owner's.
    pub child: ProcessRef,
    /// What lived below this process before it started anything, see [`proc::below_this`]; these and
    /// their descendants are left alone.
    pub foreign: Vec<ProcessRef>,
}

/// How far the end of a tree has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Something still lives. Look again at this moment of [`super::clock::monotonic`], and whenever a
    /// SIGCHLD arrives.
    Pending {
        /// When to poll at the latest.
        wake_at: Duration,
    },
    /// It is over.
    Done {
        /// Those that could not be ended, in ascending order.
        survivors: Vec<i32>,
    },
}

/// The end of a tree under way. This process must be a subreaper ([`sys::become_subreaper`]), have one
/// thread, and be the only one that reaps its children.
#[derive(Debug)]
pub struct Termination<S = Kernel> {
    target: Target,
    signals: S,
    kill_at: Duration,
    give_up_at: Duration,
    pause: Duration,
    killed: HashSet<ProcessRef>,
}

impl Termination<Kernel> {
    /// Sends SIGTERM and then SIGCONT to the child's group, and to each descendant outside of it.
    /// SIGKILL follows `kill_after` later. `now` is [`super::clock::monotonic`].
    pub fn begin(target: Target, now: Duration, kill_after: Duration) -> Termination {
        Termination::begin_with(Kernel, target, now, kill_after)
    }
}

impl<S: Signals> Termination<S> {
    /// [`Termination::begin`] with another way to send signals.
    pub fn begin_with(signals: S, target: Target, now: Duration, kill_after: Duration) -> Self {
        let kill_at = now.saturating_add(kill_after);
        let mut termination = Termination {
            target,
            signals,
            kill_at,
            give_up_at: kill_at.saturating_add(GIVE_UP_AFTER),
            pause: FIRST_PAUSE,
            killed: HashSet::new(),
        };
        termination.ask_to_end();
        termination
    }

    /// Reaps adopted descendants, kills if it is time to, and tells what is left.
    pub fn poll(&mut self, now: Duration) -> Progress {
        let killing = now >= self.kill_at;
        let alive = if killing {
            self.kill_all()
        } else {
            self.alive()
        };
        match alive {
            Ok(alive) if alive.is_empty() => Progress::Done {
                survivors: Vec::new(),
            },
            Ok(alive) if now >= self.give_up_at => Progress::Done {
                survivors: alive.iter().map(|process| process.id.pid).collect(),
            },
            Err(_) if now >= self.give_up_at => Progress::Done {
                survivors: vec![self.target.child.pid],
            },
            _ if killing => self.look_again(now),
            _ => Progress::Pending {
                wake_at: self.kill_at,
            },
        }
    }

    fn look_again(&mut self, now: Duration) -> Progress {
        let wake_at = now.saturating_add(self.pause).min(self.give_up_at);
        self.pause = self.pause.saturating_mul(2).min(LONGEST_PAUSE);
        Progress::Pending { wake_at }
    }

    /// Only those that live now are asked: what a handler of SIGTERM starts is its work of cleaning up.
    fn ask_to_end(&mut self) {
        let alive = self.alive().unwrap_or_default();
        for signal in [libc::SIGTERM, libc::SIGCONT] {
            self.signal_group(&alive, signal);
            for process in alive
                .iter()
                .filter(|process| process.group != self.target.child.pid)
            {
                // Those that refuse are told of at the end, if they still live then.
                let _ = self.signals.to_process(process.id, signal);
            }
        }
    }

    /// The group is signalled as one, so that no member can fork in between, but only while it has a
    /// member or its leader is not reaped: for so long the kernel gives its number to nobody else.
    fn signal_group(&mut self, alive: &[Process], signal: c_int) {
        let group = self.target.child.pid;
        if alive.iter().any(|process| process.group == group) || wait::peek(group).is_ok() {
            // Each member gets its own SIGKILL as well, and the refusals show there.
            let _ = self.signals.to_group(group, signal);
        }
    }

    /// Kills until a look shows nobody who has not been killed; returns those that still live.
    fn kill_all(&mut self) -> io::Result<Vec<Process>> {
        for _ in 0..SWEEPS {
            let alive = self.alive()?;
            let fresh = |process: &&Process| !self.killed.contains(&process.id);
            let fresh: Vec<ProcessRef> = alive
                .iter()
                .filter(fresh)
                .map(|process| process.id)
                .collect();
            if fresh.is_empty() {
                return Ok(alive);
            }
            self.signal_group(&alive, libc::SIGKILL);
            for process in fresh {
                let _ = self.signals.to_process(process, libc::SIGKILL);
                self.killed.insert(process);
            }
        }
        self.alive()
    }

    /// The living descendants. Ended ones that were left to this process are reaped on the way, and as
    /// long as there were any the look is repeated, since their children come to light by it.
    fn alive(&self) -> io::Result<Vec<Process>> {
        let this = std::process::id().cast_signed();
        let mut tree = Listing::take()?.descendants(this, &self.target.foreign);
        while self.reap_adopted(this, &tree) {
            tree = Listing::take()?.descendants(this, &self.target.foreign);
        }
        tree.retain(|process| !process.ended);
        Ok(tree)
    }

    fn reap_adopted(&self, this: i32, tree: &[Process]) -> bool {
        let adopted = tree
            .iter()
            .filter(|process| process.parent == this && process.ended);
        let adopted = adopted.filter(|process| process.id != self.target.child);
        let reaped = adopted.filter(|process| matches!(wait::reap(process.id.pid), Ok(Some(_))));
        reaped.count() > 0
    }
}

/// Reaps the ended children of this process that it did not start: descendants whose parents died. Those
/// in `keep` (the running child, foreign children) are left as they are.
pub fn reap_adopted(keep: &[ProcessRef]) -> io::Result<()> {
    let this = std::process::id().cast_signed();
    for process in Listing::take()?.children(this) {
        if process.ended && !keep.contains(&process.id) {
            // Nobody else reaps; an error would say that it is already gone.
            let _ = wait::reap(process.id.pid);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
