//! Whether a claim's owner, or anything that it started, still lives.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::Path;

use super::locks::{LockError, LockFile};
use super::{clock, proc};
use crate::domain::owner::{Lease, Liveness, OwnerRef, ProcessRef};
use crate::domain::time::BootId;

/// Finds out what is left of an owner.
///
/// While the lock file is the one that the claim recorded, the keeper's byte alone decides about the
/// keeper. A tree can be alive without its byte, since a child may close every descriptor: with the
/// keeper gone, the recorded child, the members of its process group, and processes that carry the nonce
/// in their environment count as well. Without the recorded lock file, PID and start time stand in for
/// the keeper's byte, and where those belong to another PID namespace nothing is known.
///
/// A process that closed every descriptor, left its group, cleaned its environment or runs in another PID
/// namespace, all at once, is not seen. The PIDs in `skip` (the observer's own front or keeper) do not
/// count as left over; this process never does.
///
/// An owner with a lease can run on another machine: where nothing of it is seen from here, the lease
/// speaks for it. What the kernel of this machine tells comes first, since a lease is up to its whole
/// length behind.
pub fn observe(owner: &OwnerRef, lock_path: &Path, skip: &HashSet<i32>) -> Liveness {
    if let Some(lease) = owner.lease
        && !is_of_this_boot(&owner.boot_id)
    {
        return by_lease(lease);
    }
    // What cannot be looked at is not known to be gone.
    let seen = look(owner, lock_path, skip).unwrap_or(Liveness::OutOfSight);
    match owner.lease {
        Some(lease) if seen == Liveness::OutOfSight => by_lease(lease),
        _ => seen,
    }
}

/// Whether only its lease can tell of an owner: it may run on another machine, or out of sight on this one.
pub fn is_elsewhere(owner: &OwnerRef, lock_path: &Path) -> bool {
    let out_of_sight = || match look(owner, lock_path, &HashSet::new()) {
        Ok(seen) => seen == Liveness::OutOfSight,
        Err(_) => true,
    };
    owner.lease.is_some() && (!is_of_this_boot(&owner.boot_id) || out_of_sight())
}

fn by_lease(lease: Lease) -> Liveness {
    if lease.left.is_zero() {
        Liveness::Gone
    } else {
        Liveness::OwnerAlive
    }
}

fn look(owner: &OwnerRef, path: &Path, skip: &HashSet<i32>) -> Result<Liveness, LockError> {
    let Some(locks) = recorded_lock_file(owner, path)? else {
        return Ok(without_locks(owner, skip)?);
    };
    if !locks.is_free(owner.keeper_byte)? {
        return Ok(Liveness::OwnerAlive);
    }
    if !locks.is_free(owner.tree_byte)? {
        let pids = leftovers(owner, skip).unwrap_or_default();
        return Ok(Liveness::TreeAlive { pids });
    }
    if rebooted_since(&owner.boot_id) {
        return Ok(Liveness::Gone);
    }
    Ok(tree(leftovers(owner, skip)?))
}

fn recorded_lock_file(owner: &OwnerRef, path: &Path) -> io::Result<Option<LockFile>> {
    match LockFile::open_to_observe(path) {
        Ok(locks) if locks.identity() == owner.lock_file => Ok(Some(locks)),
        Ok(_) => Ok(None),
        Err(error) if is_another_file(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Nothing is there, or a symbolic link that idem never made.
fn is_another_file(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ELOOP)
}

/// The recorded lock file is not at its path any more: only the processes themselves can tell.
fn without_locks(owner: &OwnerRef, skip: &HashSet<i32>) -> io::Result<Liveness> {
    if rebooted_since(&owner.boot_id) {
        return Ok(Liveness::Gone);
    }
    if proc::pid_namespace()? != owner.pid_namespace {
        return Ok(Liveness::OutOfSight);
    }
    if proc::is_alive(owner.keeper)? {
        return Ok(Liveness::OwnerAlive);
    }
    Ok(tree(leftovers(owner, skip)?))
}

fn tree(pids: Vec<i32>) -> Liveness {
    if pids.is_empty() {
        Liveness::Gone
    } else {
        Liveness::TreeAlive { pids }
    }
}

/// Whether this machine's kernel can know of an owner that may be anywhere. In doubt it does not: lock
/// files, PIDs and namespaces of different machines have the same numbers.
fn is_of_this_boot(recorded: &BootId) -> bool {
    recorded == clock::boot_id()
}

/// Two boots are told apart only if the kernel named both.
fn rebooted_since(recorded: &BootId) -> bool {
    let now = clock::boot_id();
    clock::is_known(recorded) && clock::is_known(now) && recorded != now
}

/// The living processes of the owner's tree that can be found without its byte.
fn leftovers(owner: &OwnerRef, skip: &HashSet<i32>) -> io::Result<Vec<i32>> {
    let mut pids = BTreeSet::new();
    if let Some(child) = owner.child
        && proc::pid_namespace()? == owner.pid_namespace
    {
        pids.extend(group_of(child)?);
    }
    pids.extend(with_nonce(owner, skip)?);
    pids.retain(|pid| !skip.contains(pid));
    pids.remove(&std::process::id().cast_signed());
    Ok(pids.into_iter().collect())
}

/// The child and the other living members of its process group. A process that has the child's PID and
/// another start time leads a later group: the kernel gives out no PID while a group bears it.
fn group_of(child: ProcessRef) -> io::Result<Vec<i32>> {
    let listing = proc::Listing::take()?;
    let reused = listing
        .get(child.pid)
        .is_some_and(|process| process.id != child);
    if reused {
        return Ok(Vec::new());
    }
    let mut members: Vec<i32> = listing
        .members(child.pid)
        .map(|process| process.id.pid)
        .collect();
    if listing.get(child.pid).is_some_and(|process| !process.ended) {
        members.push(child.pid);
    }
    Ok(members)
}

/// An ended process keeps no environment, so those found are alive.
fn with_nonce(owner: &OwnerRef, skip: &HashSet<i32>) -> io::Result<Vec<i32>> {
    proc::with_environment(&owner.nonce.hex(), skip)
}

#[cfg(test)]
mod tests;
