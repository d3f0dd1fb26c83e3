//! The JSON shape of an operation.

use super::attempts::Attempt;
use super::run_json::next_of;
use super::view::View;
use super::when::rfc3339;
use crate::domain::record::Record;
use crate::domain::time::UnixMs;
use crate::engine::ledger::{bytes_value, source_value};
use serde_json::{Value, json};

/// An operation as one object, every field present and null where there is nothing to tell;
/// `attempts` only where they are given.
pub fn operation(view: &View, attempts: Option<&[Attempt]>) -> Value {
    let record = &view.record;
    let state = view.state();
    let output = record.output;
    let mut object = json!({
        "scope": record.name.scope.as_str(),
        "key": record.name.key.as_str(),
        "state": state.word(),
        "reason": view.reason(),
        "next": next_of(state, record.class, record.exit_code).word(),
        "retry_at": moment(record.retry_at),
        "generation": record.generation.0,
        "fingerprint": record.fingerprint.hex(),
        "argv": argv(record),
        "cwd": bytes_value(&record.command.cwd),
        "created_at": rfc3339(record.created_at),
        "settled_at": moment(view.settled_at()),
        "expires_at": moment(record.expires_at()),
        "exit_code": record.exit_code,
        "stdout_bytes": output.map(|output| output.stdout_bytes),
        "stderr_bytes": output.map(|output| output.stderr_bytes),
        "truncated": output.is_some_and(|output| output.truncated || output.lost),
        "owner": owner(view),
        "source": source_value(&record.source),
        "preview": record.proposal.as_ref().map(|proposal| bytes_value(&proposal.preview)),
        "decided_by": record.decided_by,
    });
    if let (Some(attempts), Some(fields)) = (attempts, object.as_object_mut()) {
        let attempts: Vec<Value> = attempts.iter().map(attempt).collect();
        fields.insert("attempts".to_owned(), attempts.into());
    }
    object
}

fn moment(at: Option<UnixMs>) -> Value {
    at.map_or(Value::Null, |at| rfc3339(at).into())
}

fn argv(record: &Record) -> Value {
    let words = |argv: &Vec<Vec<u8>>| argv.iter().map(|word| bytes_value(word)).collect();
    record.command.argv.as_ref().map_or(Value::Null, words)
}

fn owner(view: &View) -> Value {
    let Some(owner) = &view.record.owner else {
        return Value::Null;
    };
    json!({
        "host": view.record.source.host,
        "user": view.record.source.user,
        "pid": owner.keeper.pid,
        "alive": view.owner_alive(),
    })
}

fn attempt(attempt: &Attempt) -> Value {
    json!({
        "number": attempt.number,
        "generation": attempt.generation.0,
        "pid": attempt.pid,
        "started_at": moment(attempt.started_at),
        "ended_at": moment(attempt.ended_at),
        "duration_ms": attempt.duration_ms,
        "exit_code": attempt.exit_code,
        "signal": attempt.signal,
        "class": attempt.class.map(|class| class.word()),
        "reason": attempt.reason,
    })
}

#[cfg(test)]
mod tests {
    use super::super::render::fixtures::{attempt as one_attempt, running, succeeded, view};
    use super::*;
    use crate::domain::owner::Liveness;

    #[test]
    fn every_field_is_there_in_its_order() {
        let attempts = [one_attempt(3, 1)];
        let object = operation(&view(succeeded(), Liveness::Gone), Some(&attempts));
        let names: Vec<&String> = object.as_object().unwrap().keys().collect();
        let wanted = "scope key state reason next retry_at generation fingerprint argv cwd created_at \
            settled_at expires_at exit_code stdout_bytes stderr_bytes truncated owner source preview \
            decided_by attempts";
        assert_eq!(names, wanted.split_whitespace().collect::<Vec<_>>());
        assert_eq!(object["attempts"][0]["number"], 1);
        assert_eq!(object["argv"], json!(["echo", {"base64": "/w=="}]));
        assert_eq!(object["preview"], Value::Null);
        assert_eq!(object["next"], "done");
    }

    #[test]
    fn a_list_has_no_attempts_and_redacted_arguments_are_null() {
        let mut record = succeeded();
        record.command.argv = None;
        let object = operation(&view(record, Liveness::Gone), None);
        assert_eq!(object.get("attempts"), None);
        assert_eq!(object["argv"], Value::Null);
    }

    #[test]
    fn what_runs_with_nobody_left_is_unknown() {
        let object = operation(&view(running(), Liveness::OwnerAlive), None);
        assert_eq!(object["state"], "running");
        assert_eq!(object["owner"]["alive"], true);
        let object = operation(&view(running(), Liveness::Gone), None);
        assert_eq!(object["state"], "unknown");
        assert_eq!(object["next"], "ask_human");
        assert_eq!(object["owner"]["alive"], false);
        assert_eq!(object["settled_at"], Value::Null);
        let object = operation(
            &view(running(), Liveness::TreeAlive { pids: vec![7] }),
            None,
        );
        assert_eq!(object["state"], "running");
        assert_eq!(object["owner"]["alive"], false);
    }
}
