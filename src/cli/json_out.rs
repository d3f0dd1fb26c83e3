//! Writes one JSON object that holds a recorded output, with bounded memory whatever the output's size.
//!
//! A stream that is valid UTF-8 becomes a JSON string of its text, any other a string of its base64
//! (RFC 4648, section 4, with padding). Both streams are looked at once and then written one after the
//! other, so the recording is read three times.

use std::fmt;
use std::io::{self, BufRead, BufWriter, Seek, Write};

use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use serde_json::{Map, Value};

use crate::domain::frames::{ReadError, RunReader, Stream};

/// The longest encoding of a character in UTF-8 (RFC 3629).
const UTF8_MAX_BYTES: usize = 4;

/// The size of a write.
const WRITE_BYTES: usize = 64 * 1024;

/// Why an object is not complete; a part of it may have been written.
#[derive(Debug)]
pub enum JsonError {
    /// The recording could not be read.
    Read(ReadError),
    /// The object could not be written.
    Write(io::Error),
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JsonError::Read(error) => error.fmt(f),
            JsonError::Write(error) => write!(f, "cannot write the JSON object: {error}"),
        }
    }
}

impl std::error::Error for JsonError {}

impl From<ReadError> for JsonError {
    fn from(error: ReadError) -> JsonError {
        JsonError::Read(error)
    }
}

impl From<io::Error> for JsonError {
    fn from(error: io::Error) -> JsonError {
        JsonError::Write(error)
    }
}

/// Writes `first`, then `stdout`, `stderr`, `stdout_encoding` and `stderr_encoding`, then `last` as one
/// object on one line, without a newline at its end. Without a recording the four fields are null.
pub fn write_object<R: BufRead + Seek>(
    out: impl Write,
    first: &Map<String, Value>,
    recording: Option<R>,
    last: &Map<String, Value>,
) -> Result<(), JsonError> {
    let mut object = ObjectWriter {
        out: BufWriter::with_capacity(WRITE_BYTES, out),
        started: false,
    };
    object.members(first)?;
    match recording {
        Some(recording) => streams(&mut object, RunReader::new(recording)?)?,
        None => {
            for stream in Stream::ALL {
                object.member(stream.word(), &Value::Null)?;
            }
            for stream in Stream::ALL {
                object.member(&encoding_field(stream), &Value::Null)?;
            }
        }
    }
    object.members(last)?;
    Ok(object.end()?)
}

fn encoding_field(stream: Stream) -> String {
    format!("{}_encoding", stream.word())
}

fn streams<R: BufRead + Seek>(
    object: &mut ObjectWriter<impl Write>,
    mut reader: RunReader<R>,
) -> Result<(), JsonError> {
    let [stdout, stderr] = are_text(&mut reader)?;
    for (stream, text) in Stream::ALL.into_iter().zip([stdout, stderr]) {
        object.name(stream.word())?;
        object.out.write_all(b"\"")?;
        if text {
            each_chunk(&mut reader, |from, bytes| match from == stream {
                true => write_escaped(&mut object.out, bytes),
                false => Ok(()),
            })?;
        } else {
            write_base64(&mut object.out, &mut reader, stream)?;
        }
        object.out.write_all(b"\"")?;
    }
    for (stream, text) in Stream::ALL.into_iter().zip([stdout, stderr]) {
        let encoding = if text { "utf-8" } else { "base64" };
        object.member(&encoding_field(stream), &Value::from(encoding))?;
    }
    Ok(())
}

/// Calls `take` with every piece of the recording, from its start.
fn each_chunk<R: BufRead + Seek>(
    reader: &mut RunReader<R>,
    mut take: impl FnMut(Stream, &[u8]) -> io::Result<()>,
) -> Result<(), JsonError> {
    reader.rewind()?;
    while let Some(run) = reader.next_run()? {
        loop {
            let chunk = reader.chunk()?;
            if chunk.is_empty() {
                break;
            }
            take(run.stream, chunk)?;
            let count = chunk.len();
            reader.consume(count);
        }
    }
    Ok(())
}

/// Whether stdout and stderr are UTF-8.
fn are_text<R: BufRead + Seek>(reader: &mut RunReader<R>) -> Result<[bool; 2], JsonError> {
    let (mut stdout, mut stderr) = (Utf8Check::default(), Utf8Check::default());
    each_chunk(reader, |stream, bytes| {
        match stream {
            Stream::Stdout => stdout.take(bytes),
            Stream::Stderr => stderr.take(bytes),
        }
        Ok(())
    })?;
    Ok([stdout.is_text(), stderr.is_text()])
}

/// Validates UTF-8 that comes in pieces, which may end anywhere.
#[derive(Debug, Default)]
struct Utf8Check {
    /// The start of a character whose end has not come yet.
    begun: Vec<u8>,
    invalid: bool,
}

impl Utf8Check {
    fn take(&mut self, mut bytes: &[u8]) {
        while !self.invalid && !self.begun.is_empty() {
            let Some((next, rest)) = bytes.split_first() else {
                return;
            };
            self.begun.push(*next);
            bytes = rest;
            self.settle_begun();
        }
        if !self.invalid {
            self.take_from_boundary(bytes);
        }
    }

    /// Decides about a character that has just got one more byte.
    fn settle_begun(&mut self) {
        match std::str::from_utf8(&self.begun) {
            Ok(_) => self.begun.clear(),
            Err(error) => {
                self.invalid = error.error_len().is_some() || self.begun.len() >= UTF8_MAX_BYTES;
            }
        }
    }

    fn take_from_boundary(&mut self, bytes: &[u8]) {
        if let Err(error) = std::str::from_utf8(bytes) {
            self.invalid = error.error_len().is_some();
            let begun = bytes.get(error.valid_up_to()..).unwrap_or_default();
            if !self.invalid {
                self.begun.extend_from_slice(begun);
            }
        }
    }

    fn is_text(&self) -> bool {
        !self.invalid && self.begun.is_empty()
    }
}

/// Escapes for the inside of a JSON string (RFC 8259, section 7). All that needs it is ASCII, so pieces
/// of valid UTF-8 may be cut anywhere.
fn write_escaped(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    for piece in bytes.split_inclusive(|byte| needs_escape(*byte)) {
        match piece.split_last() {
            Some((last, plain)) if needs_escape(*last) => {
                out.write_all(plain)?;
                write_escape(out, *last)?;
            }
            _ => out.write_all(piece)?,
        }
    }
    Ok(())
}

fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn write_escape(out: &mut impl Write, byte: u8) -> io::Result<()> {
    match byte {
        b'"' => out.write_all(b"\\\""),
        b'\\' => out.write_all(b"\\\\"),
        b'\n' => out.write_all(b"\\n"),
        b'\r' => out.write_all(b"\\r"),
        b'\t' => out.write_all(b"\\t"),
        _ => write!(out, "\\u{byte:04x}"),
    }
}

fn write_base64<R: BufRead + Seek>(
    out: &mut impl Write,
    reader: &mut RunReader<R>,
    stream: Stream,
) -> Result<(), JsonError> {
    let mut encoder = EncoderWriter::new(out, &STANDARD);
    each_chunk(reader, |from, bytes| match from == stream {
        true => encoder.write_all(bytes),
        false => Ok(()),
    })?;
    encoder.finish()?;
    Ok(())
}

/// Puts the commas.
struct ObjectWriter<W: Write> {
    out: BufWriter<W>,
    started: bool,
}

impl<W: Write> ObjectWriter<W> {
    fn name(&mut self, name: &str) -> io::Result<()> {
        self.out.write_all(if self.started { b"," } else { b"{" })?;
        self.started = true;
        serde_json::to_writer(&mut self.out, name)?;
        self.out.write_all(b":")
    }

    fn member(&mut self, name: &str, value: &Value) -> io::Result<()> {
        self.name(name)?;
        Ok(serde_json::to_writer(&mut self.out, value)?)
    }

    fn members(&mut self, members: &Map<String, Value>) -> io::Result<()> {
        members
            .iter()
            .try_for_each(|(name, value)| self.member(name, value))
    }

    fn end(mut self) -> io::Result<()> {
        self.out.write_all(b"}")?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::frames::Encoder;
    use base64::Engine;
    use proptest::prelude::*;
    use serde_json::json;
    use std::io::{BufReader, Cursor};

    fn recording(reads: &[(Stream, Vec<u8>)]) -> Vec<u8> {
        let mut encoder = Encoder::new();
        for (stream, bytes) in reads {
            encoder.append(*stream, bytes);
        }
        encoder.into_buffer()
    }

    fn map(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            _ => panic!("not an object"),
        }
    }

    /// Writes with a small buffer, so that characters and escapes are cut.
    fn written(reads: &[(Stream, Vec<u8>)]) -> Vec<u8> {
        let mut out = Vec::new();
        let source = BufReader::with_capacity(7, Cursor::new(recording(reads)));
        let (first, last) = (map(json!({"key": "k\"", "n": 1})), map(json!({"z": null})));
        write_object(&mut out, &first, Some(source), &last).unwrap();
        out
    }

    fn stream_of(reads: &[(Stream, Vec<u8>)], stream: Stream) -> Vec<u8> {
        let of = reads.iter().filter(|(from, _)| *from == stream);
        of.flat_map(|(_, bytes)| bytes.clone()).collect()
    }

    /// The bytes that a reader of the object gets, and their encoding.
    fn bytes_in(object: &Value, stream: Stream) -> (Vec<u8>, String) {
        let text = object[stream.word()].as_str().unwrap();
        let encoding = object[encoding_field(stream)].as_str().unwrap();
        let bytes = match encoding {
            "utf-8" => text.as_bytes().to_vec(),
            _ => STANDARD.decode(text).unwrap(),
        };
        (bytes, encoding.to_owned())
    }

    #[test]
    fn fields_stand_in_order_around_the_streams() {
        let reads = [
            (Stream::Stdout, b"a\x1b\"\\\n".to_vec()),
            (Stream::Stderr, vec![0xff, 0, 1]),
        ];
        let text = String::from_utf8(written(&reads)).unwrap();
        assert_eq!(
            text,
            r#"{"key":"k\"","n":1,"stdout":"a\u001b\"\\\n","stderr":"/wAB","stdout_encoding":"utf-8","stderr_encoding":"base64","z":null}"#
        );
    }

    #[test]
    fn without_a_recording_the_streams_are_null() {
        let mut out = Vec::new();
        let none: Option<Cursor<Vec<u8>>> = None;
        write_object(&mut out, &Map::new(), none, &Map::new()).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            r#"{"stdout":null,"stderr":null,"stdout_encoding":null,"stderr_encoding":null}"#
        );
    }

    #[test]
    fn characters_that_are_cut_stay_text_and_half_ones_do_not() {
        let snow = "é☃😀".repeat(9);
        let mut reads: Vec<_> = snow.bytes().map(|b| (Stream::Stdout, vec![b])).collect();
        reads.insert(1, (Stream::Stderr, "half ☃".as_bytes()[..7].to_vec()));
        let object: Value = serde_json::from_slice(&written(&reads)).unwrap();
        assert_eq!(object["stdout"], snow);
        assert_eq!(object["stdout_encoding"], "utf-8");
        assert_eq!(object["stderr_encoding"], "base64");
    }

    #[test]
    fn a_corrupt_recording_is_an_error() {
        let source = Cursor::new(b"no recording".to_vec());
        let result = write_object(io::sink(), &Map::new(), Some(source), &Map::new());
        assert!(matches!(
            result,
            Err(JsonError::Read(ReadError::Corrupt(_)))
        ));
    }

    #[test]
    fn errors_of_the_target_are_returned() {
        let reads = [(Stream::Stdout, vec![b'x'; 100_000])];
        let mut room = [0u8; 100];
        let source = Cursor::new(recording(&reads));
        let result = write_object(room.as_mut_slice(), &Map::new(), Some(source), &Map::new());
        assert!(matches!(result, Err(JsonError::Write(_))));
    }

    fn piece() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            3 => ".{0,12}".prop_map(String::into_bytes),
            2 => "[\"\\\\\\x00-\\x1fé☃😀]{0,12}".prop_map(String::into_bytes),
            1 => proptest::collection::vec(any::<u8>(), 0..6),
        ]
    }

    proptest! {
        #[test]
        fn what_was_recorded_is_parsed_back(
            pieces in proptest::collection::vec((any::<bool>(), piece()), 0..30),
            cut in 1usize..5,
        ) {
            let mut reads = Vec::new();
            for (first, bytes) in &pieces {
                let stream = if *first { Stream::Stdout } else { Stream::Stderr };
                reads.extend(bytes.chunks(cut).map(|part| (stream, part.to_vec())));
            }
            let object: Value = serde_json::from_slice(&written(&reads)).unwrap();
            for stream in Stream::ALL {
                let expected = stream_of(&reads, stream);
                let (bytes, encoding) = bytes_in(&object, stream);
                prop_assert_eq!(encoding == "utf-8", std::str::from_utf8(&expected).is_ok());
                prop_assert_eq!(bytes, expected);
            }
        }

        #[test]
        fn pieces_are_judged_as_the_whole(
            bytes in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..12),
                ".{0,6}".prop_map(String::into_bytes),
                proptest::collection::vec(
                    prop_oneof![Just(0xf0u8), Just(0x9f), Just(0x80), Just(0xe2), Just(0x98),
                        Just(0x83), Just(0xed), Just(0xa0), Just(b'a')], 0..8),
            ],
            cut in 1usize..5,
        ) {
            let mut check = Utf8Check::default();
            bytes.chunks(cut).for_each(|piece| check.take(piece));
            prop_assert_eq!(check.is_text(), std::str::from_utf8(&bytes).is_ok());
        }
    }
}
