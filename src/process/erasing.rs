//! A line that is to be taken away goes also when a signal ends its process.

use super::signal::{Disposition, set_disposition};
use super::sys::foreground_group;

/// Takes the cursor's row away.
pub const ERASED: &str = "\r\x1b[K";

/// What ends a process that waits, by the user's or the system's hand.
const DEADLY: [libc::c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// Async-signal-safe: plain system calls only.
extern "C" fn erase_and_die(signal: libc::c_int) {
    // SAFETY: no arguments; then a constant text with its length; then integers. The disposition is the
    // default again, and the signal waits until this handler has returned.
    unsafe {
        if foreground_group(libc::STDERR_FILENO) == Some(libc::getpgrp()) {
            libc::write(libc::STDERR_FILENO, ERASED.as_ptr().cast(), ERASED.len());
        }
        libc::raise(signal);
    }
}

fn handler() -> libc::sighandler_t {
    erase_and_die as extern "C" fn(libc::c_int) as libc::sighandler_t
}

/// From now on the signals that end this process erase the row first. What is ignored stays ignored.
pub fn arm() {
    let mut action = nothing();
    action.sa_sigaction = handler();
    action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
    for signal in DEADLY {
        if present(signal) == libc::SIG_DFL {
            // SAFETY: the action is complete, and its handler lives as long as the program.
            unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        }
    }
}

/// The signals end this process as before.
pub fn disarm() {
    for signal in DEADLY {
        if present(signal) == handler() {
            // Cannot fail for these.
            let _ = set_disposition(signal, Disposition::Default);
        }
    }
}

fn present(signal: libc::c_int) -> libc::sighandler_t {
    let mut action = nothing();
    // SAFETY: asks only; the action outlives the call.
    unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    action.sa_sigaction
}

fn nothing() -> libc::sigaction {
    // SAFETY: all-zero is a valid sigaction: the default action, no flags and an empty mask.
    unsafe { std::mem::zeroed() }
}
