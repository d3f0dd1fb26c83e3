//! Signals as sets and as descriptors.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::c_int;

use super::entry;
use super::sys::check;

/// The kernel's size of a signal set in bytes: 64 signals.
const SET_BYTES: usize = 8;

/// A set of the signals 1–64, one bit each, as the kernel keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SignalSet(u64);

impl SignalSet {
    /// No signal.
    pub const EMPTY: SignalSet = SignalSet(0);
    /// Every signal.
    pub const ALL: SignalSet = SignalSet(u64::MAX);

    /// The set of these signals; numbers outside 1–64 are left out.
    pub fn of(signals: &[c_int]) -> SignalSet {
        signals.iter().fold(SignalSet::EMPTY, |set, &s| set.with(s))
    }

    /// A set from its bits: signal n is bit n − 1.
    pub const fn from_bits(bits: u64) -> SignalSet {
        SignalSet(bits)
    }

    /// The bits: signal n is bit n − 1.
    pub const fn bits(self) -> u64 {
        self.0
    }

    fn bit(signal: c_int) -> u64 {
        match signal {
            1..=64 => 1 << (signal - 1),
            _ => 0,
        }
    }

    /// This set and one more signal.
    pub fn with(self, signal: c_int) -> SignalSet {
        SignalSet(self.0 | Self::bit(signal))
    }

    /// This set without the signals of another.
    pub fn without(self, other: SignalSet) -> SignalSet {
        SignalSet(self.0 & !other.0)
    }

    /// Whether the signal is in the set.
    pub fn contains(self, signal: c_int) -> bool {
        self.0 & Self::bit(signal) != 0
    }

    /// Adds the set to this thread's mask and returns the mask before.
    pub fn block(self) -> io::Result<SignalSet> {
        self.change(libc::SIG_BLOCK)
    }

    /// Takes the set out of this thread's mask and returns the mask before.
    pub fn unblock(self) -> io::Result<SignalSet> {
        self.change(libc::SIG_UNBLOCK)
    }

    /// Makes the set this thread's mask and returns the mask before. Async-signal-safe.
    pub fn set_mask(self) -> io::Result<SignalSet> {
        self.change(libc::SIG_SETMASK)
    }

    /// This thread's mask.
    pub fn current_mask() -> io::Result<SignalSet> {
        SignalSet::EMPTY.change(libc::SIG_BLOCK)
    }

    /// The blocked signals that have arrived and wait.
    pub fn pending() -> SignalSet {
        let mut set = 0_u64;
        // SAFETY: the set is of the size given, and outlives the call.
        unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut set, SET_BYTES) };
        SignalSet(set)
    }

    // The C library's own call would leave out the two signals that it keeps for itself.
    fn change(self, how: c_int) -> io::Result<SignalSet> {
        let mut before = 0_u64;
        // SAFETY: both sets are of the size given, and outlive the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_rt_sigprocmask,
                how,
                &raw const self.0,
                &raw mut before,
                SET_BYTES,
            )
        };
        check(c_int::try_from(result).unwrap_or(-1)).map(|_| SignalSet(before))
    }
}

/// A thread that no signal is delivered to: it must not take those that the process waits for.
pub fn spawn_deaf_thread(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<std::thread::JoinHandle<()>> {
    // A new thread starts with the mask of the one that makes it.
    let mask = SignalSet::ALL.block()?;
    let thread = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body);
    mask.set_mask()?;
    thread
}

/// What a process does about a signal when no handler of its own is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// The signal's default action.
    Default,
    /// Nothing.
    Ignore,
}

/// Sets a signal's disposition for this process. Async-signal-safe. Fails with `EINVAL` for KILL, STOP
/// and the C library's own two.
pub fn set_disposition(signal: c_int, disposition: Disposition) -> io::Result<()> {
    if !entry::is_changed_early(signal) {
        // What was found at the start is looked at before the first change.
        entry::state().ignored();
    }
    let handler = match disposition {
        Disposition::Default => libc::SIG_DFL,
        Disposition::Ignore => libc::SIG_IGN,
    };
    set_handler(signal, handler)
}

pub(super) fn set_handler(signal: c_int, handler: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: all-zero is a valid sigaction: no flags and an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    // SAFETY: the action is complete and outlives the call; every handler passed in is
    // async-signal-safe and lives as long as the program.
    check(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) }).map(drop)
}

/// Lets ended children wait for their parent even if SIGCHLD was ignored at the start, in which case the
/// kernel would throw their exit codes away. A spawned child gets the signal back as idem found it.
pub fn keep_ended_children() -> io::Result<()> {
    if entry::state().was_ignored(libc::SIGCHLD) {
        set_disposition(libc::SIGCHLD, Disposition::Default)?;
    }
    Ok(())
}

/// One signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Its number.
    pub signal: c_int,
    /// Who sent it, where somebody did; 0 for the kernel.
    pub sender: i32,
    /// The `si_code` of sigaction(2): `SI_USER`, `SI_KERNEL`, `CLD_STOPPED`, …
    pub code: c_int,
}

/// Signals as something to poll: they are blocked from the moment this exists.
#[derive(Debug)]
pub struct SignalFd {
    fd: OwnedFd,
    blocked: SignalSet,
}

impl SignalFd {
    /// Blocks the signals and opens a non-blocking, close-on-exec descriptor for them. Signals that were
    /// ignored at the start are left out, since a blocked signal arrives even when it is ignored.
    pub fn catching(signals: SignalSet) -> io::Result<SignalFd> {
        SignalFd::catching_all(signals.without(entry::state().ignored()))
    }

    /// [`SignalFd::catching`] for signals that must arrive even if they were ignored at the start, as
    /// SIGCHLD must for a process that reaps.
    pub fn catching_all(blocked: SignalSet) -> io::Result<SignalFd> {
        blocked.block()?;
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: the set is of the size given and outlives the call.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_signalfd4,
                -1,
                &raw const blocked.0,
                SET_BYTES,
                flags,
            )
        };
        let fd = check(c_int::try_from(fd).unwrap_or(-1))?;
        // SAFETY: the kernel has just returned this descriptor to us alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(SignalFd { fd, blocked })
    }

    /// The signals that arrive here and nowhere else.
    pub fn blocked(&self) -> SignalSet {
        self.blocked
    }

    /// The next signal, or nothing if none is pending.
    pub fn read(&self) -> io::Result<Option<Received>> {
        // SAFETY: all-zero is a valid value of this plain struct of integers.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let bytes = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the kernel writes whole records only, and there is room for one.
        let read = unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), bytes) };
        if read >= 0 {
            return Ok(Some(Received {
                signal: info.ssi_signo as c_int,
                sender: info.ssi_pid as i32,
                code: info.ssi_code,
            }));
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            error => Err(error),
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::testing::own_process;

    #[test]
    fn sets_hold_what_was_put_in() {
        let set = SignalSet::of(&[1, 64, 65, 0]);
        assert!(set.contains(1) && set.contains(64) && !set.contains(2) && !set.contains(0));
        assert_eq!(set.without(SignalSet::of(&[64])).bits(), 1);
    }

    #[test]
    fn a_caught_signal_is_read_once_and_kills_nobody() {
        own_process!("a_caught_signal_is_read_once_and_kills_nobody", || {
            let signals = SignalFd::catching(SignalSet::of(&[libc::SIGUSR1])).expect("signalfd");
            assert_eq!(signals.read().expect("read"), None);
            // SAFETY: raises a signal that is blocked in this thread.
            unsafe { libc::raise(libc::SIGUSR1) };
            let received = signals.read().expect("read").expect("a signal");
            assert_eq!(received.signal, libc::SIGUSR1);
            assert_eq!(received.sender, std::process::id() as i32);
            assert_eq!(signals.read().expect("read"), None);
        });
    }
}
