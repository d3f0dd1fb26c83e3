//! Who owns a claim, in terms that the kernel can be asked about.

use super::name::Nonce;
use super::time::BootId;

/// Everything an observer needs to find out whether a claim's keeper or anything that it started lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerRef {
    /// The keeper's process ID in its own PID namespace.
    pub pid: i32,
    /// The keeper's start time in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start_time: u64,
    /// The boot in which the claim was made.
    pub boot_id: BootId,
    /// The keeper's PID namespace (inode number of `/proc/PID/ns/pid`), 0 where there is none.
    pub pid_ns: u64,
    /// Device of the lock file that the bytes lie in.
    pub lock_dev: u64,
    /// Inode of that file.
    pub lock_inode: u64,
    /// Offset of the byte that the keeper holds.
    pub keeper_byte: i64,
    /// Offset of the byte that the child and its descendants hold.
    pub tree_byte: i64,
    /// The first child's process ID and start time, if one was started with the claim.
    pub child: Option<(i32, u64)>,
    /// The claim's nonce, which is in the environment of all that it started.
    pub nonce: Nonce,
}

/// What is left of a claim's processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Liveness {
    /// The keeper lives, or nothing can be known about it (never guess that it is gone).
    OwnerAlive,
    /// The keeper is gone; something that it started still lives (the process IDs that are known).
    TreeAlive {
        /// Process IDs, possibly none where only the lock tells.
        pids: Vec<i32>,
    },
    /// Nothing is left.
    Gone,
}
