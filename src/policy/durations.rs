//! How long a command takes, and which timeout that suggests.

use std::time::Duration;

/// From how many samples on the tail is known well enough for the smaller margin.
const MANY_SAMPLES: usize = 100;

/// No timeout shorter than this is suggested: a loaded machine needs as long to start anything.
const LEAST_TIMEOUT_MS: u64 = 1_000;

/// The durations of a command's attempts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Durations {
    /// In milliseconds, in no order.
    samples_ms: Vec<u64>,
    /// How many of them were cut off, so that they would have taken longer.
    cut_off: usize,
}

impl Durations {
    /// One more attempt.
    pub fn add(&mut self, duration_ms: u64, cut_off: bool) {
        self.samples_ms.push(duration_ms);
        self.cut_off += usize::from(cut_off);
    }

    /// What they say; nothing without samples.
    pub fn summary(mut self) -> Option<Summary> {
        self.samples_ms.sort_unstable();
        let of = |percent| percentile(&self.samples_ms, percent);
        let p99_ms = of(99)?;
        Some(Summary {
            samples: self.samples_ms.len(),
            cut_off: self.cut_off,
            p50_ms: of(50)?,
            p90_ms: of(90)?,
            p99_ms,
            suggested_timeout: suggested(p99_ms, self.samples_ms.len()),
        })
    }
}

/// What the durations of a command say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// How many attempts they are from.
    pub samples: usize,
    /// How many of these were cut off; they count with the time that they were given.
    pub cut_off: usize,
    /// Half of them took no longer.
    pub p50_ms: u64,
    /// Nine out of ten took no longer.
    pub p90_ms: u64,
    /// 99 out of a hundred took no longer.
    pub p99_ms: u64,
    /// One and a half to two times the last one, rounded up to a number for people.
    pub suggested_timeout: Duration,
}

impl Summary {
    /// Whether so many were cut off that the true times are longer than these.
    pub fn is_cut_short(&self) -> bool {
        self.cut_off * 100 > self.samples
    }

    /// From here on an attempt takes suspiciously long.
    pub fn suspicious(&self) -> Duration {
        Duration::from_millis(self.p99_ms.saturating_mul(2).max(LEAST_TIMEOUT_MS))
    }
}

/// The nearest rank: the smallest sample that so many percent do not exceed.
fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// Two times the 99th percentile, one and a half times where there are many samples.
fn suggested(p99_ms: u64, samples: usize) -> Duration {
    let least = p99_ms.saturating_add(p99_ms / 2);
    let most = p99_ms.saturating_mul(2);
    let ms = if samples >= MANY_SAMPLES { least } else { most };
    Duration::from_millis(round_up(ms.max(LEAST_TIMEOUT_MS)))
}

/// To whole seconds, from two minutes on to ten seconds, from twenty minutes on to whole minutes.
fn round_up(ms: u64) -> u64 {
    let step = match ms {
        0..120_000 => 1_000,
        120_000..1_200_000 => 10_000,
        _ => 60_000,
    };
    ms.div_ceil(step).saturating_mul(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(samples: impl IntoIterator<Item = u64>) -> Summary {
        let mut durations = Durations::default();
        for ms in samples {
            durations.add(ms, false);
        }
        durations.summary().unwrap()
    }

    #[test]
    fn percentiles_are_samples() {
        let summary = of((1..=200).rev().map(|n| n * 100));
        assert_eq!(
            (summary.p50_ms, summary.p90_ms, summary.p99_ms),
            (10_000, 18_000, 19_800)
        );
        assert_eq!(summary.suggested_timeout, Duration::from_secs(30));
        let one = of([7]);
        assert_eq!((one.p50_ms, one.p99_ms, one.samples), (7, 7, 1));
        assert_eq!(one.suggested_timeout, Duration::from_secs(1));
        assert_eq!(Durations::default().summary(), None);
    }

    #[test]
    fn few_samples_get_the_larger_margin() {
        assert_eq!(of([10_000; 99]).suggested_timeout, Duration::from_secs(20));
        assert_eq!(of([10_000; 100]).suggested_timeout, Duration::from_secs(15));
        assert_eq!(of([61_000]).suggested_timeout, Duration::from_secs(130));
        assert_eq!(of([3_601_000]).suggested_timeout.as_secs() % 60, 0);
        assert_eq!(of([10]).suspicious(), Duration::from_secs(1));
    }

    #[test]
    fn more_than_one_in_a_hundred_cut_off_is_said() {
        let mut durations = Durations::default();
        (0..99).for_each(|_| durations.add(5, false));
        durations.add(9, true);
        assert!(!durations.clone().summary().unwrap().is_cut_short());
        durations.add(9, true);
        let summary = durations.summary().unwrap();
        assert_eq!((summary.cut_off, summary.p99_ms), (2, 9));
        assert!(summary.is_cut_short());
    }
}
