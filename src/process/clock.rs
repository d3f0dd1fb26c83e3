//! The clocks of this machine.

use std::fs::File;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::sys;
use crate::domain::time::{BootId, Stamp, UnixMs};

/// How far the clock of the store's server is ahead of this machine's, in milliseconds.
static STORE_AHEAD_MS: AtomicI64 = AtomicI64::new(0);

/// The moment now, by the wall clock that the store's times are from and by the time since boot.
pub fn now() -> Stamp {
    by_store(local())
}

/// A moment of this machine's clock, by the store's.
pub fn by_store(mut stamp: Stamp) -> Stamp {
    let ahead = STORE_AHEAD_MS.load(Ordering::Relaxed);
    stamp.wall.0 = stamp.wall.0.saturating_add(ahead);
    stamp
}

/// From now on wall times are those of a server whose clock shows `server` at this machine's `local`:
/// machines that share a store must agree on when a result expires.
pub fn follow(server: UnixMs, local: UnixMs) {
    STORE_AHEAD_MS.store(server.0.saturating_sub(local.0), Ordering::Relaxed);
}

/// The moment now by this machine's own clocks.
pub fn local() -> Stamp {
    Stamp {
        wall: UnixMs(milliseconds(read(libc::CLOCK_REALTIME))),
        boot_ms: milliseconds(read(libc::CLOCK_BOOTTIME)),
        boot: boot_id().clone(),
    }
}

/// Time since the boot, sleep included.
pub fn since_boot() -> Duration {
    let time = read(libc::CLOCK_BOOTTIME);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// Time since some fixed moment of this boot, for deadlines within this process: no clock change moves
/// it, and it stands still while the machine sleeps.
pub fn monotonic() -> Duration {
    let time = read(libc::CLOCK_MONOTONIC);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// The name of this boot, read once. Where the kernel does not tell it, a name that no other process
/// has, so that stamps are compared by the wall clock; see [`is_known`].
pub fn boot_id() -> &'static BootId {
    static BOOT_ID: OnceLock<BootId> = OnceLock::new();
    BOOT_ID.get_or_init(|| {
        let id = BootId(read_boot_id().unwrap_or_default());
        if is_known(&id) { id } else { unnamed_boot() }
    })
}

/// With one read: the kernel gives it whole.
fn read_boot_id() -> Option<String> {
    let mut text = [0; 64];
    let file = File::open("/proc/sys/kernel/random/boot_id").ok()?;
    let length = sys::read_once(file, &mut text).ok()?;
    let text = std::str::from_utf8(text.get(..length)?).ok()?;
    Some(text.trim().to_owned())
}

/// Whether the kernel gave this name. Only two such names can say that the machine was restarted.
pub fn is_known(boot: &BootId) -> bool {
    boot.0.len() == 36 && boot.0.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

fn unnamed_boot() -> BootId {
    let started = read(libc::CLOCK_REALTIME);
    BootId(format!(
        "unnamed {} {}.{:09}",
        std::process::id(),
        started.tv_sec,
        started.tv_nsec
    ))
}

fn read(clock: libc::clockid_t) -> libc::timespec {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: clock_gettime fills the struct that it is given. It cannot fail: the three clocks used
    // exist since Linux 2.6.39.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time
}

#[allow(clippy::unnecessary_cast, clippy::useless_conversion)] // the widths differ between C libraries
fn milliseconds(time: libc::timespec) -> i64 {
    i64::from(time.tv_sec)
        .saturating_mul(1000)
        .saturating_add(i64::from(time.tv_nsec) / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_is_the_one_of_the_standard_library() {
        let before = std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .expect("after 1970");
        let now = now();
        let after = std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .expect("after 1970");
        assert!((before.as_millis()..=after.as_millis()).contains(&(now.wall.0 as u128)));
    }

    #[test]
    fn two_stamps_of_one_boot_say_so() {
        let (first, second) = (now(), now());
        assert!(is_known(&first.boot));
        assert_eq!(first.boot, second.boot);
        assert!(second.boot_ms >= first.boot_ms && first.boot_ms > 0);
        assert!(!is_known(&unnamed_boot()));
    }

    #[test]
    fn monotonic_time_goes_forward() {
        let first = monotonic();
        assert!(first > Duration::ZERO && monotonic() >= first);
    }
}
