//! Live output to the caller's stdout and stderr, never blocking and never changing a shared description.
//!
//! The caller's descriptors are shared with the caller and with whatever it started: `O_NONBLOCK` set
//! here would be set there too. So the writes themselves are made not to wait, in the way that each kind
//! of file offers. SIGPIPE, SIGXFSZ and SIGTTOU are expected to be ignored by this process.

use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::domain::frames::Stream;

/// From this much queued output on, no more should be read from the command.
pub const QUEUE_LIMIT_BYTES: usize = 256 * 1024;

/// What a pipe that polls as writable takes without waiting (`PIPE_BUF` of pipe(7) on Linux).
const PIPE_PIECE_BYTES: usize = 4096;

/// What a terminal that polls as writable takes without waiting: it has room, but nobody can ask how
/// much, and the room counts whole buffers, which one byte may use up.
const TERMINAL_PIECE_BYTES: usize = 1;

/// The major number of the memory devices: `/dev/null`, `/dev/zero`, `/dev/full`.
const MEMORY_DEVICES: libc::c_uint = 1;

/// How a mirror fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MirrorState {
    /// Everything so far was written or is queued.
    Live,
    /// The reader closed its end: nothing more is written, and nothing is said about it.
    Closed,
    /// A write failed with this error number; nothing more is written.
    Failed(i32),
}

/// How to write to one kind of file without waiting.
#[derive(Debug)]
enum Writer {
    /// The descriptor was closed when the caller started this process.
    Absent,
    /// Does not wait by its nature: regular files, memory devices.
    Direct,
    /// A pipe: pwritev2 with `RWF_NOWAIT`, which kernels know for pipes since 6.4 or so.
    NoWait,
    /// A non-blocking description of the same pipe or terminal that only this process has.
    Own(OwnedFd),
    /// A socket: send with `MSG_DONTWAIT`.
    Socket,
    /// Anything else: ask whether it is writable, then write no more than it surely takes.
    Polled { piece_bytes: usize },
    /// Everything is thrown away.
    Null,
}

/// What a descriptor leads to, as far as the choice of a [`Writer`] goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Direct,
    Pipe,
    Socket,
    Terminal,
    Other,
}

/// The pipe, socket or terminal behind a descriptor, whatever description or name it was opened by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    kind: Kind,
    device: u64,
    inode: u64,
}

/// One of the caller's streams.
#[derive(Debug)]
pub struct Mirror {
    fd: RawFd,
    writer: Writer,
    terminal: bool,
    queue: VecDeque<u8>,
    state: MirrorState,
}

impl Mirror {
    /// Mirrors to `fd`, which is borrowed; `None` if it was closed when the process started (the
    /// runtime may have put `/dev/null` there since).
    pub fn new(fd: Option<RawFd>) -> Mirror {
        let kind = fd.map(kind_of);
        let terminal = matches!(kind, Some(Ok(Kind::Terminal)));
        let writer = match kind {
            None => Writer::Absent,
            Some(Ok(Kind::Pipe)) => Writer::NoWait,
            Some(Ok(Kind::Socket)) => Writer::Socket,
            Some(Ok(Kind::Terminal)) => reopen(fd.unwrap_or(-1), TERMINAL_PIECE_BYTES),
            Some(Ok(Kind::Other)) => Writer::Polled {
                piece_bytes: PIPE_PIECE_BYTES,
            },
            // A descriptor that cannot be looked at fails at its first write.
            Some(Ok(Kind::Direct) | Err(_)) => Writer::Direct,
        };
        Mirror {
            terminal,
            ..Mirror::with_writer(fd.unwrap_or(-1), writer)
        }
    }

    fn with_writer(fd: RawFd, writer: Writer) -> Mirror {
        Mirror {
            fd,
            writer,
            terminal: false,
            queue: VecDeque::new(),
            state: MirrorState::Live,
        }
    }

    /// Writes what can be written at once and queues the rest; never waits.
    pub fn push(&mut self, bytes: &[u8]) {
        let written = if self.queue.is_empty() {
            self.write_now(bytes)
        } else {
            0
        };
        if let Some(rest) = bytes.get(written..)
            && !matches!(self.writer, Writer::Null)
        {
            self.queue.extend(rest);
        }
    }

    /// Whether the command's output should still be read. A mirror that throws away always wants more.
    pub fn wants_more(&self) -> bool {
        self.queue.len() < QUEUE_LIMIT_BYTES
    }

    /// How much is queued.
    pub fn queued_bytes(&self) -> usize {
        self.queue.len()
    }

    /// What to poll for while something is queued. Call [`Mirror::on_writable`] on any event, errors
    /// too, and ask again afterwards: the descriptor may change.
    pub fn poll_fd(&self) -> Option<(RawFd, libc::c_short)> {
        if self.queue.is_empty() {
            return None;
        }
        let fd = match &self.writer {
            Writer::Own(own) => own.as_raw_fd(),
            _ => self.fd,
        };
        Some((fd, libc::POLLOUT))
    }

    /// Writes as much of the queue as can be written without waiting.
    pub fn on_writable(&mut self) {
        let mut queue = std::mem::take(&mut self.queue);
        while !queue.is_empty() {
            let front = queue.as_slices().0;
            let (all, written) = (front.len(), self.write_now(front));
            queue.drain(..written.min(all));
            if written < all {
                break;
            }
        }
        if !matches!(self.writer, Writer::Null) {
            self.queue = queue;
        }
    }

    /// How the mirror fares.
    pub fn state(&self) -> MirrorState {
        self.state
    }

    /// The caller is lost: drops the queue and throws away everything from now on. Closes what this
    /// mirror opened itself; the caller's own descriptor is its owner's to close.
    pub fn detach(&mut self) {
        self.queue = VecDeque::new();
        self.writer = Writer::Null;
    }

    /// Writes until done, until it would wait (less than all is written) or until the stream ends
    /// (nothing is left to be done with the rest, so all counts as written).
    fn write_now(&mut self, bytes: &[u8]) -> usize {
        let mut written = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            match self.write_some(rest) {
                Ok(0) => break,
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.end(&error);
                    return bytes.len();
                }
            }
        }
        written
    }

    fn end(&mut self, error: &io::Error) {
        self.detach();
        self.state = match error.raw_os_error() {
            Some(libc::EPIPE | libc::ECONNRESET) => MirrorState::Closed,
            Some(number) => MirrorState::Failed(number),
            None => MirrorState::Failed(libc::EIO),
        };
    }

    /// One write that does not wait.
    fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.writer {
            Writer::Absent => Err(io::Error::from_raw_os_error(libc::EBADF)),
            Writer::Direct => write_fd(self.fd, bytes),
            Writer::Own(own) => write_fd(own.as_raw_fd(), bytes),
            Writer::Socket => send_nowait(self.fd, bytes),
            Writer::Null => Ok(bytes.len()),
            Writer::Polled { piece_bytes } => write_polled(self.fd, bytes, *piece_bytes),
            Writer::NoWait => match write_nowait(self.fd, bytes) {
                Err(error) if not_offered(&error) => {
                    self.writer = reopen(self.fd, PIPE_PIECE_BYTES);
                    self.write_some(bytes)
                }
                result => result,
            },
        }
    }
}

/// The caller's stdout and stderr together. Where both lead to the same pipe, socket or terminal
/// (`2>&1`), they share one queue, so that the order of reading is the order of writing.
#[derive(Debug)]
pub struct MirrorPair {
    stdout: Mirror,
    /// `None`: the same as stdout.
    stderr: Option<Mirror>,
    /// What was last shown on a terminal did not end its row.
    pub open_row: bool,
}

impl MirrorPair {
    /// Mirrors to two borrowed descriptors; `None` for one that was closed when the process started.
    pub fn new(stdout: Option<RawFd>, stderr: Option<RawFd>) -> MirrorPair {
        let identity = stdout.and_then(identity_of);
        let same = identity.is_some() && identity == stderr.and_then(identity_of);
        MirrorPair {
            stdout: Mirror::new(stdout),
            stderr: (!same).then(|| Mirror::new(stderr)),
            open_row: false,
        }
    }

    /// Throws everything away: for a call that shows no live output.
    pub fn null() -> MirrorPair {
        MirrorPair {
            stdout: Mirror::with_writer(-1, Writer::Null),
            stderr: None,
            open_row: false,
        }
    }

    /// See [`Mirror::push`].
    pub fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let mirror = self.mirror_mut(stream);
        mirror.push(bytes);
        if let (true, Some(last)) = (mirror.terminal, bytes.last()) {
            self.open_row = *last != b'\n';
        }
    }

    /// See [`Mirror::wants_more`].
    pub fn wants_more(&self, stream: Stream) -> bool {
        self.mirror(stream).wants_more()
    }

    /// How much is queued for both.
    pub fn queued_bytes(&self) -> usize {
        let stderr = self.stderr.as_ref().map_or(0, Mirror::queued_bytes);
        self.stdout.queued_bytes() + stderr
    }

    /// What to poll for; see [`Mirror::poll_fd`]. The stream belongs into [`MirrorPair::on_writable`].
    pub fn poll_fds(&self) -> impl Iterator<Item = (Stream, RawFd, libc::c_short)> + '_ {
        [
            (Stream::Stdout, Some(&self.stdout)),
            (Stream::Stderr, self.stderr.as_ref()),
        ]
        .into_iter()
        .filter_map(|(stream, mirror)| {
            let (fd, events) = mirror?.poll_fd()?;
            Some((stream, fd, events))
        })
    }

    /// See [`Mirror::on_writable`].
    pub fn on_writable(&mut self, stream: Stream) {
        self.mirror_mut(stream).on_writable();
    }

    /// See [`Mirror::state`]. Streams that lead to the same place fare the same.
    pub fn state(&self, stream: Stream) -> MirrorState {
        self.mirror(stream).state()
    }

    /// See [`Mirror::detach`].
    pub fn detach(&mut self) {
        self.stdout.detach();
        if let Some(stderr) = &mut self.stderr {
            stderr.detach();
        }
    }

    fn mirror(&self, stream: Stream) -> &Mirror {
        match (stream, &self.stderr) {
            (Stream::Stderr, Some(stderr)) => stderr,
            _ => &self.stdout,
        }
    }

    fn mirror_mut(&mut self, stream: Stream) -> &mut Mirror {
        match (stream, &mut self.stderr) {
            (Stream::Stderr, Some(stderr)) => stderr,
            _ => &mut self.stdout,
        }
    }
}

/// Looks at a descriptor.
fn stat_fd(fd: RawFd) -> io::Result<libc::stat> {
    // SAFETY: an all-zero stat is a valid value of that plain C structure.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` lives through the call, which writes at most one structure.
    match unsafe { libc::fstat(fd, &mut stat) } {
        0 => Ok(stat),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The device number of the terminal itself, whatever name it was opened by (`/dev/tty`, `/dev/pts/3`;
/// both ends of a pseudo-terminal have the same).
fn terminal_device(fd: RawFd) -> Option<u64> {
    let mut device: libc::c_uint = 0;
    // SAFETY: TIOCGDEV writes one unsigned int, which lives through the call.
    let result = unsafe { libc::ioctl(fd, libc::TIOCGDEV, &mut device) };
    (result == 0).then_some(u64::from(device))
}

fn kind_of(fd: RawFd) -> io::Result<Kind> {
    let stat = stat_fd(fd)?;
    Ok(match stat.st_mode & libc::S_IFMT {
        libc::S_IFREG | libc::S_IFBLK => Kind::Direct,
        libc::S_IFIFO => Kind::Pipe,
        libc::S_IFSOCK => Kind::Socket,
        libc::S_IFCHR if libc::major(stat.st_rdev) == MEMORY_DEVICES => Kind::Direct,
        // SAFETY: isatty only looks at the descriptor's number.
        libc::S_IFCHR if unsafe { libc::isatty(fd) } == 1 => Kind::Terminal,
        _ => Kind::Other,
    })
}

/// `None` for what never queues, and for what cannot be written, which must fail on its own.
fn identity_of(fd: RawFd) -> Option<Identity> {
    // SAFETY: F_GETFL takes no argument and only reads.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 || flags & libc::O_ACCMODE == libc::O_RDONLY {
        return None;
    }
    let (kind, stat) = (kind_of(fd).ok()?, stat_fd(fd).ok()?);
    let (device, inode) = match kind {
        Kind::Direct => return None,
        Kind::Terminal => (terminal_device(fd)?, 0),
        Kind::Pipe | Kind::Socket | Kind::Other => (stat.st_dev, stat.st_ino),
    };
    Some(Identity {
        kind,
        device,
        inode,
    })
}

/// Opens the same pipe or terminal once more, non-blocking; where that is not permitted (another
/// user's terminal, no `/proc`), pieces are written as poll allows.
fn reopen(fd: RawFd, piece_bytes: usize) -> Writer {
    let opened = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(format!("/proc/self/fd/{fd}"));
    match opened {
        Ok(file) if same_file(fd, &file) => Writer::Own(file.into()),
        _ => Writer::Polled { piece_bytes },
    }
}

/// Opening the master of a pseudo-terminal again gives a new one, so look before writing there.
fn same_file(fd: RawFd, file: &fs::File) -> bool {
    let own = file.as_raw_fd();
    match (stat_fd(fd), stat_fd(own)) {
        (Ok(a), Ok(b)) => {
            (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
                && terminal_device(fd) == terminal_device(own)
        }
        _ => false,
    }
}

/// A system call's result as Rust has it.
pub(super) fn checked(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// One write to a descriptor, which waits if the descriptor does.
pub(super) fn write_fd(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: pointer and length are those of a slice that lives through the call.
    checked(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) })
}

/// Waits up to `timeout_ms` (0: not at all, -1: for ever) until a write does something: succeeds at
/// least in part, or fails. An interrupted wait counts as none.
pub(super) fn poll_writable(fd: RawFd, timeout_ms: libc::c_int) -> bool {
    let mut entry = libc::pollfd {
        fd,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: `entry` is one pollfd that lives through the call.
    unsafe { libc::poll(&mut entry, 1, timeout_ms) > 0 }
}

fn write_polled(fd: RawFd, bytes: &[u8], piece_bytes: usize) -> io::Result<usize> {
    if !poll_writable(fd, 0) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    write_fd(fd, bytes.get(..piece_bytes).unwrap_or(bytes))
}

fn write_nowait(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    let piece = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: one iovec over a slice that lives through the call and is only read; the offset -1
    // stands for the current position.
    checked(unsafe { libc::pwritev2(fd, &piece, 1, -1, libc::RWF_NOWAIT) })
}

/// Whether an error says that this kernel (or a filter in front of it) does not do what was asked.
fn not_offered(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL | libc::EPERM)
    )
}

fn send_nowait(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: pointer and length are those of a slice that lives through the call.
    checked(unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), flags) })
}

#[cfg(test)]
mod tests;
