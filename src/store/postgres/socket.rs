//! A socket whose every wait ends at a deadline.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use libc::{c_int, c_short};

use crate::process::sys::{above_stdio, check, uninterrupted};

/// After how long without traffic the kernel asks whether the server is still there, how often it asks
/// again, and how many times, in seconds.
const KEEPALIVE: [(c_int, c_int); 3] = [
    (libc::TCP_KEEPIDLE, 30),
    (libc::TCP_KEEPINTVL, 10),
    (libc::TCP_KEEPCNT, 3),
];

/// How long sent data may stay without an acknowledgement, in milliseconds.
const USER_TIMEOUT_MS: c_int = 30_000;

/// A connected, close-on-exec stream socket. Reads and writes fail with `TimedOut` once the deadline has
/// passed, and never raise SIGPIPE.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    pub deadline: Instant,
}

impl Socket {
    /// Connects to an address.
    pub fn tcp(address: &SocketAddr, deadline: Instant) -> io::Result<Socket> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let stream = TcpStream::connect_timeout(address, left)?;
        stream.set_nodelay(true)?;
        let fd = above_stdio(stream.into())?;
        // These make a dead server known sooner; the deadline holds without them.
        let _ = set_option(&fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1);
        for (option, seconds) in KEEPALIVE {
            let _ = set_option(&fd, libc::IPPROTO_TCP, option, seconds);
        }
        let _ = set_option(
            &fd,
            libc::IPPROTO_TCP,
            libc::TCP_USER_TIMEOUT,
            USER_TIMEOUT_MS,
        );
        Ok(Socket { fd, deadline })
    }

    /// Connects to a path.
    pub fn unix(path: &Path, deadline: Instant) -> io::Result<Socket> {
        let (address, length) = unix_address(path)?;
        // SAFETY: socket takes integers.
        let fd = check(unsafe {
            libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)
        })?;
        // SAFETY: the kernel has just returned this descriptor, and nobody else knows it.
        let fd = above_stdio(unsafe { OwnedFd::from_raw_fd(fd) })?;
        let left = deadline.saturating_duration_since(Instant::now());
        // It ends the wait for room in the server's queue.
        set_send_timeout(&fd, left)?;
        uninterrupted(|| {
            // SAFETY: the pointer is to a complete sockaddr_un of at least this length.
            unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), length) }
        })
        .map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        })?;
        Ok(Socket { fd, deadline })
    }

    /// Waits until the socket is ready, or until the deadline.
    fn wait(&self, events: c_short) -> io::Result<()> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let ms = c_int::try_from(left.as_millis().saturating_add(1)).unwrap_or(c_int::MAX);
            let mut waited = libc::pollfd {
                fd: self.fd.as_raw_fd(),
                events,
                revents: 0,
            };
            // SAFETY: the pointer is to exactly one pollfd.
            match check(unsafe { libc::poll(&mut waited, 1, ms) }) {
                Ok(0) => {}
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Repeats a call that does not block until it is done or the deadline has passed.
    fn within_deadline(
        &self,
        events: c_short,
        mut call: impl FnMut(RawFd) -> isize,
    ) -> io::Result<usize> {
        loop {
            if let Ok(done) = usize::try_from(call(self.fd.as_raw_fd())) {
                return Ok(done);
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock => self.wait(events)?,
                _ => return Err(error),
            }
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // A server that never stops sending is not waited for either.
        if Instant::now() >= self.deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.within_deadline(libc::POLLIN, |fd| {
            // SAFETY: the kernel writes at most the length of the buffer into it.
            unsafe {
                libc::recv(
                    fd,
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    libc::MSG_DONTWAIT,
                )
            }
        })
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.within_deadline(libc::POLLOUT, |fd| {
            // SAFETY: the kernel reads at most the length of the slice from it.
            unsafe {
                libc::send(
                    fd,
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                )
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn set_option(fd: &OwnedFd, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    set_raw_option(fd, level, option, &value)
}

fn set_send_timeout(fd: &OwnedFd, limit: Duration) -> io::Result<()> {
    // Zero would mean for ever.
    let limit = limit.max(Duration::from_millis(1));
    let value = libc::timeval {
        tv_sec: limit.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_usec: limit.subsec_micros().into(),
    };
    set_raw_option(fd, libc::SOL_SOCKET, libc::SO_SNDTIMEO, &value)
}

fn set_raw_option<T>(fd: &OwnedFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0);
    // SAFETY: the pointer is to a value of exactly this length, and the callers pass the option's type.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            length,
        )
    })
    .map(drop)
}

fn unix_address(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    let bytes = path.as_os_str().as_bytes();
    // SAFETY: all zeros is a valid sockaddr_un.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    // The path ends with a NUL.
    if bytes.len() >= address.sun_path.len() || bytes.contains(&0) {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    address.sun_family = libc::AF_UNIX.try_into().unwrap_or(0);
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = from.cast_signed();
    }
    let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_un>()).unwrap_or(0);
    Ok((address, length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn a_server_whose_queue_is_full_is_not_waited_for() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("socket");
        let listener = UnixListener::bind(&path).expect("bound");
        // SAFETY: listen takes a descriptor, which the listener keeps open, and a number.
        check(unsafe { libc::listen(listener.as_raw_fd(), 0) }).expect("listening");
        let begun = Instant::now();
        let mut waiting = Vec::new();
        let error = loop {
            match Socket::unix(&path, Instant::now() + Duration::from_millis(100)) {
                Ok(socket) => waiting.push(socket),
                Err(error) => break error,
            }
            assert!(waiting.len() < 100, "the queue never fills");
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_socket_is_closed_on_exec_and_a_lost_one_is_an_error() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("socket");
        let listener = UnixListener::bind(&path).expect("bound");
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut socket = Socket::unix(&path, deadline).expect("connected");
        // SAFETY: F_GETFD takes no argument.
        let flags = unsafe { libc::fcntl(socket.fd.as_raw_fd(), libc::F_GETFD) };
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
        let (far, _): (UnixStream, _) = listener.accept().expect("accepted");
        drop(far);
        let error = socket.write_all(b"x").expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_path_that_is_too_long_is_an_error() {
        let path = format!("/{}", "x".repeat(200));
        let error = Socket::unix(Path::new(&path), Instant::now()).expect_err("too long");
        assert_eq!(error.raw_os_error(), Some(libc::ENAMETOOLONG));
    }
}
