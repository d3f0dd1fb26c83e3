//! What std does not offer about sockets.

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

/// Lets one connection wait to be accepted: to everybody after it the kernel says nothing at all.
pub fn shrink_backlog(listener: &TcpListener) {
    // SAFETY: listen(2) takes a descriptor, which `listener` keeps open, and a number.
    let done = unsafe { libc::listen(listener.as_raw_fd(), 0) };
    assert_eq!(done, 0, "listen: {}", std::io::Error::last_os_error());
}

/// Makes the close of this connection a reset.
pub fn reset_on_close(stream: &TcpStream) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let size = libc::socklen_t::try_from(size_of::<libc::linger>()).unwrap();
    // SAFETY: `linger` lives across the call and is as large as said; the descriptor is open.
    let done = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size,
        )
    };
    assert_eq!(done, 0, "setsockopt: {}", std::io::Error::last_os_error());
}
