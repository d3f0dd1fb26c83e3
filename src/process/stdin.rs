//! What the command reads. Without retries it is the caller's own descriptor, of which not a byte more is
//! used than the command reads. With retries every attempt must read the same from the start: a file is
//! opened again at its offset, and a pipe is handed on to the running attempt while it is kept.

use super::entry;
use super::stdin_spool::unnamed_file;
use super::sys::{self, check};
use crate::engine::plan::StdinMode;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

/// One read or write of the pump.
const CHUNK_BYTES: usize = 64 * 1024;

/// Where the attempts of one call read from.
#[derive(Debug)]
pub enum Input {
    /// The caller's own descriptor.
    Inherit,
    /// Nothing.
    Null,
    /// A regular file, at this offset.
    Again(u64),
    /// A pipe or socket that is kept as it is handed on.
    Pump(Pump),
}

impl Input {
    /// Looks at descriptor 0. `repeated`: there may be more than one attempt. `dir` is private to the
    /// user and takes what a pipe brings.
    pub fn choose(mode: StdinMode, repeated: bool, dir: &Path) -> io::Result<Input> {
        if mode == StdinMode::Null {
            return Ok(Input::Null);
        }
        if !repeated || entry::state().was_closed(0) {
            return Ok(Input::Inherit);
        }
        let mut stdin = File::from(entry::stdin().try_clone_to_owned()?);
        let kind = stdin.metadata()?.file_type();
        if kind.is_file() {
            return Ok(Input::Again(stdin.stream_position()?));
        }
        if kind.is_fifo() || kind.is_socket() {
            return Ok(Input::Pump(Pump {
                source: stdin,
                kept: unnamed_file(dir)?,
                kept_bytes: 0,
                ended: false,
                broken: None,
            }));
        }
        // Terminals and `/dev/null` have no beginning to go back to.
        Ok(Input::Inherit)
    }

    /// What the next attempt gets; none for the caller's own descriptor. The second value is the pump's
    /// end of it.
    pub fn open(&self) -> io::Result<(Option<OwnedFd>, Option<Feed>)> {
        match self {
            Input::Inherit => Ok((None, None)),
            Input::Null => Ok((Some(File::open("/dev/null")?.into()), None)),
            Input::Again(offset) => {
                // A description of its own: two attempts, or the caller, do not move each other's offset.
                let mut file = File::open("/proc/self/fd/0")?;
                file.seek(SeekFrom::Start(*offset))?;
                Ok((Some(file.into()), None))
            }
            Input::Pump(_) => {
                let (read, write) = sys::pipe()?;
                let write = File::from(write);
                set_nonblocking(write.as_fd())?;
                Ok((
                    Some(read),
                    Some(Feed {
                        to: Some(write),
                        position: 0,
                    }),
                ))
            }
        }
    }
}

fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: integers only; the description is this process's alone.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) }).map(drop)
}

/// The caller's pipe, and all that has come through it.
#[derive(Debug)]
pub struct Pump {
    source: File,
    kept: File,
    kept_bytes: u64,
    ended: bool,
    broken: Option<io::Error>,
}

/// The way to one attempt.
#[derive(Debug)]
pub struct Feed {
    /// None once the attempt has got everything, or reads no more.
    to: Option<File>,
    position: u64,
}

impl Feed {
    /// What to poll: the attempt's pipe for room (or only for its end), and the source for more.
    pub fn poll_fds(&self, pump: &Pump) -> [(RawFd, libc::c_short); 2] {
        let Some(to) = &self.to else {
            return [(-1, 0), (-1, 0)];
        };
        if pump.broken.is_some() {
            [(to.as_raw_fd(), 0), (-1, 0)]
        } else if self.position < pump.kept_bytes {
            [(to.as_raw_fd(), libc::POLLOUT), (-1, 0)]
        } else {
            [(to.as_raw_fd(), 0), (pump.source.as_raw_fd(), libc::POLLIN)]
        }
    }

    /// Goes on after a poll that found something on either.
    pub fn go_on(&mut self, pump: &mut Pump, closed: bool, readable: bool) {
        if closed {
            self.to = None;
            return;
        }
        if readable && !pump.ended {
            pump.take_some();
        }
        self.hand_on(pump);
    }

    #[inline(never)] // its buffer must not become part of a frame that every child needs
    fn hand_on(&mut self, pump: &Pump) {
        let mut buffer = [0u8; CHUNK_BYTES];
        while let Some(to) = &mut self.to {
            let left = pump.kept_bytes.saturating_sub(self.position);
            if left == 0 {
                if pump.ended {
                    self.to = None;
                }
                return;
            }
            let want = usize::try_from(left)
                .unwrap_or(CHUNK_BYTES)
                .min(CHUNK_BYTES);
            let Ok(count) = pump.kept.read_at(&mut buffer[..want], self.position) else {
                // Less would look like the end of the input: the attempt must not take it for that.
                return;
            };
            match to.write(&buffer[..count]) {
                Ok(written) => self.position += written as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // It reads no more, which is its own business.
                Err(_) => self.to = None,
            }
        }
    }
}

impl Pump {
    /// Why what came could not be kept, if it could not: the attempt has not got all of it.
    pub fn broken(&self) -> Option<&io::Error> {
        self.broken.as_ref()
    }

    #[inline(never)] // as with `hand_on`
    fn take_some(&mut self) {
        let mut buffer = [0u8; CHUNK_BYTES];
        match self.source.read(&mut buffer) {
            Ok(0) => self.ended = true,
            Ok(count) => {
                // What cannot be kept cannot be repeated, and a part must not pass for the whole.
                match self.kept.write_all_at(&buffer[..count], self.kept_bytes) {
                    Ok(()) => self.kept_bytes += count as u64,
                    Err(error) => self.broken = Some(error),
                }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                ) => {}
            Err(_) => self.ended = true,
        }
    }
}

/// Reads stdin to its end into a file without a name and puts that in its place: `--stdin buffer`.
pub fn buffer_stdin(dir: &Path) -> io::Result<()> {
    let mut kept = unnamed_file(dir)?;
    io::copy(&mut io::stdin().lock(), &mut kept)?;
    kept.seek(SeekFrom::Start(0))?;
    put_in_place(&kept)
}

/// Makes a file this process's stdin.
pub fn put_in_place(file: &File) -> io::Result<()> {
    // SAFETY: integers only; descriptor 0 is this process's stdin and stays open.
    sys::uninterrupted(|| unsafe { libc::dup2(file.as_raw_fd(), 0) }).map(drop)
}
