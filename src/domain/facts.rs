//! The outside facts that a key can be made of, and how the core asks for them.

use super::period::{Period, PeriodError};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::fmt;

/// Why a fact is not to be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactError {
    /// An environment variable is not set; carries its name.
    EnvUnset(String),
    /// The command has fewer arguments.
    NoArgument {
        /// Which one was asked for, 0 being the command itself.
        index: usize,
        /// How many there are, the command included.
        count: usize,
    },
    /// The system did not tell.
    Unavailable {
        /// What was asked for, as `the host name`.
        fact: String,
        /// What went wrong, and what to do where there is something.
        why: String,
    },
    /// The clock is beyond the calendar.
    Period(PeriodError),
}

impl fmt::Display for FactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FactError::EnvUnset(name) => {
                write!(
                    f,
                    "environment variable {name} is not set: set it or leave it out"
                )
            }
            FactError::NoArgument { index, count } => write!(
                f,
                "the command has no argument {index}: there are {count}, counted from 0, the command itself"
            ),
            FactError::Unavailable { fact, why } => write!(f, "cannot tell {fact}: {why}"),
            FactError::Period(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for FactError {}

/// Tells facts about the call and the machine it is made on. Texts come as bytes, which need not be
/// UTF-8. Each is asked for only when a key or a fingerprint needs it.
pub trait Facts {
    /// The local time zone.
    fn zone(&mut self) -> Result<TimeZone, FactError>;
    /// The machine's name.
    fn host(&mut self) -> Result<Vec<u8>, FactError>;
    /// The name of the user that the call runs as.
    fn user(&mut self) -> Result<Vec<u8>, FactError>;
    /// The absolute path of the working directory.
    fn cwd(&mut self) -> Result<Vec<u8>, FactError>;
    /// An environment variable's value, if it is set.
    fn env(&mut self, name: &str) -> Result<Option<Vec<u8>>, FactError>;
    /// The command and its arguments.
    fn argv(&self) -> &[Vec<u8>];
    /// The commit that is checked out, in hex.
    fn git_head(&mut self) -> Result<Vec<u8>, FactError>;
    /// SHA-256 of a file's content.
    fn file_digest(&mut self, path: &[u8]) -> Result<[u8; 32], FactError>;
    /// SHA-256 of all of stdin from where it stands. The command must still be able to read it.
    fn stdin_digest(&mut self) -> Result<[u8; 32], FactError>;
    /// The present name of a batch.
    fn batch(&mut self, name: &str) -> Result<Vec<u8>, FactError>;
}

/// An environment variable that must be set; it may be empty.
pub fn required_env(facts: &mut dyn Facts, name: &str) -> Result<Vec<u8>, FactError> {
    facts
        .env(name)?
        .ok_or_else(|| FactError::EnvUnset(name.to_owned()))
}

/// The `index`th argument, 0 being the command itself.
pub fn argument(facts: &dyn Facts, index: usize) -> Result<Vec<u8>, FactError> {
    let argv = facts.argv();
    argv.get(index).cloned().ok_or(FactError::NoArgument {
        index,
        count: argv.len(),
    })
}

/// A period by the clock of UTC or, where asked for, of the local time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClockPeriod {
    /// The period.
    pub period: Period,
    /// Whether the local time zone counts instead of UTC.
    pub local: bool,
}

impl ClockPeriod {
    /// Reads a period, with `:local` behind it for the local time zone.
    pub fn parse(text: &str) -> Result<ClockPeriod, PeriodError> {
        let (period, local) = match text.strip_suffix(":local") {
            Some(period) => (period, true),
            None => (text, false),
        };
        let period = Period::parse(period)?;
        Ok(ClockPeriod { period, local })
    }

    /// The name of the window that `at` lies in.
    pub fn name(&self, facts: &mut dyn Facts, at: Timestamp) -> Result<String, FactError> {
        let zone = if self.local {
            facts.zone()?
        } else {
            TimeZone::UTC
        };
        let window = self.period.window(at, &zone).map_err(FactError::Period)?;
        Ok(window.name)
    }
}

/// Facts for tests: known values, and a few that fail.
#[cfg(test)]
pub mod fake {
    use super::*;

    pub struct FakeFacts {
        pub argv: Vec<Vec<u8>>,
        pub cwd: Vec<u8>,
        pub stdin: [u8; 32],
    }

    impl Default for FakeFacts {
        fn default() -> FakeFacts {
            FakeFacts {
                argv: vec![b"echo".to_vec(), b"one".to_vec(), b"\xfe".to_vec()],
                cwd: b"/srv/app".to_vec(),
                stdin: [0xab; 32],
            }
        }
    }

    pub fn unavailable(fact: &str) -> FactError {
        FactError::Unavailable {
            fact: fact.to_owned(),
            why: "not there".to_owned(),
        }
    }

    impl Facts for FakeFacts {
        fn zone(&mut self) -> Result<TimeZone, FactError> {
            Ok(TimeZone::fixed(jiff::tz::offset(9)))
        }

        fn host(&mut self) -> Result<Vec<u8>, FactError> {
            Ok(b"web-1".to_vec())
        }

        fn user(&mut self) -> Result<Vec<u8>, FactError> {
            Ok(b"deploy".to_vec())
        }

        fn cwd(&mut self) -> Result<Vec<u8>, FactError> {
            Ok(self.cwd.clone())
        }

        fn env(&mut self, name: &str) -> Result<Option<Vec<u8>>, FactError> {
            Ok(match name {
                "STAGE" => Some(b"prod".to_vec()),
                "EMPTY" => Some(Vec::new()),
                "LINE" => Some(b"a\nb".to_vec()),
                "BYTES" => Some(b"\xff".to_vec()),
                "LONG" => Some(vec![b'x'; 256]),
                _ => None,
            })
        }

        fn argv(&self) -> &[Vec<u8>] {
            &self.argv
        }

        fn git_head(&mut self) -> Result<Vec<u8>, FactError> {
            Ok(b"0123456789abcdef0123456789abcdef01234567".to_vec())
        }

        fn file_digest(&mut self, path: &[u8]) -> Result<[u8; 32], FactError> {
            match path {
                b"/etc/app:1.toml" => Ok([0x11; 32]),
                b"other" => Ok([0x22; 32]),
                _ => Err(unavailable("the digest of a file")),
            }
        }

        fn stdin_digest(&mut self) -> Result<[u8; 32], FactError> {
            Ok(self.stdin)
        }

        fn batch(&mut self, name: &str) -> Result<Vec<u8>, FactError> {
            Ok(format!("{name}-7f3a").into_bytes())
        }
    }
}
