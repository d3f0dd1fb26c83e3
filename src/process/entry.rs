//! What idem found when it was started, and what it does first itself.
//!
//! Rust's runtime, where it starts a program, ignores SIGPIPE and opens `/dev/null` where 0, 1 or 2 were
//! closed, so these are recorded before. idem's own program starts without that runtime, see [`begin`].

use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

use libc::{c_char, c_int};

use super::arguments;
use super::signal::{Disposition, SignalSet, set_disposition};

/// The highest signal number of Linux.
const LAST_SIGNAL: c_int = 64;

/// What Rust's runtime or [`begin`] changes, and so is looked at first. All other signals wait until
/// someone asks, or is about to change one: a replay does neither.
const CHANGED_EARLY: [c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

/// Descriptors and signals as the caller handed them over.
#[derive(Debug)]
pub struct EntryState {
    recorded: AtomicBool,
    closed: AtomicU8,
    /// The signals that were ignored, as far as they have been looked at.
    ignored: AtomicU64,
    all_looked_at: AtomicBool,
    mask: AtomicU64,
}

static STATE: EntryState = EntryState {
    recorded: AtomicBool::new(false),
    closed: AtomicU8::new(0),
    ignored: AtomicU64::new(0),
    all_looked_at: AtomicBool::new(false),
    mask: AtomicU64::new(0),
};

/// The arguments, where not all of them are still in their place.
static TYPED: OnceLock<Vec<OsString>> = OnceLock::new();

// The C library calls every function of this section before main, and Rust's runtime starts in main.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record;

extern "C" fn record() {
    let closed = (0..=2).filter(|&fd| is_closed(fd));
    STATE
        .closed
        .store(closed.fold(0, |bits, fd| bits | 1 << fd), Relaxed);
    let early = ignored_among(CHANGED_EARLY.into_iter());
    STATE.ignored.store(early.bits(), Relaxed);
    let mask = SignalSet::current_mask().unwrap_or_default();
    STATE.mask.store(mask.bits(), Relaxed);
    STATE.recorded.store(true, Relaxed);
}

/// Does what idem needs of Rust's runtime. All that the runtime would do besides is to read the bounds of
/// the stack from `/proc` and to install handlers that tell of its overflow, and every replay would wait
/// for that. Returns the arguments after the program's name; the passwords in them are hidden from others.
/// Fails if a closed descriptor among 0–2 cannot be filled, since the next file opened
/// would take its place.
///
/// # Safety
///
/// `argv` must point to `argc` strings that live as long as the program, as those given to `main` do.
pub unsafe fn begin(argc: c_int, argv: *const *const c_char) -> io::Result<Vec<OsString>> {
    for fd in (0..=2).filter(|&fd| STATE.was_closed(fd)) {
        // The lowest free descriptor is taken, and those below are open by now.
        // SAFETY: the path is a constant.
        let opened = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
        if opened != fd {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let count = usize::try_from(argc).unwrap_or(0);
    let mut hidden = false;
    let mut typed: Vec<OsString> = (0..count)
        .map(|number| {
            // SAFETY: the caller promises so many strings.
            let argument = unsafe { *argv.add(number) };
            // SAFETY: as above.
            let bytes = unsafe { CStr::from_ptr(argument) }.to_bytes();
            let copy = OsStr::from_bytes(bytes).to_owned();
            // SAFETY: the system lets a program write it; whoever reads it after this uses the copies.
            hidden |= unsafe { arguments::hide_password(argument) };
            copy
        })
        .collect();
    if hidden {
        let _ = TYPED.set(typed.clone());
    }
    Ok(typed.split_off(count.min(1)))
}

/// The arguments as they were typed, the program's name first.
pub fn typed() -> Vec<OsString> {
    match TYPED.get() {
        Some(typed) => typed.clone(),
        None => std::env::args_os().collect(),
    }
}

/// Whether the descriptor is closed now. Async-signal-safe.
pub fn is_closed(fd: RawFd) -> bool {
    // SAFETY: F_GETFD takes no argument and touches no memory.
    unsafe { libc::fcntl(fd, libc::F_GETFD) == -1 }
}

/// Whether this process ignores the signal now. The C library keeps two signals for itself and tells
/// nothing about them; they count as not ignored, and nothing in idem changes them.
pub fn is_ignored(signal: c_int) -> bool {
    // SAFETY: all-zero is a valid sigaction, and a null new action makes this a query.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

fn ignored_among(signals: impl Iterator<Item = c_int>) -> SignalSet {
    let ignored = signals.filter(|&signal| is_ignored(signal));
    ignored.fold(SignalSet::EMPTY, SignalSet::with)
}

/// The state recorded at the start of this program. A fork keeps it.
pub fn state() -> &'static EntryState {
    &STATE
}

/// A write beyond `ulimit -f` becomes an error that can be told, for idem itself; its children get the
/// signal back as it was.
pub fn survive_file_size_limits() {
    // Fails for no signal that can be changed, as this one.
    let _ = set_disposition(libc::SIGXFSZ, Disposition::Ignore);
}

/// Whether someone who changes this signal must first look at all.
pub(super) fn is_changed_early(signal: c_int) -> bool {
    CHANGED_EARLY.contains(&signal)
}

impl EntryState {
    /// Whether the recording took place. If it did not, every other answer is that of an ordinary start:
    /// nothing closed, nothing ignored, nothing blocked.
    pub fn is_recorded(&self) -> bool {
        self.recorded.load(Relaxed)
    }

    /// Whether this descriptor, 0–2, was closed.
    pub fn was_closed(&self, fd: RawFd) -> bool {
        (0..=2).contains(&fd) && self.closed.load(Relaxed) & (1 << fd) != 0
    }

    /// The signals that were ignored. Async-signal-safe.
    pub fn ignored(&self) -> SignalSet {
        if self.is_recorded() && !self.all_looked_at.load(Relaxed) {
            let later = (1..=LAST_SIGNAL).filter(|signal| !CHANGED_EARLY.contains(signal));
            // Two threads at once find the same, since whoever changes one has come here before.
            self.ignored.fetch_or(ignored_among(later).bits(), Relaxed);
            self.all_looked_at.store(true, Relaxed);
        }
        SignalSet::from_bits(self.ignored.load(Relaxed))
    }

    /// Whether this signal was ignored.
    pub fn was_ignored(&self, signal: c_int) -> bool {
        if CHANGED_EARLY.contains(&signal) {
            return SignalSet::from_bits(self.ignored.load(Relaxed)).contains(signal);
        }
        self.ignored().contains(signal)
    }

    /// The signal mask.
    pub fn mask(&self) -> SignalSet {
        SignalSet::from_bits(self.mask.load(Relaxed))
    }

    /// For a child between fork and exec: every signal is ignored or has its default action as it was.
    /// Async-signal-safe.
    pub(super) fn restore_dispositions(&self) {
        let ignored = self.ignored();
        for signal in 1..=LAST_SIGNAL {
            let disposition = if ignored.contains(signal) {
                Disposition::Ignore
            } else {
                Disposition::Default
            };
            // KILL, STOP and the C library's two refuse every change, and nobody has changed them.
            let _ = set_disposition(signal, disposition);
        }
    }

    /// For a child just before exec: the mask as it was. Pending signals that it lets through act at
    /// once. Async-signal-safe.
    pub(super) fn restore_mask(&self) -> io::Result<()> {
        self.mask().set_mask().map(drop)
    }
}

/// Descriptor 0 as it is. The standard library's has a buffer that every call would make for nothing.
pub fn stdin() -> BorrowedFd<'static> {
    // SAFETY: descriptor 0 is open since `begin`, and nobody closes it.
    unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::testing::own_process;

    #[test]
    fn the_start_is_recorded_before_the_runtime_changes_it() {
        let wrapper = [
            "env",
            "--ignore-signal=HUP",
            "--block-signal=USR1",
            "sh",
            "-c",
        ];
        let wrapper = [&wrapper[..], &["exec <&-; exec \"$@\"", "sh"]].concat();
        own_process!(
            "the_start_is_recorded_before_the_runtime_changes_it",
            &wrapper,
            || {
                let state = state();
                assert!(state.is_recorded());
                assert!(state.was_closed(0) && !state.was_closed(1) && !state.was_closed(2));
                assert!(!is_closed(0), "the runtime has opened it");
                set_disposition(libc::SIGUSR2, Disposition::Ignore).unwrap();
                set_disposition(libc::SIGHUP, Disposition::Default).unwrap();
                assert!(!state.was_ignored(libc::SIGPIPE));
                assert_eq!(state.ignored(), SignalSet::of(&[libc::SIGHUP]));
                assert!(is_ignored(libc::SIGPIPE), "the runtime ignores it");
                assert_eq!(state.mask(), SignalSet::of(&[libc::SIGUSR1]));
            }
        );
    }
}
