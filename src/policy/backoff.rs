//! How long to pause before a retry: a growing delay, spread by jitter, clamped to its cap.
//!
//! The jitter formulas are the commonly published ones (full, equal and decorrelated jitter); the
//! random number comes in as an argument.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::text::{DurationError, positive_duration};

/// How the delay grows with the number of the retry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Backoff {
    /// `exp:BASE..CAP[*FACTOR]`: base, base·factor, base·factor², … up to the cap.
    Exponential {
        /// The delay before the first retry.
        base: Duration,
        /// The longest delay.
        cap: Duration,
        /// What each delay is multiplied by; greater than 1.
        factor: f64,
    },
    /// `const:DELAY`: always the same. It has no cap, so jitter may lengthen it.
    Constant(Duration),
    /// `linear:BASE..CAP`: base, 2·base, 3·base, … up to the cap.
    Linear {
        /// The delay before the first retry, and what each further one adds.
        base: Duration,
        /// The longest delay.
        cap: Duration,
    },
}

/// How the delay is spread, so that callers that failed together do not come back together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Jitter {
    /// Anything between nothing and the delay.
    Full,
    /// Half the delay, and up to the other half.
    Equal,
    /// Between the base and three times the previous delay.
    Decorrelated,
    /// The delay as it is.
    None,
    /// The delay more or less this fraction of it (0 < fraction ≤ 1).
    Fraction(f64),
    /// The delay and up to this much more.
    Plus(Duration),
}

/// Why a text is no backoff or no jitter. Each message is a fragment that follows the option's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackoffError {
    /// The text begins with none of the known words; carries it.
    UnknownBackoff(String),
    /// A range has no `..`; carries it.
    NoRange(String),
    /// The cap is below the base; carries the range.
    Reversed(String),
    /// One of the durations is wrong.
    Duration(DurationError),
    /// The factor is not a finite number greater than 1; carries it.
    Factor(String),
    /// The text is none of the known jitters; carries it.
    UnknownJitter(String),
    /// The percentage is not above 0 and at most 100; carries the text.
    Percent(String),
}

impl fmt::Display for BackoffError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackoffError::UnknownBackoff(t) => write!(
                f,
                "`{t}` is not a backoff, expected exp:1s..60s, exp:1s..60s*3, const:5s or linear:1s..30s"
            ),
            BackoffError::NoRange(t) => {
                write!(
                    f,
                    "`{t}` is not a range of durations, expected for example 1s..60s"
                )
            }
            BackoffError::Reversed(t) => {
                write!(
                    f,
                    "`{t}` ends before it begins, expected the shorter duration first"
                )
            }
            BackoffError::Duration(e) => e.fmt(f),
            BackoffError::Factor(t) => {
                write!(
                    f,
                    "`{t}` is not a factor, expected a number greater than 1, for example *3"
                )
            }
            BackoffError::UnknownJitter(t) => write!(
                f,
                "`{t}` is not a jitter, expected full, equal, decorrelated, none, 20% or +500ms"
            ),
            BackoffError::Percent(t) => write!(
                f,
                "`{t}` is not a usable percentage, expected more than 0% and at most 100%"
            ),
        }
    }
}

impl std::error::Error for BackoffError {}

impl From<DurationError> for BackoffError {
    fn from(e: DurationError) -> BackoffError {
        BackoffError::Duration(e)
    }
}

impl Default for Backoff {
    /// `exp:1s..60s`.
    fn default() -> Backoff {
        Backoff::Exponential {
            base: Duration::from_secs(1),
            cap: Duration::from_secs(60),
            factor: 2.0,
        }
    }
}

impl FromStr for Backoff {
    type Err = BackoffError;

    fn from_str(text: &str) -> Result<Backoff, BackoffError> {
        match text.split_once(':') {
            Some(("exp", rest)) => exponential(rest),
            Some(("const", rest)) => Ok(Backoff::Constant(positive_duration(rest)?)),
            Some(("linear", rest)) => {
                let (base, cap) = range(rest)?;
                Ok(Backoff::Linear { base, cap })
            }
            _ => Err(BackoffError::UnknownBackoff(text.to_owned())),
        }
    }
}

fn exponential(text: &str) -> Result<Backoff, BackoffError> {
    let (durations, factor) = match text.split_once('*') {
        Some((durations, factor)) => (durations, parse_factor(factor)?),
        None => (text, 2.0),
    };
    let (base, cap) = range(durations)?;
    Ok(Backoff::Exponential { base, cap, factor })
}

fn parse_factor(text: &str) -> Result<f64, BackoffError> {
    decimal(text)
        .filter(|f| f.is_finite() && *f > 1.0)
        .ok_or_else(|| BackoffError::Factor(text.to_owned()))
}

/// Digits with at most one point: none of the words, signs and exponents that `f64` reads as well.
fn decimal(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    plain.then(|| text.parse().ok()).flatten()
}

fn range(text: &str) -> Result<(Duration, Duration), BackoffError> {
    let (from, to) = text
        .split_once("..")
        .ok_or_else(|| BackoffError::NoRange(text.to_owned()))?;
    let (base, cap) = (positive_duration(from)?, positive_duration(to)?);
    if cap < base {
        return Err(BackoffError::Reversed(text.to_owned()));
    }
    Ok((base, cap))
}

impl Default for Jitter {
    /// `full`.
    fn default() -> Jitter {
        Jitter::Full
    }
}

impl FromStr for Jitter {
    type Err = BackoffError;

    fn from_str(text: &str) -> Result<Jitter, BackoffError> {
        match text {
            "full" => Ok(Jitter::Full),
            "equal" => Ok(Jitter::Equal),
            "decorrelated" => Ok(Jitter::Decorrelated),
            "none" => Ok(Jitter::None),
            _ => spread(text),
        }
    }
}

fn spread(text: &str) -> Result<Jitter, BackoffError> {
    if let Some(more) = text.strip_prefix('+') {
        return Ok(Jitter::Plus(positive_duration(more)?));
    }
    let number = text
        .strip_suffix('%')
        .ok_or_else(|| BackoffError::UnknownJitter(text.to_owned()))?;
    decimal(number)
        .filter(|p| *p > 0.0 && *p <= 100.0)
        .map(|p| Jitter::Fraction(p / 100.0))
        .ok_or_else(|| BackoffError::Percent(text.to_owned()))
}

impl Backoff {
    /// The pause before retry `retry_number` (1 is the first). `previous` is the pause before, which
    /// only decorrelated jitter looks at; `random` is uniform in [0, 1). Never above the cap.
    pub fn delay(
        &self,
        jitter: Jitter,
        retry_number: u32,
        previous: Option<Duration>,
        random: f64,
    ) -> Duration {
        let random = if random.is_nan() { 0.0 } else { random };
        let (low, high) = self.spread(jitter, retry_number, previous);
        let (low_s, high_s) = (low.as_secs_f64(), high.as_secs_f64());
        let delay_s = low_s + (high_s - low_s) * random.clamp(0.0, 1.0);
        // Clamped to the cap last, after the jitter.
        seconds(delay_s, Duration::MAX)
            .max(low)
            .min(high)
            .min(self.cap())
    }

    /// The shortest and the longest pause that [`Backoff::delay`] can give for this retry.
    pub fn bounds(&self, jitter: Jitter, retry_number: u32) -> (Duration, Duration) {
        let cap = self.cap();
        if jitter != Jitter::Decorrelated || matches!(self, Backoff::Constant(_)) {
            let (low, high) = self.spread(jitter, retry_number, None);
            return (low.min(cap), high.min(cap));
        }
        let tripled = Backoff::Exponential {
            base: self.base(),
            cap,
            factor: 3.0,
        };
        let longest = tripled.plain(retry_number.saturating_add(1));
        (self.base().min(cap), longest)
    }

    /// The range that the jitter draws from, before it is clamped to the cap.
    fn spread(
        &self,
        jitter: Jitter,
        retry_number: u32,
        previous: Option<Duration>,
    ) -> (Duration, Duration) {
        let v = self.plain(retry_number);
        match jitter {
            Jitter::Full => (Duration::ZERO, v),
            Jitter::Equal => (v / 2, v),
            Jitter::None => (v, v),
            Jitter::Fraction(p) => {
                let v_s = v.as_secs_f64();
                let longest = seconds(v_s * (1.0 + p), Duration::MAX);
                (seconds(v_s * (1.0 - p), v), longest)
            }
            Jitter::Plus(more) => (v, v.saturating_add(more)),
            Jitter::Decorrelated => {
                let base = self.base();
                let last = match self {
                    // Without a cap, three times the previous delay would grow for ever.
                    Backoff::Constant(_) => base,
                    _ => previous.unwrap_or(base),
                };
                (base, last.saturating_mul(3).max(base))
            }
        }
    }

    /// The delay without jitter.
    fn plain(&self, retry_number: u32) -> Duration {
        let earlier = retry_number.saturating_sub(1);
        match *self {
            Backoff::Constant(delay) => delay,
            Backoff::Linear { base, cap } => base.saturating_mul(retry_number.max(1)).min(cap),
            Backoff::Exponential { base, cap, factor } => {
                let grown_s = base.as_secs_f64() * factor.powf(f64::from(earlier));
                seconds(grown_s, cap).max(base).min(cap)
            }
        }
    }

    fn base(&self) -> Duration {
        match *self {
            Backoff::Constant(delay) => delay,
            Backoff::Exponential { base, .. } | Backoff::Linear { base, .. } => base,
        }
    }

    fn cap(&self) -> Duration {
        match *self {
            Backoff::Constant(_) => Duration::MAX,
            Backoff::Exponential { cap, .. } | Backoff::Linear { cap, .. } => cap,
        }
    }
}

/// Seconds as a duration; what does not fit (too large, infinite) becomes `at_most`.
fn seconds(value_s: f64, at_most: Duration) -> Duration {
    if value_s.is_nan() || value_s <= 0.0 {
        return Duration::ZERO;
    }
    Duration::try_from_secs_f64(value_s).map_or(at_most, |d| d.min(at_most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: Duration = Duration::from_secs(1);

    fn exp(base: Duration, cap: Duration, factor: f64) -> Backoff {
        Backoff::Exponential { base, cap, factor }
    }

    #[test]
    fn every_form_is_read() {
        assert_eq!("exp:1s..60s".parse(), Ok(Backoff::default()));
        assert_eq!("exp:1s..60s*3".parse(), Ok(exp(S, 60 * S, 3.0)));
        assert_eq!("exp:100ms..1m*1.5".parse(), Ok(exp(S / 10, 60 * S, 1.5)));
        assert_eq!("const:5s".parse(), Ok(Backoff::Constant(5 * S)));
        let linear = Backoff::Linear {
            base: S,
            cap: 30 * S,
        };
        assert_eq!("linear:1s..30s".parse(), Ok(linear));
        assert_eq!("full".parse(), Ok(Jitter::default()));
        assert_eq!("equal".parse(), Ok(Jitter::Equal));
        assert_eq!("decorrelated".parse(), Ok(Jitter::Decorrelated));
        assert_eq!("none".parse(), Ok(Jitter::None));
        assert_eq!("20%".parse(), Ok(Jitter::Fraction(0.2)));
        assert_eq!("+500ms".parse(), Ok(Jitter::Plus(S / 2)));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in [
            "",
            "exp",
            "exp:",
            "exp:1s",
            "exp:0s..1s",
            "exp:2s..1s",
            "exp:1s..2s*",
            "exp:1s..2s*1",
            "exp:1s..2s*NaN",
            "exp:1s..2s*inf",
            "exp:1s..2s*-2",
            "exp:1s..2s*1e9",
            "const:0s",
            "const:-1s",
            "const:",
            "linear:1s",
            "linear:0s..0s",
            "Exp:1s..2s",
            "fib:1s",
            "exp:1s..99999999999999999999s",
            "const:NaN",
            "exp:1s...2s",
        ] {
            assert!(bad.parse::<Backoff>().is_err(), "{bad}");
        }
        for bad in [
            "", "0%", "-5%", "101%", "NaN%", "inf%", "%", "20", "+", "+0s", "+-1s", "Full", "1e1%",
        ] {
            assert!(bad.parse::<Jitter>().is_err(), "{bad}");
        }
        assert_eq!(
            "exp:2s..1s".parse::<Backoff>().unwrap_err().to_string(),
            "`2s..1s` ends before it begins, expected the shorter duration first"
        );
    }

    #[test]
    fn the_delays_grow_as_written() {
        let plain = |b: Backoff| {
            [1, 2, 3, 9, u32::MAX].map(|n| b.delay(Jitter::None, n, None, 0.5).as_millis())
        };
        assert_eq!(plain(Backoff::default()), [1000, 2000, 4000, 60000, 60000]);
        assert_eq!(plain(exp(S, 60 * S, 3.0)), [1000, 3000, 9000, 60000, 60000]);
        assert_eq!(plain(Backoff::Constant(S)), [1000; 5]);
        let linear = Backoff::Linear {
            base: S,
            cap: 5 * S,
        };
        assert_eq!(plain(linear), [1000, 2000, 3000, 5000, 5000]);
    }

    #[test]
    fn the_jitters_spread_as_written() {
        let rounded_ms = |d: Duration| (d.as_secs_f64() * 1000.0).round() as u64;
        let at = |j: Jitter, n, r| rounded_ms(Backoff::default().delay(j, n, None, r));
        assert_eq!(
            [at(Jitter::Full, 3, 0.0), at(Jitter::Full, 3, 0.5)],
            [0, 2000]
        );
        assert_eq!(
            [at(Jitter::Equal, 3, 0.0), at(Jitter::Equal, 3, 0.5)],
            [2000, 3000]
        );
        let fifth = Jitter::Fraction(0.2);
        assert_eq!([at(fifth, 3, 0.0), at(fifth, 3, 0.5)], [3200, 4000]);
        assert_eq!(at(fifth, 30, 0.999), 60_000, "clamped after the jitter");
        assert_eq!(
            [at(Jitter::Plus(S), 3, 0.0), at(Jitter::Plus(S), 3, 0.5)],
            [4000, 4500]
        );
        let next = |previous| {
            rounded_ms(Backoff::default().delay(Jitter::Decorrelated, 2, Some(previous), 0.5))
        };
        assert_eq!(
            [at(Jitter::Decorrelated, 1, 0.5), next(3 * S)],
            [2000, 5000]
        );
        assert_eq!(next(Duration::MAX), 60_000, "never above the cap");
    }

    #[test]
    fn a_constant_delay_has_no_cap_for_its_jitter() {
        let five = Backoff::Constant(5 * S);
        assert_eq!(five.bounds(Jitter::Plus(2 * S), 7), (5 * S, 7 * S));
        assert_eq!(
            five.bounds(Jitter::Fraction(0.5), 7),
            (5 * S / 2, 15 * S / 2)
        );
        assert_eq!(five.bounds(Jitter::Decorrelated, u32::MAX), (5 * S, 15 * S));
    }

    fn any_duration() -> impl Strategy<Value = Duration> {
        prop_oneof![
            (1u64..10_000).prop_map(Duration::from_millis),
            (1u64..u64::MAX, 0u32..1_000_000_000).prop_map(|(s, n)| Duration::new(s, n)),
            Just(Duration::from_nanos(1)),
            Just(Duration::MAX),
        ]
    }

    fn any_backoff() -> impl Strategy<Value = Backoff> {
        let factor = prop_oneof![1.0001f64..10.0, Just(f64::MAX)];
        (any_duration(), any_duration(), factor, 0..3).prop_map(|(a, b, factor, kind)| {
            let (base, cap) = (a.min(b), a.max(b));
            match kind {
                0 => Backoff::Constant(base),
                1 => Backoff::Linear { base, cap },
                _ => Backoff::Exponential { base, cap, factor },
            }
        })
    }

    fn any_jitter() -> impl Strategy<Value = Jitter> {
        prop_oneof![
            Just(Jitter::Full),
            Just(Jitter::Equal),
            Just(Jitter::Decorrelated),
            Just(Jitter::None),
            (0.0001f64..=1.0).prop_map(Jitter::Fraction),
            any_duration().prop_map(Jitter::Plus),
        ]
    }

    fn any_retry() -> impl Strategy<Value = u32> {
        prop_oneof![1u32..100, any::<u32>(), Just(u32::MAX)]
    }

    proptest! {
        #[test]
        fn a_delay_lies_within_its_bounds_and_under_the_cap(
            backoff in any_backoff(), jitter in any_jitter(), n in any_retry(),
            random in prop_oneof![0.0f64..1.0, Just(f64::NAN), Just(f64::INFINITY), Just(-1.0)],
        ) {
            let delay = backoff.delay(jitter, n, None, random);
            prop_assert!(delay <= backoff.cap());
            if jitter == Jitter::Decorrelated {
                return Ok(());
            }
            let (low, high) = backoff.bounds(jitter, n);
            prop_assert!(low <= delay && delay <= high, "{low:?} {delay:?} {high:?}");
        }

        #[test]
        fn decorrelated_delays_stay_within_the_schedule(
            backoff in any_backoff(), randoms in prop::collection::vec(0.0f64..1.0, 1..60),
        ) {
            let mut previous = None;
            for (n, random) in (1u32..).zip(randoms) {
                let delay = backoff.delay(Jitter::Decorrelated, n, previous, random);
                let (low, high) = backoff.bounds(Jitter::Decorrelated, n);
                // Floating point may differ in the last digits of a huge delay.
                prop_assert!(low <= delay && delay.as_secs_f64() <= high.as_secs_f64() * 1.000_001 + 1e-9);
                previous = Some(delay);
            }
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text in "(exp|const|linear)?:?[0-9a-z.*+% -]{0,20}") {
            let _ = text.parse::<Backoff>();
            let _ = text.parse::<Jitter>();
        }
    }
}
