//! Thin safe wrappers over the system calls that the standard library does not offer.

use std::ffi::CStr;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_int, pid_t};

/// Turns the -1 of a system call into the error that it left behind.
pub fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Repeats a call for as long as a signal interrupts it.
pub fn uninterrupted(mut call: impl FnMut() -> c_int) -> io::Result<c_int> {
    loop {
        match check(call()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// The process group in the foreground of a terminal; nothing for any other file, or a terminal that is
/// not this session's. Async-signal-safe.
pub fn foreground_group(fd: RawFd) -> Option<pid_t> {
    // SAFETY: an integer argument.
    let group = unsafe { libc::tcgetpgrp(fd) };
    (group >= 0).then_some(group)
}

/// One read, repeated for as long as a signal interrupts it: what `/proc` gives comes whole.
pub fn read_once(mut file: impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// One read, as much as the buffer has room for; what was in it is gone. The room is not filled with
/// zeros first: a buffer costs only the pages that something is read into.
pub fn read_into(fd: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> io::Result<usize> {
    buffer.clear();
    let room = buffer.spare_capacity_mut();
    // SAFETY: the room and its length belong together, and read writes no more than that.
    let count = unsafe { libc::read(fd.as_raw_fd(), room.as_mut_ptr().cast(), room.len()) };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: so many bytes were just written.
    unsafe { buffer.set_len(count) };
    Ok(count)
}

/// SIGALRM ends this process after so many seconds, whatever it waits for then.
pub fn end_after(seconds: u32) {
    // SAFETY: an integer argument.
    unsafe { libc::alarm(seconds) };
}

/// The system's text for an error number, in the lower case of idem's messages.
pub fn errno_text(errno: c_int) -> String {
    let mut text = [0; 256];
    // SAFETY: the buffer and its length belong together; strerror_r ends what it writes with a NUL.
    let result = unsafe { libc::strerror_r(errno, text.as_mut_ptr(), text.len()) };
    if result != 0 {
        return format!("error {errno}");
    }
    // SAFETY: strerror_r succeeded, so the buffer holds a NUL-terminated string.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy();
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => format!("error {errno}"),
    }
}

/// Takes a descriptor that a successful call has just returned.
fn owned(fd: RawFd) -> OwnedFd {
    // SAFETY: the caller received this descriptor from the kernel and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A close-on-exec pipe, `(read end, write end)`, neither of them at 0–2 even where those are free.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: pipe2 fills the two-element array that it is given.
    check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) })?;
    let (read, write) = (owned(fds[0]), owned(fds[1]));
    Ok((above_stdio(read)?, above_stdio(write)?))
}

/// The same file at a descriptor that is not one of 0–2.
pub fn above_stdio(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    duplicate(&fd, 3)
}

/// A close-on-exec duplicate at the lowest free descriptor that is not below `min`.
pub fn duplicate(fd: &OwnedFd, min: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl with an integer argument touches no memory.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, min) }).map(owned)
}

/// Takes `O_NONBLOCK` off a description that is this process's own.
pub fn set_blocking(fd: BorrowedFd<'_>) {
    // SAFETY: F_GETFL and F_SETFL take integers.
    unsafe {
        let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
        if flags >= 0 {
            libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK);
        }
    }
}

/// A close-on-exec, non-blocking event counter: readable once something was added.
pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }).map(owned)
}

/// Makes an [`eventfd`] readable.
pub fn signal_eventfd(fd: BorrowedFd<'_>) -> io::Result<()> {
    let one = 1_u64;
    // SAFETY: the kernel reads exactly the eight bytes of `one`.
    let write = || unsafe { libc::write(fd.as_raw_fd(), (&raw const one).cast(), 8) as c_int };
    uninterrupted(write).map(drop)
}

/// A descriptor for a process, readable once it has ended, pidfd_open(2). The PID can have been reused
/// unless it is an unreaped child's; see [`super::proc::open`] for the checked way.
pub fn pidfd_open(pid: pid_t) -> io::Result<OwnedFd> {
    // SAFETY: both arguments are integers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    check(c_int::try_from(fd).unwrap_or(-1)).map(owned)
}

/// Sends a signal to exactly the process behind the descriptor, whatever became of its PID.
pub fn pidfd_signal(pidfd: BorrowedFd<'_>, signal: c_int) -> io::Result<()> {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: a null siginfo means the one that kill(2) would send; the rest are integers.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            no_info,
            0,
        )
    };
    check(c_int::try_from(result).unwrap_or(-1)).map(drop)
}

/// Sends a signal to every member of a process group. The caller knows that the group is still the one
/// that it means. Group 1 and below is refused: to kill(2) that would be everybody.
pub fn signal_group(group: pid_t, signal: c_int) -> io::Result<()> {
    if group <= 1 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: both arguments are integers.
    check(unsafe { libc::kill(-group, signal) }).map(drop)
}

/// Makes this process the parent of every descendant whose own parent dies, prctl(2). Not inherited by
/// children, so the keeper calls it itself.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: this operation takes integers only.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }).map(drop)
}

/// The user on whose behalf this process acts.
pub fn effective_user() -> u32 {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// A resource limit as it was before idem raised its own.
#[derive(Debug, Clone, Copy)]
pub struct SavedLimit {
    resource: c_int,
    limit: libc::rlimit,
}

impl SavedLimit {
    /// Sets the limit of this process back. Async-signal-safe.
    pub fn restore(&self) -> io::Result<()> {
        // SAFETY: the pointer is to a complete rlimit that outlives the call.
        check(unsafe { libc::setrlimit(self.resource as _, &self.limit) }).map(drop)
    }
}

/// Raises a soft limit of this process to its hard limit, and returns what a child must get back.
/// `resource` is one of `libc::RLIMIT_*`.
pub fn raise_soft_limit(resource: c_int) -> io::Result<SavedLimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: getrlimit fills the struct that it is given.
    check(unsafe { libc::getrlimit(resource as _, &mut limit) })?;
    let raised = libc::rlimit {
        rlim_cur: limit.rlim_max,
        ..limit
    };
    // SAFETY: the pointer is to a complete rlimit that outlives the call.
    check(unsafe { libc::setrlimit(resource as _, &raised) })?;
    Ok(SavedLimit { resource, limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_in_lower_case() {
        assert_eq!(errno_text(libc::EACCES), "permission denied");
        assert_eq!(errno_text(libc::E2BIG), "argument list too long");
    }

    #[test]
    fn nobody_means_everybody() {
        for group in [1, 0, -1] {
            let error = signal_group(group, 0).expect_err("refused");
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        }
    }

    #[test]
    fn a_pidfd_of_nobody_is_an_error() {
        let error = pidfd_open(i32::MAX).expect_err("no such process");
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
    }
}
