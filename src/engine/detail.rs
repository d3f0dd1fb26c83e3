//! What an event's detail tells of an output, and of an end.

use super::store::PastResult;
use crate::domain::name::{Generation, Nonce};
use crate::domain::outcome::{Class, State};
use crate::domain::record::{OutputRef, Place};
use crate::domain::time::UnixMs;
use serde_json::{Map, Value, json};

impl Place {
    /// The word used in the ledger and in the store.
    pub fn word(self) -> &'static str {
        match self {
            Place::Nowhere => "nowhere",
            Place::Inline => "inline",
            Place::Spool => "spool",
        }
    }

    /// Reads back what [`Place::word`] wrote.
    pub fn from_word(word: &str) -> Option<Place> {
        [Place::Nowhere, Place::Inline, Place::Spool]
            .into_iter()
            .find(|place| place.word() == word)
    }
}

/// The value of an event's `output`: everything that is needed to open it.
pub fn output_to_detail(output: &OutputRef) -> Value {
    json!({
        "place": output.place.word(),
        "nonce": output.nonce.hex(),
        "number": output.number,
        "stdout_bytes": output.stdout_bytes,
        "stderr_bytes": output.stderr_bytes,
        "truncated": output.truncated,
        "lost": output.lost,
    })
}

/// Reads back what [`output_to_detail`] wrote; none where a part is missing.
pub fn output_from_detail(detail: &Value) -> Option<OutputRef> {
    Some(OutputRef {
        place: Place::from_word(detail.get("place")?.as_str()?)?,
        nonce: Nonce::from_hex(detail.get("nonce")?.as_str()?)?,
        number: u32::try_from(detail.get("number")?.as_u64()?).ok()?,
        stdout_bytes: detail.get("stdout_bytes")?.as_u64()?,
        stderr_bytes: detail.get("stderr_bytes")?.as_u64()?,
        truncated: detail.get("truncated")?.as_bool()?,
        lost: detail.get("lost")?.as_bool()?,
    })
}

/// How a generation ended, from the detail of the event that tells it; none where that has no state.
pub fn past_from_detail(
    generation: Generation,
    at: UnixMs,
    detail: &Map<String, Value>,
) -> Option<PastResult> {
    let text = |name: &str| detail.get(name).and_then(Value::as_str);
    let code = detail.get("exit_code").and_then(Value::as_i64);
    Some(PastResult {
        generation,
        state: text("state").and_then(State::from_word)?,
        class: text("class").and_then(Class::from_word),
        reason: text("reason").map(str::to_owned),
        exit_code: code.and_then(|code| i32::try_from(code).ok()),
        output: detail.get("output").and_then(output_from_detail),
        settled_at: at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_survives_its_detail() {
        for place in [Place::Nowhere, Place::Inline, Place::Spool] {
            let output = OutputRef {
                place,
                nonce: Nonce([7; 16]),
                number: 3,
                stdout_bytes: u64::MAX,
                stderr_bytes: 2,
                truncated: true,
                lost: false,
            };
            assert_eq!(output_from_detail(&output_to_detail(&output)), Some(output));
        }
        assert_eq!(output_from_detail(&Value::Null), None);
        assert_eq!(output_from_detail(&json!({"place": "inline"})), None);
    }
}
