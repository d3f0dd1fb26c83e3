//! Lengths of time as people write them (`90s`, `1h 30m`, `1.5h`) and read them.

use std::fmt;
use std::time::Duration;

/// Nothing that is waited for or kept lasts longer: 1000 years of 365.25 days. Every sum with a
/// moment of the calendar stays far inside the range of the integers that hold it.
pub const MAX_DURATION: Duration = Duration::from_secs(1000 * 31_557_600);

/// Why a text is no length of time. Each carries the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DurationError {
    /// There is nothing in it.
    Empty,
    /// It begins with a minus sign.
    Negative(String),
    /// A number has no unit behind it.
    NoUnit(String),
    /// It is more than [`MAX_DURATION`].
    TooLong(String),
    /// It is something else, or an unknown unit.
    Unreadable(String),
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DurationError::Empty => write!(f, "the duration is empty: write for example 90s"),
            DurationError::Negative(text) => write!(
                f,
                "a duration cannot be negative, as `{text}` is: write for example 90s or 5m"
            ),
            DurationError::NoUnit(text) => {
                write!(
                    f,
                    "duration `{text}` has no unit: write for example 90s or 5m"
                )
            }
            DurationError::TooLong(text) => {
                write!(f, "duration `{text}` is longer than 1000 years")
            }
            DurationError::Unreadable(text) => write!(
                f,
                "cannot read `{text}` as a duration: write for example 90s, 15m or 1h 30m"
            ),
        }
    }
}

impl std::error::Error for DurationError {}

/// Reads a length of time in the notation of `humantime`: numbers with units, added up; a bare `0`.
///
/// Each term is read alone and the sum is checked, since a sum at the very end of the range makes
/// the library panic, and since it takes `1 5s` for fifteen seconds.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let mut rest = text.trim();
    match rest {
        "" => return Err(DurationError::Empty),
        "0" => return Ok(Duration::ZERO),
        _ if rest.starts_with('-') => return Err(DurationError::Negative(text.to_owned())),
        _ => {}
    }
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let (number, unit, after) = split_term(rest);
        sum = sum
            .checked_add(parse_term(number, unit, text)?)
            .filter(|sum| *sum <= MAX_DURATION)
            .ok_or_else(|| DurationError::TooLong(text.to_owned()))?;
        rest = after;
    }
    Ok(sum)
}

/// The first number, its unit, and what comes after; number or unit may be empty.
fn split_term(text: &str) -> (&str, &str, &str) {
    let (number, rest) = split_while(text, |c| c.is_ascii_digit() || c == '.');
    let (unit, rest) = split_while(rest.trim_start(), char::is_alphabetic);
    (number, unit, rest.trim_start())
}

fn split_while(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

fn parse_term(number: &str, unit: &str, text: &str) -> Result<Duration, DurationError> {
    use humantime::DurationError as Reason;
    if number.is_empty() {
        return Err(DurationError::Unreadable(text.to_owned()));
    }
    if unit.is_empty() {
        return Err(DurationError::NoUnit(text.to_owned()));
    }
    humantime::parse_duration(&format!("{number}{unit}")).or_else(|reason| match reason {
        Reason::NumberOverflow if !number.contains('.') => {
            many_small(number, unit).ok_or_else(|| DurationError::TooLong(text.to_owned()))
        }
        _ => Err(DurationError::Unreadable(text.to_owned())),
    })
}

/// More thousandths of a second than the library counts in nanoseconds: 584 years and up.
fn many_small(number: &str, unit: &str) -> Option<Duration> {
    let a_second: u128 = match unit {
        "millis" | "msec" | "ms" => 1_000,
        "usec" | "us" => 1_000_000,
        _ => return None,
    };
    let count: u128 = number.parse().ok()?;
    let secs = u64::try_from(count / a_second).ok()?;
    let nanos = (count % a_second) * (1_000_000_000 / a_second);
    Some(Duration::new(secs, u32::try_from(nanos).ok()?))
}

/// A length of time for people, by its two largest units, rounded down: `3h 12m`, `45s`, `120ms`.
pub fn length(length: Duration) -> String {
    let secs = length.as_secs();
    let parts = [
        (secs / 86_400, "d"),
        (secs / 3600 % 24, "h"),
        (secs / 60 % 60, "m"),
        (secs % 60, "s"),
    ];
    if secs == 0 {
        return format!("{}ms", length.subsec_millis());
    }
    let from_largest = parts.iter().skip_while(|(count, _)| *count == 0).take(2);
    let shown: Vec<_> = from_largest
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    shown.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn terms_add_up() {
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration(" 1h 30m "), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_duration("1h30min"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_duration("1.5 h"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_duration("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
        assert_eq!(parse_duration("1000years"), Ok(MAX_DURATION));
    }

    #[test]
    fn small_units_reach_as_far_as_large_ones() {
        let years = 31_557_600 * 900;
        for text in [format!("{years}000ms"), format!("{years}000000us")] {
            assert_eq!(parse_duration(&text), Ok(Duration::from_secs(years)));
        }
        let too_many = "99999999999999999ms";
        let refused = Err(DurationError::TooLong(too_many.into()));
        assert_eq!(parse_duration(too_many), refused);
    }

    #[test]
    fn each_wrong_text_gets_its_reason() {
        let of = |text: &str| parse_duration(text).unwrap_err();
        assert_eq!(of("  "), DurationError::Empty);
        assert_eq!(of("-5s"), DurationError::Negative("-5s".into()));
        for text in ["5", "1 5s", "1h 30", "1.5"] {
            assert_eq!(of(text), DurationError::NoUnit(text.into()));
        }
        let max = u64::MAX;
        for text in [
            "1001y".to_owned(),
            format!("{max}s 1000000000ns"),
            format!("{max}y"),
            format!("{max}9s"),
            format!("{max}s {max}s"),
        ] {
            assert_eq!(of(&text), DurationError::TooLong(text.clone()));
        }
        for text in [
            "NaN",
            "inf",
            "5 parsecs",
            "+5s",
            "s",
            "1..5s",
            "5s,",
            "1e3s",
            "٣s",
        ] {
            assert_eq!(of(text), DurationError::Unreadable(text.into()));
        }
    }

    proptest! {
        #[test]
        fn nothing_that_can_be_typed_panics(text in "[0-9. a-zµ-]{0,40}|\\PC{0,20}") {
            if let Ok(duration) = parse_duration(&text) {
                prop_assert!(duration <= MAX_DURATION);
            }
        }
    }
}
