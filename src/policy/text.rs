//! What the parsers of this layer share: positive durations, numbers, names.

use crate::domain::duration::DurationError as Common;
use std::fmt;
use std::time::Duration;

/// Why a text is no positive duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DurationError {
    /// It is not a duration at all; carries the text and what the parser said.
    Malformed(String, String),
    /// It begins with a minus sign; carries the text.
    Negative(String),
    /// It is zero; carries the text.
    Zero(String),
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DurationError::Malformed(text, why) => {
                write!(
                    f,
                    "`{text}` is not a duration ({why}), expected for example 500ms, 90s or 1h 30m"
                )
            }
            DurationError::Negative(text) => Common::Negative(text.clone()).fmt(f),
            DurationError::Zero(text) => {
                write!(
                    f,
                    "`{text}` is zero, expected a duration longer than nothing"
                )
            }
        }
    }
}

impl std::error::Error for DurationError {}

/// Reads a duration in humantime's notation and refuses zero.
pub fn positive_duration(text: &str) -> Result<Duration, DurationError> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err(DurationError::Negative(text.to_owned()));
    }
    let duration = humantime::parse_duration(text)
        .map_err(|e| DurationError::Malformed(text.to_owned(), e.to_string()))?;
    if duration.is_zero() {
        return Err(DurationError::Zero(text.to_owned()));
    }
    Ok(duration)
}

/// Reads decimal digits and nothing else: no sign, no space, no underscore.
pub fn digits<T: std::str::FromStr>(text: &str) -> Option<T> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Whole milliseconds, saturating.
pub fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_positive() {
        assert_eq!(
            positive_duration(" 1m 30s ").unwrap(),
            Duration::from_secs(90)
        );
        assert_eq!(
            positive_duration("0s").unwrap_err(),
            DurationError::Zero("0s".into())
        );
        assert_eq!(
            positive_duration(" -1s").unwrap_err(),
            DurationError::Negative("-1s".into())
        );
        for bad in ["", "5", "NaN", "infs", "1e9s", "99999999999999999999s"] {
            assert!(
                matches!(positive_duration(bad), Err(DurationError::Malformed(..))),
                "{bad}"
            );
        }
    }

    #[test]
    fn digits_are_digits_only() {
        assert_eq!(digits::<u8>("255"), Some(255));
        for bad in ["", "+1", "-1", " 1", "256", "1_0", "½"] {
            assert_eq!(digits::<u8>(bad), None, "{bad}");
        }
    }
}
