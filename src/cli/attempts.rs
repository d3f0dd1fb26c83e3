//! The attempts of an operation, put together from its ledger.

use crate::domain::name::Generation;
use crate::domain::outcome::Class;
use crate::domain::record::OutputRef;
use crate::domain::time::UnixMs;
use crate::engine::detail::output_from_detail;
use crate::engine::event::{Event, EventKind};
use serde_json::{Map, Value};

/// One attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The claim that it belongs to.
    pub generation: Generation,
    /// Its number in that generation, from 1.
    pub number: u32,
    /// The child.
    pub pid: Option<i64>,
    /// When it started.
    pub started_at: Option<UnixMs>,
    /// When it ended, if anybody saw it.
    pub ended_at: Option<UnixMs>,
    /// How long it took, in milliseconds.
    pub duration_ms: Option<u64>,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The number of the signal that killed it.
    pub signal: Option<i32>,
    /// What it tells.
    pub class: Option<Class>,
    /// Why, in a few words.
    pub reason: Option<String>,
    /// Its recorded output.
    pub output: Option<OutputRef>,
}

/// The attempts of one operation since the generation that minted its token, oldest first.
pub fn collect(events: &[Event], minted_by: Generation) -> Vec<Attempt> {
    let mut attempts: Vec<Attempt> = Vec::new();
    for event in events.iter().filter(|e| e.generation >= minted_by) {
        let Some(number) = event.attempt else {
            continue;
        };
        let same = |a: &Attempt| a.generation == event.generation && a.number == number;
        let at = match attempts.iter().position(same) {
            Some(at) => at,
            None => {
                attempts.push(empty(event.generation, number));
                attempts.len() - 1
            }
        };
        if let Some(attempt) = attempts.get_mut(at) {
            learn(attempt, event);
        }
    }
    attempts
}

fn empty(generation: Generation, number: u32) -> Attempt {
    Attempt {
        generation,
        number,
        pid: None,
        started_at: None,
        ended_at: None,
        duration_ms: None,
        exit_code: None,
        signal: None,
        class: None,
        reason: None,
        output: None,
    }
}

fn learn(attempt: &mut Attempt, event: &Event) {
    let detail = &event.detail;
    match event.kind {
        EventKind::AttemptStarted => {
            attempt.started_at = Some(event.at);
            attempt.pid = detail.get("pid").and_then(Value::as_i64);
        }
        EventKind::AttemptEnded => {
            attempt.ended_at = Some(event.at);
            attempt.duration_ms = detail.get("duration_ms").and_then(Value::as_u64);
            attempt.exit_code = small_number(detail, "exit_code");
            attempt.signal = small_number(detail, "signal");
            attempt.class = text(detail, "class").and_then(Class::from_word);
            attempt.reason = text(detail, "reason").map(str::to_owned);
            attempt.output = detail.get("output").and_then(output_from_detail);
        }
        _ => {}
    }
}

/// A text of an event's detail.
pub fn text<'a>(detail: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    detail.get(name).and_then(Value::as_str)
}

/// A number of an event's detail.
pub fn small_number(detail: &Map<String, Value>, name: &str) -> Option<i32> {
    let number = detail.get(name).and_then(Value::as_i64)?;
    i32::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::name::{Key, OpName, Scope};
    use serde_json::json;

    fn event(generation: i64, attempt: Option<u32>, kind: EventKind, detail: Value) -> Event {
        Event {
            id: 0,
            at: UnixMs(1000 * generation),
            name: OpName {
                scope: Scope::default(),
                key: Key::new("k").unwrap(),
            },
            generation: Generation(generation),
            kind,
            attempt,
            detail: detail.as_object().cloned().unwrap_or_default(),
        }
    }

    #[test]
    fn starts_and_ends_come_together_and_earlier_records_do_not_count() {
        let ended = json!({"duration_ms": 12, "exit_code": 3, "class": "permanent", "reason": "it returned 3"});
        let events = [
            event(1, Some(1), EventKind::AttemptStarted, json!({"pid": 9})),
            event(2, None, EventKind::Claimed, json!({})),
            event(2, Some(1), EventKind::AttemptStarted, json!({"pid": 10})),
            event(2, Some(1), EventKind::AttemptEnded, ended),
            event(3, Some(1), EventKind::AttemptStarted, json!({"pid": 11})),
        ];
        let attempts = collect(&events, Generation(2));
        let [first, second] = attempts.as_slice() else {
            panic!("{attempts:?}");
        };
        assert_eq!((first.pid, first.exit_code), (Some(10), Some(3)));
        assert_eq!(first.class, Some(Class::Permanent));
        assert_eq!(first.ended_at, Some(UnixMs(2000)));
        assert_eq!((second.generation, second.pid), (Generation(3), Some(11)));
        assert_eq!((second.ended_at, second.class), (None, None));
    }
}
