use std::os::fd::AsFd;

use super::*;
use crate::process::testing::{own_process, script, until};
use crate::process::{proc, wait};

// Where a released byte must be free at once, a process of the test's own keeps the children of other
// tests from holding on to it between fork and exec.

const OFFSET: u64 = (1 << 62) - 3;

fn new_file() -> (tempfile::TempDir, LockFile) {
    let home = tempfile::tempdir().expect("directory");
    let file = LockFile::open(&home.path().join("locks")).expect("lock file");
    (home, file)
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut poll = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one complete pollfd that outlives the call.
    check(unsafe { libc::poll(&mut poll, 1, 0) }).expect("poll") == 1
}

#[test]
fn a_byte_is_held_until_it_is_dropped() {
    own_process!("a_byte_is_held_until_it_is_dropped", || {
        let (_home, file) = new_file();
        assert!(file.is_free(OFFSET).expect("test"));
        let held = file.hold(OFFSET).expect("free");
        assert!(!file.is_free(OFFSET).expect("test"));
        assert!(file.is_free(OFFSET + 1).expect("test"));
        assert!(matches!(file.hold(OFFSET), Err(LockError::Held)));
        drop(held);
        assert!(file.is_free(OFFSET).expect("test"));
    });
}

#[test]
fn an_offset_beyond_62_bits_is_refused() {
    let (_home, file) = new_file();
    assert!(matches!(file.is_free(1 << 62), Err(LockError::BadOffset)));
    assert!(matches!(file.hold(u64::MAX), Err(LockError::BadOffset)));
}

#[test]
fn an_observer_needs_to_read_only() {
    own_process!("an_observer_needs_to_read_only", || {
        let (home, file) = new_file();
        let held = file.hold(OFFSET).expect("free");
        let observer = LockFile::open_to_observe(&home.path().join("locks")).expect("observer");
        assert_eq!(observer.identity(), file.identity());
        assert!(!observer.is_free(OFFSET).expect("test"));
        let watch = observer.wait_free(OFFSET).expect("watch");
        drop(held);
        until(|| watch.is_ready().expect("watch"));
    });
}

#[test]
fn the_file_is_private_and_never_a_link() {
    let (home, file) = new_file();
    let mode = file.file.metadata().expect("metadata").mode() & 0o777;
    assert_eq!(mode & 0o077, 0);
    let link = home.path().join("link");
    std::os::unix::fs::symlink(home.path().join("locks"), &link).expect("symlink");
    let error = LockFile::open(&link).expect_err("a link");
    assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
    assert!(LockFile::open_to_observe(&home.path().join("none")).is_err());
}

#[test]
fn a_replaced_file_is_not_locked() {
    let (home, file) = new_file();
    let path = home.path().join("locks");
    std::fs::rename(&path, home.path().join("old")).expect("rename");
    assert!(matches!(file.hold(OFFSET), Err(LockError::Replaced)));
    let new = LockFile::open(&path).expect("another");
    assert_ne!(new.identity(), file.identity());
    assert!(matches!(file.hold(OFFSET), Err(LockError::Replaced)));
}

#[test]
fn waiters_wake_when_the_byte_is_free_and_disturb_nobody() {
    own_process!(
        "waiters_wake_when_the_byte_is_free_and_disturb_nobody",
        || {
            let (_home, file) = new_file();
            let held = file.hold(OFFSET).expect("free");
            let watches = [(); 3].map(|()| file.wait_free(OFFSET).expect("watch"));
            let other = file.wait_free(OFFSET + 1).expect("watch");
            until(|| is_readable(other.as_fd()));
            for watch in &watches {
                assert!(!watch.is_ready().expect("watch") && !is_readable(watch.as_fd()));
            }
            drop(held);
            for watch in &watches {
                until(|| is_readable(watch.as_fd()));
                assert!(watch.is_ready().expect("watch"));
            }
            assert!(file.is_free(OFFSET).expect("test"));
        }
    );
}

#[test]
fn a_ready_watch_leaves_no_thread_behind() {
    own_process!("a_ready_watch_leaves_no_thread_behind", || {
        let (_home, file) = new_file();
        let threads = || {
            std::fs::read_dir("/proc/self/task")
                .expect("threads")
                .count()
        };
        let before = threads();
        let watch = file.wait_free(OFFSET).expect("watch");
        until(|| is_readable(watch.as_fd()));
        drop(watch);
        // The kernel lists an ended thread for a moment.
        until(|| threads() == before);
    });
}

#[test]
fn the_trees_byte_is_held_by_whoever_inherited_it() {
    own_process!("the_trees_byte_is_held_by_whoever_inherited_it", || {
        let (_home, file) = new_file();
        let tree = file.hold(OFFSET).expect("free");
        let tree = tree.into_inheritable_fd(HIGH_DESCRIPTOR).expect("high");
        assert!(tree.as_raw_fd() >= HIGH_DESCRIPTOR);
        // The child leaves a grandchild in another session and ends.
        let child = script("setsid sleep 1000 <&- >&- 2>&- &", &[]).tree_lock(tree.as_fd());
        let child = child.fork().expect("fork").open_gate().expect("exec");
        let group = child.process.pid;
        drop(tree);
        wait::reap_blocking(group).expect("our child");
        assert!(
            !file.is_free(OFFSET).expect("test"),
            "the grandchild holds it"
        );
        let grandchild = holder(file.identity());
        let watch = file.wait_free(OFFSET).expect("watch");
        assert!(!watch.is_ready().expect("watch"));
        // SAFETY: the grandchild is known by the lock file that it has open, and only this test ends it.
        unsafe { libc::kill(grandchild, libc::SIGKILL) };
        until(|| watch.is_ready().expect("watch"));
        assert!(file.is_free(OFFSET).expect("test"));
    });
}

/// The PID of the process other than this one that has the lock file open.
fn holder(id: LockFileId) -> i32 {
    let this = std::process::id().cast_signed();
    let is_locks = |path: PathBuf| {
        std::fs::metadata(path).is_ok_and(|file| (file.dev(), file.ino()) == (id.device, id.inode))
    };
    let has_open = |pid: i32| {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd"));
        files.is_ok_and(|files| files.flatten().any(|file| is_locks(file.path())))
    };
    let listing = proc::Listing::take().expect("processes");
    let mut pids = listing.processes().map(|process| process.id.pid);
    pids.find(|&pid| pid != this && has_open(pid))
        .expect("a holder")
}

#[test]
fn a_low_limit_on_descriptors_lowers_the_trees_one() {
    own_process!(
        "a_low_limit_on_descriptors_lowers_the_trees_one",
        &["sh", "-c", "ulimit -n 64; exec \"$@\"", "sh"],
        || {
            let (_home, file) = new_file();
            let tree = file.hold(OFFSET).expect("free");
            let tree = tree.into_inheritable_fd(HIGH_DESCRIPTOR).expect("high");
            assert_eq!(tree.as_raw_fd(), 63);
        }
    );
}
