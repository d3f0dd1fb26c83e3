//! Records an attempt's output with bounded memory: small ones for the row, large ones in a spool file
//! beside the database.
//!
//! A spool file is written as `<stem>.part` and gets its final name only when it is on disk, so a file
//! without `.part` is whole. Its format is that of [`crate::domain::frames`].

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::domain::frames::{Encoder, Stream};
use crate::domain::name::Nonce;

/// Up to this size, headers included, a recording goes into the row.
pub const INLINE_MAX_BYTES: u64 = 16 * 1024;

/// The size of a write to a spool file; a recorder holds at most twice this.
const WRITE_BYTES: usize = 64 * 1024;

/// What stands between the database's name and a claim's nonce in the name of a spool file.
const SPOOL_INFIX: &[u8] = b"-out-";

/// The end of the name of a file that is still written, or whose writer died.
const PART_SUFFIX: &str = ".part";

/// The name of an attempt's spool file: `<database>-out-<nonce>-<attempt>`.
pub fn spool_stem(db_name: &OsStr, nonce: &Nonce, attempt: u32) -> PathBuf {
    let mut name = db_name.to_os_string();
    name.push(OsStr::from_bytes(SPOOL_INFIX));
    name.push(format!("{}-{attempt}", nonce.hex()));
    PathBuf::from(name)
}

/// A file under its temporary name; removed when dropped before it got its final one.
#[derive(Debug)]
struct PartFile {
    file: File,
    part: PathBuf,
    path: PathBuf,
    named: bool,
}

impl PartFile {
    /// Creates `<dir>/<stem>.part`, mode 0600; an existing file is an error.
    fn create(dir: &Path, stem: &Path) -> io::Result<PartFile> {
        let path = dir.join(stem);
        let mut part = path.clone().into_os_string();
        part.push(PART_SUFFIX);
        let part = PathBuf::from(part);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&part)?;
        // A umask may have taken the owner's rights away.
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        Ok(PartFile {
            file,
            part,
            path,
            named: false,
        })
    }

    /// Content to disk, then the final name, then the name to disk: a crash leaves either no final
    /// name or a whole file.
    fn publish(mut self) -> io::Result<PathBuf> {
        self.file.sync_data()?;
        fs::rename(&self.part, &self.path)?;
        let synced = sync_dir_of(&self.path);
        if synced.is_err() {
            self.part.clone_from(&self.path);
        }
        synced?;
        self.named = true;
        Ok(std::mem::take(&mut self.path))
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.named {
            // Nothing more can be done about a file that cannot be removed; gc tries again.
            let _ = fs::remove_file(&self.part);
        }
    }
}

/// Makes the names in a file's directory durable.
fn sync_dir_of(path: &Path) -> io::Result<()> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    File::open(dir)?.sync_all()
}

/// What becomes of the bytes that are read.
#[derive(Debug)]
enum Sink {
    /// Kept, in memory so far.
    Memory { dir: PathBuf, stem: PathBuf },
    /// Kept, in a file.
    File(PartFile),
    /// Not wanted, or lost for this reason.
    Nothing { lost: Option<String> },
}

/// Byte counts of the two streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    stdout_bytes: u64,
    stderr_bytes: u64,
}

impl Counts {
    fn add(&mut self, stream: Stream, count: usize) {
        let sum = match stream {
            Stream::Stdout => &mut self.stdout_bytes,
            Stream::Stderr => &mut self.stderr_bytes,
        };
        *sum += count as u64;
    }

    fn total(self) -> u64 {
        self.stdout_bytes + self.stderr_bytes
    }
}

/// Takes an attempt's output as it is read and keeps it, with a bounded buffer whatever its size.
///
/// A write that fails never disturbs the caller: the recording is given up and its file removed.
/// Dropped without [`Recorder::finish`], it leaves nothing behind.
#[derive(Debug)]
pub struct Recorder {
    encoder: Encoder,
    sink: Sink,
    max_output_bytes: u64,
    seen: Counts,
    stored: Counts,
}

impl Recorder {
    /// Keeps up to `max_output_bytes` of both streams together. The file `<dir>/<stem>` is made only
    /// when it is needed (see [`spool_stem`] for its name).
    pub fn new(
        dir: impl Into<PathBuf>,
        stem: impl Into<PathBuf>,
        max_output_bytes: u64,
    ) -> Recorder {
        Recorder::with(
            Sink::Memory {
                dir: dir.into(),
                stem: stem.into(),
            },
            max_output_bytes,
        )
    }

    /// Keeps nothing and only counts.
    pub fn counting() -> Recorder {
        Recorder::with(Sink::Nothing { lost: None }, 0)
    }

    fn with(sink: Sink, max_output_bytes: u64) -> Recorder {
        Recorder {
            encoder: Encoder::new(),
            sink,
            max_output_bytes,
            seen: Counts::default(),
            stored: Counts::default(),
        }
    }

    /// Takes what was just read from `stream`.
    pub fn record(&mut self, stream: Stream, bytes: &[u8]) {
        self.seen.add(stream, bytes.len());
        if matches!(self.sink, Sink::Nothing { .. }) {
            return;
        }
        let room = self.max_output_bytes.saturating_sub(self.stored.total());
        let kept = bytes.len().min(room.try_into().unwrap_or(usize::MAX));
        self.stored.add(stream, kept);
        for piece in bytes[..kept].chunks(WRITE_BYTES) {
            self.encoder.append(stream, piece);
            if self.encoder.buffer().len() >= WRITE_BYTES && !self.write_out() {
                return;
            }
        }
    }

    /// The memory that is taken for output, whether filled or not.
    #[cfg(test)]
    pub(super) fn buffer_bytes(&self) -> usize {
        self.encoder.capacity_bytes()
    }

    /// What was recorded. It can be read, and is durable only after [`Recorded::make_durable`].
    pub fn finish(mut self) -> Recorded {
        let inline = self.encoder.len_bytes() <= INLINE_MAX_BYTES;
        self.encoder.end_run();
        if !(inline && matches!(self.sink, Sink::Memory { .. })) {
            self.write_out();
        }
        let file_len_bytes = self.encoder.len_bytes();
        let place = match self.sink {
            Sink::Memory { .. } => Place::Inline(self.encoder.into_buffer()),
            Sink::File(file) => Place::Part(SpoolPart {
                file,
                len_bytes: file_len_bytes,
            }),
            Sink::Nothing { lost } => Place::Nothing { lost },
        };
        Recorded {
            place,
            seen: self.seen,
            stored: self.stored,
        }
    }

    /// Hands the buffer on to the file; a failure gives the recording up and returns false.
    fn write_out(&mut self) -> bool {
        let Err(error) = self.try_write_out() else {
            return true;
        };
        self.encoder = Encoder::new();
        self.sink = Sink::Nothing {
            lost: Some(error.to_string()),
        };
        false
    }

    fn try_write_out(&mut self) -> io::Result<()> {
        if let Sink::Memory { dir, stem } = &self.sink {
            self.sink = Sink::File(PartFile::create(dir, stem)?);
        }
        let Sink::File(PartFile { file, .. }) = &self.sink else {
            return Ok(());
        };
        let buffer = self.encoder.buffer();
        let at = self.encoder.len_bytes() - buffer.len() as u64;
        file.write_all_at(buffer, at)?;
        self.encoder.hand_on();
        match self.encoder.take_patch() {
            Some(patch) => file.write_all_at(&patch.bytes, patch.at),
            None => Ok(()),
        }
    }
}

/// A spool file that is written but does not have its final name yet.
#[derive(Debug)]
struct SpoolPart {
    file: PartFile,
    len_bytes: u64,
}

#[derive(Debug)]
enum Place {
    Inline(Vec<u8>),
    Part(SpoolPart),
    Nothing { lost: Option<String> },
}

/// A finished recording that is not durable yet; dropped, it leaves nothing behind.
#[derive(Debug)]
pub struct Recorded {
    place: Place,
    seen: Counts,
    stored: Counts,
}

impl Recorded {
    /// The recording, to be read from its start; `None` where nothing was kept.
    pub fn open(&self) -> Result<Option<Recording>, SpoolError> {
        match &self.place {
            Place::Inline(bytes) => Ok(Some(Recording::from_bytes(bytes.clone()))),
            Place::Part(part) => open_recording(&part.file.part, part.len_bytes).map(Some),
            Place::Nothing { .. } => Ok(None),
        }
    }

    /// Brings a spool file to disk under its final name (fdatasync, rename, fsync of the directory).
    /// A failure gives the recording up and removes the file.
    pub fn make_durable(self) -> Stored {
        let place = match self.place {
            Place::Inline(bytes) => StoredPlace::Inline(bytes),
            Place::Nothing { lost } => StoredPlace::Nothing { lost },
            Place::Part(SpoolPart { file, len_bytes }) => match file.publish() {
                Ok(path) => StoredPlace::File { path, len_bytes },
                Err(error) => StoredPlace::Nothing {
                    lost: Some(error.to_string()),
                },
            },
        };
        Stored::new(place, self.seen, self.stored)
    }
}

/// Where a durable recording is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredPlace {
    /// In these bytes, at most [`INLINE_MAX_BYTES`], which belong into the row.
    Inline(Vec<u8>),
    /// In a spool file.
    File {
        /// Its final name.
        path: PathBuf,
        /// Its length, headers included; belongs into the row, see [`open_spool`].
        len_bytes: u64,
    },
    /// Nowhere: not wanted, or lost for this reason.
    Nothing {
        /// The error that ended the recording.
        lost: Option<String>,
    },
}

impl StoredPlace {
    /// The recording, to be read from its start; `None` where nothing was kept.
    pub fn open(&self) -> Result<Option<Recording>, SpoolError> {
        match self {
            StoredPlace::Inline(bytes) => Ok(Some(Recording::from_bytes(bytes.clone()))),
            StoredPlace::File { path, len_bytes } => open_recording(path, *len_bytes).map(Some),
            StoredPlace::Nothing { .. } => Ok(None),
        }
    }
}

/// A durable recording: what the record says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Where it is.
    pub place: StoredPlace,
    /// Bytes of stdout as stored; where nothing is stored, as read.
    pub stdout_bytes: u64,
    /// Bytes of stderr as stored; where nothing is stored, as read.
    pub stderr_bytes: u64,
    /// The stored copy ends before the output did.
    pub truncated: bool,
}

impl Stored {
    fn new(place: StoredPlace, seen: Counts, stored: Counts) -> Stored {
        let kept = !matches!(place, StoredPlace::Nothing { .. });
        let counts = if kept { stored } else { seen };
        Stored {
            place,
            stdout_bytes: counts.stdout_bytes,
            stderr_bytes: counts.stderr_bytes,
            truncated: kept && stored != seen,
        }
    }

    /// Removes the spool file again, for a recording that no row will name.
    pub fn discard(self) {
        if let StoredPlace::File { path, .. } = self.place {
            // A file that cannot be removed is an orphan, which gc removes.
            let _ = fs::remove_file(path);
        }
    }
}

/// A recording that can be read more than once, with the memory of one buffer.
#[derive(Debug)]
pub enum Recording {
    /// The bytes of a row.
    Inline(Cursor<Vec<u8>>),
    /// A spool file.
    File(BufReader<File>),
}

impl Recording {
    /// A recording from a row.
    pub fn from_bytes(bytes: Vec<u8>) -> Recording {
        Recording::Inline(Cursor::new(bytes))
    }

    /// A recording in an open file, see [`open_spool`].
    pub fn from_file(file: File) -> Recording {
        Recording::File(BufReader::with_capacity(WRITE_BYTES, file))
    }

    /// The open file, if there is one.
    pub fn file(&self) -> Option<&File> {
        match self {
            Recording::Inline(_) => None,
            Recording::File(reader) => Some(reader.get_ref()),
        }
    }
}

impl Read for Recording {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Recording::Inline(reader) => reader.read(buffer),
            Recording::File(reader) => reader.read(buffer),
        }
    }
}

impl BufRead for Recording {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self {
            Recording::Inline(reader) => reader.fill_buf(),
            Recording::File(reader) => reader.fill_buf(),
        }
    }

    fn consume(&mut self, count: usize) {
        match self {
            Recording::Inline(reader) => reader.consume(count),
            Recording::File(reader) => reader.consume(count),
        }
    }
}

impl Seek for Recording {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Recording::Inline(reader) => reader.seek(to),
            Recording::File(reader) => reader.seek(to),
        }
    }

    fn seek_relative(&mut self, offset: i64) -> io::Result<()> {
        match self {
            Recording::Inline(reader) => Seek::seek_relative(reader, offset),
            // Keeps the buffer where the target lies in it.
            Recording::File(reader) => reader.seek_relative(offset),
        }
    }
}

/// Why a spool file cannot be read.
#[derive(Debug)]
pub enum SpoolError {
    /// It is not there: the operation was forgotten, purged or settled anew; read its row again.
    Missing,
    /// It is no regular file, or a symbolic link.
    NotAFile,
    /// It does not have the length that the row names.
    WrongLength {
        /// As the row says.
        expected_bytes: u64,
        /// As found.
        found_bytes: u64,
    },
    /// Opening failed.
    Io(io::Error),
}

impl fmt::Display for SpoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpoolError::Missing => write!(f, "the file of the stored output is gone"),
            SpoolError::NotAFile => write!(f, "the file of the stored output is no regular file"),
            SpoolError::WrongLength {
                expected_bytes,
                found_bytes,
            } => write!(
                f,
                "the file of the stored output has {found_bytes} bytes instead of {expected_bytes}"
            ),
            SpoolError::Io(error) => {
                write!(f, "the file of the stored output cannot be opened: {error}")
            }
        }
    }
}

impl std::error::Error for SpoolError {}

/// Opens a spool file for reading, never through a symbolic link, and checks its length.
pub fn open_spool(path: &Path, expected_bytes: u64) -> Result<File, SpoolError> {
    let opened = OpenOptions::new()
        .read(true)
        // NONBLOCK: a FIFO put in its place must not block; it means nothing for a regular file.
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT) => SpoolError::Missing,
        Some(libc::ELOOP) => SpoolError::NotAFile,
        _ => SpoolError::Io(error),
    })?;
    let meta = file.metadata().map_err(SpoolError::Io)?;
    if !meta.is_file() {
        return Err(SpoolError::NotAFile);
    }
    if meta.len() != expected_bytes {
        return Err(SpoolError::WrongLength {
            expected_bytes,
            found_bytes: meta.len(),
        });
    }
    Ok(file)
}

fn open_recording(path: &Path, len_bytes: u64) -> Result<Recording, SpoolError> {
    open_spool(path, len_bytes).map(Recording::from_file)
}

/// A file in the store's directory that is named like a spool file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolEntry {
    /// Where it is.
    pub path: PathBuf,
    /// The claim that it belongs to.
    pub nonce: Nonce,
    /// The attempt's number in it.
    pub attempt: u32,
    /// Still written, or its writer died.
    pub part: bool,
}

/// The spool files of one database, in no order; other files are left out.
pub fn list_spool(dir: &Path, db_name: &OsStr) -> io::Result<Vec<SpoolEntry>> {
    let mut entries = Vec::new();
    for file in fs::read_dir(dir)? {
        let file = file?;
        if let Some((nonce, attempt, part)) = parse_name(&file.file_name(), db_name) {
            entries.push(SpoolEntry {
                path: file.path(),
                nonce,
                attempt,
                part,
            });
        }
    }
    Ok(entries)
}

/// Reads back what [`spool_stem`] wrote, with or without the suffix of a part.
fn parse_name(name: &OsStr, db_name: &OsStr) -> Option<(Nonce, u32, bool)> {
    let tail = name.as_bytes().strip_prefix(db_name.as_bytes())?;
    let tail = std::str::from_utf8(tail.strip_prefix(SPOOL_INFIX)?).ok()?;
    let (tail, part) = match tail.strip_suffix(PART_SUFFIX) {
        Some(tail) => (tail, true),
        None => (tail, false),
    };
    let (nonce, attempt) = tail.split_once('-')?;
    Some((Nonce::from_hex(nonce)?, attempt.parse().ok()?, part))
}

#[cfg(test)]
mod tests;
