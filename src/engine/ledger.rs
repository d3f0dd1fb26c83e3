//! What the ledger's events say: the details by kind of event.

use super::guards::Guarded;
use super::hands::{AttemptEnd, HelperEnd, HowEnded};
use super::store::NewOutput;
use crate::domain::decision::Why;
use crate::domain::outcome::{Class, Cut, Exit, State};
use crate::domain::owner::ProcessRef;
use crate::domain::program::label;
use crate::domain::record::{CommandLine, Record, Source};
use crate::policy::outcome::Classified;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// An event's details.
pub type Detail = Map<String, Value>;

fn detail<const N: usize>(fields: [(&str, Value); N]) -> Detail {
    fields
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Bytes as JSON: text where they are UTF-8, else `{"base64": …}`.
pub fn bytes_value(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}

/// A claim was won.
pub fn claimed(why: Why, found: Option<&Record>, command: &CommandLine, source: &Source) -> Detail {
    let label = command.argv.as_deref().and_then(label);
    detail([
        ("why", why_text(why).into()),
        ("command", label.map_or(Value::Null, Value::from)),
        (
            "state_before",
            found.map_or(Value::Null, |record| record.state.word().into()),
        ),
        ("source", source_value(source)),
    ])
}

/// A proposal was recorded.
pub fn proposed(found: Option<&Record>, source: &Source, preview: &[u8]) -> Detail {
    detail([
        (
            "state_before",
            found.map_or(Value::Null, |record| record.state.word().into()),
        ),
        ("preview_bytes", preview.len().into()),
        ("source", source_value(source)),
    ])
}

/// Who called, as the JSON has it everywhere.
pub fn source_value(source: &Source) -> Value {
    json!({
        "host": source.host,
        "user": source.user,
        "pid": source.pid,
        "parent": source.parent,
        "label": source.label,
    })
}

/// Why a command is executed, in words.
pub fn why_text(why: Why) -> &'static str {
    match why {
        Why::New => "there is no record",
        Why::Expired => "the record has expired",
        Why::FailedBefore => "it failed before, in a way that may be tried again",
        Why::Corrected => "it failed before, and the command is another one now",
        Why::FailedRerun => "it failed before, and --if-failed rerun asks for another run",
        Why::UnknownRerun => "its outcome is unknown, and the caller declared how to go on",
        Why::Approved => "a person approved it",
    }
}

/// An attempt's child was let go.
pub fn started(child: Option<ProcessRef>) -> Detail {
    detail([("pid", child.map_or(Value::Null, |child| child.pid.into()))])
}

/// An attempt ended.
pub fn attempt_ended(
    end: &AttemptEnd,
    classified: &Classified,
    output: Option<&NewOutput>,
) -> Detail {
    let (exit_code, signal, cut) = match &end.how {
        HowEnded::NotStarted { code, .. } => ((*code).into(), Value::Null, None),
        HowEnded::Ended {
            exit: Exit::Code(code),
            cut,
        } => ((*code).into(), Value::Null, *cut),
        HowEnded::Ended {
            exit: Exit::Signal(signal),
            cut,
        } => (Value::Null, (*signal).into(), *cut),
    };
    detail([
        ("duration_ms", ms(end.duration)),
        ("exit_code", exit_code),
        ("signal", signal),
        ("cut", cut.map_or(Value::Null, |cut| cut_word(cut).into())),
        ("class", classified.class.word().into()),
        ("reason", classified.reason.clone().into()),
        (
            "http_status",
            classified.http_status.map_or(Value::Null, Value::from),
        ),
        (
            "retry_after_ms",
            classified.retry_after.map_or(Value::Null, ms),
        ),
        (
            "note",
            end.control.note.clone().map_or(Value::Null, Value::from),
        ),
        (
            "survivors",
            if end.survivors.is_empty() {
                Value::Null
            } else {
                end.survivors.clone().into()
            },
        ),
        (
            "stdout_bytes",
            output.map_or(Value::Null, |o| o.stdout_bytes.into()),
        ),
        (
            "stderr_bytes",
            output.map_or(Value::Null, |o| o.stderr_bytes.into()),
        ),
    ])
}

/// Why idem ended an attempt, in one word.
pub fn cut_word(cut: Cut) -> &'static str {
    match cut {
        Cut::Timeout => "timeout",
        Cut::Deadline => "deadline",
        Cut::Interrupted(_) => "interrupted",
        Cut::CallerLost => "caller_lost",
        Cut::InputLost => "input_lost",
    }
}

fn ms(duration: Duration) -> Value {
    u64::try_from(duration.as_millis())
        .unwrap_or(u64::MAX)
        .into()
}

/// A probe or a cleanup ran.
pub fn helper(command: &OsStr, end: &HelperEnd, answer: &str) -> Detail {
    let exit_code = match end.exit {
        Some(Exit::Code(code)) => code.into(),
        Some(Exit::Signal(signal)) => (128 + signal).into(),
        None => Value::Null,
    };
    detail([
        ("command", bytes_value(command.as_bytes())),
        ("exit_code", exit_code),
        ("answer", answer.into()),
        (
            "trouble",
            end.trouble.clone().map_or(Value::Null, Value::from),
        ),
        ("stdout", head(&end.stdout_head)),
        ("stderr", head(&end.stderr_head)),
    ])
}

fn head(bytes: &[u8]) -> Value {
    if bytes.is_empty() {
        Value::Null
    } else {
        bytes_value(bytes)
    }
}

/// Somebody was told of an unknown outcome, or why not.
pub fn told(command: &OsStr, end: &Result<Exit, String>) -> Detail {
    let (exit_code, trouble) = match end {
        Ok(Exit::Code(code)) => ((*code).into(), Value::Null),
        Ok(Exit::Signal(signal)) => ((128 + signal).into(), Value::Null),
        Err(why) => (Value::Null, why.clone().into()),
    };
    detail([
        ("command", bytes_value(command.as_bytes())),
        ("exit_code", exit_code),
        ("trouble", trouble),
    ])
}

/// A pause before another step.
pub fn paused(delay: Duration) -> Detail {
    detail([("delay_ms", ms(delay))])
}

/// An execution ended.
pub fn settled(state: State, class: Class, reason: &str, exit_code: Option<i32>) -> Detail {
    detail([
        ("state", state.word().into()),
        ("class", class.word().into()),
        ("reason", reason.into()),
        ("exit_code", exit_code.map_or(Value::Null, Value::from)),
    ])
}

/// A person decided a proposal.
pub fn decided(by: &str, note: Option<&str>, source: &Source) -> Detail {
    detail([
        ("decided_by", by.into()),
        ("note", note.map_or(Value::Null, Value::from)),
        ("source", source_value(source)),
    ])
}

/// A guard said no.
pub fn guarded(refused: &Guarded) -> Detail {
    detail([
        ("guard", refused.guard.into()),
        ("reason", refused.why.clone().into()),
        (
            "retry_at",
            refused.retry_at.map_or(Value::Null, |at| at.0.into()),
        ),
    ])
}

/// Something happened for this reason.
pub fn because(reason: &str) -> Detail {
    detail([("reason", reason.into())])
}
