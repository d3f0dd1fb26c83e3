//! What option values mean: durations, sizes, deadlines.

use crate::domain::duration::{DurationError, parse_duration};
use crate::domain::time::{Ttl, UnixMs};
use jiff::Timestamp;
use std::fmt;
use std::time::Duration;

/// Why the value of an option cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueError {
    /// It is no duration.
    Duration(DurationError),
    /// A duration of nothing, where that would mean nothing useful; carries what to write instead.
    ZeroDuration(&'static str),
    /// A size of nothing.
    ZeroSize,
    /// It is no size; carries the text.
    Size(String),
    /// A size that does not fit into 63 bits; carries the text.
    SizeTooLarge(String),
    /// It is a date, but no moment: the time of day or the offset from UTC is missing, or a number is
    /// out of range; carries the text.
    Moment(String),
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueError::Duration(e) => e.fmt(f),
            ValueError::ZeroDuration(instead) => {
                write!(f, "a duration of zero means nothing here: {instead}")
            }
            ValueError::ZeroSize => {
                write!(f, "a size of zero means nothing here: write at least 1")
            }
            ValueError::Size(text) => write!(
                f,
                "cannot read `{text}` as a size: write a whole number of bytes, or one with k, M, G, KiB, MiB or GiB"
            ),
            ValueError::SizeTooLarge(text) => write!(f, "size `{text}` is too large"),
            ValueError::Moment(text) => write!(
                f,
                "cannot read `{text}` as a moment: write it as 2026-11-30T17:00:00Z, with Z or an offset"
            ),
        }
    }
}

impl std::error::Error for ValueError {}

/// A duration longer than nothing: `90s`, `1h 30m`.
pub fn duration(text: &str) -> Result<Duration, ValueError> {
    positive(text, "write a longer one, or leave the option out")
}

/// A duration that may be nothing, as for a grace period or a wait.
pub fn duration_or_zero(text: &str) -> Result<Duration, ValueError> {
    parse_duration(text).map_err(ValueError::Duration)
}

/// How long a result is kept: a duration longer than nothing, or `forever`.
pub fn ttl(text: &str) -> Result<Ttl, ValueError> {
    if text == "forever" {
        return Ok(Ttl::Forever);
    }
    positive(text, "write a longer one, or `forever`").map(Ttl::For)
}

fn positive(text: &str, instead: &'static str) -> Result<Duration, ValueError> {
    let duration = duration_or_zero(text)?;
    if duration.is_zero() {
        return Err(ValueError::ZeroDuration(instead));
    }
    Ok(duration)
}

/// A deadline as it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deadline {
    /// This long after the start of the call.
    After(Duration),
    /// At this moment, which may have passed.
    At(UnixMs),
}

impl Deadline {
    /// The moment, for a call that starts at `start`.
    pub fn moment(self, start: UnixMs) -> UnixMs {
        match self {
            Deadline::At(moment) => moment,
            Deadline::After(duration) => {
                let ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
                UnixMs(start.0.saturating_add(ms))
            }
        }
    }
}

/// A duration longer than nothing, or a moment in RFC 3339.
pub fn deadline(text: &str) -> Result<Deadline, ValueError> {
    let text = text.trim();
    if !is_dated(text) {
        return duration(text).map(Deadline::After);
    }
    match text.parse::<Timestamp>() {
        Ok(moment) => Ok(Deadline::At(UnixMs(moment.as_millisecond()))),
        Err(_) => Err(ValueError::Moment(text.to_owned())),
    }
}

/// Whether this begins like a date, `2026-`: no duration does.
fn is_dated(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && text[digits..].starts_with('-')
}

/// A whole number in nothing but digits, if it fits.
pub fn whole_number<T: std::str::FromStr>(text: &str) -> Option<T> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// A number of bytes above zero: `4096`, `1k` (1000), `200MB` (1000²), `16MiB` (1024²).
pub fn size(text: &str) -> Result<u64, ValueError> {
    let wrong = || ValueError::Size(text.to_owned());
    let too_large = || ValueError::SizeTooLarge(text.to_owned());
    let trimmed = text.trim();
    let end = trimmed.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = trimmed.split_at(end);
    let factor = unit_bytes(unit.trim_start()).ok_or_else(wrong)?;
    if number.is_empty() {
        return Err(wrong());
    }
    let number: u64 = number.parse().map_err(|_| too_large())?;
    match number.checked_mul(factor) {
        Some(0) => Err(ValueError::ZeroSize),
        Some(bytes) if i64::try_from(bytes).is_ok() => Ok(bytes),
        _ => Err(too_large()),
    }
}

/// Decimal prefixes are of SI, binary ones of IEC 80000-13; case does not count.
fn unit_bytes(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let prefix = unit.strip_suffix('b').unwrap_or(&unit);
    Some(match prefix {
        "" => 1,
        "k" => 1000,
        "m" => 1000_u64.pow(2),
        "g" => 1000_u64.pow(3),
        "t" => 1000_u64.pow(4),
        "ki" => 1 << 10,
        "mi" => 1 << 20,
        "gi" => 1 << 30,
        "ti" => 1 << 40,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_more_than_nothing_unless_said() {
        assert_eq!(duration("1h 30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration_or_zero("0s"), Ok(Duration::ZERO));
        for text in ["0", "0s", "0h 0m"] {
            assert!(
                matches!(duration(text), Err(ValueError::ZeroDuration(_))),
                "{text}"
            );
            assert!(
                matches!(ttl(text), Err(ValueError::ZeroDuration(_))),
                "{text}"
            );
        }
        for text in ["", "-5s", "NaN", "5", "99999999999999999999y", "1001y"] {
            assert!(
                matches!(duration(text), Err(ValueError::Duration(_))),
                "{text}"
            );
            assert!(
                duration_or_zero(text).is_err() && ttl(text).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn a_ttl_can_be_forever() {
        assert_eq!(ttl("forever"), Ok(Ttl::Forever));
        assert_eq!(ttl("24h"), Ok(Ttl::For(Duration::from_secs(86_400))));
        assert!(ttl("Forever").is_err());
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("1", 1),
            ("4096", 4096),
            ("100B", 100),
            ("1k", 1000),
            ("1K", 1000),
            ("2 kB", 2000),
            ("200MB", 200_000_000),
            ("1Ki", 1024),
            ("16MiB", 16 << 20),
            ("3gib", 3 << 30),
            ("1TiB", 1 << 40),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in [
            "", "MiB", "-1", "+1", "1.5MiB", "1 x", "1kk", "1bb", "1i", "NaN", "1e9", "0x10",
        ] {
            assert_eq!(size(text), Err(ValueError::Size(text.into())));
        }
        for text in ["0", "0MiB"] {
            assert_eq!(size(text), Err(ValueError::ZeroSize));
        }
        for text in [
            "9223372036854775808",
            "99999999999999999999",
            "9000000000GiB",
        ] {
            assert_eq!(size(text), Err(ValueError::SizeTooLarge(text.into())));
        }
    }

    #[test]
    fn a_deadline_is_a_duration_or_a_moment() {
        assert_eq!(
            deadline("90s"),
            Ok(Deadline::After(Duration::from_secs(90)))
        );
        let moment = Deadline::At(UnixMs(1_796_058_000_123));
        for text in [
            "2026-11-30T17:00:00.123Z",
            "2026-11-30t18:00:00.123+01:00",
            "2026-11-30 17:00:00.123Z",
        ] {
            assert_eq!(deadline(text), Ok(moment), "{text}");
        }
        assert_eq!(
            deadline("1999-12-31T00:00:00Z"),
            Ok(Deadline::At(UnixMs(946_598_400_000)))
        );
        for text in [
            "2026-11-30",
            "2026-11-30T17:00:00",
            "2026-13-30T17:00:00Z",
            "2026-",
            "99999-01-01T00:00:00Z",
        ] {
            assert_eq!(deadline(text), Err(ValueError::Moment(text.into())));
        }
        assert!(matches!(deadline("0s"), Err(ValueError::ZeroDuration(_))));
        assert!(matches!(deadline("soon"), Err(ValueError::Duration(_))));
    }

    #[test]
    fn whole_numbers_are_digits_alone() {
        assert_eq!(whole_number("007"), Some(7_u32));
        assert_eq!(whole_number("4294967295"), Some(u32::MAX));
        for text in [
            "",
            "+1",
            "-1",
            "1.0",
            " 1",
            "1e3",
            "NaN",
            "4294967296",
            "\u{661}",
        ] {
            assert_eq!(whole_number::<u32>(text), None, "{text}");
        }
    }

    #[test]
    fn a_deadline_becomes_a_moment() {
        let start = UnixMs(1000);
        assert_eq!(
            Deadline::After(Duration::from_secs(2)).moment(start),
            UnixMs(3000)
        );
        assert_eq!(Deadline::At(UnixMs(5)).moment(start), UnixMs(5));
        assert_eq!(
            Deadline::After(Duration::MAX).moment(start),
            UnixMs(i64::MAX)
        );
    }

    proptest! {
        #[test]
        fn no_value_panics(text in "[0-9]{0,22}[-.a-zA-Z: ]{0,8}[0-9]{0,6}|\\PC{0,12}") {
            let _ = (duration(&text), ttl(&text), size(&text), deadline(&text));
        }
    }
}
