//! Who owns a claim on this machine, and what an observer can find out about them.

use super::name::Nonce;
use super::time::BootId;
use std::time::Duration;

/// One process of one boot. A PID alone is reused; together with the start time it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessRef {
    /// The process ID, as its own PID namespace sees it.
    pub pid: i32,
    /// Start time in clock ticks since boot: field 22 of `/proc/PID/stat`, proc(5).
    pub start_ticks: u64,
}

/// Which file a byte lock was taken on; another one at the same path says nothing about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockFileId {
    /// The device number.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
}

/// Everything that a claim records so that others can tell whether its owner still lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerRef {
    /// The keeper: the process that holds the claim.
    pub keeper: ProcessRef,
    /// The boot in which the keeper runs.
    pub boot_id: BootId,
    /// The PID namespace in which the PIDs count: the inode behind `/proc/self/ns/pid`.
    pub pid_namespace: u64,
    /// The lock file on which the two bytes are locked.
    pub lock_file: LockFileId,
    /// Offset of the byte that the keeper holds.
    pub keeper_byte: u64,
    /// Offset of the byte that the child and its descendants hold.
    pub tree_byte: u64,
    /// The child, which leads its own process group. Nothing until one was forked.
    pub child: Option<ProcessRef>,
    /// The claim's random name, which the child finds in its environment.
    pub nonce: Nonce,
    /// The lease, in a store that several machines share.
    pub lease: Option<Lease>,
}

/// An owner's right to be taken for alive by those who cannot see it. Its keeper renews it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// How much of it was left when the record was read, by the server's clock; zero if it has run out.
    pub left: Duration,
}

/// What is left of a claim's owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Liveness {
    /// The keeper lives.
    OwnerAlive,
    /// The keeper is gone, something that it started is not.
    TreeAlive {
        /// Those processes that could be found, in ascending order. Can be empty: a process that holds
        /// the tree's byte need not be visible.
        pids: Vec<i32>,
    },
    /// Neither the keeper nor anything that it started is left.
    Gone,
    /// Nothing can be known from here: the lock file was replaced and the owner's PIDs belong to
    /// another PID namespace, or `/proc` cannot be read. Treat it as alive; it is never a guess at gone.
    OutOfSight,
}
