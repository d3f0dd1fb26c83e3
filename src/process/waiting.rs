//! Waiting for the end of a claim's owner, or of everything that it started, without looking again and
//! again: the kernel wakes the waiter.

use std::collections::HashSet;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::clock::monotonic;
use super::liveness::{is_elsewhere, observe};
use super::locks::{ByteWatch, LockError, LockFile};
use super::proc;
use super::queue::Queue;
use super::random;
use super::sys::check;
use crate::domain::owner::{Liveness, OwnerRef, ProcessRef};

/// How long a transaction is waited for.
const WRITER_LIMIT: Duration = Duration::from_secs(2);

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// What was waited for is gone, or may be: look again.
    OwnerGone,
    /// The limit passed first.
    TimedOut,
}

/// Waits as long as an owner is what it was found to be: until its keeper, or all that it started, is
/// gone. One that runs elsewhere is waited for by looking again after a pause.
pub fn wait_for_end(
    owner: &OwnerRef,
    liveness: &Liveness,
    locks: &Path,
    pauses: &mut ChangeWatch,
    patience: &mut Patience<'_>,
) -> io::Result<WaitEnd> {
    match liveness {
        _ if is_elsewhere(owner, locks) => pauses.wait(patience),
        Liveness::TreeAlive { .. } => wait_for_tree(owner, locks, &HashSet::new(), patience),
        _ => wait_for_owner(owner, locks, patience),
    }
}

/// Waits until the keeper of a claim is gone; no limit waits for ever.
///
/// While the lock file is the recorded one, the keeper's byte decides; otherwise the end of the recorded
/// process does. Fails where neither can be seen from here, or the kernel has no locks left.
///
/// A wait that ran out leaves a thread behind that lives until the byte is free, so the caller must not
/// fork afterwards. After `OwnerGone` there is none.
pub fn wait_for_owner(
    owner: &OwnerRef,
    lock_path: &Path,
    patience: &mut Patience<'_>,
) -> io::Result<WaitEnd> {
    if let Some(watch) = watch_byte(owner, lock_path, owner.keeper_byte)? {
        return wait_for_byte(&watch, patience);
    }
    match observe(owner, lock_path, &HashSet::new()) {
        Liveness::OwnerAlive => wait_for_process(owner.keeper, patience),
        Liveness::TreeAlive { .. } | Liveness::Gone => Ok(WaitEnd::OwnerGone),
        Liveness::OutOfSight => Err(out_of_sight()),
    }
}

/// The first and the longest pause between two looks at a store that tells nobody of its changes.
const POLL_PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Tells that a store may have changed. On this machine files of its directory were written to,
/// inotify(7): what waits for a person's decision sleeps until then. A server tells nobody (LISTEN does
/// not work behind a transaction pooler), so that the waiter looks again after a pause.
#[derive(Debug)]
pub struct ChangeWatch {
    how: How,
}

#[derive(Debug)]
enum How {
    Files {
        events: OwnedFd,
        locks: PathBuf,
    },
    /// The next pause.
    Looks(Duration),
}

impl ChangeWatch {
    /// Begins to watch the directory of a lock file. Look once more after this: what changed before is
    /// not told.
    pub fn begin(locks: &Path) -> io::Result<ChangeWatch> {
        let directory = locks.parent().unwrap_or(Path::new("."));
        let path = CString::new(directory.as_os_str().as_bytes())?;
        // SAFETY: an integer argument.
        let fd = check(unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) })?;
        // SAFETY: the descriptor is new and owned by nobody else.
        let events = unsafe { OwnedFd::from_raw_fd(fd) };
        let mask = libc::IN_MODIFY | libc::IN_CREATE | libc::IN_MOVED_TO;
        // SAFETY: the path is a C string that lives through the call.
        check(unsafe { libc::inotify_add_watch(events.as_raw_fd(), path.as_ptr(), mask) })?;
        let locks = locks.to_owned();
        Ok(ChangeWatch {
            how: How::Files { events, locks },
        })
    }

    /// A watch that is nothing but pauses, each longer than the one before, up to a second.
    pub fn by_looking() -> ChangeWatch {
        ChangeWatch {
            how: How::Looks(POLL_PAUSES.0),
        }
    }

    /// Waits for a change since the last one told.
    pub fn wait(&mut self, patience: &mut Patience<'_>) -> io::Result<WaitEnd> {
        match &mut self.how {
            How::Files { events, locks } => wait_for_files(events, locks, patience),
            How::Looks(pause) => {
                let end = wait_a_while(*pause, patience)?;
                *pause = pause.mul_f64(1.5).min(POLL_PAUSES.1);
                Ok(end)
            }
        }
    }
}

fn wait_for_files(
    events: &OwnedFd,
    locks: &Path,
    patience: &mut Patience<'_>,
) -> io::Result<WaitEnd> {
    while !patience.passed() {
        let end = wait_readable(events.as_fd(), patience)?;
        if end == WaitEnd::TimedOut {
            return Ok(end);
        }
        if take_events(events) {
            let_writer_finish(locks);
            return Ok(end);
        }
    }
    Ok(WaitEnd::TimedOut)
}

/// Waits for about so long; a crowd that began at once must not look at once.
fn wait_a_while(pause: Duration, patience: &mut Patience<'_>) -> io::Result<WaitEnd> {
    let until = monotonic() + pause.mul_f64(0.7 + 0.3 * random::fraction());
    loop {
        patience.beat();
        let now = monotonic();
        if patience.passed() {
            return Ok(WaitEnd::TimedOut);
        }
        if until <= now {
            return Ok(WaitEnd::OwnerGone);
        }
        let left = libc::c_int::try_from((until - now).as_millis() + 1).unwrap_or(1);
        let ms = match patience.poll_ms() {
            -1 => left,
            ms => ms.min(left),
        };
        poll_nothing(ms)?;
    }
}

/// Sleeps until a signal or so many milliseconds have passed.
fn poll_nothing(ms: libc::c_int) -> io::Result<()> {
    // SAFETY: no descriptors, so the pointer is not used.
    match check(unsafe { libc::poll(std::ptr::null_mut(), 0, ms) }) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

/// The first page of a transaction wakes the waiter, and only its end makes it visible, which writes to
/// no file that tells. Every writer holds the queue for its whole transaction.
fn let_writer_finish(locks: &Path) {
    if let Ok(queue) = Queue::open(locks) {
        // Without a turn the next change wakes again.
        let _ = queue.enter(WRITER_LIMIT);
    }
}

/// Takes all events; true if one is about more than the index of the write-ahead log, which readers set
/// up as well: this waiter would wake itself by looking.
fn take_events(events: &OwnedFd) -> bool {
    let mut buffer = [0u8; 4096];
    let mut changed = false;
    loop {
        let (fd, room) = (events.as_raw_fd(), buffer.len());
        // SAFETY: the buffer lives through the call and its length is given.
        let read = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), room) };
        let Some(events) = usize::try_from(read)
            .ok()
            .and_then(|read| buffer.get(..read))
        else {
            return changed;
        };
        changed |= names(events).any(|name| !name.ends_with(b"-shm"));
    }
}

/// The file names in a read of inotify events: each has a header of 16 bytes, of which the last four are
/// the length of the name that follows, padded with zeros.
fn names(mut events: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (header, rest) = events.split_at_checked(16)?;
        let length = u32::from_ne_bytes(*header.last_chunk()?);
        let (name, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        events = rest;
        name.split(|byte| *byte == 0).next()
    })
}

/// Waits until nothing is left of a claim: neither the keeper nor what it started. The PIDs in `skip`
/// do not count, as in [`observe`]; this process never does.
pub fn wait_for_tree(
    owner: &OwnerRef,
    lock_path: &Path,
    skip: &HashSet<i32>,
    patience: &mut Patience<'_>,
) -> io::Result<WaitEnd> {
    loop {
        let end = match observe(owner, lock_path, skip) {
            Liveness::Gone => return Ok(WaitEnd::OwnerGone),
            Liveness::OutOfSight => return Err(out_of_sight()),
            Liveness::OwnerAlive => wait_for_owner(owner, lock_path, patience)?,
            Liveness::TreeAlive { pids } => wait_for_some(owner, lock_path, &pids, patience)?,
        };
        if end == WaitEnd::TimedOut {
            return Ok(end);
        }
    }
}

/// Waits until the tree's byte is free and each of these processes has ended.
fn wait_for_some(
    owner: &OwnerRef,
    lock_path: &Path,
    pids: &[i32],
    patience: &mut Patience<'_>,
) -> io::Result<WaitEnd> {
    if let Some(watch) = watch_byte(owner, lock_path, owner.tree_byte)?
        && wait_for_byte(&watch, patience)? == WaitEnd::TimedOut
    {
        return Ok(WaitEnd::TimedOut);
    }
    for pid in pids {
        let Ok(process) = proc::process(*pid) else {
            continue;
        };
        if wait_for_process(process.id, patience)? == WaitEnd::TimedOut {
            return Ok(WaitEnd::TimedOut);
        }
    }
    Ok(WaitEnd::OwnerGone)
}

/// A watch on a byte of the recorded lock file; nothing where another file, or none, is at its path.
fn watch_byte(owner: &OwnerRef, path: &Path, byte: u64) -> io::Result<Option<ByteWatch>> {
    let Ok(locks) = LockFile::open_to_observe(path) else {
        return Ok(None);
    };
    if locks.identity() != owner.lock_file {
        return Ok(None);
    }
    match locks.wait_free(byte) {
        Ok(watch) => Ok(Some(watch)),
        Err(LockError::Replaced) => Ok(None),
        Err(error) => Err(system_error(error)),
    }
}

fn wait_for_byte(watch: &ByteWatch, patience: &mut Patience<'_>) -> io::Result<WaitEnd> {
    if wait_readable(watch.as_fd(), patience)? == WaitEnd::TimedOut {
        return Ok(WaitEnd::TimedOut);
    }
    watch.is_ready().map_err(system_error)?;
    Ok(WaitEnd::OwnerGone)
}

fn wait_for_process(process: ProcessRef, patience: &mut Patience<'_>) -> io::Result<WaitEnd> {
    match proc::open(process)? {
        Some(pidfd) => wait_readable(pidfd.as_fd(), patience),
        None => Ok(WaitEnd::OwnerGone),
    }
}

fn wait_readable(fd: BorrowedFd<'_>, patience: &mut Patience<'_>) -> io::Result<WaitEnd> {
    let mut entry = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    loop {
        let timeout_ms = patience.poll_ms();
        // SAFETY: one complete entry, which lives through the call.
        let ready = unsafe { libc::poll(&raw mut entry, 1, timeout_ms) };
        match ready {
            0 if patience.passed() => return Ok(WaitEnd::TimedOut),
            0 => patience.beat(),
            1.. => return Ok(WaitEnd::OwnerGone),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

fn system_error(error: LockError) -> io::Error {
    match error {
        LockError::System(error) => error,
        other => io::Error::other(other),
    }
}

fn out_of_sight() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "its owner cannot be seen from here: it runs in another PID namespace, and the lock file was replaced",
    )
}

/// How long a wait may last, and what is done meanwhile. The limit runs from here on.
pub struct Patience<'a> {
    end: Option<Duration>,
    beat: Option<Beat<'a>>,
}

/// Called from time to time while a wait lasts; answers how long until it wants to be called again.
struct Beat<'a> {
    call: &'a mut dyn FnMut() -> Option<Duration>,
    at: Option<Duration>,
}

impl<'a> Patience<'a> {
    /// No limit is for ever.
    pub fn new(limit: Option<Duration>) -> Patience<'a> {
        Patience {
            end: limit.and_then(|limit| monotonic().checked_add(limit)),
            beat: None,
        }
    }

    /// Calls this at once when a wait begins, and again whenever its answer has passed.
    pub fn telling(self, call: &'a mut dyn FnMut() -> Option<Duration>) -> Patience<'a> {
        Patience {
            beat: Some(Beat {
                call,
                at: Some(monotonic()),
            }),
            ..self
        }
    }

    fn passed(&self) -> bool {
        self.end.is_some_and(|end| end <= monotonic())
    }

    /// Calls the beat if it is due.
    fn beat(&mut self) {
        let now = monotonic();
        if let Some(beat) = &mut self.beat
            && beat.at.is_some_and(|at| at <= now)
        {
            beat.at = (beat.call)().and_then(|pause| now.checked_add(pause));
        }
    }

    /// For poll(2), to the next moment at which something is to be done: rounded up, so that a limit
    /// never ends early; -1 for ever.
    fn poll_ms(&self) -> libc::c_int {
        let beat = self.beat.as_ref().and_then(|beat| beat.at);
        let Some(next) = self.end.into_iter().chain(beat).min() else {
            return -1;
        };
        let left = next.saturating_sub(monotonic());
        let ms = left.as_nanos().div_ceil(1_000_000);
        libc::c_int::try_from(ms).unwrap_or(libc::c_int::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::name::Nonce;
    use crate::domain::owner::LockFileId;
    use crate::process::clock;
    use crate::process::testing::{LIMIT, shell};
    use crate::process::wait::reap_blocking;
    use std::thread;

    const SHORT: Option<Duration> = Some(Duration::from_millis(30));
    const LONG: Option<Duration> = Some(LIMIT);

    struct Place {
        dir: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Place {
            Place {
                dir: tempfile::tempdir().expect("a directory"),
            }
        }

        fn path(&self) -> std::path::PathBuf {
            self.dir.path().join("idem.db-locks")
        }

        fn owner(&self, keeper: ProcessRef, child: Option<ProcessRef>) -> OwnerRef {
            let lock_file = LockFile::open(&self.path()).expect("lock file").identity();
            OwnerRef {
                keeper,
                boot_id: clock::boot_id().clone(),
                pid_namespace: proc::pid_namespace().expect("a namespace"),
                lock_file,
                keeper_byte: 11,
                tree_byte: 22,
                child,
                nonce: Nonce(crate::process::random::bytes()),
                lease: None,
            }
        }
    }

    fn nobody() -> ProcessRef {
        ProcessRef {
            pid: i32::MAX,
            start_ticks: 1,
        }
    }

    #[test]
    fn the_keepers_byte_is_waited_for() {
        let place = Place::new();
        let owner = place.owner(nobody(), None);
        let held = LockFile::open(&place.path()).expect("open").hold(11);
        let path = place.path();
        let wait =
            |limit| wait_for_owner(&owner, &path, &mut Patience::new(limit)).expect("a wait");
        assert_eq!(wait(SHORT), WaitEnd::TimedOut);
        assert_eq!(wait(Some(Duration::ZERO)), WaitEnd::TimedOut);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(LONG));
            drop(held.expect("the byte"));
            assert_eq!(waiter.join().expect("no panic"), WaitEnd::OwnerGone);
        });
    }

    #[test]
    fn without_the_recorded_lock_file_the_process_is_waited_for() {
        let place = Place::new();
        let child = shell("read line").process;
        let mut owner = place.owner(proc::this().expect("this process"), None);
        std::fs::remove_file(place.path()).expect("removed");
        let path = place.path();
        assert_eq!(
            wait_for_owner(&owner, &path, &mut Patience::new(SHORT)).expect("a wait"),
            WaitEnd::TimedOut
        );
        owner.keeper = child;
        owner.lock_file = LockFileId {
            device: 0,
            inode: 0,
        };
        // SAFETY: signals an unreaped child of ours.
        unsafe { libc::kill(child.pid, libc::SIGKILL) };
        assert_eq!(
            wait_for_owner(&owner, &path, &mut Patience::new(LONG)).expect("a wait"),
            WaitEnd::OwnerGone
        );
        reap_blocking(child.pid).expect("our child");
    }

    #[test]
    fn an_owner_of_another_namespace_without_a_lock_file_is_an_error() {
        let place = Place::new();
        let mut owner = place.owner(nobody(), None);
        owner.pid_namespace += 1;
        std::fs::remove_file(place.path()).expect("removed");
        for error in [
            wait_for_owner(&owner, &place.path(), &mut Patience::new(LONG)),
            wait_for_tree(
                &owner,
                &place.path(),
                &HashSet::new(),
                &mut Patience::new(LONG),
            ),
        ] {
            assert_eq!(
                error.expect_err("out of sight").kind(),
                io::ErrorKind::Unsupported
            );
        }
    }

    #[test]
    fn the_tree_is_its_byte_and_the_processes_that_closed_it() {
        let place = Place::new();
        let child = shell("exec sleep 90").process;
        let owner = place.owner(nobody(), Some(child));
        let held = LockFile::open(&place.path()).expect("open").hold(22);
        let path = place.path();
        let wait = |limit| {
            wait_for_tree(&owner, &path, &HashSet::new(), &mut Patience::new(limit))
                .expect("a wait")
        };
        assert_eq!(wait(SHORT), WaitEnd::TimedOut);
        drop(held.expect("the byte"));
        assert_eq!(wait(SHORT), WaitEnd::TimedOut);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(LONG));
            // SAFETY: signals an unreaped child of ours.
            unsafe { libc::kill(child.pid, libc::SIGKILL) };
            assert_eq!(waiter.join().expect("no panic"), WaitEnd::OwnerGone);
        });
        reap_blocking(child.pid).expect("our child");
    }
}
