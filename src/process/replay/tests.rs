use super::*;
use crate::process::spool::{Recorder, Stored};
use std::fs::File;
use std::io::{PipeReader, Read, Seek, Write};
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

/// A recording of these reads, in a file if it is large, with the directory that holds it.
fn recorded(reads: &[(Stream, Vec<u8>)]) -> (tempfile::TempDir, Stored) {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::new(dir.path(), "spool", u64::MAX);
    for (stream, bytes) in reads {
        recorder.record(*stream, bytes);
    }
    (dir, recorder.finish().make_durable())
}

fn open(stored: &Stored) -> Recording {
    stored.place.open().unwrap().unwrap()
}

fn reading(mut reader: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        all
    })
}

fn numbers(count: u32) -> Vec<u8> {
    (0..count).flat_map(u32::to_le_bytes).collect()
}

fn pair(bytes: usize) -> Vec<(Stream, Vec<u8>)> {
    vec![
        (Stream::Stdout, vec![b'a'; bytes]),
        (Stream::Stderr, vec![b'b'; bytes]),
        (Stream::Stdout, vec![b'c'; bytes]),
    ]
}

fn set_flags(fd: RawFd, add: i32) {
    // SAFETY: F_GETFL only reads, F_SETFL takes an int.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        assert_eq!(libc::fcntl(fd, libc::F_SETFL, flags | add), 0);
    }
}

fn flags(fd: RawFd) -> i32 {
    // SAFETY: F_GETFL only reads.
    unsafe { libc::fcntl(fd, libc::F_GETFL) }
}

/// Replays to two pipes and returns what came out of each.
fn through_pipes(recording: Recording, nonblocking: bool) -> (Vec<u8>, Vec<u8>) {
    let ((out_reader, out), (err_reader, err)) = (io::pipe().unwrap(), io::pipe().unwrap());
    if nonblocking {
        set_flags(out.as_raw_fd(), libc::O_NONBLOCK);
        set_flags(err.as_raw_fd(), libc::O_NONBLOCK);
    }
    let before = flags(out.as_raw_fd());
    let (got_out, got_err) = (reading(out_reader), reading(err_reader));
    let (stdout, stderr) = (Target::Fd(out.as_raw_fd()), Target::Fd(err.as_raw_fd()));
    replay(recording, stdout, stderr).unwrap();
    assert_eq!(flags(out.as_raw_fd()), before);
    drop((out, err));
    (got_out.join().unwrap(), got_err.join().unwrap())
}

#[test]
fn small_and_large_recordings_come_back_whole() {
    for bytes in [1, 5000, 200_000, 1 << 20] {
        let (_dir, stored) = recorded(&pair(bytes));
        let mut stdout = vec![b'a'; bytes];
        stdout.extend(vec![b'c'; bytes]);
        for nonblocking in [false, true] {
            let (out, err) = through_pipes(open(&stored), nonblocking);
            assert!(out == stdout && err == vec![b'b'; bytes]);
        }
    }
}

#[test]
fn many_megabytes_pass_through_a_pipe() {
    let data = numbers(4 << 20);
    let (_dir, stored) = recorded(&[(Stream::Stdout, data.clone())]);
    assert!(through_pipes(open(&stored), false).0 == data);
}

#[test]
fn the_order_of_both_streams_is_kept() {
    for bytes in [3, 100_000] {
        let (_dir, stored) = recorded(&pair(bytes));
        let (reader, writer) = io::pipe().unwrap();
        let got = reading(reader);
        let both = Target::Fd(writer.as_raw_fd());
        replay(open(&stored), both, both).unwrap();
        drop(writer);
        let expected = [b'a', b'b', b'c'].map(|b| vec![b; bytes]).concat();
        assert!(got.join().unwrap() == expected);
    }
}

#[test]
fn one_stream_can_be_asked_for() {
    for bytes in [3, 100_000] {
        let (_dir, stored) = recorded(&pair(bytes));
        let (reader, writer) = io::pipe().unwrap();
        let got = reading(reader);
        replay(open(&stored), Target::Skip, Target::Fd(writer.as_raw_fd())).unwrap();
        drop(writer);
        assert!(got.join().unwrap() == vec![b'b'; bytes]);
    }
}

#[test]
fn files_sockets_and_appending_files_are_served() {
    let data = numbers(100_000);
    let (dir, stored) = recorded(&[(Stream::Stdout, data.clone())]);
    let path = dir.path().join("target");
    for append in [false, true] {
        let mut file = File::options()
            .create(true)
            .append(append)
            .write(true)
            .read(true)
            .open(&path)
            .unwrap();
        file.set_len(0).unwrap();
        file.write_all(b"before ").unwrap();
        replay(open(&stored), Target::Fd(file.as_raw_fd()), Target::Skip).unwrap();
        let mut all = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut all).unwrap();
        assert!(all == [b"before ", data.as_slice()].concat());
    }
    let (reader, writer) = UnixStream::pair().unwrap();
    let got = reading(reader);
    replay(open(&stored), Target::Fd(writer.as_raw_fd()), Target::Skip).unwrap();
    drop(writer);
    assert!(got.join().unwrap() == data);
}

#[test]
fn a_terminal_is_served() {
    let (mut master, mut slave) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: both descriptors live through the call; null stands for defaults.
    let result = unsafe { libc::openpty(&mut master, &mut slave, none, none.cast(), none.cast()) };
    assert_eq!(result, 0);
    // SAFETY: openpty has just opened both, and nobody else owns them.
    let (mut master, slave) = unsafe { (File::from_raw_fd(master), File::from_raw_fd(slave)) };
    let (_dir, stored) = recorded(&[(Stream::Stdout, b"line\n".repeat(20_000))]);
    let expected = b"line\r\n".repeat(20_000);
    let mut all = vec![0; expected.len()];
    let got = std::thread::spawn(move || master.read_exact(&mut all).map(|()| (all, master)));
    replay(open(&stored), Target::Fd(slave.as_raw_fd()), Target::Skip).unwrap();
    assert!(got.join().unwrap().unwrap().0 == expected);
}

/// A pipe whose reader is gone.
fn broken_pipe() -> io::PipeWriter {
    let (reader, writer): (PipeReader, _) = io::pipe().unwrap();
    drop(reader);
    writer
}

#[test]
fn a_reader_that_left_ends_its_stream_quietly() {
    for bytes in [10, 100_000] {
        let (_dir, stored) = recorded(&pair(bytes));
        let broken = broken_pipe();
        let (reader, writer) = io::pipe().unwrap();
        let got = reading(reader);
        let (stdout, stderr) = (
            Target::Fd(broken.as_raw_fd()),
            Target::Fd(writer.as_raw_fd()),
        );
        replay(open(&stored), stdout, stderr).unwrap();
        drop(writer);
        assert!(got.join().unwrap() == vec![b'b'; bytes]);
    }
}

#[test]
fn a_failing_stream_is_named_and_the_other_is_served() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    for bytes in [10, 100_000] {
        let (_dir, stored) = recorded(&pair(bytes));
        for (target, number) in [
            (Target::Fd(full.as_raw_fd()), libc::ENOSPC),
            (Target::Absent, libc::EBADF),
            (Target::Fd(1 << 20), libc::EBADF),
        ] {
            let (reader, writer) = io::pipe().unwrap();
            let got = reading(reader);
            let error = replay(open(&stored), target, Target::Fd(writer.as_raw_fd()));
            drop(writer);
            assert!(got.join().unwrap() == vec![b'b'; bytes]);
            match error {
                Err(ReplayError::Write { stream, error }) => {
                    assert_eq!(stream, Stream::Stdout);
                    assert_eq!(error.raw_os_error(), Some(number));
                }
                other => panic!("{target:?}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_closed_target_is_no_error_when_nothing_is_to_be_written() {
    let (_dir, stored) = recorded(&[(Stream::Stderr, b"x".to_vec())]);
    let null = File::options().write(true).open("/dev/null").unwrap();
    replay(open(&stored), Target::Absent, Target::Fd(null.as_raw_fd())).unwrap();
}

#[test]
fn a_corrupt_recording_is_an_error() {
    let null = File::options().write(true).open("/dev/null").unwrap();
    let target = Target::Fd(null.as_raw_fd());
    let recording = Recording::from_bytes(b"not a recording".to_vec());
    assert!(matches!(
        replay(recording, target, target),
        Err(ReplayError::Read(ReadError::Corrupt(_)))
    ));
}
