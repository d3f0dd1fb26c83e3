//! Byte locks on the lock file: they tell who lives, and the kernel lets go of them when a process dies.
//!
//! These are open-file-description locks, fcntl(2): a lock belongs to the description, so that it is
//! held until the last process that inherited the descriptor has closed it, and closing another
//! description of the same file does not release it.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;

use libc::{c_int, c_short, off_t};

use super::signal::SignalSet;
use super::sys::{self, check, uninterrupted};
use crate::domain::owner::LockFileId;

/// Descriptors from here on are out of the way of everything that scripts number themselves.
pub const HIGH_DESCRIPTOR: RawFd = 200;

/// The waiting thread only makes system calls.
const WAITER_STACK_BYTES: usize = 64 * 1024;

/// Why a byte could not be locked or tested.
#[derive(Debug)]
pub enum LockError {
    /// Another description holds this byte.
    Held,
    /// Another file stands at the path now, so a lock would be seen by nobody.
    Replaced,
    /// The offset is beyond the 62 bits that offsets have.
    BadOffset,
    /// The system refused.
    System(io::Error),
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::Held => f.write_str("the lock is held by another process"),
            LockError::Replaced => f.write_str("the lock file was replaced while it was in use"),
            LockError::BadOffset => f.write_str("the recorded lock offset is out of range"),
            LockError::System(error) => write!(f, "the lock file cannot be used: {error}"),
        }
    }
}

impl std::error::Error for LockError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LockError::System(error) => Some(error),
            LockError::Held | LockError::Replaced | LockError::BadOffset => None,
        }
    }
}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> LockError {
        LockError::System(error)
    }
}

/// The lock file of a store. It is created once and never unlinked: whoever locked a byte of an unlinked
/// file would look gone to everybody who opens the path.
#[derive(Debug)]
pub struct LockFile {
    path: PathBuf,
    file: File,
    id: LockFileId,
    writable: bool,
}

impl LockFile {
    /// Opens the lock file for locking, and creates it with mode 0600 if there is none. A symbolic link
    /// is refused with `ELOOP`.
    pub fn open(path: &Path) -> io::Result<LockFile> {
        LockFile::open_as(path, true)
    }

    /// Opens an existing lock file for testing and waiting, where reading it is all that is allowed.
    pub fn open_to_observe(path: &Path) -> io::Result<LockFile> {
        LockFile::open_as(path, false)
    }

    fn open_as(path: &Path, writable: bool) -> io::Result<LockFile> {
        let (file, id) = open_description(path, writable)?;
        Ok(LockFile {
            path: path.to_owned(),
            file,
            id,
            writable,
        })
    }

    /// Which file this is, for the claim.
    pub fn identity(&self) -> LockFileId {
        self.id
    }

    /// Locks one byte with a description of its own, for as long as a descriptor of it is open.
    pub fn hold(&self, offset: u64) -> Result<HeldByte, LockError> {
        let file = self.another_description()?;
        let mut lock = one_byte(libc::F_WRLCK, offset)?;
        match fcntl_lock(&file, libc::F_OFD_SETLK, &mut lock) {
            Ok(()) => Ok(HeldByte { fd: file.into() }),
            Err(error) => Err(refusal(error)),
        }
    }

    /// Whether nobody holds this byte at this moment. Waiters do not count as holders.
    pub fn is_free(&self, offset: u64) -> Result<bool, LockError> {
        let mut lock = one_byte(libc::F_RDLCK, offset)?;
        fcntl_lock(&self.file, libc::F_OFD_GETLK, &mut lock)?;
        Ok(c_int::from(lock.l_type) == libc::F_UNLCK)
    }

    /// Something to poll until nobody holds this byte any more.
    ///
    /// A thread waits for a read lock, with every signal blocked. It lives until it gets it or the
    /// process exits, so a process that forks must first see the watch become ready and drop it, which
    /// joins the thread.
    pub fn wait_free(&self, offset: u64) -> Result<ByteWatch, LockError> {
        let file = self.another_description()?;
        let lock = one_byte(libc::F_RDLCK, offset)?;
        let shared = Arc::new(Shared {
            event: sys::eventfd()?,
            outcome: OnceLock::new(),
        });
        // A new thread starts with the mask of the one that makes it.
        let mask = SignalSet::ALL.block()?;
        let waiter = {
            let shared = Arc::clone(&shared);
            let builder = thread::Builder::new().stack_size(WAITER_STACK_BYTES);
            builder.spawn(move || shared.wait(file, lock))
        };
        mask.set_mask()?;
        Ok(ByteWatch {
            shared,
            waiter: Some(waiter?),
        })
    }

    /// Locks one more byte with a description that holds others, so that it lives as long as they do.
    pub fn hold_with(&self, fd: BorrowedFd<'_>, offset: u64) -> Result<(), LockError> {
        set_lock(fd, libc::F_WRLCK, offset)
    }

    fn another_description(&self) -> Result<File, LockError> {
        let (file, id) = match open_description(&self.path, self.writable) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(LockError::Replaced);
            }
            other => other?,
        };
        if id == self.id {
            Ok(file)
        } else {
            Err(LockError::Replaced)
        }
    }
}

/// Releases a byte, for every process that inherited the description.
pub fn let_go(fd: BorrowedFd<'_>, offset: u64) -> Result<(), LockError> {
    set_lock(fd, libc::F_UNLCK, offset)
}

fn set_lock(fd: BorrowedFd<'_>, kind: c_int, offset: u64) -> Result<(), LockError> {
    let mut lock = one_byte(kind, offset)?;
    // SAFETY: the lock is complete and outlives the call.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_SETLK, &raw mut lock) })
        .map(drop)
        .map_err(refusal)
}

/// One locked byte. It is released when the last descriptor of its description is closed.
#[derive(Debug)]
pub struct HeldByte {
    fd: OwnedFd,
}

impl HeldByte {
    /// Moves the lock to a descriptor that is not below `min` (normally [`HIGH_DESCRIPTOR`]), for a child
    /// to inherit. It is close-on-exec in this process; the child of a
    /// [`Spawn`](super::spawn::Spawn::tree_lock) clears that for itself. Where the limit on open files
    /// does not reach so far, the descriptor is the highest that it allows.
    pub fn into_inheritable_fd(self, min: RawFd) -> io::Result<OwnedFd> {
        match sys::duplicate(&self.fd, min) {
            // EINVAL: the minimum is beyond the limit. EMFILE: nothing is free between the two.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EMFILE)) => {
                self.highest_possible(min)
            }
            other => other,
        }
    }

    fn highest_possible(&self, min: RawFd) -> io::Result<OwnedFd> {
        let lowest_wanted = (3..min).rev().map(|min| sys::duplicate(&self.fd, min));
        let mut attempts = lowest_wanted.skip_while(|attempt| attempt.is_err());
        attempts
            .next()
            .unwrap_or_else(|| sys::duplicate(&self.fd, 3))
    }
}

/// Readable as soon as the byte was free, or waiting for it failed.
#[derive(Debug)]
pub struct ByteWatch {
    shared: Arc<Shared>,
    waiter: Option<thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    event: OwnedFd,
    /// The error number of the wait, or 0.
    outcome: OnceLock<c_int>,
}

impl Shared {
    fn wait(&self, file: File, mut lock: libc::flock) {
        // SAFETY: the lock is complete and outlives the call.
        let granted = uninterrupted(|| unsafe {
            libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLKW, &raw mut lock)
        });
        drop(file);
        let errno = granted
            .err()
            .map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
        // Nobody else sets it.
        let _ = self.outcome.set(errno);
        // An event counter at zero takes a one.
        let _ = sys::signal_eventfd(self.event.as_fd());
    }
}

impl ByteWatch {
    /// Whether the byte was free at some moment since the watch began. An error means that waiting is
    /// not possible (the kernel is out of locks).
    pub fn is_ready(&self) -> Result<bool, LockError> {
        match self.shared.outcome.get() {
            None => Ok(false),
            Some(0) => Ok(true),
            Some(&errno) => Err(io::Error::from_raw_os_error(errno).into()),
        }
    }
}

impl AsFd for ByteWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }
}

impl Drop for ByteWatch {
    fn drop(&mut self) {
        // A thread that still waits is left to itself; one that is done is gone when this returns.
        if self.shared.outcome.get().is_some()
            && let Some(waiter) = self.waiter.take()
        {
            let _ = waiter.join();
        }
    }
}

fn open_description(path: &Path, writable: bool) -> io::Result<(File, LockFileId)> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(libc::O_NOFOLLOW)
        .mode(0o600);
    let file = options.write(writable).create(writable).open(path)?;
    let metadata = file.metadata()?;
    if writable && metadata.mode() & 0o777 != 0o600 {
        // A umask may have taken the owner's rights away, and then nobody could open it again.
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    let id = LockFileId {
        device: metadata.dev(),
        inode: metadata.ino(),
    };
    Ok((file, id))
}

fn one_byte(kind: c_int, offset: u64) -> Result<libc::flock, LockError> {
    let start = off_t::try_from(offset)
        .ok()
        .filter(|start| *start < 1 << 62);
    // SAFETY: all-zero is a valid flock; the kernel demands a PID of zero.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as c_short;
    lock.l_whence = libc::SEEK_SET as c_short;
    lock.l_start = start.ok_or(LockError::BadOffset)?;
    lock.l_len = 1;
    Ok(lock)
}

fn fcntl_lock(file: &File, command: c_int, lock: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the lock is complete and outlives the call.
    check(unsafe { libc::fcntl(file.as_raw_fd(), command, lock) }).map(drop)
}

fn refusal(error: io::Error) -> LockError {
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => LockError::Held,
        _ => LockError::System(error),
    }
}

#[cfg(test)]
mod tests;
