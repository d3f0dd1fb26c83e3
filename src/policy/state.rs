//! What the guards whose state lives in a store share: reading it back, and letting time pass.

use std::fmt;

use serde_json::{Map, Value};

use super::text::ms;
use crate::domain::time::{BootId, Stamp, UnixMs};

/// Why a stored state cannot be read. Each message is a fragment that follows the guard's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateError {
    /// It is no JSON object.
    NotAnObject,
    /// It has a field that this version does not know; carries its name.
    UnknownField(String),
    /// A field is missing or holds something else; carries its name.
    Field(&'static str),
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateError::NotAnObject => write!(f, "has a stored state that is no JSON object"),
            StateError::UnknownField(name) => {
                write!(
                    f,
                    "has a stored state with the unknown field `{name}`, perhaps of a newer version"
                )
            }
            StateError::Field(name) => {
                write!(
                    f,
                    "has a stored state whose field `{name}` is missing or wrong"
                )
            }
        }
    }
}

impl std::error::Error for StateError {}

/// The fields of a stored object.
pub struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    /// Takes an object that has none but these fields.
    pub fn of(value: &'a Value, known: &[&str]) -> Result<Fields<'a>, StateError> {
        let map = value.as_object().ok_or(StateError::NotAnObject)?;
        match map.keys().find(|k| !known.contains(&k.as_str())) {
            Some(name) => Err(StateError::UnknownField(name.clone())),
            None => Ok(Fields(map)),
        }
    }

    /// A field that must be there.
    pub fn value(&self, name: &'static str) -> Result<&'a Value, StateError> {
        self.0.get(name).ok_or(StateError::Field(name))
    }

    /// A non-negative integer.
    pub fn number<T: TryFrom<u64>>(&self, name: &'static str) -> Result<T, StateError> {
        number(self.value(name)?).ok_or(StateError::Field(name))
    }

    /// An integer.
    pub fn signed(&self, name: &'static str) -> Result<i64, StateError> {
        self.value(name)?.as_i64().ok_or(StateError::Field(name))
    }

    /// A text.
    pub fn text(&self, name: &'static str) -> Result<&'a str, StateError> {
        self.value(name)?.as_str().ok_or(StateError::Field(name))
    }

    /// A list, each entry of which `read` must accept.
    pub fn list<T>(
        &self,
        name: &'static str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Vec<T>, StateError> {
        let entries = self
            .value(name)?
            .as_array()
            .ok_or(StateError::Field(name))?;
        let read_all: Option<Vec<T>> = entries.iter().map(read).collect();
        read_all.ok_or(StateError::Field(name))
    }
}

/// A non-negative integer that fits.
pub fn number<T: TryFrom<u64>>(value: &Value) -> Option<T> {
    T::try_from(value.as_u64()?).ok()
}

/// A text of its own.
pub fn owned_text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Writes a stamp.
pub fn stamp_to_json(stamp: &Stamp) -> Value {
    serde_json::json!({"wall": stamp.wall.0, "boot_ms": stamp.boot_ms, "boot": stamp.boot.0})
}

/// Reads back what [`stamp_to_json`] wrote.
pub fn stamp_from_json(value: &Value) -> Result<Stamp, StateError> {
    let fields = Fields::of(value, &["wall", "boot_ms", "boot"])?;
    Ok(Stamp {
        wall: UnixMs(fields.signed("wall")?),
        boot_ms: fields.signed("boot_ms")?,
        boot: BootId(fields.text("boot")?.to_owned()),
    })
}

/// Moves a stored moment up to `now` and returns the milliseconds that have passed. Two processes may
/// read the clock in one order and write in the other: then nothing has passed and nothing moves.
pub fn advance(at: &mut Stamp, now: &Stamp) -> u64 {
    let passed_ms = ms(at.age(now));
    if passed_ms > 0 || at.boot != now.boot {
        *at = now.clone();
    }
    passed_ms
}

#[cfg(test)]
pub mod testing {
    use super::*;

    /// A moment of one boot, with a wall clock that stands still.
    pub fn at_ms(boot_ms: i64) -> Stamp {
        Stamp {
            wall: UnixMs(1_000_000),
            boot_ms,
            boot: BootId("boot".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::at_ms;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_stamp_is_read_back() {
        let stamp = at_ms(77);
        assert_eq!(stamp_from_json(&stamp_to_json(&stamp)), Ok(stamp));
        for (bad, error) in [
            (json!(1), StateError::NotAnObject),
            (json!({}), StateError::Field("wall")),
            (json!({"wall": 1.5}), StateError::Field("wall")),
            (json!({"x": 1}), StateError::UnknownField("x".into())),
        ] {
            assert_eq!(stamp_from_json(&bad), Err(error));
        }
    }

    #[test]
    fn time_never_runs_backwards() {
        let mut at = at_ms(1000);
        assert_eq!(advance(&mut at, &at_ms(400)), 0);
        assert_eq!(at, at_ms(1000));
        assert_eq!(advance(&mut at, &at_ms(1500)), 500);
        let mut after_reboot = at_ms(5);
        after_reboot.boot = BootId("next".into());
        after_reboot.wall = UnixMs(10);
        assert_eq!(advance(&mut at, &after_reboot), 0);
        assert_eq!(at, after_reboot, "a clock set back does not stop time");
    }
}
