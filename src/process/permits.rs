//! Permits of a bulkhead: bytes of the lock file, held by the description that the whole tree of a claim
//! inherits. A holder that dies gives its permit back in that moment.

use super::locks::{ByteWatch, LockError, LockFile};
use super::session::{Session, poll, pollfd};
use crate::domain::digest::PartsDigest;
use crate::policy::bulkhead::{BulkheadSpec, enough};
use rand::RngExt as _;
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
) -> Option<u64> {
    let first = first_byte(&spec.name);
    loop {
        if let Some(offset) = try_take(locks, tree, spec, auxiliary, first) {
            return Some(offset);
        }
        let left = until.and_then(|until| session.until(until));
        if left == Some(Duration::ZERO) || session.is_over() || !session.caller_here() {
            return None;
        }
        wait(locks, spec, first, left, session);
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

/// Waits until one of the taken permits may be free, or for news from the caller.
fn wait(
    locks: &LockFile,
    spec: &BulkheadSpec,
    first: u64,
    left: Option<Duration>,
    session: &mut Session,
) {
    let count = spec.permits.min(MOST_WATCHES);
    let start = rand::rng().random_range(0..spec.permits);
    let watched = (0..count).map(|i| first + u64::from((start + i) % spec.permits));
    let watches: Result<Vec<ByteWatch>, LockError> =
        watched.map(|offset| locks.wait_free(offset)).collect();
    let watches = watches.unwrap_or_default();
    let left = if watches.is_empty() {
        Some(left.unwrap_or(BLIND_WAIT).min(BLIND_WAIT))
    } else {
        left
    };
    let mut fds: Vec<_> = watches
        .iter()
        .map(|watch| pollfd(watch.as_fd().as_raw_fd(), libc::POLLIN))
        .collect();
    fds.extend(session.poll_fds().map(|fd| pollfd(fd, libc::POLLIN)));
    poll(&mut fds, left);
    session.take_news();
}
