//! The caller's job as the keeper sees it: who has the terminal, and whether the job is stopped.
//!
//! The shell knows the front's process group only. Whatever the shell gives to that group the keeper
//! hands on to the child when the child asks, and whenever the child stops with the terminal in its
//! hands the keeper returns it first and then lets the front's group stop. Nothing is ever taken from a
//! group that it was not given to.

use super::{Modes, STOPPING, Terminal};
use crate::domain::owner::ProcessRef;
use crate::process::clock::monotonic;
use crate::process::entry;
use crate::process::proc::{self, Listing};
use crate::process::split::{Link, ToFront};
use crate::process::sys;
use crate::process::terminate::{self, Signals as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

/// When to look for members of the child's group that stopped later than its leader, counted from the
/// moment at which the group got the terminal.
const SECOND_LOOKS: [Duration; 4] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
];

/// The job.
#[derive(Debug)]
pub struct Job {
    front: i32,
    front_group: i32,
    keeper: i32,
    terminal: Option<Terminal>,
    child: Option<Child>,
    loan: Option<Loan>,
    /// The loan that was called back when the child stopped, to be made again when the job goes on.
    suspended: Option<(Borrower, Option<Modes>)>,
    /// The front was asked to stop by this signal, and does so once it hears that the child has stopped.
    asked: Option<i32>,
    /// The key that stops a job was typed at the child's own terminal.
    key_typed: bool,
    /// The front was made to stop.
    front_stops: bool,
    stopped_at: Option<Duration>,
    stood_still: Duration,
    second_looks: Option<(Duration, usize)>,
    /// Those members of the child's group that were stopped at the latest look.
    late: Vec<ProcessRef>,
}

/// The child that runs.
#[derive(Debug)]
struct Child {
    /// Its PID and the number of its group.
    group: i32,
    /// It has a session and a terminal of its own.
    own_session: bool,
    /// The signal that stopped it.
    stopped_by: Option<i32>,
}

/// Who can be given the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Borrower {
    /// The child's group.
    Child(i32),
    /// The keeper, to hand on what is typed.
    Keeper(i32),
}

impl Borrower {
    fn group(self) -> i32 {
        match self {
            Borrower::Child(group) | Borrower::Keeper(group) => group,
        }
    }
}

#[derive(Debug)]
struct Loan {
    to: Borrower,
    modes_before: Option<Modes>,
    /// The modes that the keeper set for reading what is typed.
    raw: Option<Modes>,
}

impl Child {
    /// Stops its group. In a session of its own that group is an orphaned one, whose members the kernel
    /// does not stop unless they are forced to; a program that catches the signal is not forced.
    fn stop(&self, signal: i32) {
        let _ = sys::signal_group(self.group, signal);
        if self.own_session {
            self.force_stop(signal);
        }
    }

    /// Lets its group go on.
    fn go_on(&mut self) {
        self.stopped_by = None;
        let _ = sys::signal_group(self.group, libc::SIGCONT);
    }

    /// Stops its group if it would have been stopped by this signal; says whether it would.
    fn force_stop(&self, signal: i32) -> bool {
        let stops = proc::has_default_action(self.group, signal);
        if stops {
            let _ = sys::signal_group(self.group, libc::SIGSTOP);
        }
        stops
    }
}

impl Job {
    /// Called by the keeper while it is still in the front's process group.
    pub fn of_front() -> Job {
        // SAFETY: no arguments, no failure.
        let (front, front_group) = unsafe { (libc::getppid(), libc::getpgrp()) };
        Job {
            front,
            front_group,
            keeper: std::process::id().cast_signed(),
            terminal: Terminal::of_session(),
            child: None,
            loan: None,
            suspended: None,
            asked: None,
            key_typed: false,
            front_stops: false,
            stopped_at: None,
            stood_still: Duration::ZERO,
            second_looks: None,
            late: Vec::new(),
        }
    }

    /// The terminal, if the job has one.
    pub fn terminal(&self) -> Option<&Terminal> {
        self.terminal.as_ref()
    }

    /// The monotonic clock without the time that the user has stopped the job for.
    pub fn clock(&self) -> Duration {
        let now = self.stopped_at.unwrap_or_else(monotonic);
        now.saturating_sub(self.stood_still)
    }

    /// Whether the user has stopped the job, so that its clock stands still.
    pub fn is_stopped(&self) -> bool {
        self.stopped_at.is_some()
    }

    /// The caller's terminal while the keeper has it to read what is typed.
    pub fn keyboard(&self) -> Option<BorrowedFd<'_>> {
        match self.loan.as_ref()?.to {
            Borrower::Keeper(_) => Some(self.terminal.as_ref()?.as_fd()),
            Borrower::Child(_) => None,
        }
    }

    /// A child runs. One with a session of its own has its own terminal, and the keeper reads the
    /// caller's for it.
    pub fn child_starts(&mut self, group: i32, own_session: bool, link: &Link) {
        self.child = Some(Child {
            group,
            own_session,
            stopped_by: None,
        });
        if let Some(signal) = self.asked {
            self.asked_to_stop(signal, link);
        }
        let keeper = Borrower::Keeper(self.keeper);
        if own_session && !self.lend(keeper, None, link) {
            // A background job; it gets what is typed once it is continued in the foreground.
            self.suspended = Some((keeper, None));
        }
    }

    /// The child has ended; the terminal is the front's again. Returns whether the child had it to the
    /// end. Call it before the child is reaped: until then its group's number is nobody else's.
    pub fn child_ended(&mut self, link: &Link) -> bool {
        let held = self.take_back(link);
        self.suspended = None;
        self.key_typed = false;
        self.second_looks = None;
        if self.child.take().is_some() {
            self.release_front();
        }
        held
    }

    /// Nothing runs for a while: a stop that the child has not lived to see is due.
    pub fn pauses(&mut self, link: &Link) {
        if self.asked.is_some() && self.child.is_none() {
            self.confirm_stop(link);
        }
    }

    /// The front's group was asked to stop by this signal.
    pub fn asked_to_stop(&mut self, signal: i32, link: &Link) {
        if signal != libc::SIGTSTP && self.take_back(link) {
            // Somebody else of the job wants the terminal that the child has: now it can have it.
            link.send(ToFront::GoOn);
            return;
        }
        match &self.child {
            Some(child) if child.stopped_by.is_none() => {
                self.asked = Some(signal);
                child.stop(signal);
                self.look_soon();
            }
            _ => self.confirm_stop(link),
        }
    }

    /// The key that stops a job was typed at the child's own terminal, with the child in its foreground.
    pub fn stop_key(&mut self) {
        if let Some(child) = &self.child {
            self.key_typed = child.force_stop(libc::SIGTSTP);
            self.look_soon();
        }
    }

    /// The child was stopped by this signal.
    pub fn child_stopped(&mut self, signal: i32, front_is_there: bool, link: &Link) {
        let Some(child) = &mut self.child else { return };
        child.stopped_by = Some(signal);
        let by_key = std::mem::take(&mut self.key_typed);
        if by_key && !self.late.is_empty() {
            child.force_stop(libc::SIGTSTP);
        }
        let signal = if by_key { libc::SIGTSTP } else { signal };
        let asks = !child.own_session && matches!(signal, libc::SIGTTIN | libc::SIGTTOU);
        if asks && !front_is_there {
            if self.leave_terminal() {
                self.continue_child();
            }
        } else if asks && self.asked.is_none() {
            self.child_asks(signal, link);
        } else if self.suspend(link) && self.asked.is_none() {
            self.stop_front(signal, link);
        } else if self.asked.is_some() {
            self.confirm_stop(link);
        } else if front_is_there && self.terminal.is_some() {
            // It stopped itself, or was stopped from elsewhere.
            self.stop_front(libc::SIGSTOP, link);
        }
    }

    /// The child goes on, by whatever means.
    pub fn child_continued(&mut self) {
        if let Some(child) = &mut self.child
            && child.stopped_by.take().is_some()
        {
            self.release_front();
        }
    }

    /// The front's group goes on.
    pub fn continued(&mut self, link: &Link) {
        self.asked = None;
        self.key_typed = false;
        self.front_stops = false;
        self.go_on();
        if !self.resume(link) {
            self.continue_child();
        }
    }

    /// The front could not stop: nobody is there to continue its group, which the kernel then lets run.
    /// Reading from the terminal fails in such a group, and so it must for the child.
    pub fn cannot_stop(&mut self, link: &Link) {
        let stopped_by = self.child.as_ref().and_then(|child| child.stopped_by);
        let asks = matches!(stopped_by, Some(libc::SIGTTIN | libc::SIGTTOU));
        if !asks || self.leave_terminal() {
            self.continued(link);
        }
    }

    /// The front is gone: nobody hands the terminal on any more.
    pub fn front_lost(&mut self, link: &Link) {
        let borrower = self.loan.as_ref().map(|loan| loan.to);
        if let Some(Borrower::Child(group)) = borrower {
            // A read that has begun would go on, and take what is typed for the shell, which may have
            // the terminal already: after a stop it starts anew, and asks.
            let _ = sys::signal_group(group, libc::SIGSTOP);
        }
        self.take_back(link);
        self.terminal = None;
        self.suspended = None;
        // The kernel's stop of the lifeline may have been told before the loss: then it passed for one
        // of the child's own, which stops the front.
        if borrower.is_some() || self.asked.is_some() || self.front_stops {
            self.continue_child();
        }
        self.asked = None;
        self.front_stops = false;
        self.go_on();
    }

    /// When to call [`Job::look_again`].
    pub fn wake_at(&self) -> Option<Duration> {
        self.second_looks.map(|(at, _)| at)
    }

    /// Looks for members of the child's group that are stopped while its leader runs; nobody is told of
    /// them. Two looks must find the same, since the whole group may just be stopping.
    ///
    /// After a loan they were slower to stop than the leader: a program that catches the signal puts the
    /// terminal in order first. Before a stop they keep the leader from stopping: it waits for them to
    /// execute their program, vfork(2), and stops once they have.
    pub fn look_again(&mut self, now: Duration) {
        let Some((at, done)) = self.second_looks else {
            return;
        };
        if now < at {
            return;
        }
        self.second_looks = next_look(now, done);
        let stopped = self.stopped_members();
        for member in stopped.iter().filter(|member| self.late.contains(member)) {
            let _ = terminate::Kernel.to_process(*member, libc::SIGCONT);
        }
        self.late = stopped;
    }

    fn look_soon(&mut self) {
        self.second_looks = next_look(monotonic(), 0);
        self.late.clear();
    }

    /// The members of the child's group that are stopped while its leader runs, when that matters.
    fn stopped_members(&self) -> Vec<ProcessRef> {
        let Some(child) = self
            .child
            .as_ref()
            .filter(|child| child.stopped_by.is_none())
        else {
            return Vec::new();
        };
        let loan = self.loan.as_ref().map(|loan| loan.to);
        let stopping = self.asked.is_some() || self.key_typed;
        if !stopping && loan != Some(Borrower::Child(child.group)) {
            return Vec::new();
        }
        let listing = Listing::take().unwrap_or_default();
        let stopped = listing.members(child.group).filter(|member| member.stopped);
        let stopped: Vec<_> = stopped.map(|member| member.id).collect();
        if stopped.iter().any(|member| member.pid == child.group) {
            return Vec::new();
        }
        stopped
    }

    /// The child wants to read from the terminal, or to change it.
    fn child_asks(&mut self, signal: i32, link: &Link) {
        let Some(group) = self.child.as_ref().map(|child| child.group) else {
            return;
        };
        match self.terminal.as_ref().and_then(Terminal::foreground) {
            Some(foreground) if foreground == group => self.child_asks_again(link),
            Some(_) if self.lend(Borrower::Child(group), None, link) => {}
            _ => self.stop_front(signal, link),
        }
    }

    /// The child went on faster than the terminal came, and stopped again. A stop that was typed since
    /// waits behind that one, and to continue the child would throw it away.
    fn child_asks_again(&mut self, link: &Link) {
        let group = self.child.as_ref().map(|child| child.group);
        if group.is_some_and(|group| proc::is_pending(group, libc::SIGTSTP)) && self.suspend(link) {
            self.stop_front(libc::SIGTSTP, link);
        } else {
            self.continue_child();
        }
    }

    /// Gives the terminal away, if it is the front's to give, and lets a child that gets it go on. The
    /// front hears of it first, so that it can take the terminal back should the keeper die.
    ///
    /// The modes come first, since the child may set its own as soon as it goes on; the terminal comes
    /// last, since to continue a process throws away a stop that was typed at it before.
    fn lend(&mut self, to: Borrower, modes: Option<Modes>, link: &Link) -> bool {
        let Some(terminal) = &self.terminal else {
            return false;
        };
        if terminal.foreground() != Some(self.front_group) {
            return false;
        }
        let modes_before = terminal.modes();
        let raw = match to {
            Borrower::Child(_) => None,
            Borrower::Keeper(_) => modes_before.map(|modes| modes.raw(!terminal.is_behind(1))),
        };
        if let Some(modes) = raw.or(modes) {
            let _ = terminal.set_modes(&modes);
        }
        link.send(ToFront::Lent(to.group()));
        if let (Borrower::Child(group), Some(child)) = (to, &mut self.child) {
            link.stop_with_front(Some(group));
            child.go_on();
        }
        let given = terminal.set_foreground(to.group()).is_ok();
        if given {
            self.loan = Some(Loan {
                to,
                modes_before,
                raw,
            });
            self.look_soon();
        } else {
            if let Some(modes) = modes_before {
                let _ = terminal.set_modes(&modes);
            }
            link.stop_with_front(None);
            // What could not be given away once is not offered again: the child would ask for ever.
            self.terminal = None;
        }
        given
    }

    /// Ends the loan; false if there is none, or if the terminal has moved on meanwhile.
    fn take_back(&mut self, link: &Link) -> bool {
        let (Some(loan), Some(terminal)) = (self.loan.take(), &self.terminal) else {
            return false;
        };
        link.stop_with_front(None);
        let held = terminal.foreground() == Some(loan.to.group());
        // A shell may be quicker to take the terminal than to set its modes, or not care for them.
        let untouched = || loan.raw.is_some() && terminal.modes() == loan.raw;
        if let Some(modes) = loan.modes_before
            && (held || untouched())
        {
            let _ = terminal.set_modes(&modes);
        }
        if !held {
            return false;
        }
        // Fails where the front's group has ended; then its shell takes the terminal.
        let _ = terminal.set_foreground(self.front_group);
        true
    }

    /// Takes the terminal back and keeps in mind how the borrower had it.
    fn suspend(&mut self, link: &Link) -> bool {
        let Some(to) = self.loan.as_ref().map(|loan| loan.to) else {
            return false;
        };
        let modes = self.terminal.as_ref().and_then(Terminal::modes);
        let held = self.take_back(link);
        self.suspended = held.then_some((to, modes));
        held
    }

    /// Makes the loan again that was called back when the child stopped; says whether the child goes on
    /// by that.
    fn resume(&mut self, link: &Link) -> bool {
        let Some((to, modes)) = self.suspended.take() else {
            return false;
        };
        let lent = self.lend(to, modes, link);
        if !lent {
            self.suspended = Some((to, modes));
        }
        lent && matches!(to, Borrower::Child(_))
    }

    fn confirm_stop(&mut self, link: &Link) {
        if let (Some(signal), Some(child)) = (self.asked.take(), &self.child)
            && !self.late.is_empty()
        {
            // Those that were continued so that the leader could stop.
            child.stop(signal);
        }
        self.front_stops = true;
        self.stand_still();
        link.send(ToFront::ChildStopped);
    }

    /// A signal of job control stops the whole job, as it would without idem, and that is the user's
    /// doing. Any other one stops the front, which a shell sees, but the time goes on: a timeout still
    /// ends a child that has stopped itself.
    fn stop_front(&mut self, signal: i32, link: &Link) {
        if !STOPPING.contains(&signal) {
            self.signal_front(self.front, libc::SIGSTOP);
        } else if entry::state().was_ignored(signal) {
            return self.cannot_stop(link);
        } else {
            self.stand_still();
            self.signal_front(-self.front_group, signal);
        }
        self.front_stops = true;
    }

    /// The child runs or has ended: the front must not stay stopped.
    fn release_front(&mut self) {
        if std::mem::take(&mut self.front_stops) {
            self.signal_front(self.front, libc::SIGCONT);
        }
        self.go_on();
    }

    /// Signals the front, or its group, while the front is this process's parent: for so long its number
    /// is nobody else's, and that of its group neither.
    fn signal_front(&self, target: i32, signal: i32) {
        // SAFETY: integers only.
        unsafe {
            if libc::getppid() == self.front {
                libc::kill(target, signal);
            }
        }
    }

    fn continue_child(&mut self) {
        if let Some(child) = &mut self.child {
            child.go_on();
        }
    }

    fn stand_still(&mut self) {
        self.stopped_at.get_or_insert_with(monotonic);
    }

    fn go_on(&mut self) {
        if let Some(stopped_at) = self.stopped_at.take() {
            self.stood_still += monotonic().saturating_sub(stopped_at);
        }
    }

    /// Makes the child's group an orphaned one, by leaving the session: reading from the terminal then
    /// fails there at once instead of stopping the group for ever. The leader of a process group cannot
    /// leave its session, so the keeper is a member of the child's group for a moment.
    fn leave_terminal(&mut self) -> bool {
        self.terminal = None;
        let Some(child) = &self.child else {
            return false;
        };
        // SAFETY: integers only.
        unsafe {
            if libc::setpgid(0, child.group) != 0 {
                return false;
            }
            let left = libc::setsid() >= 0;
            if !left {
                libc::setpgid(0, 0);
            }
            left
        }
    }
}

fn next_look(now: Duration, done: usize) -> Option<(Duration, usize)> {
    let pause = SECOND_LOOKS.get(done)?;
    Some((now.saturating_add(*pause), done + 1))
}
