//! The end of a tree: politely first, then by force, and never a wait for what cannot be killed.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use libc::c_int;

use super::clock::monotonic;
use super::proc::{self, Listing, Process};
use super::{sys, wait};
use crate::domain::owner::ProcessRef;

/// How long after SIGKILL a process may stay before it counts as not killable.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(5);

/// Pauses between two looks at what SIGKILL has left: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// How long one look follows those that it has killed.
const CHASE: Duration = Duration::from_millis(2);

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
    /// Something still lives. Look again at this moment of [`monotonic`], and at once
    /// whenever a SIGCHLD arrives: the sooner, the less can be started meanwhile.
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
    /// SIGKILL follows `kill_after` later. `now` is [`monotonic`].
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
        let over = if killing {
            self.kill_all()
        } else {
            self.alive().and_then(|alive| self.is_over(&alive))
        };
        match over {
            Ok(true) => Progress::Done {
                survivors: Vec::new(),
            },
            _ if now >= self.give_up_at => Progress::Done {
                survivors: self.survivors(),
            },
            _ if killing => self.look_again(now),
            _ => Progress::Pending {
                wake_at: self.kill_at,
            },
        }
    }

    /// A list of all processes can miss one that moves within the tree. But every descendant has an
    /// ancestor, or is one itself, that is a child of this process; so without children it is over.
    fn is_over(&self, alive: &[Process]) -> io::Result<bool> {
        let rest = |process: &Process| process.id == self.target.child && process.ended;
        Ok(alive.is_empty() && self.children()?.iter().all(rest))
    }

    /// The children of this process that are not foreign, ended ones included.
    fn children(&self) -> io::Result<Vec<Process>> {
        let children = proc::children()?.into_iter().flat_map(proc::process);
        let foreign = |process: &Process| self.target.foreign.contains(&process.id);
        Ok(children.filter(|process| !foreign(process)).collect())
    }

    /// Those that still live. Without `/proc` at least the child is named.
    fn survivors(&self) -> Vec<i32> {
        let Ok(alive) = self.alive() else {
            return vec![self.target.child.pid];
        };
        let children = self.children().into_iter().flatten();
        let children = children.filter(|process| !process.ended);
        let survivors: BTreeSet<i32> = alive
            .into_iter()
            .chain(children)
            .map(|process| process.id.pid)
            .collect();
        survivors.into_iter().collect()
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

    /// Kills until a look shows nobody who has not been killed; returns whether nothing is left.
    fn kill_all(&mut self) -> io::Result<bool> {
        self.signal_group(&[], libc::SIGKILL);
        for _ in 0..SWEEPS {
            if self.kill_children()? {
                // The end of each is a SIGCHLD, and brings its own children here.
                return Ok(false);
            }
            let alive = self.alive()?;
            let fresh: Vec<_> = alive
                .iter()
                .filter(|process| !self.killed.contains(&process.id))
                .collect();
            if fresh.is_empty() {
                return self.is_over(&alive);
            }
            self.signal_group(&alive, libc::SIGKILL);
            for process in fresh {
                self.kill(process.id);
            }
        }
        Ok(false)
    }

    /// Kills once. Who refuses is not asked again, and is a survivor in the end.
    fn kill(&mut self, process: ProcessRef) -> bool {
        self.killed.insert(process) && self.signals.to_process(process, libc::SIGKILL).is_ok()
    }

    /// Reaps and kills direct children only, and returns whether one was killed just now. A chain of
    /// processes that each start the next one and end outruns a list of all processes; but the next one
    /// becomes a child of this process at once, and its children are listed in no time.
    ///
    /// This stays on its processor for a moment while killed children come to their end: schedulers let
    /// a new process run before one that wakes up, so whoever sleeps here is always one step behind.
    fn kill_children(&mut self) -> io::Result<bool> {
        let end = monotonic() + CHASE;
        let mut any = false;
        loop {
            let (mut reaped, mut dying) = (false, false);
            for process in self.children()? {
                if process.ended {
                    reaped |= self.reap(&process);
                } else {
                    any |= self.kill(process.id);
                    dying = true;
                }
            }
            // Whoever has ended can have left one behind that came too late for this look.
            if !(reaped || dying) || monotonic() > end {
                return Ok(any);
            }
        }
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
        adopted.filter(|process| self.reap(process)).count() > 0
    }

    /// Reaps an ended child of this process that is neither the child nor foreign.
    fn reap(&self, process: &Process) -> bool {
        process.id != self.target.child
            && !self.target.foreign.contains(&process.id)
            && matches!(wait::reap(process.id.pid), Ok(Some(_)))
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
