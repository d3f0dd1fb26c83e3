//! How wide the terminal is.

use std::os::fd::RawFd;

/// The columns of the terminal behind a descriptor; nothing if it is no terminal or does not tell.
pub fn columns(fd: RawFd) -> Option<usize> {
    // SAFETY: all-zero is a valid winsize.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: this request fills the struct that it is given, which lives through the call.
    let result = unsafe { libc::ioctl(fd, libc::TIOCGWINSZ, &raw mut size) };
    (result == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}
