use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::*;
use crate::domain::name::Nonce;
use crate::process::locks::HIGH_DESCRIPTOR;
use crate::process::spawn::Spawn;
use crate::process::testing::{environment, own_process, until};
use crate::process::wait;

const KEEPER_BYTE: u64 = 17;
const TREE_BYTE: u64 = 1 << 61;

/// A claim of this process, with no byte held.
struct Claim {
    home: tempfile::TempDir,
    locks: LockFile,
    owner: OwnerRef,
}

impl Claim {
    fn new() -> Claim {
        let home = tempfile::tempdir().expect("directory");
        let locks = LockFile::open(&home.path().join("locks")).expect("lock file");
        let owner = OwnerRef {
            keeper: proc::this().expect("/proc"),
            boot_id: clock::boot_id().clone(),
            pid_namespace: proc::pid_namespace().expect("/proc"),
            lock_file: locks.identity(),
            keeper_byte: KEEPER_BYTE,
            tree_byte: TREE_BYTE,
            child: None,
            nonce: Nonce(rand::random()),
            lease: None,
        };
        Claim { home, locks, owner }
    }

    fn observe(&self) -> Liveness {
        observe(
            &self.owner,
            &self.home.path().join("locks"),
            &HashSet::new(),
        )
    }

    /// Starts a child with the nonce in its environment, whether the claim records it or not.
    fn start(&self, command: &[&str], tree: Option<&OwnedFd>) -> ProcessRef {
        let mut env = environment();
        env.push(("IDEM_NONCE".into(), self.owner.nonce.hex().into()));
        let words = command.iter().map(OsString::from).collect::<Vec<_>>();
        let mut spawn = Spawn::new(&words, &env).expect("no NUL");
        if let Some(tree) = tree {
            spawn = spawn.tree_lock(tree.as_fd());
        }
        let child = spawn.fork().expect("fork").open_gate().expect("exec");
        let pid = child.process.pid;
        let shows =
            || std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|env| !env.is_empty());
        // In the middle of an exec a process shows no environment, and when it has ended neither.
        until(|| shows() || wait::peek(pid).expect("our child").is_some());
        child.process
    }

    fn lose_the_lock_file(&self) {
        std::fs::remove_file(self.home.path().join("locks")).expect("unlink");
    }
}

fn of_another_execution() -> Nonce {
    Nonce(rand::random())
}

fn end(child: ProcessRef) {
    kill(child.pid);
    wait::reap_blocking(child.pid).expect("our child");
}

fn kill(pid: i32) {
    // SAFETY: signals a process of the test's own.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

fn earlier(process: ProcessRef) -> ProcessRef {
    ProcessRef {
        start_ticks: process.start_ticks - 1,
        ..process
    }
}

fn alive(pids: &[i32]) -> Liveness {
    Liveness::TreeAlive {
        pids: pids.to_vec(),
    }
}

#[test]
fn the_keepers_byte_decides_about_the_keeper() {
    own_process!("the_keepers_byte_decides_about_the_keeper", || {
        let claim = Claim::new();
        let held = claim.locks.hold(KEEPER_BYTE).expect("free");
        assert_eq!(claim.observe(), Liveness::OwnerAlive);
        drop(held);
        // Its PID is this living process: the byte knows better.
        assert_eq!(claim.observe(), Liveness::Gone);
    });
}

#[test]
fn the_trees_byte_outlives_the_keeper() {
    own_process!("the_trees_byte_outlives_the_keeper", || {
        let claim = Claim::new();
        let byte = claim.locks.hold(TREE_BYTE).expect("free");
        let tree = byte.into_inheritable_fd(HIGH_DESCRIPTOR).expect("high");
        let child = claim.start(&["sleep", "1000"], Some(&tree));
        drop(tree);
        assert_eq!(claim.observe(), alive(&[child.pid]));
        end(child);
        assert_eq!(claim.observe(), Liveness::Gone);
    });
}

#[test]
fn a_tree_without_its_byte_is_known_by_nonce_child_or_group() {
    own_process!(
        "a_tree_without_its_byte_is_known_by_nonce_child_or_group",
        || {
            let mut claim = Claim::new();
            let child = claim.start(&["sleep", "1000"], None);
            assert_eq!(claim.observe(), alive(&[child.pid]));
            let skip = HashSet::from([child.pid]);
            let path = claim.home.path().join("locks");
            assert_eq!(observe(&claim.owner, &path, &skip), Liveness::Gone);
            claim.owner.nonce = of_another_execution();
            assert_eq!(claim.observe(), Liveness::Gone);
            claim.owner.child = Some(child);
            assert_eq!(claim.observe(), alive(&[child.pid]));
            claim.owner.child = Some(earlier(child));
            assert_eq!(claim.observe(), Liveness::Gone, "the PID was reused");
            end(child);
        }
    );
}

#[test]
fn members_of_the_childs_group_outlive_the_child() {
    own_process!("members_of_the_childs_group_outlive_the_child", || {
        let mut claim = Claim::new();
        let child = claim.start(&["sh", "-c", "sleep 1000 & exit 0"], None);
        claim.owner.child = Some(child);
        claim.owner.nonce = of_another_execution();
        until(|| wait::peek(child.pid).expect("our child").is_some());
        let listing = proc::Listing::take().expect("processes");
        let member = listing.members(child.pid).next().expect("sleep").id.pid;
        assert_eq!(claim.observe(), alive(&[member]));
        wait::reap(child.pid).expect("our child");
        assert_eq!(claim.observe(), alive(&[member]));
        kill(member);
        until(|| claim.observe() == Liveness::Gone);
    });
}

#[test]
fn an_ended_child_that_nobody_reaps_is_gone() {
    own_process!("an_ended_child_that_nobody_reaps_is_gone", || {
        let mut claim = Claim::new();
        let child = claim.start(&["true"], None);
        claim.owner.child = Some(child);
        until(|| wait::peek(child.pid).expect("our child").is_some());
        assert_eq!(claim.observe(), Liveness::Gone);
    });
}

#[test]
fn without_the_lock_file_pid_and_start_time_decide() {
    own_process!("without_the_lock_file_pid_and_start_time_decide", || {
        let mut claim = Claim::new();
        let held = claim.locks.hold(KEEPER_BYTE).expect("free");
        claim.lose_the_lock_file();
        assert_eq!(claim.observe(), Liveness::OwnerAlive);
        let another = LockFile::open(&claim.home.path().join("locks")).expect("another");
        assert_ne!(another.identity(), claim.locks.identity());
        assert_eq!(claim.observe(), Liveness::OwnerAlive);
        claim.owner.keeper = earlier(claim.owner.keeper);
        assert_eq!(claim.observe(), Liveness::Gone);
        let child = claim.start(&["sleep", "1000"], None);
        assert_eq!(claim.observe(), alive(&[child.pid]));
        end(child);
        drop(held);
    });
}

#[test]
fn another_boot_leaves_nothing_behind() {
    own_process!("another_boot_leaves_nothing_behind", || {
        let mut claim = Claim::new();
        claim.owner.child = Some(proc::this().expect("/proc"));
        claim.owner.boot_id = BootId("01234567-89ab-cdef-0123-456789abcdef".into());
        assert_eq!(claim.observe(), Liveness::Gone);
        claim.lose_the_lock_file();
        assert_eq!(claim.observe(), Liveness::Gone);
        claim.owner.boot_id = BootId("unnamed".into());
        assert_eq!(
            claim.observe(),
            Liveness::OwnerAlive,
            "that may be this boot"
        );
    });
}

#[test]
fn in_another_pid_namespace_only_the_locks_know() {
    own_process!("in_another_pid_namespace_only_the_locks_know", || {
        let mut claim = Claim::new();
        let child = claim.start(&["sleep", "1000"], None);
        claim.owner.pid_namespace ^= 1;
        claim.owner.child = Some(child);
        assert_eq!(claim.observe(), alive(&[child.pid]), "its nonce is seen");
        claim.owner.nonce = of_another_execution();
        assert_eq!(
            claim.observe(),
            Liveness::Gone,
            "its PID means nothing here"
        );
        end(child);
        claim.lose_the_lock_file();
        assert_eq!(claim.observe(), Liveness::OutOfSight);
    });
}

#[test]
fn a_record_that_makes_no_sense_is_not_taken_for_gone() {
    let mut claim = Claim::new();
    claim.owner.keeper_byte = u64::MAX;
    assert_eq!(claim.observe(), Liveness::OutOfSight);
}

#[test]
fn an_owner_of_another_boot_is_what_its_lease_says() {
    let mut claim = Claim::new();
    claim.owner.boot_id = BootId("11111111-2222-3333-4444-555555555555".into());
    assert_eq!(claim.observe(), Liveness::Gone);
    for (left, seen) in [(1, Liveness::OwnerAlive), (0, Liveness::Gone)] {
        claim.owner.lease = Some(Lease {
            left: Duration::from_millis(left),
        });
        assert_eq!(claim.observe(), seen);
        assert!(is_elsewhere(&claim.owner, &claim.home.path().join("locks")));
    }
}

#[test]
fn an_owner_whose_boot_has_no_name_is_what_its_lease_says() {
    let mut claim = Claim::new();
    claim.owner.boot_id = BootId("unnamed 12 34.000000056".into());
    assert_eq!(claim.observe(), Liveness::Gone);
    claim.owner.lease = Some(Lease {
        left: Duration::from_millis(1),
    });
    assert_eq!(claim.observe(), Liveness::OwnerAlive);
    assert!(is_elsewhere(&claim.owner, &claim.home.path().join("locks")));
}

#[test]
fn on_this_machine_the_kernel_comes_before_the_lease() {
    let mut claim = Claim::new();
    claim.owner.keeper.start_ticks += 1;
    claim.owner.lease = Some(Lease {
        left: Duration::from_secs(60),
    });
    assert_eq!(claim.observe(), Liveness::Gone);
    let _held = claim.locks.hold(KEEPER_BYTE).expect("free");
    claim.owner.lease = Some(Lease {
        left: Duration::ZERO,
    });
    assert_eq!(claim.observe(), Liveness::OwnerAlive);
    assert!(!is_elsewhere(
        &claim.owner,
        &claim.home.path().join("locks")
    ));
}

#[test]
fn an_owner_out_of_sight_is_what_its_lease_says() {
    let mut claim = Claim::new();
    claim.lose_the_lock_file();
    claim.owner.pid_namespace += 1;
    assert_eq!(claim.observe(), Liveness::OutOfSight);
    claim.owner.lease = Some(Lease {
        left: Duration::from_secs(1),
    });
    assert_eq!(claim.observe(), Liveness::OwnerAlive);
}
