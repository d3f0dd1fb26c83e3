//! The one format of recorded output, for small values in a row and for spool files alike.
//!
//! Runs of `[stream: u8][length in bytes: u64 LE][bytes]` in the order of reading. Bytes that follow
//! others of the same stream extend the current run, so the output of a command that writes to one
//! stream has one header, whatever its size.

use std::fmt;
use std::io::{self, BufRead, Seek, SeekFrom};

/// The size of a run's header: one byte for the stream, eight for the length.
pub const HEADER_BYTES: usize = 9;

/// Where the length stands in a header.
const LENGTH_AT: usize = 1;

/// Which of the command's streams bytes came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Both, stdout first.
    pub const ALL: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

    /// The word used in JSON and in messages.
    pub fn word(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }

    /// The descriptor's usual number, which is also the byte in a header.
    fn byte(self) -> u8 {
        match self {
            Stream::Stdout => 1,
            Stream::Stderr => 2,
        }
    }

    fn from_byte(byte: u8) -> Option<Stream> {
        Stream::ALL.into_iter().find(|s| s.byte() == byte)
    }
}

/// Why bytes are not a recorded output. Positions count from the start of the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The recording ends inside the header that starts at `at`.
    CutHeader {
        /// The header's position.
        at: u64,
    },
    /// The header at `at` names a stream that does not exist.
    UnknownStream {
        /// The header's position.
        at: u64,
        /// The byte found there.
        byte: u8,
    },
    /// The run whose header is at `at` claims more bytes than are left.
    PastEnd {
        /// The header's position.
        at: u64,
        /// The length that the header claims.
        len_bytes: u64,
        /// What is left behind the header.
        left_bytes: u64,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::CutHeader { at } => {
                write!(f, "the recorded output ends inside the header at byte {at}")
            }
            FrameError::UnknownStream { at, byte } => {
                write!(f, "the recorded output names stream {byte} at byte {at}")
            }
            FrameError::PastEnd {
                at,
                len_bytes,
                left_bytes,
            } => write!(
                f,
                "the recorded output claims {len_bytes} bytes at byte {at}, {left_bytes} are left"
            ),
        }
    }
}

impl std::error::Error for FrameError {}

/// The bytes of a header.
fn header(stream: Stream, len_bytes: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [stream.byte(); HEADER_BYTES];
    bytes[LENGTH_AT..].copy_from_slice(&len_bytes.to_le_bytes());
    bytes
}

/// Reads the header at `at`; `left_bytes` is what follows it.
fn parse_header(
    bytes: &[u8; HEADER_BYTES],
    at: u64,
    left_bytes: u64,
) -> Result<(Stream, u64), FrameError> {
    let [byte, length @ ..] = *bytes;
    let stream = Stream::from_byte(byte).ok_or(FrameError::UnknownStream { at, byte })?;
    let len_bytes = u64::from_le_bytes(length);
    if len_bytes > left_bytes {
        return Err(FrameError::PastEnd {
            at,
            len_bytes,
            left_bytes,
        });
    }
    Ok((stream, len_bytes))
}

/// A run that may still grow.
#[derive(Debug)]
struct OpenRun {
    stream: Stream,
    header_at: u64,
    len_bytes: u64,
}

/// A length to write over the one that was handed on too early.
#[derive(Debug, PartialEq, Eq)]
pub struct Patch {
    /// Where, from the start of the recording.
    pub at: u64,
    /// What to write there.
    pub bytes: [u8; 8],
}

/// Builds a recording in a buffer whose front can be handed on (to a file) while it grows.
///
/// A run that goes on after its header was handed on leaves one [`Patch`] when it ends.
#[derive(Debug, Default)]
pub struct Encoder {
    buffer: Vec<u8>,
    handed_on_bytes: u64,
    run: Option<OpenRun>,
    patch: Option<Patch>,
}

impl Encoder {
    /// An empty recording.
    pub fn new() -> Encoder {
        Encoder::default()
    }

    /// Adds what was read from `stream`. Nothing read adds nothing.
    pub fn append(&mut self, stream: Stream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if self.run.as_ref().is_none_or(|run| run.stream != stream) {
            self.end_run();
            self.run = Some(OpenRun {
                stream,
                header_at: self.len_bytes(),
                len_bytes: 0,
            });
            self.buffer.extend_from_slice(&header(stream, 0));
        }
        self.buffer.extend_from_slice(bytes);
        self.grow_run(bytes.len() as u64);
    }

    /// Ends the current run, so that its patch, if it needs one, can be taken.
    pub fn end_run(&mut self) {
        let Some(run) = self.run.take() else { return };
        if run.header_at < self.handed_on_bytes {
            self.patch = Some(Patch {
                at: run.header_at + LENGTH_AT as u64,
                bytes: run.len_bytes.to_le_bytes(),
            });
        }
    }

    /// What was not handed on yet.
    pub fn buffer(&self) -> &[u8] {
        &self.buffer
    }

    /// The memory that the buffer takes, whether filled or not.
    #[cfg(test)]
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// The length of the whole recording, headers included.
    pub fn len_bytes(&self) -> u64 {
        self.handed_on_bytes + self.buffer.len() as u64
    }

    /// Forgets the buffer's content after it was written elsewhere. Call [`Encoder::take_patch`] next:
    /// between two calls at most one run that was handed on can have ended.
    pub fn hand_on(&mut self) {
        self.handed_on_bytes += self.buffer.len() as u64;
        self.buffer.clear();
    }

    /// The correction to a run that ended after its header was handed on.
    pub fn take_patch(&mut self) -> Option<Patch> {
        self.patch.take()
    }

    /// The recording, if nothing of it was handed on.
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// Counts bytes into the current run, in its header too where that is still in the buffer.
    fn grow_run(&mut self, by_bytes: u64) {
        let Some(run) = &mut self.run else { return };
        run.len_bytes += by_bytes;
        let Some(at) = run.header_at.checked_sub(self.handed_on_bytes) else {
            return;
        };
        let at = at as usize + LENGTH_AT;
        if let Some(length) = self.buffer.get_mut(at..at + 8) {
            length.copy_from_slice(&run.len_bytes.to_le_bytes());
        }
    }
}

/// The runs of a recording in memory; stops after the first error.
pub fn runs(recording: &[u8]) -> Runs<'_> {
    Runs {
        rest: recording,
        at: 0,
    }
}

/// See [`runs`].
#[derive(Debug, Clone)]
pub struct Runs<'a> {
    rest: &'a [u8],
    at: u64,
}

impl<'a> Runs<'a> {
    /// Takes one run off a rest that is not empty.
    fn split(&mut self) -> Result<(Stream, &'a [u8]), FrameError> {
        let at = self.at;
        let (header, behind) = self
            .rest
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(FrameError::CutHeader { at })?;
        let left_bytes = behind.len() as u64;
        let (stream, len_bytes) = parse_header(header, at, left_bytes)?;
        let past_end = FrameError::PastEnd {
            at,
            len_bytes,
            left_bytes,
        };
        let (bytes, rest) = usize::try_from(len_bytes)
            .ok()
            .and_then(|len| behind.split_at_checked(len))
            .ok_or(past_end)?;
        self.at += HEADER_BYTES as u64 + len_bytes;
        self.rest = rest;
        Ok((stream, bytes))
    }
}

impl<'a> Iterator for Runs<'a> {
    type Item = Result<(Stream, &'a [u8]), FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let run = self.split();
        if run.is_err() {
            self.rest = &[];
        }
        Some(run)
    }
}

/// Why a recording could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// It is not a recording.
    Corrupt(FrameError),
    /// Reading failed.
    Io(io::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Corrupt(error) => error.fmt(f),
            ReadError::Io(error) => write!(f, "the recorded output cannot be read: {error}"),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<FrameError> for ReadError {
    fn from(error: FrameError) -> ReadError {
        ReadError::Corrupt(error)
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError::Io(error)
    }
}

/// One run of a recording that is read piece by piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Where its bytes came from.
    pub stream: Stream,
    /// Where its bytes start, from the start of the recording.
    pub at: u64,
    /// How many they are.
    pub len_bytes: u64,
}

/// Reads a recording of any size with the memory of its source's buffer.
#[derive(Debug)]
pub struct RunReader<R> {
    source: R,
    end: u64,
    at: u64,
    run: Run,
}

impl<R: BufRead + Seek> RunReader<R> {
    /// Reads `source` from its first byte, wherever it stands.
    pub fn new(mut source: R) -> Result<RunReader<R>, ReadError> {
        let end = source.seek(SeekFrom::End(0))?;
        source.rewind()?;
        Ok(RunReader {
            source,
            end,
            at: 0,
            run: Run {
                stream: Stream::Stdout,
                at: 0,
                len_bytes: 0,
            },
        })
    }

    /// Starts again at the first run.
    pub fn rewind(&mut self) -> Result<(), ReadError> {
        self.source.rewind()?;
        self.at = 0;
        self.run.at = 0;
        self.run.len_bytes = 0;
        Ok(())
    }

    /// The next run; what is left of the current one is skipped.
    pub fn next_run(&mut self) -> Result<Option<Run>, ReadError> {
        self.skip(self.left_bytes())?;
        if self.at >= self.end {
            return Ok(None);
        }
        let at = self.at;
        let left_bytes = (self.end - at)
            .checked_sub(HEADER_BYTES as u64)
            .ok_or(FrameError::CutHeader { at })?;
        let mut header = [0; HEADER_BYTES];
        self.source.read_exact(&mut header)?;
        self.at += HEADER_BYTES as u64;
        let (stream, len_bytes) = parse_header(&header, at, left_bytes)?;
        self.run = Run {
            stream,
            at: self.at,
            len_bytes,
        };
        Ok(Some(self.run))
    }

    /// The next bytes of the current run without taking them; empty at its end.
    pub fn chunk(&mut self) -> Result<&[u8], ReadError> {
        let left_bytes = self.left_bytes();
        if left_bytes == 0 {
            return Ok(&[]);
        }
        let chunk = self.source.fill_buf()?;
        if chunk.is_empty() {
            let error = FrameError::PastEnd {
                at: self.run.at.saturating_sub(HEADER_BYTES as u64),
                len_bytes: self.run.len_bytes,
                left_bytes: self.run.len_bytes - left_bytes,
            };
            return Err(error.into());
        }
        let len = chunk.len().min(left_bytes.try_into().unwrap_or(usize::MAX));
        Ok(chunk.get(..len).unwrap_or(chunk))
    }

    /// Takes bytes of the current chunk.
    pub fn consume(&mut self, count: usize) {
        self.source.consume(count);
        self.at += count as u64;
    }

    /// What the recording is read from.
    pub fn source(&self) -> &R {
        &self.source
    }

    /// What is left of the current run.
    fn left_bytes(&self) -> u64 {
        (self.run.at + self.run.len_bytes).saturating_sub(self.at)
    }

    fn skip(&mut self, count: u64) -> io::Result<()> {
        let Ok(offset) = i64::try_from(count) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        self.source.seek_relative(offset)?;
        self.at += count;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
