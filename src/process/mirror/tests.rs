//! Against real descriptors. A write that waited would hang a test, so each runs under a limit.

use super::*;
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::Duration;

/// Runs `body` in a thread and fails if it does not end in time.
fn within_limit(body: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        body();
        let _ = done.send(());
    });
    match wait.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("a write waited"),
        _ => thread.join().unwrap(),
    }
}

fn flags(fd: RawFd) -> i32 {
    // SAFETY: F_GETFL only reads.
    unsafe { libc::fcntl(fd, libc::F_GETFL) }
}

fn set_nonblocking(fd: RawFd) {
    // SAFETY: F_SETFL takes an int.
    assert_eq!(
        unsafe { libc::fcntl(fd, libc::F_SETFL, flags(fd) | libc::O_NONBLOCK) },
        0
    );
}

/// The two ends of a pseudo-terminal: master, slave.
fn pty() -> (File, File) {
    let (mut master, mut slave) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: both descriptors live through the call; null stands for defaults.
    let result = unsafe { libc::openpty(&mut master, &mut slave, none, none.cast(), none.cast()) };
    assert_eq!(result, 0);
    // SAFETY: openpty has just opened both, and nobody else owns them.
    unsafe { (File::from_raw_fd(master), File::from_raw_fd(slave)) }
}

/// Bytes whose order can be told.
fn numbers(count: u32) -> Vec<u8> {
    (0..count).flat_map(u32::to_le_bytes).collect()
}

/// Lets the mirror write whenever poll says so, until its queue is empty.
fn drain(mirror: &mut Mirror) {
    while let Some((fd, events)) = mirror.poll_fd() {
        assert_eq!(events, libc::POLLOUT);
        poll_writable(fd, -1);
        mirror.on_writable();
    }
}

/// Pushes everything, minding the back pressure.
fn push_all(mirror: &mut Mirror, bytes: &[u8]) {
    for piece in bytes.chunks(64 * 1024) {
        while !mirror.wants_more() {
            let (fd, _) = mirror.poll_fd().unwrap();
            poll_writable(fd, -1);
            mirror.on_writable();
        }
        mirror.push(piece);
        assert!(mirror.queued_bytes() <= QUEUE_LIMIT_BYTES + 64 * 1024);
    }
    drain(mirror);
}

/// A full pipe takes nothing, then everything, in order; the shared description keeps its flags.
fn pipe_keeps_all(writer_of: fn(RawFd) -> Writer) {
    within_limit(move || {
        let (mut reader, writer) = io::pipe().unwrap();
        let fd = writer.as_raw_fd();
        let before = flags(fd);
        let mut mirror = Mirror::with_writer(fd, writer_of(fd));
        let data = numbers(100_000);
        mirror.push(&data);
        assert!(mirror.queued_bytes() > 0 && !mirror.wants_more());
        assert!(!poll_writable(mirror.poll_fd().unwrap().0, 0));
        mirror.on_writable();
        let queued = mirror.queued_bytes();
        assert!(queued > 0, "a full pipe takes nothing");
        let thread = std::thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        drain(&mut mirror);
        assert_eq!((mirror.state(), flags(fd)), (MirrorState::Live, before));
        mirror.detach();
        drop(writer);
        assert!(thread.join().unwrap().unwrap() == data);
    });
}

#[test]
fn a_full_pipe_does_not_block_with_nowait() {
    pipe_keeps_all(|_| Writer::NoWait);
}

#[test]
fn a_full_pipe_does_not_block_when_reopened() {
    pipe_keeps_all(|fd| {
        let own = reopen(fd, PIPE_PIECE_BYTES);
        assert!(matches!(own, Writer::Own(_)));
        own
    });
}

#[test]
fn a_full_pipe_does_not_block_when_polled() {
    pipe_keeps_all(|_| Writer::Polled {
        piece_bytes: PIPE_PIECE_BYTES,
    });
}

#[test]
fn a_nonblocking_pipe_loses_nothing() {
    within_limit(|| {
        let (mut reader, writer) = io::pipe().unwrap();
        set_nonblocking(writer.as_raw_fd());
        let mut mirror = Mirror::new(Some(writer.as_raw_fd()));
        let data = numbers(500_000);
        let expected = data.clone();
        let thread = std::thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        push_all(&mut mirror, &data);
        drop(mirror);
        drop(writer);
        assert!(thread.join().unwrap().unwrap() == expected);
    });
}

#[test]
fn a_kernel_without_nowait_leads_to_a_description_of_our_own() {
    within_limit(|| {
        // Files that do not offer RWF_NOWAIT answer as older kernels do for pipes.
        let (_master, slave) = pty();
        let mut mirror = Mirror::with_writer(slave.as_raw_fd(), Writer::NoWait);
        mirror.push(b"x");
        assert!(matches!(mirror.writer, Writer::Own(_)));
        assert_eq!(mirror.state(), MirrorState::Live);
    });
}

#[test]
fn a_socket_takes_everything_without_blocking() {
    within_limit(|| {
        let (mut reader, writer) = UnixStream::pair().unwrap();
        let fd = writer.as_raw_fd();
        let before = flags(fd);
        let mut mirror = Mirror::new(Some(fd));
        assert!(matches!(mirror.writer, Writer::Socket));
        let data = numbers(500_000);
        mirror.push(&data);
        assert!(mirror.queued_bytes() > 0);
        let thread = std::thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        drain(&mut mirror);
        assert_eq!(flags(fd), before);
        drop(writer);
        assert!(thread.join().unwrap().unwrap() == data);
    });
}

/// A terminal that nobody reads takes nothing more, then goes on.
fn terminal_keeps_all(writer_of: fn(RawFd) -> Writer) {
    within_limit(move || {
        let (mut master, slave) = pty();
        let fd = slave.as_raw_fd();
        let before = flags(fd);
        let mut mirror = Mirror::with_writer(fd, writer_of(fd));
        let line = b"0123456789\n".repeat(20_000);
        mirror.push(&line);
        assert!(mirror.queued_bytes() > 0);
        let expected = b"0123456789\r\n".repeat(20_000);
        let length = expected.len();
        let thread = std::thread::spawn(move || {
            let mut all = vec![0; length];
            master.read_exact(&mut all).map(|()| (all, master))
        });
        drain(&mut mirror);
        assert_eq!((mirror.state(), flags(fd)), (MirrorState::Live, before));
        assert!(thread.join().unwrap().unwrap().0 == expected);
    });
}

#[test]
fn a_stalled_terminal_does_not_block_when_reopened() {
    terminal_keeps_all(|fd| {
        let own = Mirror::new(Some(fd)).writer;
        assert!(matches!(own, Writer::Own(_)));
        own
    });
}

#[test]
fn a_stalled_terminal_does_not_block_when_polled() {
    terminal_keeps_all(|_| Writer::Polled {
        piece_bytes: TERMINAL_PIECE_BYTES,
    });
}

#[test]
fn the_master_of_a_terminal_is_not_mistaken_for_a_new_one() {
    within_limit(|| {
        let (master, mut slave) = pty();
        let mut mirror = Mirror::new(Some(master.as_raw_fd()));
        mirror.push(b"typed\n");
        let mut typed = [0; 6];
        slave.read_exact(&mut typed).unwrap();
        assert_eq!(&typed, b"typed\n");
    });
}

#[test]
fn a_closed_reader_ends_the_mirror_quietly() {
    within_limit(|| {
        for writer_of in [
            |_| Writer::NoWait,
            |fd| reopen(fd, PIPE_PIECE_BYTES),
            |_| Writer::Polled { piece_bytes: 1 },
        ] as [fn(RawFd) -> Writer; 3]
        {
            let (reader, writer) = io::pipe().unwrap();
            let fd = writer.as_raw_fd();
            let mut mirror = Mirror::with_writer(fd, writer_of(fd));
            mirror.push(&[0; 200_000]);
            assert_eq!(mirror.state(), MirrorState::Live);
            drop(reader);
            drain(&mut mirror);
            assert_eq!(mirror.state(), MirrorState::Closed);
            mirror.push(&[0; 1_000_000]);
            assert!(mirror.wants_more() && mirror.queued_bytes() == 0);
        }
        let (reader, writer) = UnixStream::pair().unwrap();
        drop(reader);
        let mut mirror = Mirror::new(Some(writer.as_raw_fd()));
        mirror.push(b"x");
        assert_eq!(mirror.state(), MirrorState::Closed);
    });
}

#[test]
fn a_fifo_without_readers_that_cannot_be_reopened_is_closed_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: a string with its final zero that lives through the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let both = File::options().read(true).write(true).open(&path).unwrap();
    let writer = File::options().write(true).open(&path).unwrap();
    drop(both);
    let fd = writer.as_raw_fd();
    let mut mirror = Mirror::with_writer(fd, reopen(fd, PIPE_PIECE_BYTES));
    assert!(matches!(mirror.writer, Writer::Polled { .. }));
    mirror.push(b"x");
    assert_eq!(mirror.state(), MirrorState::Closed);
}

#[test]
fn failures_are_told_only_when_something_had_to_be_written() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let read_only = File::open("/dev/null").unwrap();
    let (reader, _writer) = io::pipe().unwrap();
    for (fd, number) in [
        (None, libc::EBADF),
        (Some(1 << 20), libc::EBADF),
        (Some(full.as_raw_fd()), libc::ENOSPC),
        (Some(read_only.as_raw_fd()), libc::EBADF),
        (Some(reader.as_raw_fd()), libc::EBADF),
    ] {
        let mut mirror = Mirror::new(fd);
        mirror.push(b"");
        assert_eq!(mirror.state(), MirrorState::Live);
        mirror.push(b"x");
        assert_eq!(mirror.state(), MirrorState::Failed(number), "{fd:?}");
        mirror.push(b"x");
        assert!(mirror.wants_more() && mirror.poll_fd().is_none());
    }
}

#[test]
fn regular_files_and_null_are_written_at_once() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"before ").unwrap();
    let mut mirror = Mirror::new(Some(file.as_raw_fd()));
    mirror.push(&[b'x'; 1 << 20]);
    assert_eq!(mirror.queued_bytes(), 0);
    assert_eq!(file.metadata().unwrap().len(), (1 << 20) + 7);
    let null = File::options().write(true).open("/dev/null").unwrap();
    let mut mirror = Mirror::new(Some(null.as_raw_fd()));
    mirror.push(&[b'x'; 1 << 20]);
    assert_eq!(mirror.queued_bytes(), 0);
}

#[test]
fn a_detached_mirror_lets_go() {
    let (mut reader, writer) = io::pipe().unwrap();
    let fd = writer.as_raw_fd();
    let mut mirror = Mirror::with_writer(fd, reopen(fd, PIPE_PIECE_BYTES));
    mirror.push(&[1; 200_000]);
    assert!(mirror.queued_bytes() > 0);
    mirror.detach();
    mirror.push(b"more");
    assert!(mirror.poll_fd().is_none() && mirror.queued_bytes() == 0);
    drop(writer);
    let mut all = Vec::new();
    reader.read_to_end(&mut all).unwrap();
    assert!(all.len() < 200_000, "only what the pipe held");
}

/// Two descriptors of one pipe.
fn shared_pipe() -> (PipeReader, PipeWriter, PipeWriter) {
    let (reader, writer) = io::pipe().unwrap();
    let second = writer.try_clone().unwrap();
    (reader, writer, second)
}

#[test]
fn the_order_of_reading_survives_back_pressure() {
    within_limit(|| {
        let (mut reader, out, err) = shared_pipe();
        let mut pair = MirrorPair::new(Some(out.as_raw_fd()), Some(err.as_raw_fd()));
        let data = numbers(50_000);
        for (i, piece) in data.chunks(1000).enumerate() {
            pair.push(Stream::ALL[i % 2], piece);
        }
        assert!(pair.queued_bytes() > 0);
        assert_eq!(pair.poll_fds().count(), 1);
        let thread = std::thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        loop {
            let Some((stream, fd, _)) = pair.poll_fds().next() else {
                break;
            };
            poll_writable(fd, -1);
            pair.on_writable(stream);
        }
        drop((pair, out, err));
        assert!(thread.join().unwrap().unwrap() == data);
    });
}

#[test]
fn only_the_same_place_shares_a_queue() {
    let shared = |a: RawFd, b: RawFd| MirrorPair::new(Some(a), Some(b)).stderr.is_none();
    let (_reader, out, err) = shared_pipe();
    assert!(shared(out.as_raw_fd(), err.as_raw_fd()));
    let (other_reader, other) = io::pipe().unwrap();
    assert!(!shared(out.as_raw_fd(), other.as_raw_fd()));
    assert!(!shared(other.as_raw_fd(), other_reader.as_raw_fd()));
    let (socket, peer) = UnixStream::pair().unwrap();
    let same = socket.try_clone().unwrap();
    assert!(shared(socket.as_raw_fd(), same.as_raw_fd()));
    assert!(!shared(socket.as_raw_fd(), peer.as_raw_fd()));
    let (_master, slave) = pty();
    let reopened = File::options()
        .write(true)
        .open(format!("/proc/self/fd/{}", slave.as_raw_fd()))
        .unwrap();
    assert!(shared(slave.as_raw_fd(), reopened.as_raw_fd()));
    let (_master, other) = pty();
    assert!(!shared(slave.as_raw_fd(), other.as_raw_fd()));
    assert!(!shared(slave.as_raw_fd(), out.as_raw_fd()));
}

#[test]
fn a_null_pair_takes_everything() {
    let mut pair = MirrorPair::null();
    for stream in Stream::ALL {
        pair.push(stream, &[0; 2 * QUEUE_LIMIT_BYTES]);
        assert!(pair.wants_more(stream) && pair.state(stream) == MirrorState::Live);
    }
    assert_eq!(pair.poll_fds().count(), 0);
}

#[test]
fn a_stalled_stdout_does_not_hold_up_stderr() {
    within_limit(|| {
        let (_reader, out) = io::pipe().unwrap();
        let (mut err_reader, err) = io::pipe().unwrap();
        let mut pair = MirrorPair::new(Some(out.as_raw_fd()), Some(err.as_raw_fd()));
        while pair.wants_more(Stream::Stdout) {
            pair.push(Stream::Stdout, &[0; 64 * 1024]);
        }
        assert!(pair.wants_more(Stream::Stderr));
        pair.push(Stream::Stderr, b"still here");
        let mut text = [0; 10];
        err_reader.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"still here");
        pair.detach();
        assert_eq!(pair.queued_bytes(), 0);
        assert_eq!(pair.state(Stream::Stdout), MirrorState::Live);
    });
}

#[test]
fn much_output_passes_in_bounded_memory() {
    use crate::process::spool::Recorder;
    within_limit(|| {
        const READ_BYTES: usize = 64 * 1024;
        let dir = tempfile::tempdir().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let mut mirror = Mirror::new(Some(writer.as_raw_fd()));
        let mut recorder = Recorder::new(dir.path(), "spool", 16 << 20);
        let thread = std::thread::spawn(move || io::copy(&mut reader, &mut io::sink()));
        let read = vec![b'z'; READ_BYTES];
        let total = 300 * (1 << 20) / READ_BYTES;
        for _ in 0..total {
            while !mirror.wants_more() {
                poll_writable(mirror.poll_fd().unwrap().0, -1);
                mirror.on_writable();
            }
            mirror.push(&read);
            recorder.record(Stream::Stdout, &read);
            assert!(mirror.queue.capacity() <= 2 * (QUEUE_LIMIT_BYTES + READ_BYTES));
            assert!(recorder.buffer_bytes() <= 4 * READ_BYTES);
        }
        drain(&mut mirror);
        drop((mirror, writer));
        assert_eq!(thread.join().unwrap().unwrap(), (total * READ_BYTES) as u64);
        let stored = recorder.finish().make_durable();
        assert_eq!((stored.stdout_bytes, stored.truncated), (16 << 20, true));
    });
}
