//! The front's side of the split: forks the keeper, relays signals and job control to it, and ends as
//! the keeper says.

use super::session::{FORWARDED, poll, pollfd};
use super::signal::{Disposition, SignalFd, SignalSet, set_disposition};
use super::split::{Link, Received, ToFront, ToKeeper, link};
use super::sys::check;
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
    let relayed = SignalSet::of(&FORWARDED)
        .with(libc::SIGTSTP)
        .with(libc::SIGWINCH);
    let signals = SignalFd::catching(relayed)?;
    let (front, keeper) = link()?;
    // SAFETY: this process has one thread, and the child's branch never returns.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        drop((front, signals));
        keep(keeper, context);
    }
    drop(keeper);
    let (end, received) = relay(&front, &signals, detach);
    drop(signals);
    mask.set_mask()?;
    Ok(match (end, received) {
        // What the keeper could no longer act upon means this process as it would without a keeper.
        (KeeperEnd::Changed(_) | KeeperEnd::LookAgain, Some(signal)) => KeeperEnd::Die {
            signal,
            group: false,
        },
        (end, _) => end,
    })
}

fn relay(front: &Link, signals: &SignalFd, detach: bool) -> (KeeperEnd, Option<i32>) {
    let mut claimed = false;
    let mut ending = None;
    loop {
        let mut fds = [
            pollfd(front.as_raw_fd(), libc::POLLIN),
            pollfd(signals.as_fd().as_raw_fd(), libc::POLLIN),
        ];
        poll(&mut fds, None);
        relay_signals(front, signals, &mut ending);
        match front.receive() {
            Received::Nothing => {}
            Received::Gone => return (KeeperEnd::Lost { claimed }, ending),
            Received::Message(ToFront::Claimed(generation)) => {
                claimed = true;
                if detach {
                    return (KeeperEnd::Detached(generation), ending);
                }
            }
            Received::Message(ToFront::Changed(generation)) => {
                return (KeeperEnd::Changed(generation), ending);
            }
            Received::Message(ToFront::LookAgain) => return (KeeperEnd::LookAgain, ending),
            Received::Message(ToFront::Stop(_)) => stop_self(front),
            Received::Message(ToFront::Exit(code)) => return (KeeperEnd::Exit(code), ending),
            Received::Message(ToFront::Die { signal, group }) => {
                return (KeeperEnd::Die { signal, group }, ending);
            }
        }
    }
}

fn relay_signals(front: &Link, signals: &SignalFd, ending: &mut Option<i32>) {
    while let Ok(Some(received)) = signals.read() {
        match received.signal {
            libc::SIGTSTP => {
                front.send(ToKeeper::Stopped);
                stop_self(front);
            }
            libc::SIGWINCH => {
                front.send(ToKeeper::Resized);
            }
            signal => {
                if matches!(signal, libc::SIGINT | libc::SIGTERM | libc::SIGQUIT) {
                    ending.get_or_insert(signal);
                }
                front.send(ToKeeper::Signal(signal));
            }
        }
    }
}

/// Stops as the job that this process is, and says so once it goes on.
fn stop_self(front: &Link) {
    // SAFETY: integers only.
    unsafe { libc::raise(libc::SIGSTOP) };
    front.send(ToKeeper::Continued);
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
