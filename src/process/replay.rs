//! Hands a recorded output to the caller's descriptors, in the order in which it was read.
//!
//! Waiting is fine here: nothing else is going on in a process that replays. SIGPIPE is expected to
//! be ignored.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use crate::domain::frames::{ReadError, Run, RunReader, Stream};

use super::mirror::{checked, poll_writable, write_fd};
use super::spool::Recording;

/// From this length on a run in a file is handed over inside the kernel.
const SENDFILE_FROM_BYTES: u64 = 64 * 1024;

/// The most that one sendfile takes (sendfile(2)).
const SENDFILE_MOST_BYTES: u64 = 0x7fff_f000;

/// Where one stream goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// It is not asked for.
    Skip,
    /// To a descriptor that was closed when the process started: an error if there is something to write.
    Absent,
    /// To this borrowed descriptor.
    Fd(RawFd),
}

/// Why a replay is not complete.
#[derive(Debug)]
pub enum ReplayError {
    /// A write failed; the other stream was still served. A reader that closed its end is no error.
    Write {
        /// The stream that could not be written.
        stream: Stream,
        /// What happened.
        error: io::Error,
    },
    /// The recording could not be read, or is not one.
    Read(ReadError),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Write { stream, error } => {
                write!(f, "cannot write to {}: {error}", stream.word())
            }
            ReplayError::Read(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReplayError {}

impl From<ReadError> for ReplayError {
    fn from(error: ReadError) -> ReplayError {
        ReplayError::Read(error)
    }
}

/// Writes the streams that are asked for. A stream that fails is given up, the other goes on; of
/// several errors the first is returned.
pub fn replay(recording: Recording, stdout: Target, stderr: Target) -> Result<(), ReplayError> {
    let mut reader = RunReader::new(recording)?;
    let mut outlets = [Outlet::new(stdout), Outlet::new(stderr)];
    while let Some(run) = reader.next_run()? {
        let [stdout, stderr] = &mut outlets;
        let outlet = match run.stream {
            Stream::Stdout => stdout,
            Stream::Stderr => stderr,
        };
        outlet.serve(&mut reader, run)?;
    }
    for (stream, outlet) in Stream::ALL.into_iter().zip(outlets) {
        if let Outlet::Failed(error) = outlet {
            return Err(ReplayError::Write { stream, error });
        }
    }
    Ok(())
}

/// One stream's way out.
#[derive(Debug)]
enum Outlet {
    /// Nothing goes out: not asked for, or the reader closed its end.
    Shut,
    Absent,
    Open {
        fd: RawFd,
        sendfile: bool,
    },
    Failed(io::Error),
}

impl Outlet {
    fn new(target: Target) -> Outlet {
        match target {
            Target::Skip => Outlet::Shut,
            Target::Absent => Outlet::Absent,
            Target::Fd(fd) => Outlet::Open { fd, sendfile: true },
        }
    }

    /// Writes one run. A failed write changes the outlet; only a failed read is returned.
    fn serve(&mut self, reader: &mut RunReader<Recording>, run: Run) -> Result<(), ReadError> {
        if run.len_bytes >= SENDFILE_FROM_BYTES && self.send(reader, run)? {
            return Ok(());
        }
        self.copy(reader)
    }

    /// Hands a run over inside the kernel where source and target allow. False: they do not, and the
    /// run still has to be copied; true: nothing is left to be done.
    fn send(&mut self, reader: &RunReader<Recording>, run: Run) -> Result<bool, ReadError> {
        let Outlet::Open { fd, sendfile } = self else {
            return Ok(false);
        };
        let (true, Some(file)) = (*sendfile, reader.source().file()) else {
            return Ok(false);
        };
        let (mut at, end) = (run.at, run.at + run.len_bytes);
        while at < end {
            match send_some(*fd, file.as_raw_fd(), at, end - at) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(count) => at += count as u64,
                Err(error) if transient(*fd, &error) => {}
                Err(error) if at == run.at && refused(&error) => {
                    *sendfile = false;
                    return Ok(false);
                }
                Err(error) => {
                    self.end(error);
                    break;
                }
            }
        }
        Ok(true)
    }

    /// Copies what is left of the current run through the reader's buffer.
    fn copy(&mut self, reader: &mut RunReader<Recording>) -> Result<(), ReadError> {
        loop {
            let fd = match self {
                Outlet::Open { fd, .. } => *fd,
                Outlet::Absent => {
                    self.end(io::Error::from_raw_os_error(libc::EBADF));
                    return Ok(());
                }
                Outlet::Shut | Outlet::Failed(_) => return Ok(()),
            };
            let chunk = reader.chunk()?;
            if chunk.is_empty() {
                return Ok(());
            }
            match write_fd(fd, chunk) {
                Ok(count) => reader.consume(count),
                Err(error) if transient(fd, &error) => {}
                Err(error) => self.end(error),
            }
        }
    }

    fn end(&mut self, error: io::Error) {
        *self = match error.raw_os_error() {
            Some(libc::EPIPE | libc::ECONNRESET) => Outlet::Shut,
            _ => Outlet::Failed(error),
        };
    }
}

/// Whether the same call may succeed now. Waits for a target that does not wait by itself.
fn transient(fd: RawFd, error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::Interrupted => true,
        io::ErrorKind::WouldBlock => {
            poll_writable(fd, -1);
            true
        }
        _ => false,
    }
}

/// Whether sendfile does not serve this target (files opened for appending, some devices) or is not
/// there at all.
fn refused(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP | libc::EPERM)
    )
}

/// One sendfile from a position of `from`, whose own position stays.
fn send_some(to: RawFd, from: RawFd, at: u64, count: u64) -> io::Result<usize> {
    let overflow = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let mut offset: libc::off_t = at.try_into().map_err(overflow)?;
    let count = count
        .min(SENDFILE_MOST_BYTES)
        .try_into()
        .map_err(overflow)?;
    // SAFETY: the kernel reads and writes one offset, which lives through the call.
    checked(unsafe { libc::sendfile(to, from, &mut offset, count) })
}

#[cfg(test)]
mod tests;
