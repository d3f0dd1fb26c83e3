//! The front's side of the split: forks the keeper, relays signals and job control to it, and ends as
//! the keeper says.

use super::entry;
use super::session::{FORWARDED, poll, pollfd};
use super::signal::{Disposition, SignalFd, SignalSet, set_disposition};
use super::split::{Link, Received, ToFront, ToKeeper, link};
use super::sys::check;
use super::terminal::stops::Stops;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Signals whose default action writes a core file: idem's own is of no use to anyone.
const CORE_DUMPING: [i32; 9] = [
    libc::SIGQUIT,
    libc::SIGILL,
    libc::SIGABRT,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGXCPU,
];

/// How the keeper's work ended, seen from the front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeeperEnd {
    /// Nothing was executed: somebody else has this generation.
    Changed(i64),
    /// Nothing was executed: look at the record anew.
    LookAgain,
    /// The claim is durable, and the caller wanted no more than that.
    Detached(i64),
    /// End with this code.
    Exit(i32),
    /// Die of this signal.
    Die {
        /// The signal's number.
        signal: i32,
        /// Raise it on the whole group.
        group: bool,
    },
    /// The keeper died without a word.
    Lost {
        /// It had told of its claim.
        claimed: bool,
    },
}

/// Forks the keeper and stays with it. `keep` runs in the new process, with `context`, and never returns.
///
/// No connection to a database may be open here: it would be open on both sides.
pub fn split<T>(detach: bool, context: T, keep: fn(Link, T) -> !) -> io::Result<KeeperEnd> {
    // Blocked before the fork, so that none is lost between the two.
    let mask = SignalSet::current_mask()?;
    let relayed = SignalSet::of(&FORWARDED).with(libc::SIGWINCH);
    let relayed = relayed.without(entry::state().ignored());
    let signals = SignalFd::catching_all(relayed.with(libc::SIGCONT))?;
    let stops = Stops::new()?;
    let (front, keeper) = link(stops.has_terminal())?;
    // SAFETY: this process has one thread, and the child's branch never returns.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        drop((front, signals, stops));
        keep(keeper, context);
    }
    drop(keeper);
    let mut relay = Relay {
        link: front,
        signals,
        stops,
        detach,
        claimed: false,
        ending: None,
    };
    let end = relay.run();
    if matches!(end, KeeperEnd::Lost { .. }) {
        relay.stops.restore();
    }
    relay.stops.discard();
    let ending = relay.ending;
    drop(relay);
    mask.set_mask()?;
    Ok(match (end, ending) {
        // What the keeper could no longer act upon means this process as it would without a keeper.
        (KeeperEnd::Changed(_) | KeeperEnd::LookAgain, Some(signal)) => KeeperEnd::Die {
            signal,
            group: false,
        },
        (end, _) => end,
    })
}

/// The front while the keeper works.
struct Relay {
    link: Link,
    signals: SignalFd,
    stops: Stops,
    detach: bool,
    claimed: bool,
    /// The first signal that means the end.
    ending: Option<i32>,
}

impl Relay {
    fn run(&mut self) -> KeeperEnd {
        loop {
            let mut fds = [
                pollfd(self.link.as_raw_fd(), libc::POLLIN),
                pollfd(self.signals.as_fd().as_raw_fd(), libc::POLLIN),
                pollfd(self.stops.poll_fd(), libc::POLLIN),
            ];
            poll(&mut fds, None);
            self.relay_signals();
            self.stops.look(&self.link);
            match self.link.receive() {
                Received::Nothing => {}
                Received::Gone => {
                    return KeeperEnd::Lost {
                        claimed: self.claimed,
                    };
                }
                Received::Message(message) => {
                    if let Some(end) = self.hear(message) {
                        return end;
                    }
                }
            }
        }
    }

    /// Acts on what the keeper says; returns the end once it says that.
    fn hear(&mut self, message: ToFront) -> Option<KeeperEnd> {
        match message {
            ToFront::Claimed(generation) => {
                self.claimed = true;
                return self.detach.then_some(KeeperEnd::Detached(generation));
            }
            ToFront::Changed(generation) => return Some(KeeperEnd::Changed(generation)),
            ToFront::LookAgain => return Some(KeeperEnd::LookAgain),
            ToFront::Exit(code) => return Some(KeeperEnd::Exit(code)),
            ToFront::Die { signal, group } => return Some(KeeperEnd::Die { signal, group }),
            ToFront::ChildStopped => self.stops.child_stopped(&self.link),
            ToFront::GoOn => self.stops.go_on(),
            ToFront::Lent(group) => self.stops.lent(group),
        }
        None
    }

    fn relay_signals(&mut self) {
        while let Ok(Some(received)) = self.signals.read() {
            match received.signal {
                libc::SIGCONT => self.stops.continued(&self.link),
                libc::SIGWINCH => {
                    self.link.send(ToKeeper::Resized);
                }
                signal => {
                    if matches!(signal, libc::SIGINT | libc::SIGTERM | libc::SIGQUIT) {
                        self.ending.get_or_insert(signal);
                    }
                    self.link.send(ToKeeper::Signal(signal));
                }
            }
        }
    }
}

/// Dies of a signal as the command did, so that a shell sees what it would have seen without idem;
/// returns only if the signal does not kill.
pub fn die_of(signal: i32, group: bool) {
    if CORE_DUMPING.contains(&signal) {
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: the pointer is to a complete rlimit that outlives the call.
        unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
    }
    if set_disposition(signal, Disposition::Default).is_err() && signal != libc::SIGKILL {
        return;
    }
    // SAFETY: integers only; group 0 is this process's own.
    unsafe {
        if group {
            libc::kill(0, signal)
        } else {
            libc::raise(signal)
        };
    }
    // Blocked until now, or blocked by the caller: let it act.
    let _ = SignalSet::of(&[signal]).unblock();
}
