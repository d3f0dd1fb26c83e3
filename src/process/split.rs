//! The front and the keeper: one fork, and one socket between them.
//!
//! The front is the process that the caller started; it relays signals and job control and ends as the
//! keeper tells it to. The keeper owns the claim and the child. Each learns of the other's death by the
//! end of the socket, which no third process holds: it is close-on-exec, and neither forks without
//! exec while the other may wait.

use super::sys;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// What the keeper tells the front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToFront {
    /// The claim with this generation is durable.
    Claimed(i64),
    /// Nothing was executed: somebody else has this generation of the operation.
    Changed(i64),
    /// Nothing was executed: the record is in a state that the front has to look at anew.
    LookAgain,
    /// The child has stopped, or there is none: stop as you were asked to.
    ChildStopped,
    /// Do not stop after all: the terminal that another process of the job asked for was given back.
    GoOn,
    /// The terminal is about to be given to this process group.
    Lent(i32),
    /// The call is over: end with this code.
    Exit(i32),
    /// The call is over: die of this signal.
    Die {
        /// The signal's number.
        signal: i32,
        /// The child held the terminal, so that the front's whole group would have got it.
        group: bool,
    },
}

/// What the front tells the keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToKeeper {
    /// The front got this signal.
    Signal(i32),
    /// The job is to stop by this signal.
    Stopped(i32),
    /// The job could not be stopped.
    CannotStop,
    /// The job goes on.
    Continued,
    /// The terminal's size changed.
    Resized,
}

const PACKET_BYTES: usize = 16;

/// The command of fcntl(2) that chooses the signal of O_ASYNC; the same number on every architecture.
const F_SETSIG: libc::c_int = 10;

fn packet(tag: u8, flag: bool, value: i64) -> [u8; PACKET_BYTES] {
    let mut bytes = [0u8; PACKET_BYTES];
    bytes[0] = tag;
    bytes[1] = u8::from(flag);
    bytes[8..].copy_from_slice(&value.to_le_bytes());
    bytes
}

fn fields(bytes: &[u8; PACKET_BYTES]) -> (u8, bool, i64) {
    let mut value = [0u8; 8];
    value.copy_from_slice(&bytes[8..]);
    (bytes[0], bytes[1] != 0, i64::from_le_bytes(value))
}

/// A message that fits one packet.
pub trait Packet: Sized {
    /// As bytes.
    fn encode(self) -> [u8; PACKET_BYTES];
    /// From bytes; none for what this version does not know.
    fn decode(bytes: &[u8; PACKET_BYTES]) -> Option<Self>;
}

impl Packet for ToFront {
    fn encode(self) -> [u8; PACKET_BYTES] {
        match self {
            ToFront::Claimed(generation) => packet(1, false, generation),
            ToFront::Changed(generation) => packet(2, false, generation),
            ToFront::LookAgain => packet(3, false, 0),
            ToFront::ChildStopped => packet(4, false, 0),
            ToFront::GoOn => packet(7, false, 0),
            ToFront::Lent(group) => packet(8, false, i64::from(group)),
            ToFront::Exit(code) => packet(5, false, i64::from(code)),
            ToFront::Die { signal, group } => packet(6, group, i64::from(signal)),
        }
    }

    fn decode(bytes: &[u8; PACKET_BYTES]) -> Option<Self> {
        let (tag, flag, value) = fields(bytes);
        let small = i32::try_from(value);
        Some(match tag {
            1 => ToFront::Claimed(value),
            2 => ToFront::Changed(value),
            3 => ToFront::LookAgain,
            4 => ToFront::ChildStopped,
            7 => ToFront::GoOn,
            8 => ToFront::Lent(small.ok()?),
            5 => ToFront::Exit(small.ok()?),
            6 => ToFront::Die {
                signal: small.ok()?,
                group: flag,
            },
            _ => return None,
        })
    }
}

impl Packet for ToKeeper {
    fn encode(self) -> [u8; PACKET_BYTES] {
        match self {
            ToKeeper::Signal(signal) => packet(1, false, i64::from(signal)),
            ToKeeper::Stopped(signal) => packet(2, false, i64::from(signal)),
            ToKeeper::CannotStop => packet(5, false, 0),
            ToKeeper::Continued => packet(3, false, 0),
            ToKeeper::Resized => packet(4, false, 0),
        }
    }

    fn decode(bytes: &[u8; PACKET_BYTES]) -> Option<Self> {
        let (tag, _, value) = fields(bytes);
        Some(match tag {
            1 => ToKeeper::Signal(i32::try_from(value).ok()?),
            2 => ToKeeper::Stopped(i32::try_from(value).ok()?),
            5 => ToKeeper::CannotStop,
            3 => ToKeeper::Continued,
            4 => ToKeeper::Resized,
            _ => return None,
        })
    }
}

/// What a read of the socket brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received<M> {
    /// A message.
    Message(M),
    /// Nothing at the moment.
    Nothing,
    /// The other side is gone.
    Gone,
}

/// One end of the socket.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
    /// One end of a pipe that carries nothing: its other end closes when the other side dies.
    lifeline: Option<OwnedFd>,
}

impl AsRawFd for Link {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Makes both ends: the front's first. `lifeline`: the keeper may call [`Link::stop_with_front`].
pub fn link(lifeline: bool) -> io::Result<(Link, Link)> {
    let mut fds = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the array has room for the two descriptors that the call writes.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both descriptors are new and owned by nobody else.
    let [front, keeper] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    let (keepers, fronts) = if lifeline {
        let (read, write) = sys::pipe()?;
        (Some(read), Some(write))
    } else {
        (None, None)
    };
    let link = |fd, lifeline| Link { fd, lifeline };
    Ok((link(front, fronts), link(keeper, keepers)))
}

impl Link {
    /// Sends a message; false if the other side is gone (or, which packets of this size never reach,
    /// so far behind that the socket is full).
    pub fn send(&self, message: impl Packet) -> bool {
        let bytes = message.encode();
        let flags = libc::MSG_NOSIGNAL;
        // SAFETY: the buffer lives through the call and its length is given.
        let sent =
            unsafe { libc::send(self.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
        usize::try_from(sent) == Ok(bytes.len())
    }

    /// Lets the kernel stop this process group in the moment in which the front dies, however busy the
    /// keeper is then; none ends that. See O_ASYNC in fcntl(2). A process that waits for a key takes one
    /// that is typed before it gets to run and stop: the kernel looks for keys before it looks for signals.
    pub fn stop_with_front(&self, group: Option<i32>) {
        let Some(lifeline) = &self.lifeline else {
            return;
        };
        let fd = lifeline.as_raw_fd();
        // SAFETY: integers only.
        unsafe {
            libc::fcntl(fd, libc::F_SETOWN, group.map_or(0, |group| -group));
            if group.is_some() {
                libc::fcntl(fd, F_SETSIG, libc::SIGSTOP);
                libc::fcntl(fd, libc::F_SETFL, libc::O_ASYNC);
            }
        }
    }

    /// Takes the next message without waiting.
    pub fn receive<M: Packet>(&self) -> Received<M> {
        loop {
            let mut bytes = [0u8; PACKET_BYTES];
            // SAFETY: the buffer lives through the call and its length is given.
            let got =
                unsafe { libc::recv(self.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0) };
            if got < 0 {
                match io::Error::last_os_error().kind() {
                    // A reset is told once, ahead of what still lies in the queue: the other side left
                    // without reading everything. What it said before leaving must not be lost.
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionReset => continue,
                    io::ErrorKind::WouldBlock => return Received::Nothing,
                    _ => return Received::Gone,
                }
            }
            if got == 0 {
                return Received::Gone;
            }
            if let Some(message) = M::decode(&bytes) {
                return Received::Message(message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::testing::own_process;

    #[test]
    fn messages_arrive_whole_and_the_end_is_seen() {
        // What other tests fork would hold copies of both ends.
        own_process!("messages_arrive_whole_and_the_end_is_seen", || {
            let (front, keeper) = link(false).unwrap();
            let all = [
                ToFront::Claimed(7),
                ToFront::Changed(i64::MAX),
                ToFront::LookAgain,
                ToFront::ChildStopped,
                ToFront::GoOn,
                ToFront::Lent(20),
                ToFront::Exit(3),
                ToFront::Die {
                    signal: 2,
                    group: true,
                },
            ];
            for message in all {
                assert!(keeper.send(message));
            }
            for message in all {
                assert_eq!(front.receive(), Received::Message(message));
            }
            assert_eq!(front.receive::<ToFront>(), Received::Nothing);
            assert!(front.send(ToKeeper::Signal(15)) && front.send(ToKeeper::Resized));
            assert_eq!(keeper.receive(), Received::Message(ToKeeper::Signal(15)));
            assert!(front.send(ToKeeper::Continued) && keeper.send(ToFront::Exit(9)));
            drop(keeper);
            assert_eq!(
                front.receive(),
                Received::Message(ToFront::Exit(9)),
                "said before leaving"
            );
            assert_eq!(front.receive::<ToFront>(), Received::Gone);
            assert!(!front.send(ToKeeper::Continued));
        });
    }
}
