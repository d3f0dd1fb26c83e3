//! Records as lines of JSON, exact to the byte, and back.
//!
//! A record is one line. Where its output is stored, the output follows in lines of at most 64 KiB of it,
//! in the order in which it was printed, and one more line ends it: without that the record is not whole.

use crate::domain::frames::Stream;
use crate::domain::name::{Fingerprint, Generation, Key, Nonce, OpName, Scope};
use crate::domain::outcome::{Class, State};
use crate::domain::record::{CommandLine, Identity, Place, Proposal, Record, Source, Verdict};
use crate::domain::time::{BootId, Stamp, Ttl, UnixMs};
use crate::engine::ledger::{bytes_value, source_value};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::time::Duration;

/// The version of the format.
const VERSION: i64 = 1;

/// What an exported line is.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    /// A record, and whether its output follows.
    Record(Box<Moved>),
    /// A piece of the output.
    Piece(Stream, Vec<u8>),
    /// The output is whole.
    End,
}

/// A record on its way, with a generation, a nonce and an owner of nobody.
#[derive(Debug, Clone, PartialEq)]
pub struct Moved {
    /// The record, without its output.
    pub record: Record,
    /// What is known of its output.
    pub output: Option<MovedOutput>,
}

/// What is known of an output beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovedOutput {
    /// Its bytes follow.
    pub stored: bool,
    /// Stored bytes of the standard output.
    pub stdout_bytes: u64,
    /// Stored bytes of the standard error.
    pub stderr_bytes: u64,
    /// The stored copy is shorter than what came.
    pub truncated: bool,
    /// Output came and could not be stored.
    pub lost: bool,
}

/// The line of a record. `stored` says that its output follows.
pub fn record_line(record: &Record, stored: bool) -> Value {
    let output = record.output.map(|output| {
        json!({
            "stored": stored,
            "stdout_bytes": output.stdout_bytes,
            "stderr_bytes": output.stderr_bytes,
            "truncated": output.truncated,
            "lost": output.lost || (!stored && output.place != Place::Nowhere),
        })
    });
    let argv = record.command.argv.as_ref();
    let words = |argv: &Vec<Vec<u8>>| argv.iter().map(|word| bytes_value(word)).collect();
    json!({
        "idem_export": VERSION,
        "scope": record.name.scope.as_str(),
        "key": record.name.key.as_str(),
        "state": record.state.word(),
        "token": record.token,
        "fingerprint": record.fingerprint.hex(),
        "argv": argv.map_or(Value::Null, words),
        "cwd": bytes_value(&record.command.cwd),
        "created_at_ms": record.created_at.0,
        "since": {
            "at_ms": record.since.wall.0,
            "boot_ms": record.since.boot_ms,
            "boot": record.since.boot.0,
        },
        "ttl_ms": record.ttl.ms(),
        "failed_ttl_ms": record.failed_ttl.ms(),
        "class": record.class.map(Class::word),
        "reason": record.reason,
        "exit_code": record.exit_code,
        "retry_at_ms": record.retry_at.map(|at| at.0),
        "attempts": record.attempts,
        "dirty": record.dirty,
        "source": source_value(&record.source),
        "proposal": record.proposal.as_ref().map(proposal_value),
        "decided_by": record.decided_by,
        "output": output,
    })
}

fn proposal_value(proposal: &Proposal) -> Value {
    json!({
        "argv": proposal.identity.argv.hex(),
        "executable": proposal.identity.executable.hex(),
        "cwd": bytes_value(&proposal.identity.cwd),
        "preview": bytes_value(&proposal.preview),
        "verdict": proposal.verdict.word(),
        "decided_by": proposal.decided_by,
        "decided_at_ms": proposal.decided_at.map(|at| at.0),
        "note": proposal.note,
    })
}

/// A piece of an output.
pub fn piece_line(stream: Stream, bytes: &[u8]) -> Value {
    json!({ stream.word(): bytes_value(bytes) })
}

/// The end of an output.
pub fn end_line() -> Value {
    json!({"end": true})
}

/// Reads a line back. The error says what is wrong with it.
pub fn parse(line: &[u8]) -> Result<Line, String> {
    let value: Value = serde_json::from_slice(line).map_err(|_| "it is no JSON".to_owned())?;
    if value.get("end").is_some() {
        return Ok(Line::End);
    }
    for stream in Stream::ALL {
        if let Some(piece) = value.get(stream.word()) {
            let bytes = bytes(Some(piece)).ok_or("a piece of output is broken")?;
            return Ok(Line::Piece(stream, bytes));
        }
    }
    match value.get("idem_export").and_then(Value::as_i64) {
        Some(VERSION) => Ok(Line::Record(Box::new(moved(&Fields(&value))?))),
        Some(_) => Err("a newer idem has written it; upgrade this one".to_owned()),
        None => Err("it is no line of an export".to_owned()),
    }
}

/// The fields of an object; each error names the field.
struct Fields<'a>(&'a Value);

impl Fields<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn need<T>(&self, name: &str, read: impl Fn(&Value) -> Option<T>) -> Result<T, String> {
        let value = self.get(name).and_then(read);
        value.ok_or_else(|| format!("its '{name}' is missing or broken"))
    }

    fn optional<T>(
        &self,
        name: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        match self.get(name) {
            Some(_) => self.need(name, read).map(Some),
            None => Ok(None),
        }
    }

    fn text(&self, name: &str) -> Result<String, String> {
        self.need(name, text)
    }

    fn moment(&self, name: &str) -> Result<UnixMs, String> {
        self.need(name, moment)
    }

    fn ttl(&self, name: &str) -> Result<Ttl, String> {
        let ms = self.optional(name, Value::as_u64)?;
        Ok(ms.map_or(Ttl::Forever, |ms| Ttl::For(Duration::from_millis(ms))))
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn moment(value: &Value) -> Option<UnixMs> {
    value.as_i64().map(UnixMs)
}

fn small(value: &Value) -> Option<i32> {
    i32::try_from(value.as_i64()?).ok()
}

fn bytes(value: Option<&Value>) -> Option<Vec<u8>> {
    match value? {
        Value::String(text) => Some(text.clone().into_bytes()),
        value => STANDARD.decode(value.get("base64")?.as_str()?).ok(),
    }
}

fn digest(value: &Value) -> Option<Fingerprint> {
    let text = value.as_str().filter(|text| text.len() == 64)?;
    let (first, last) = text.split_at_checked(32)?;
    let mut whole = [0; 32];
    let (start, end) = whole.split_at_mut(16);
    start.copy_from_slice(&Nonce::from_hex(first)?.0);
    end.copy_from_slice(&Nonce::from_hex(last)?.0);
    Some(Fingerprint(whole))
}

fn moved(fields: &Fields<'_>) -> Result<Moved, String> {
    let scope = fields.need("scope", |value| Scope::new(value.as_str()?).ok())?;
    let key = fields.need("key", |value| Key::new(value.as_str()?).ok())?;
    let argv = |value: &Value| {
        value
            .as_array()?
            .iter()
            .map(|word| bytes(Some(word)))
            .collect()
    };
    let record = Record {
        name: OpName { scope, key },
        state: fields.need("state", |value| State::from_word(value.as_str()?))?,
        generation: Generation(0),
        nonce: Nonce([0; 16]),
        token: fields.text("token")?,
        minted_by: Generation(0),
        fingerprint: fields.need("fingerprint", digest)?,
        command: CommandLine {
            argv: fields.optional("argv", argv)?,
            cwd: fields.need("cwd", |value| bytes(Some(value)))?,
        },
        created_at: fields.moment("created_at_ms")?,
        since: fields.need("since", stamp)?,
        ttl: fields.ttl("ttl_ms")?,
        failed_ttl: fields.ttl("failed_ttl_ms")?,
        class: fields.optional("class", |value| Class::from_word(value.as_str()?))?,
        reason: fields.optional("reason", text)?,
        exit_code: fields.optional("exit_code", small)?,
        retry_at: fields.optional("retry_at_ms", moment)?,
        output: None,
        attempts: fields.need("attempts", |value| u32::try_from(value.as_u64()?).ok())?,
        dirty: fields.need("dirty", Value::as_bool)?,
        owner: None,
        source: fields.need("source", source)?,
        proposal: fields.optional("proposal", |value| proposal(&Fields(value)).ok())?,
        decided_by: fields.optional("decided_by", text)?,
    };
    let output = fields.optional("output", output)?;
    Ok(Moved {
        record: settled(record),
        output,
    })
}

/// Nobody here can see what was running there.
fn settled(record: Record) -> Record {
    match record.state {
        State::Running => Record {
            state: State::Unknown,
            class: Some(Class::Uncertain),
            reason: Some("it was running when it was exported".to_owned()),
            ..record
        },
        _ => record,
    }
}

fn stamp(value: &Value) -> Option<Stamp> {
    Some(Stamp {
        wall: moment(value.get("at_ms")?)?,
        boot_ms: value.get("boot_ms")?.as_i64()?,
        boot: BootId(text(value.get("boot")?)?),
    })
}

fn source(value: &Value) -> Option<Source> {
    Some(Source {
        host: text(value.get("host")?)?,
        user: text(value.get("user")?)?,
        pid: small(value.get("pid")?)?,
        parent: text(value.get("parent")?)?,
        label: value.get("label").and_then(text),
    })
}

fn proposal(fields: &Fields<'_>) -> Result<Proposal, String> {
    let verdict = |value: &Value| Verdict::from_word(value.as_str()?);
    let of_bytes = |value: &Value| bytes(Some(value));
    Ok(Proposal {
        identity: Identity {
            argv: fields.need("argv", digest)?,
            cwd: fields.need("cwd", of_bytes)?,
            executable: fields.need("executable", digest)?,
        },
        preview: fields.need("preview", of_bytes)?,
        verdict: fields.need("verdict", verdict)?,
        decided_by: fields.optional("decided_by", text)?,
        decided_at: fields.optional("decided_at_ms", moment)?,
        note: fields.optional("note", text)?,
    })
}

fn output(value: &Value) -> Option<MovedOutput> {
    Some(MovedOutput {
        stored: value.get("stored")?.as_bool()?,
        stdout_bytes: value.get("stdout_bytes")?.as_u64()?,
        stderr_bytes: value.get("stderr_bytes")?.as_u64()?,
        truncated: value.get("truncated")?.as_bool()?,
        lost: value.get("lost")?.as_bool()?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::render::fixtures::{failed, running, succeeded};
    use super::*;

    fn back(record: &Record) -> Moved {
        let line = record_line(record, true).to_string();
        match parse(line.as_bytes()) {
            Ok(Line::Record(moved)) => *moved,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_record_survives_its_line() {
        let proposal = Proposal {
            identity: Identity {
                argv: Fingerprint([1; 32]),
                cwd: b"/\xff".to_vec(),
                executable: Fingerprint([0xa2; 32]),
            },
            preview: b"plan\xff".to_vec(),
            verdict: Verdict::Approved,
            decided_by: Some("ann@host".to_owned()),
            decided_at: Some(UnixMs(7)),
            note: None,
        };
        let mut held = failed(Class::Permanent, 3);
        held.proposal = Some(proposal);
        held.command.argv = None;
        for record in [succeeded(), held] {
            let moved = back(&record);
            let wanted = Record {
                generation: Generation(0),
                nonce: Nonce([0; 16]),
                minted_by: Generation(0),
                output: None,
                owner: None,
                ..record
            };
            assert_eq!(moved.record, wanted);
        }
    }

    #[test]
    fn what_ran_there_is_unknown_here() {
        assert_eq!(back(&running()).record.state, State::Unknown);
    }

    #[test]
    fn pieces_keep_every_byte() {
        for bytes in [&b"text\n"[..], b"\xff\x00"] {
            let line = piece_line(Stream::Stderr, bytes).to_string();
            let wanted = Line::Piece(Stream::Stderr, bytes.to_vec());
            assert_eq!(parse(line.as_bytes()), Ok(wanted));
        }
        assert_eq!(parse(end_line().to_string().as_bytes()), Ok(Line::End));
    }

    #[test]
    fn broken_lines_say_what_is_wrong() {
        let without = |name: &str| {
            let mut line = record_line(&succeeded(), false);
            line.as_object_mut().unwrap().remove(name);
            parse(line.to_string().as_bytes()).unwrap_err()
        };
        assert_eq!(without("token"), "its 'token' is missing or broken");
        assert_eq!(without("idem_export"), "it is no line of an export");
        assert_eq!(parse(b"{").unwrap_err(), "it is no JSON");
        assert!(
            parse(br#"{"idem_export":2}"#)
                .unwrap_err()
                .contains("newer")
        );
    }
}
