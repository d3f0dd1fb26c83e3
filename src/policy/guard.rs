//! What the options of the named guards share: a name, and numbers that make sense.

use std::fmt;

use super::text::{DurationError, digits, positive_duration};
use crate::domain::name::{Key, NameError};

/// Why a text describes no guard. Each message is a fragment that follows the option's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardError {
    /// The text does not have the expected form; carries the text and the form.
    Form(String, &'static str),
    /// The name cannot be one; carries it and why.
    Name(String, NameError),
    /// The number is not a whole one within 1 and the given highest; carries the text and the highest.
    Number(String, u32),
    /// A duration is wrong.
    Duration(DurationError),
    /// A setting is unknown; carries its name.
    UnknownSetting(String),
    /// A setting is given twice, or excludes another that is given; carries its name.
    Conflict(String),
}

impl fmt::Display for GuardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuardError::Form(text, form) => {
                write!(f, "`{text}` is not understood, expected {form}")
            }
            GuardError::Name(name, why) => {
                write!(
                    f,
                    "the name `{}` {why}, expected 1 to 255 printable bytes",
                    name.escape_debug()
                )
            }
            GuardError::Number(text, highest) => {
                write!(
                    f,
                    "`{text}` is out of range, expected a whole number from 1 to {highest}"
                )
            }
            GuardError::Duration(e) => e.fmt(f),
            GuardError::UnknownSetting(name) => write!(
                f,
                "`{name}` is not a setting, expected failures=5 or ratio=50%/20/1m, cooldown=30s, probes=1"
            ),
            GuardError::Conflict(name) => write!(
                f,
                "`{name}` is given twice or beside its alternative, expected one of failures and ratio, once"
            ),
        }
    }
}

impl std::error::Error for GuardError {}

impl From<DurationError> for GuardError {
    fn from(e: DurationError) -> GuardError {
        GuardError::Duration(e)
    }
}

/// The name of a guard, by the rules of keys.
pub fn name(text: &str) -> Result<String, GuardError> {
    match Key::new(text) {
        Ok(key) => Ok(key.as_str().to_owned()),
        Err(why) => Err(GuardError::Name(text.to_owned(), why)),
    }
}

/// A whole number from 1 to `highest`.
pub fn count(text: &str, highest: u32) -> Result<u32, GuardError> {
    digits(text)
        .filter(|n| (1..=highest).contains(n))
        .ok_or_else(|| GuardError::Number(text.to_owned(), highest))
}

/// A positive duration in whole milliseconds, at least one.
pub fn duration_ms(text: &str) -> Result<u64, GuardError> {
    Ok(super::text::ms(positive_duration(text)?).max(1))
}
