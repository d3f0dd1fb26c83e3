//! Recordings: any file is read without a panic, and what is written comes back.

#![no_main]

use idem::domain::frames::{Encoder, RunReader, Stream};
use libfuzzer_sys::fuzz_target;
use std::io::Cursor;

fn read(recording: &[u8]) -> Option<[Vec<u8>; 2]> {
    let mut reader = RunReader::new(Cursor::new(recording)).ok()?;
    let mut streams = [Vec::new(), Vec::new()];
    while let Some(run) = reader.next_run().ok()? {
        let [stdout, stderr] = &mut streams;
        let to = match run.stream {
            Stream::Stdout => stdout,
            Stream::Stderr => stderr,
        };
        loop {
            let chunk = reader.chunk().ok()?;
            if chunk.is_empty() {
                break;
            }
            to.extend_from_slice(chunk);
            let count = chunk.len();
            reader.consume(count);
        }
    }
    Some(streams)
}

fuzz_target!(|bytes: &[u8]| {
    let _ = read(bytes);
    let mut encoder = Encoder::new();
    let mut written = [Vec::new(), Vec::new()];
    for piece in bytes.chunks(7) {
        let odd = piece.first().is_some_and(|byte| byte % 2 == 1);
        let [stdout, stderr] = &mut written;
        let (stream, to) = match odd {
            true => (Stream::Stderr, stderr),
            false => (Stream::Stdout, stdout),
        };
        encoder.append(stream, piece);
        to.extend_from_slice(piece);
    }
    encoder.end_run();
    assert_eq!(read(&encoder.into_buffer()), Some(written));
});
