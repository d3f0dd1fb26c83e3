//! How moments and ages are shown.

pub use crate::domain::duration::length;
use crate::domain::time::UnixMs;
use jiff::Timestamp;
use std::time::Duration;

/// A moment as RFC 3339 in UTC, to the millisecond: `2026-11-30T17:00:00.123Z`. A moment outside of
/// the years that can be written comes as the nearest that can.
pub fn rfc3339(at: UnixMs) -> String {
    let nearest = if at.0 < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    };
    let moment = Timestamp::from_millisecond(at.0).unwrap_or(nearest);
    format!("{moment:.3}")
}

/// An age for people, by its two largest units: `3h 12m ago`, `45s ago`; `just now` below a second.
pub fn age(age: Duration) -> String {
    if age.as_secs() == 0 {
        return "just now".to_owned();
    }
    format!("{} ago", length(age))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_milliseconds_and_a_z() {
        assert_eq!(rfc3339(UnixMs(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(
            rfc3339(UnixMs(1_796_058_000_123)),
            "2026-11-30T17:00:00.123Z"
        );
        assert_eq!(rfc3339(UnixMs(-1)), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn a_moment_beyond_the_calendar_is_still_shown() {
        assert!(rfc3339(UnixMs(i64::MAX)).starts_with("9999-12-30T"));
        assert!(rfc3339(UnixMs(i64::MIN)).starts_with("-009999-"));
    }

    #[test]
    fn ages_have_two_units() {
        for (secs, text) in [
            (0, "just now"),
            (1, "1s ago"),
            (60, "1m ago"),
            (61, "1m 1s ago"),
            (11_520, "3h 12m ago"),
            (11_579, "3h 12m ago"),
            (3601, "1h ago"),
            (86_400 * 5 + 3600 * 3 + 59, "5d 3h ago"),
            (86_400 * 400, "400d ago"),
        ] {
            assert_eq!(age(Duration::from_secs(secs)), text);
        }
        assert_eq!(age(Duration::from_millis(999)), "just now");
        assert_eq!(length(Duration::from_millis(1999)), "1s");
        assert_eq!(length(Duration::from_micros(120_900)), "120ms");
        assert_eq!(length(Duration::ZERO), "0ms");
    }
}
