//! A task: what its steps share.

use super::state::{Fields, StateError, number, stamp_from_json, stamp_to_json};
use super::text::ms;
use crate::domain::time::Stamp;
use serde_json::{Value, json};
use std::time::Duration;

/// The state of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// When it was opened.
    pub opened: Stamp,
    /// How many retries all steps have together; none for as many as each allows itself.
    pub retries: Option<u32>,
    /// How many of them are used up.
    pub retries_used: u32,
    /// How long the whole task may take, from its opening.
    pub deadline: Option<Duration>,
    /// When it was ended.
    pub ended: Option<Stamp>,
}

impl Task {
    /// A task that begins now.
    pub fn open(now: &Stamp, retries: Option<u32>, deadline: Option<Duration>) -> Task {
        Task {
            opened: now.clone(),
            retries,
            retries_used: 0,
            deadline,
            ended: None,
        }
    }

    /// Takes one retry for a step; false when none is left.
    pub fn take_retry(&mut self) -> bool {
        if self.retries.is_some_and(|all| self.retries_used >= all) {
            return false;
        }
        self.retries_used = self.retries_used.saturating_add(1);
        true
    }

    /// What is left of the time for all steps.
    pub fn remaining(&self, now: &Stamp) -> Option<Duration> {
        self.deadline
            .map(|all| all.saturating_sub(self.opened.age(now)))
    }

    /// Writes the state for the store.
    pub fn to_json(&self) -> Value {
        json!({
            "opened": stamp_to_json(&self.opened),
            "retries": self.retries,
            "retries_used": self.retries_used,
            "deadline_ms": self.deadline.map(ms),
            "ended": self.ended.as_ref().map(stamp_to_json),
        })
    }

    /// Reads back what [`Task::to_json`] wrote.
    pub fn from_json(value: &Value) -> Result<Task, StateError> {
        let known = ["opened", "retries", "retries_used", "deadline_ms", "ended"];
        let fields = Fields::of(value, &known)?;
        Ok(Task {
            opened: stamp_from_json(fields.value("opened")?)?,
            retries: optional(&fields, "retries")?,
            retries_used: fields.number("retries_used")?,
            deadline: optional(&fields, "deadline_ms")?.map(Duration::from_millis),
            ended: match fields.value("ended")? {
                Value::Null => None,
                stamp => Some(stamp_from_json(stamp)?),
            },
        })
    }
}

fn optional<T: TryFrom<u64>>(
    fields: &Fields<'_>,
    name: &'static str,
) -> Result<Option<T>, StateError> {
    match fields.value(name)? {
        Value::Null => Ok(None),
        value => number(value).map(Some).ok_or(StateError::Field(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::testing::at_ms;
    use super::*;

    #[test]
    fn the_steps_share_the_retries() {
        let mut task = Task::open(&at_ms(0), Some(2), None);
        assert_eq!(
            [task.take_retry(), task.take_retry(), task.take_retry()],
            [true, true, false]
        );
        let mut unbounded = Task::open(&at_ms(0), None, None);
        assert!((0..100).all(|_| unbounded.take_retry()));
    }

    #[test]
    fn the_time_of_all_steps_runs_from_the_opening() {
        let task = Task::open(&at_ms(1_000), None, Some(Duration::from_secs(10)));
        assert_eq!(task.remaining(&at_ms(4_000)), Some(Duration::from_secs(7)));
        assert_eq!(task.remaining(&at_ms(99_000)), Some(Duration::ZERO));
    }

    #[test]
    fn a_state_is_read_back_and_junk_is_refused() {
        let mut task = Task::open(&at_ms(5), Some(3), Some(Duration::from_millis(7)));
        task.ended = Some(at_ms(9));
        assert_eq!(Task::from_json(&task.to_json()), Ok(task));
        let plain = Task::open(&at_ms(5), None, None);
        assert_eq!(Task::from_json(&plain.to_json()), Ok(plain));
        for junk in [json!(null), json!({}), json!({"opened": 1}), json!([])] {
            assert!(Task::from_json(&junk).is_err(), "{junk}");
        }
    }
}
