//! How the keeper leaves.

use super::session::{let_go, poll, pollfd};
use super::signal::{Disposition, set_disposition};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

/// Ends the process without running anything on the way: no destructor, no checkpoint of the database.
///
/// If a daemon of the command still holds its output pipes, the process first lets go of everything else
/// and reads them to their end: the daemon must not die of SIGPIPE at its next line.
pub fn leave(code: i32, pipes: Vec<OwnedFd>) -> ! {
    if !pipes.is_empty() {
        discard(pipes);
    }
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

fn discard(pipes: Vec<OwnedFd>) {
    let_go(&[0, 1, 2]);
    // SAFETY: a constant path; a failure leaves the directory as it is.
    unsafe { libc::chdir(c"/".as_ptr()) };
    // What the command left behind is nobody's to reap here.
    let _ = set_disposition(libc::SIGCHLD, Disposition::Ignore);
    let mut pipes = close_all_but(pipes);
    while !pipes.is_empty() {
        let mut fds: Vec<_> = pipes
            .iter()
            .map(|fd| pollfd(fd.as_raw_fd(), libc::POLLIN))
            .collect();
        poll(&mut fds, None);
        let mut ready = fds.iter().map(|fd| fd.revents != 0);
        pipes.retain(|pipe| !ready.next().unwrap_or(false) || read_some(pipe.as_raw_fd()));
    }
}

/// Moves the pipes to the lowest descriptors and closes everything above.
fn close_all_but(pipes: Vec<OwnedFd>) -> Vec<OwnedFd> {
    let mut numbers: Vec<RawFd> = pipes.into_iter().map(IntoRawFd::into_raw_fd).collect();
    numbers.sort_unstable();
    let mut kept = Vec::new();
    for (number, target) in numbers.into_iter().zip(3..) {
        // In ascending order a pipe never lies below its target, so none is overwritten.
        // SAFETY: integers only; nothing else of this process uses its descriptors any more.
        if number == target || unsafe { libc::dup2(number, target) } == target {
            kept.push(target);
        }
    }
    let above = kept.last().map_or(3, |last| last + 1);
    // SAFETY: integers only; every owner of these descriptors is about to end with the process.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            above as libc::c_uint,
            libc::c_uint::MAX,
            0,
        )
    };
    // SAFETY: these are open and owned by nobody else.
    kept.into_iter()
        .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
        .collect()
}

/// Reads once and throws it away; false at the end.
pub(super) fn read_some(fd: RawFd) -> bool {
    let mut buffer = [0u8; 4096];
    // SAFETY: the buffer lives through the call and its length is given.
    let count = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
    count > 0
        || (count < 0 && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted)
}
