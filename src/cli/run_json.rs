//! The object that `idem run --json` prints and `--report` writes.

use super::exit::Next;
use super::when::rfc3339;
use crate::domain::name::{Generation, OpName};
use crate::domain::outcome::{Class, State};
use crate::domain::time::UnixMs;
use serde_json::{Map, Value};
use std::time::Duration;

/// What a call did, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// The command, or its probe, ran.
    Executed,
    /// The stored result was handed out.
    Replayed,
    /// The result of an execution that was waited for was handed out.
    Waited,
    /// Nothing was executed or handed out.
    Refused,
    /// `--if-running skip`.
    Skipped,
    /// The claim is durable, the work goes on.
    Detached,
}

impl Done {
    /// The word used in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Done::Executed => "executed",
            Done::Replayed => "replayed",
            Done::Waited => "waited",
            Done::Refused => "refused",
            Done::Skipped => "skipped",
            Done::Detached => "detached",
        }
    }
}

/// The fields beside the streams.
#[derive(Debug, Clone)]
pub struct Report {
    /// What the call did.
    pub done: Done,
    /// The operation; none where the call was refused before there was one.
    pub name: Option<OpName>,
    /// Its state, if it has a record.
    pub state: Option<State>,
    /// Why.
    pub reason: Option<String>,
    /// What to do next.
    pub next: Next,
    /// When another try makes sense.
    pub retry_at: Option<UnixMs>,
    /// The record's exit code.
    pub exit_code: Option<i32>,
    /// The record's generation.
    pub generation: Option<Generation>,
    /// Attempts since the token was minted.
    pub attempts: u32,
    /// The stored output is shorter than what came.
    pub truncated: bool,
    /// Why the answer is a fallback's.
    pub degraded: Option<String>,
    /// When the result was settled.
    pub settled_at: Option<UnixMs>,
    /// How long the call took.
    pub duration: Duration,
}

impl Report {
    /// A call that idem itself refuses or fails: nothing was executed or handed out.
    pub fn failure(name: Option<OpName>, reason: Option<String>, duration: Duration) -> Report {
        Report {
            done: Done::Refused,
            name,
            state: None,
            reason,
            next: Next::FixRequest,
            retry_at: None,
            exit_code: None,
            generation: None,
            attempts: 0,
            truncated: false,
            degraded: None,
            settled_at: None,
            duration,
        }
    }

    /// The fields before the streams.
    pub fn first(&self) -> Map<String, Value> {
        let moment = |at: Option<UnixMs>| at.map_or(Value::Null, |at| rfc3339(at).into());
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        put("decision", self.done.word().into());
        let name = self.name.as_ref();
        let text = |part: Option<&str>| part.map_or(Value::Null, Value::from);
        put("scope", text(name.map(|name| name.scope.as_str())));
        put("key", text(name.map(|name| name.key.as_str())));
        put(
            "state",
            self.state.map_or(Value::Null, |state| state.word().into()),
        );
        put(
            "reason",
            self.reason.clone().map_or(Value::Null, Value::from),
        );
        put("next", self.next.word().into());
        put("retry_at", moment(self.retry_at));
        put("exit_code", self.exit_code.map_or(Value::Null, Value::from));
        put(
            "generation",
            self.generation.map_or(Value::Null, |g| g.0.into()),
        );
        put("attempts", self.attempts.into());
        fields
    }

    /// The fields behind the streams.
    pub fn last(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("truncated".to_owned(), self.truncated.into());
        fields.insert(
            "degraded".to_owned(),
            self.degraded.clone().map_or(Value::Null, Value::from),
        );
        let settled = self.settled_at.map_or(Value::Null, |at| rfc3339(at).into());
        fields.insert("settled_at".to_owned(), settled);
        let ms = u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX);
        fields.insert("duration_ms".to_owned(), ms.into());
        fields
    }

    /// The object without the streams.
    pub fn without_streams(&self) -> Value {
        let mut fields = self.first();
        fields.extend(self.last());
        Value::Object(fields)
    }
}

/// What to do next about a state, as far as no more is known than a class.
pub fn next_of(state: State, class: Option<Class>, exit_code: Option<i32>) -> Next {
    match (state, class) {
        (State::Succeeded, _) => Next::Done,
        (State::Running, _) => Next::Wait,
        (State::Unknown | State::Held, _) => Next::AskHuman,
        (State::Failed, Some(Class::Safe)) if matches!(exit_code, Some(126 | 127)) => {
            Next::FixRequest
        }
        (State::Failed, Some(Class::Safe | Class::Throttled | Class::Retryable)) => {
            Next::RetryLater
        }
        (State::Failed, _) => Next::Done,
    }
}
