//! Time as the core sees it: stamps that came in, never a clock.

use std::time::Duration;

/// Milliseconds since the Unix epoch, by the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixMs(pub i64);

impl UnixMs {
    /// How long from this moment to `later`; nothing if that has passed.
    pub fn until(self, later: UnixMs) -> Duration {
        Duration::from_millis(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

/// Names one boot of one machine; two stamps with the same one can be compared by their boot time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootId(pub String);

/// One moment, read from both clocks at once: wall time for people, time since boot for ages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// The wall clock.
    pub wall: UnixMs,
    /// Milliseconds of CLOCK_BOOTTIME, which no clock change moves.
    pub boot_ms: i64,
    /// The boot that `boot_ms` counts from.
    pub boot: BootId,
}

impl Stamp {
    /// The moment that lies so long before this one, by both clocks.
    pub fn earlier(&self, by: Duration) -> Stamp {
        let by_ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        Stamp {
            wall: UnixMs(self.wall.0.saturating_sub(by_ms)),
            boot_ms: self.boot_ms.saturating_sub(by_ms),
            boot: self.boot.clone(),
        }
    }

    /// How long before `now` this was. Within one boot the boot clock decides; across boots the wall
    /// clock does, and a stamp from the future counts as just now.
    pub fn age(&self, now: &Stamp) -> Duration {
        let ms = if self.boot == now.boot {
            now.boot_ms.saturating_sub(self.boot_ms)
        } else {
            now.wall.0.saturating_sub(self.wall.0)
        };
        Duration::from_millis(u64::try_from(ms).unwrap_or(0))
    }
}

/// How long a settled result is kept, counted from completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ttl {
    /// This long.
    For(Duration),
    /// Until someone forgets it.
    Forever,
}

impl Ttl {
    /// Milliseconds, or nothing for `forever`. Saturates far beyond any calendar.
    pub fn ms(self) -> Option<i64> {
        match self {
            Ttl::For(d) => Some(i64::try_from(d.as_millis()).unwrap_or(i64::MAX)),
            Ttl::Forever => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(wall: i64, boot_ms: i64, boot: &str) -> Stamp {
        Stamp {
            wall: UnixMs(wall),
            boot_ms,
            boot: BootId(boot.into()),
        }
    }

    #[test]
    fn a_jump_of_the_wall_clock_does_not_age_a_record() {
        let then = stamp(1_000_000, 5_000, "a");
        assert_eq!(
            then.age(&stamp(99_000_000, 6_000, "a")),
            Duration::from_secs(1)
        );
        assert_eq!(then.age(&stamp(0, 6_000, "a")), Duration::from_secs(1));
    }

    #[test]
    fn an_earlier_moment_is_as_much_older() {
        let now = stamp(1_000_000, 5_000, "a");
        let earlier = now.earlier(Duration::from_secs(2));
        assert_eq!(earlier, stamp(998_000, 3_000, "a"));
        assert_eq!(earlier.age(&now), Duration::from_secs(2));
        assert_eq!(
            earlier.age(&stamp(998_500, 0, "b")),
            Duration::from_millis(500)
        );
    }

    #[test]
    fn across_boots_the_wall_clock_decides_and_the_future_is_fresh() {
        let then = stamp(1_000_000, 5_000, "a");
        assert_eq!(then.age(&stamp(1_002_000, 1, "b")), Duration::from_secs(2));
        assert_eq!(then.age(&stamp(900_000, 1, "b")), Duration::ZERO);
    }
}
