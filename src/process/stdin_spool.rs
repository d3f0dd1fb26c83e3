//! The digest of stdin, taken such that the command still reads all of it.

use super::random;
use crate::domain::name::hex;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, IsTerminal, Read, Seek, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

const CHUNK_BYTES: usize = 64 * 1024;

/// What was learned from stdin.
#[derive(Debug)]
pub struct StdinDigest {
    /// SHA-256 of everything from where stdin stood to its end.
    pub digest: [u8; 32],
    /// What the command must get as its stdin, at its beginning; none where stdin itself is untouched.
    pub replacement: Option<File>,
}

/// Why stdin has no digest.
#[derive(Debug)]
pub enum StdinError {
    /// It is a terminal, which has no end before someone types it.
    Terminal,
    /// It is a directory or a device other than `/dev/null`.
    NotData,
    /// It could not be read, or is closed.
    Read(io::Error),
    /// What was read could not be kept for the command.
    Spool(io::Error),
}

impl fmt::Display for StdinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StdinError::Terminal => {
                write!(f, "stdin is a terminal: redirect it from a file or a pipe")
            }
            StdinError::NotData => {
                write!(
                    f,
                    "stdin is a device or a directory: redirect it from a file or a pipe"
                )
            }
            StdinError::Read(e) => write!(
                f,
                "reading stdin failed ({e}): redirect it from a file or a pipe"
            ),
            StdinError::Spool(e) => write!(
                f,
                "keeping stdin for the command failed ({e}): make room or give a key without stdin"
            ),
        }
    }
}

impl std::error::Error for StdinError {}

impl From<io::Error> for StdinError {
    fn from(e: io::Error) -> StdinError {
        StdinError::Read(e)
    }
}

/// Digests stdin from where it stands.
///
/// A regular file is read beside its offset, which stays where it is even if this process dies
/// half way. Pipes and sockets can be read but once: their content goes to a file in `spool_dir`
/// that has no name any more, for the command to read instead.
pub fn digest_stdin(stdin: BorrowedFd<'_>, spool_dir: &Path) -> Result<StdinDigest, StdinError> {
    if stdin.is_terminal() {
        return Err(StdinError::Terminal);
    }
    let file = File::from(stdin.try_clone_to_owned().map_err(StdinError::Read)?);
    let metadata = file.metadata().map_err(StdinError::Read)?;
    let kind = metadata.file_type();
    if kind.is_fifo() || kind.is_socket() {
        return spool(file, spool_dir);
    }
    if !kind.is_file() && !is_null(&metadata) {
        return Err(StdinError::NotData);
    }
    Ok(StdinDigest {
        digest: digest_in_place(file).map_err(StdinError::Read)?,
        replacement: None,
    })
}

/// SHA-256 of everything that `source` still gives, in bounded memory.
pub fn digest_stream(source: impl Read) -> io::Result<[u8; 32]> {
    let mut digest = Sha256::new();
    for_each_chunk(source, |chunk| -> io::Result<()> {
        digest.update(chunk);
        Ok(())
    })?;
    Ok(digest.finalize().into())
}

fn digest_in_place(mut file: File) -> io::Result<[u8; 32]> {
    let at_byte = file.stream_position()?;
    digest_stream(BesideOffset { file, at_byte })
}

fn spool(source: File, dir: &Path) -> Result<StdinDigest, StdinError> {
    let mut kept = unnamed_file(dir).map_err(StdinError::Spool)?;
    let mut digest = Sha256::new();
    for_each_chunk(Patient(source), |chunk| {
        digest.update(chunk);
        kept.write_all(chunk).map_err(StdinError::Spool)
    })?;
    kept.rewind().map_err(StdinError::Spool)?;
    Ok(StdinDigest {
        digest: digest.finalize().into(),
        replacement: Some(kept),
    })
}

/// Reads until nothing comes any more and hands out each piece.
fn for_each_chunk<E: From<io::Error>>(
    mut source: impl Read,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => each(buffer.get(..n).unwrap_or_default())?,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Reads a file from `at_byte` on and leaves the offset that it shares with others alone.
struct BesideOffset {
    file: File,
    at_byte: u64,
}

impl Read for BesideOffset {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(buffer, self.at_byte)?;
        self.at_byte += n as u64;
        Ok(n)
    }
}

/// Waits for data where the caller made its pipe non-blocking.
struct Patient(File);

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => wait_readable(&self.0)?,
                other => return other,
            }
        }
    }
}

fn wait_readable(file: &File) -> io::Result<()> {
    let mut poll = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: the pointer is to one pollfd that outlives the call, and the count says one.
    match unsafe { libc::poll(&mut poll, 1, -1) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Whether this is `/dev/null`, wherever its node stands.
fn is_null(metadata: &Metadata) -> bool {
    metadata.file_type().is_char_device() && metadata.rdev() == libc::makedev(1, 3)
}

/// A file that only this process can reach, and that is gone with the last descriptor of it.
///
/// Not `O_TMPFILE`, which not every file system has. A process that dies between the two calls
/// leaves an empty file.
pub fn unnamed_file(dir: &Path) -> io::Result<File> {
    let path = dir.join(format!("stdin-{}", hex(&random::bytes::<16>())));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let file = options.open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::SeekFrom;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::thread;

    fn sha256(bytes: &[u8]) -> [u8; 32] {
        Sha256::digest(bytes).into()
    }

    fn big() -> Vec<u8> {
        (0..300_000u32).map(|i| (i % 251) as u8).collect()
    }

    fn rest_of(file: &mut File) -> Vec<u8> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_file_is_digested_from_its_offset_which_stays() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&big()).unwrap();
        file.seek(SeekFrom::Start(1000)).unwrap();
        let found = digest_stdin(file.as_fd(), dir.path()).unwrap();
        assert_eq!(found.digest, sha256(&big()[1000..]));
        assert!(found.replacement.is_none());
        assert_eq!(rest_of(&mut file), &big()[1000..]);
    }

    #[test]
    fn a_pipe_is_kept_for_the_command() {
        let dir = tempfile::tempdir().unwrap();
        let (reader, mut writer) = io::pipe().unwrap();
        let feeder = thread::spawn(move || writer.write_all(&big()));
        let found = digest_stdin(reader.as_fd(), dir.path()).unwrap();
        feeder.join().unwrap().unwrap();
        assert_eq!(found.digest, sha256(&big()));
        let mut kept = found.replacement.unwrap();
        assert_eq!(kept.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(kept.metadata().unwrap().nlink(), 0);
        assert_eq!(rest_of(&mut kept), big());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_socket_that_does_not_block_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let (reader, mut writer) = UnixStream::pair().unwrap();
        reader.set_nonblocking(true).unwrap();
        let feeder = thread::spawn(move || {
            for chunk in big().chunks(1000) {
                writer.write_all(chunk).unwrap();
                thread::yield_now();
            }
        });
        let found = digest_stdin(reader.as_fd(), dir.path()).unwrap();
        feeder.join().unwrap();
        assert_eq!(found.digest, sha256(&big()));
        assert_eq!(rest_of(&mut found.replacement.unwrap()), big());
    }

    #[test]
    fn dev_null_is_empty_and_other_devices_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let null = File::open("/dev/null").unwrap();
        let found = digest_stdin(null.as_fd(), dir.path()).unwrap();
        assert_eq!(found.digest, sha256(b""));
        assert!(found.replacement.is_none());
        for path in ["/dev/zero", "/"] {
            let other = File::open(path).unwrap();
            let error = digest_stdin(other.as_fd(), dir.path()).unwrap_err();
            assert!(matches!(error, StdinError::NotData), "{path}: {error}");
        }
    }

    #[test]
    fn a_terminal_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        // Opening the multiplexer gives the far side of a new terminal, which is one as well.
        let terminal = File::open("/dev/ptmx").unwrap();
        let error = digest_stdin(terminal.as_fd(), dir.path()).unwrap_err();
        assert!(matches!(error, StdinError::Terminal), "{error}");
    }

    #[test]
    fn what_cannot_be_read_or_kept_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let write_only = File::create(dir.path().join("out")).unwrap();
        let error = digest_stdin(write_only.as_fd(), dir.path()).unwrap_err();
        assert!(matches!(error, StdinError::Read(_)), "{error}");
        let (reader, _writer) = io::pipe().unwrap();
        let error = digest_stdin(reader.as_fd(), &dir.path().join("gone")).unwrap_err();
        assert!(matches!(error, StdinError::Spool(_)), "{error}");
    }
}
