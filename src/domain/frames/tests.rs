use super::*;
use proptest::prelude::*;
use std::io::Cursor;

fn stream() -> impl Strategy<Value = Stream> {
    prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)]
}

/// What neighbours of the same stream look like as runs.
fn merged(reads: &[(Stream, Vec<u8>)]) -> Vec<(Stream, Vec<u8>)> {
    let mut all: Vec<(Stream, Vec<u8>)> = Vec::new();
    for (stream, bytes) in reads.iter().filter(|(_, bytes)| !bytes.is_empty()) {
        match all.last_mut() {
            Some((last, run)) if last == stream => run.extend(bytes),
            _ => all.push((*stream, bytes.clone())),
        }
    }
    all
}

fn apply(file: &mut [u8], patch: Option<Patch>) {
    if let Some(patch) = patch {
        let at = patch.at as usize;
        file[at..at + 8].copy_from_slice(&patch.bytes);
    }
}

/// Encodes, handing the buffer on whenever it holds more than `limit` bytes.
fn encode(reads: &[(Stream, Vec<u8>)], limit: usize) -> Vec<u8> {
    let (mut encoder, mut file) = (Encoder::new(), Vec::new());
    for (stream, bytes) in reads {
        encoder.append(*stream, bytes);
        if encoder.buffer().len() > limit {
            file.extend_from_slice(encoder.buffer());
            encoder.hand_on();
            apply(&mut file, encoder.take_patch());
        }
    }
    encoder.end_run();
    apply(&mut file, encoder.take_patch());
    let len_bytes = encoder.len_bytes();
    file.extend(encoder.into_buffer());
    assert_eq!(len_bytes, file.len() as u64);
    file
}

fn decode(bytes: &[u8]) -> Result<Vec<(Stream, Vec<u8>)>, FrameError> {
    runs(bytes)
        .map(|r| r.map(|(s, b)| (s, b.to_vec())))
        .collect()
}

/// The same by pieces, from a source with a small buffer.
fn read(bytes: &[u8]) -> Result<Vec<(Stream, Vec<u8>)>, ReadError> {
    let source = io::BufReader::with_capacity(5, Cursor::new(bytes));
    let mut reader = RunReader::new(source)?;
    let mut all = Vec::new();
    while let Some(run) = reader.next_run()? {
        let mut got = Vec::new();
        loop {
            let chunk = reader.chunk()?;
            let len = chunk.len();
            if len == 0 {
                break;
            }
            got.extend_from_slice(chunk);
            reader.consume(len);
        }
        assert_eq!(&bytes[run.at as usize..][..run.len_bytes as usize], got);
        all.push((run.stream, got));
    }
    Ok(all)
}

#[test]
fn one_stream_has_one_header() {
    let reads = vec![(Stream::Stderr, b"abc".to_vec()); 1000];
    let file = encode(&reads, 64);
    assert_eq!(file.len(), HEADER_BYTES + 3000);
    assert_eq!(decode(&file).unwrap(), merged(&reads));
}

#[test]
fn corrupt_input_is_told_apart() {
    let good = encode(&[(Stream::Stdout, b"hello".to_vec())], 64);
    assert_eq!(
        decode(&good[..4]),
        Err(FrameError::CutHeader { at: 0 }),
        "cut inside the header"
    );
    assert_eq!(
        decode(&good[..11]),
        Err(FrameError::PastEnd {
            at: 0,
            len_bytes: 5,
            left_bytes: 2
        })
    );
    let mut two = good.clone();
    two.extend([7; HEADER_BYTES]);
    let unknown = FrameError::UnknownStream { at: 14, byte: 7 };
    assert_eq!(decode(&two), Err(unknown));
    assert!(matches!(read(&two), Err(ReadError::Corrupt(e)) if e == unknown));
    let huge = header(Stream::Stdout, u64::MAX);
    assert!(matches!(decode(&huge), Err(FrameError::PastEnd { .. })));
}

#[test]
fn skipped_runs_are_not_read() {
    let reads = [
        (Stream::Stdout, vec![1; 100]),
        (Stream::Stderr, vec![2; 100]),
        (Stream::Stdout, vec![3; 7]),
    ];
    let file = encode(&reads, 1 << 20);
    let mut reader = RunReader::new(Cursor::new(&file)).unwrap();
    let mut lengths = Vec::new();
    while let Some(run) = reader.next_run().unwrap() {
        lengths.push(run.len_bytes);
    }
    assert_eq!(lengths, [100, 100, 7]);
    reader.rewind().unwrap();
    assert_eq!(reader.next_run().unwrap().unwrap().len_bytes, 100);
}

proptest! {
    #[test]
    fn what_was_written_is_read_back(
        reads in proptest::collection::vec(
            (stream(), proptest::collection::vec(any::<u8>(), 0..40)), 0..60),
        limit in 0usize..300,
    ) {
        let file = encode(&reads, limit);
        prop_assert_eq!(decode(&file).unwrap(), merged(&reads));
        prop_assert_eq!(read(&file).unwrap(), merged(&reads));
    }

    #[test]
    fn any_bytes_end_in_runs_or_an_error(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
        plausible in proptest::collection::vec((0usize..200, 0u8..3), 0..60),
    ) {
        for (at, value) in plausible {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        let (whole, pieces) = (decode(&bytes), read(&bytes));
        match (whole, pieces) {
            (Ok(whole), Ok(pieces)) => prop_assert_eq!(whole, pieces),
            (Err(whole), Err(ReadError::Corrupt(pieces))) => prop_assert_eq!(whole, pieces),
            (whole, pieces) => prop_assert!(false, "{:?} and {:?}", whole, pieces),
        }
    }
}
