//! Permits of a bulkhead: bytes of the lock file, held by the description that the whole tree of a claim
//! inherits. A holder that dies gives its permit back in that moment.

use super::locks::{ByteWatch, LockError, LockFile};
use super::random;
use super::session::{Session, poll, pollfd};
use super::waiting_line::WaitingLine;
use crate::domain::digest::PartsDigest;
use crate::domain::duration::length;
use crate::policy::bulkhead::{BulkheadSpec, enough};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

/// How many of the taken permits a waiter watches: each costs a sleeping thread.
const MOST_WATCHES: u32 = 4;

/// Waits that cannot be watched (the kernel is out of locks) look again after this long.
const BLIND_WAIT: Duration = Duration::from_millis(250);

/// Where the bytes of a bulkhead begin: anywhere in 61 bits, by its name.
fn first_byte(name: &str) -> u64 {
    let mut digest = PartsDigest::new();
    digest.part("bulkhead", &[name.as_bytes()]);
    let bytes = digest.finish().0;
    let (head, _) = bytes.split_at(8);
    head.iter()
        .fold(0u64, |sum, byte| (sum << 8) | u64::from(*byte))
        >> 3
}

/// Takes a permit with the description `tree`, waiting until that moment. Returns its offset; none if the
/// time is over, or the session is.
pub fn take(
    locks: &LockFile,
    tree: BorrowedFd<'_>,
    spec: &BulkheadSpec,
    auxiliary: bool,
    until: Option<Duration>,
    session: &mut Session,
    line: &mut WaitingLine,
) -> Option<u64> {
    let first = first_byte(&spec.name);
    loop {
        let taken = try_take(locks, tree, spec, auxiliary, first);
        let left = until.and_then(|until| session.until(until));
        let over = left == Some(Duration::ZERO) || session.is_over() || !session.caller_here();
        if taken.is_some() || over {
            line.end();
            return taken;
        }
        wait(locks, spec, first, until, session, line);
    }
}

/// How many permits nobody holds at this moment.
pub fn free(locks: &LockFile, spec: &BulkheadSpec) -> u32 {
    let first = first_byte(&spec.name);
    let offsets = (0..spec.permits).map(|permit| first + u64::from(permit));
    let free = offsets.filter(|offset| locks.is_free(*offset).unwrap_or(false));
    u32::try_from(free.count()).unwrap_or(spec.permits)
}

fn try_take(
    locks: &LockFile,
    tree: BorrowedFd<'_>,
    spec: &BulkheadSpec,
    auxiliary: bool,
    first: u64,
) -> Option<u64> {
    let mut offsets = (0..spec.permits).map(|permit| first + u64::from(permit));
    if auxiliary {
        let free = free(locks, spec);
        if !enough(free, spec.permits, true) {
            return None;
        }
    }
    offsets.find(|offset| locks.hold_with(tree, *offset).is_ok())
}

/// Waits until one of the taken permits may be free, for news from the caller, or until that moment.
fn wait(
    locks: &LockFile,
    spec: &BulkheadSpec,
    first: u64,
    until: Option<Duration>,
    session: &mut Session,
    line: &mut WaitingLine,
) {
    let watches = watch(locks, spec, first);
    let blind = watches.is_empty().then_some(BLIND_WAIT);
    let mut fds: Vec<_> = watches
        .iter()
        .map(|watch| pollfd(watch.as_fd().as_raw_fd(), libc::POLLIN))
        .collect();
    fds.extend(session.poll_fds().map(|fd| pollfd(fd, libc::POLLIN)));
    // The watches last until there is something new, since each leaves a thread behind.
    loop {
        let again = session.say_waiting(line, |waited| waits_for(spec, waited));
        let left = until.and_then(|until| session.until(until));
        let pause = [left, again, blind].into_iter().flatten().min();
        poll(&mut fds, pause);
        session.take_news();
        let news = fds.iter().any(|fd| fd.revents != 0);
        if news || blind.is_some() || pause == left {
            return;
        }
    }
}

fn watch(locks: &LockFile, spec: &BulkheadSpec, first: u64) -> Vec<ByteWatch> {
    let count = spec.permits.min(MOST_WATCHES);
    let start = random::below(spec.permits);
    let watched = (0..count).map(|i| first + u64::from((start + i) % spec.permits));
    let watches: Result<Vec<ByteWatch>, LockError> =
        watched.map(|offset| locks.wait_free(offset)).collect();
    watches.unwrap_or_default()
}

fn waits_for(spec: &BulkheadSpec, waited: Duration) -> String {
    format!(
        "waiting for one of {} permits of {}: {} so far",
        spec.permits,
        spec.name,
        length(waited)
    )
}
