use super::*;
use crate::domain::frames::{HEADER_BYTES, runs};
use std::os::unix::fs::PermissionsExt;

const NONCE: Nonce = Nonce([0xab; 16]);

fn stem() -> PathBuf {
    spool_stem(OsStr::new("idem.db"), &NONCE, 3)
}

fn names(dir: &Path) -> Vec<String> {
    let files = fs::read_dir(dir).unwrap();
    files
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Why a recorder gave up, if it did.
fn lost(recorder: &Recorder) -> Option<&str> {
    match &recorder.sink {
        Sink::Nothing { lost } => lost.as_deref(),
        Sink::Memory { .. } | Sink::File(_) => None,
    }
}

/// The two streams of a recording.
fn split(recording: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    for run in runs(recording) {
        match run.unwrap() {
            (Stream::Stdout, bytes) => stdout.extend_from_slice(bytes),
            (Stream::Stderr, bytes) => stderr.extend_from_slice(bytes),
        }
    }
    (stdout, stderr)
}

#[test]
fn small_output_stays_inline_up_to_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let most = INLINE_MAX_BYTES as usize - HEADER_BYTES;
    let mut recorder = Recorder::new(dir.path(), stem(), 1 << 30);
    recorder.record(Stream::Stdout, &vec![b'x'; most]);
    let stored = recorder.finish().make_durable();
    assert!(names(dir.path()).is_empty());
    let StoredPlace::Inline(bytes) = &stored.place else {
        panic!("not inline: {stored:?}");
    };
    assert_eq!(split(bytes).0.len(), most);
    assert_eq!(
        (stored.stdout_bytes, stored.truncated),
        (most as u64, false)
    );

    let mut recorder = Recorder::new(dir.path(), stem(), 1 << 30);
    recorder.record(Stream::Stdout, &vec![b'x'; most + 1]);
    let stored = recorder.finish().make_durable();
    assert!(matches!(stored.place, StoredPlace::File { .. }));
}

#[test]
fn large_output_goes_to_a_private_file_that_is_named_when_durable() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::new(dir.path(), stem(), 1 << 30);
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    for i in 0..1000u32 {
        let line = vec![i as u8; (i % 700) as usize];
        if i % 50 == 0 {
            recorder.record(Stream::Stderr, &line);
            stderr.extend_from_slice(&line);
        } else {
            recorder.record(Stream::Stdout, &line);
            stdout.extend_from_slice(&line);
        }
    }
    let recorded = recorder.finish();
    let part = "idem.db-out-abababababababababababababababab-3.part";
    assert_eq!(names(dir.path()), [part]);
    let mode = fs::metadata(dir.path().join(part)).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let mut early = Vec::new();
    let mut recording = recorded.open().unwrap().unwrap();
    recording.read_to_end(&mut early).unwrap();

    let stored = recorded.make_durable();
    let StoredPlace::File { path, len_bytes } = &stored.place else {
        panic!("not a file: {stored:?}");
    };
    assert_eq!(path, &dir.path().join(stem()));
    let bytes = fs::read(path).unwrap();
    assert_eq!((bytes.len() as u64, &bytes), (*len_bytes, &early));
    assert_eq!(split(&bytes), (stdout, stderr));
    open_spool(path, *len_bytes).unwrap();
    stored.discard();
    assert!(names(dir.path()).is_empty());
}

#[test]
fn a_long_run_has_one_header_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::new(dir.path(), stem(), 1 << 30);
    for _ in 0..100 {
        recorder.record(Stream::Stdout, &[b'y'; 5000]);
    }
    recorder.record(Stream::Stderr, b"end");
    let stored = recorder.finish().make_durable();
    let StoredPlace::File { path, .. } = &stored.place else {
        panic!("not a file");
    };
    let bytes = fs::read(path).unwrap();
    assert_eq!(bytes.len(), 2 * HEADER_BYTES + 500_003);
    assert_eq!(split(&bytes), (vec![b'y'; 500_000], b"end".to_vec()));
}

#[test]
fn the_stored_copy_ends_at_the_limit_of_both_streams() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::new(dir.path(), stem(), 10);
    recorder.record(Stream::Stdout, b"123456");
    recorder.record(Stream::Stderr, b"7890");
    let whole = recorder.finish().make_durable();
    assert!(!whole.truncated);

    let mut recorder = Recorder::new(dir.path(), stem(), 10);
    recorder.record(Stream::Stdout, b"123456");
    recorder.record(Stream::Stderr, b"7890ab");
    recorder.record(Stream::Stdout, b"more");
    let cut = recorder.finish().make_durable();
    assert_eq!(cut.place, whole.place);
    assert_eq!(
        (cut.stdout_bytes, cut.stderr_bytes, cut.truncated),
        (6, 4, true)
    );
}

#[test]
fn counting_keeps_nothing() {
    let mut recorder = Recorder::counting();
    recorder.record(Stream::Stdout, &[0; 100_000]);
    recorder.record(Stream::Stderr, b"abc");
    let recorded = recorder.finish();
    assert!(recorded.open().unwrap().is_none());
    let stored = recorded.make_durable();
    assert_eq!(stored.place, StoredPlace::Nothing { lost: None });
    assert_eq!((stored.stdout_bytes, stored.stderr_bytes), (100_000, 3));
    assert!(!stored.truncated);
}

#[test]
fn a_failing_write_loses_the_recording_and_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let part = dir.path().join(stem()).with_extension("none");
    // A recorder whose file refuses every write, as a full disk does.
    let file = File::options().write(true).open("/dev/full").unwrap();
    fs::write(&part, b"").unwrap();
    let mut recorder = Recorder::with(
        Sink::File(PartFile {
            file,
            path: dir.path().join(stem()),
            part: part.clone(),
            named: false,
        }),
        1 << 30,
    );
    recorder.record(Stream::Stdout, &[0; 10 * WRITE_BYTES]);
    assert!(lost(&recorder).unwrap().contains("No space left"));
    assert!(!part.exists());
    assert_eq!(recorder.encoder.buffer().len(), 0);
    recorder.record(Stream::Stderr, &[0; WRITE_BYTES]);
    let stored = recorder.finish().make_durable();
    assert!(matches!(
        stored.place,
        StoredPlace::Nothing { lost: Some(_) }
    ));
    assert_eq!(stored.stderr_bytes, WRITE_BYTES as u64);
    assert!(!stored.truncated);
}

#[test]
fn a_name_that_is_taken_or_a_missing_directory_loses_the_recording() {
    let dir = tempfile::tempdir().unwrap();
    let taken = dir.path().join(format!("{}.part", stem().display()));
    fs::write(&taken, b"someone else's").unwrap();
    let mut recorder = Recorder::new(dir.path(), stem(), 1 << 30);
    recorder.record(Stream::Stdout, &[0; WRITE_BYTES]);
    assert!(lost(&recorder).is_some());
    drop(recorder);
    assert_eq!(fs::read(&taken).unwrap(), b"someone else's");

    let mut recorder = Recorder::new(dir.path().join("none"), stem(), 1 << 30);
    recorder.record(Stream::Stdout, &[0; 20_000]);
    let stored = recorder.finish().make_durable();
    assert!(matches!(
        stored.place,
        StoredPlace::Nothing { lost: Some(_) }
    ));
}

#[test]
fn a_rename_that_fails_loses_the_recording() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::new(dir.path(), stem(), 1 << 30);
    recorder.record(Stream::Stdout, &[0; WRITE_BYTES]);
    fs::create_dir(dir.path().join(stem())).unwrap();
    let stored = recorder.finish().make_durable();
    assert!(matches!(
        stored.place,
        StoredPlace::Nothing { lost: Some(_) }
    ));
    assert_eq!(names(dir.path()), [stem().to_str().unwrap()]);
}

#[test]
fn dropped_recorders_and_recordings_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::new(dir.path(), stem(), 1 << 30);
    recorder.record(Stream::Stdout, &[0; WRITE_BYTES]);
    assert_eq!(names(dir.path()).len(), 1);
    drop(recorder);
    assert!(names(dir.path()).is_empty());

    let mut recorder = Recorder::new(dir.path(), stem(), 1 << 30);
    recorder.record(Stream::Stdout, &[0; 20_000]);
    let recorded = recorder.finish();
    assert_eq!(names(dir.path()).len(), 1);
    drop(recorded);
    assert!(names(dir.path()).is_empty());
}

#[test]
fn a_recorder_holds_a_bounded_buffer() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::new(dir.path(), stem(), 8 << 20);
    let read = vec![7; 1 << 20];
    for i in 0..300 {
        let stream = Stream::ALL[i % 2];
        recorder.record(stream, &read);
        assert!(recorder.buffer_bytes() <= 4 * WRITE_BYTES);
    }
    let stored = recorder.finish().make_durable();
    assert!(stored.truncated);
    assert_eq!(stored.stdout_bytes + stored.stderr_bytes, 8 << 20);
}

#[test]
fn only_spool_files_of_this_database_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let whole = stem();
    for name in [
        whole.to_str().unwrap(),
        "idem.db-out-cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd-12.part",
        "idem.db-out-cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd-12.bak",
        "idem.db-out-short-1",
        "idem.db-wal",
        "other.db-out-abababababababababababababababab-3",
    ] {
        fs::write(dir.path().join(name), b"").unwrap();
    }
    let mut entries = list_spool(dir.path(), OsStr::new("idem.db")).unwrap();
    entries.sort_by_key(|e| e.attempt);
    let found: Vec<_> = entries
        .iter()
        .map(|e| (e.nonce, e.attempt, e.part))
        .collect();
    assert_eq!(found, [(NONCE, 3, false), (Nonce([0xcd; 16]), 12, true)]);
    assert_eq!(entries[0].path, dir.path().join(&whole));
}

#[test]
fn a_spool_file_is_checked_when_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spool");
    assert!(matches!(open_spool(&path, 3), Err(SpoolError::Missing)));
    fs::write(&path, b"abc").unwrap();
    open_spool(&path, 3).unwrap();
    assert!(matches!(
        open_spool(&path, 4),
        Err(SpoolError::WrongLength {
            expected_bytes: 4,
            found_bytes: 3
        })
    ));
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(matches!(open_spool(&link, 3), Err(SpoolError::NotAFile)));
    assert!(matches!(
        open_spool(dir.path(), 3),
        Err(SpoolError::NotAFile)
    ));
}
