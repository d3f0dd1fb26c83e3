//! A record as a row, and a row as a record.

use super::fault::{Fault, Tried};
use crate::domain::name::{Fingerprint, Generation, Key, Nonce, OpName, Scope};
use crate::domain::outcome::{Class, State};
use crate::domain::owner::{LockFileId, OwnerRef, ProcessRef};
use crate::domain::record::{
    CommandLine, Identity, OutputRef, Place, Proposal, Record, Source, Verdict,
};
use crate::domain::time::{BootId, Stamp, Ttl, UnixMs};
use crate::store::transitions::Stored;
use rusqlite::Row;
use rusqlite::types::{FromSql, Value};
use serde_json::{Value as Json, json};
use std::time::Duration;

/// The columns that name an operation.
pub const NAME: &str = "scope, key";

/// All other columns, in the order of [`values`] and [`read`].
pub const BODY: &str = "state, generation, nonce, token, minted_by, fingerprint, created_at, \
    since_at, since_boot_ms, since_boot, ttl_ms, failed_ttl_ms, expires_at, \
    class, reason, exit_code, retry_at, \
    output_place, output_nonce, output_number, stdout_bytes, stderr_bytes, truncated, lost, \
    attempts, dirty, \
    owner_pid, owner_start, owner_boot, owner_pid_ns, lock_dev, lock_inode, keeper_byte, tree_byte, \
    child_pid, child_start, owner_nonce, decided_by, source, \
    proposal_verdict, proposal_argv, proposal_executable, proposal_cwd, \
    proposal_by, proposal_at, proposal_note, \
    cwd, kept, argv, proposal_preview";

/// How many columns [`BODY`] names.
pub const BODY_LEN: usize = 50;

/// The values of [`NAME`] and [`BODY`].
pub fn values(stored: &Stored) -> Vec<Value> {
    let record = &stored.record;
    let mut out: Vec<Value> = Vec::with_capacity(2 + BODY_LEN);
    out.push(text(record.name.scope.as_str()));
    out.push(text(record.name.key.as_str()));
    out.push(text(record.state.word()));
    out.push(record.generation.0.into());
    out.push(blob(&record.nonce.0));
    out.push(text(&record.token));
    out.push(record.minted_by.0.into());
    out.push(blob(&record.fingerprint.0));
    out.push(record.created_at.0.into());
    out.push(record.since.wall.0.into());
    out.push(record.since.boot_ms.into());
    out.push(text(&record.since.boot.0));
    out.push(record.ttl.ms().into());
    out.push(record.failed_ttl.ms().into());
    out.push(purge_at(record).into());
    out.push(record.class.map(|class| class.word().to_owned()).into());
    out.push(record.reason.clone().into());
    out.push(record.exit_code.into());
    out.push(record.retry_at.map(|at| at.0).into());
    push_output(&mut out, record.output.as_ref());
    out.push(i64::from(record.attempts).into());
    out.push(record.dirty.into());
    push_owner(&mut out, record.owner.as_ref());
    out.push(record.decided_by.clone().into());
    out.push(text(&source_to_json(&record.source).to_string()));
    let preview = push_proposal(&mut out, record.proposal.as_ref());
    out.push(blob(&record.command.cwd));
    out.push(Value::Blob(stored.kept.iter().flat_map(|n| n.0).collect()));
    out.push(record.command.argv.as_deref().map(join_args).into());
    out.push(preview);
    out
}

/// When the record may be purged, by the wall clock: settled records only.
pub fn purge_at(record: &Record) -> Option<i64> {
    let settled = record.state.settled();
    settled
        .then(|| record.expires_at())
        .flatten()
        .map(|at| at.0)
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

fn blob(value: &[u8]) -> Value {
    Value::Blob(value.to_vec())
}

fn push_output(out: &mut Vec<Value>, output: Option<&OutputRef>) {
    let Some(output) = output else {
        out.extend(std::iter::repeat_n(Value::Null, 7));
        return;
    };
    out.push(text(output.place.word()));
    out.push(blob(&output.nonce.0));
    out.push(i64::from(output.number).into());
    out.push(output.stdout_bytes.cast_signed().into());
    out.push(output.stderr_bytes.cast_signed().into());
    out.push(output.truncated.into());
    out.push(output.lost.into());
}

fn push_owner(out: &mut Vec<Value>, owner: Option<&OwnerRef>) {
    let Some(owner) = owner else {
        out.extend(std::iter::repeat_n(Value::Null, 11));
        return;
    };
    out.push(owner.keeper.pid.into());
    out.push(owner.keeper.start_ticks.cast_signed().into());
    out.push(text(&owner.boot_id.0));
    out.push(owner.pid_namespace.cast_signed().into());
    out.push(owner.lock_file.device.cast_signed().into());
    out.push(owner.lock_file.inode.cast_signed().into());
    out.push(owner.keeper_byte.cast_signed().into());
    out.push(owner.tree_byte.cast_signed().into());
    let child = owner.child;
    out.push(child.map(|child| child.pid).into());
    out.push(child.map(|child| child.start_ticks.cast_signed()).into());
    out.push(blob(&owner.nonce.0));
}

/// Pushes all but the preview, which goes last; returns that.
fn push_proposal(out: &mut Vec<Value>, proposal: Option<&Proposal>) -> Value {
    let Some(proposal) = proposal else {
        out.extend(std::iter::repeat_n(Value::Null, 7));
        return Value::Null;
    };
    out.push(text(verdict_word(proposal.verdict)));
    out.push(blob(&proposal.identity.argv.0));
    out.push(blob(&proposal.identity.executable.0));
    out.push(blob(&proposal.identity.cwd));
    out.push(proposal.decided_by.clone().into());
    out.push(proposal.decided_at.map(|at| at.0).into());
    out.push(proposal.note.clone().into());
    blob(&proposal.preview)
}

fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pending => "pending",
        Verdict::Approved => "approved",
        Verdict::Rejected => "rejected",
    }
}

fn verdict_from_word(word: &str) -> Option<Verdict> {
    [Verdict::Pending, Verdict::Approved, Verdict::Rejected]
        .into_iter()
        .find(|verdict| verdict_word(*verdict) == word)
}

fn source_to_json(source: &Source) -> Json {
    json!({
        "host": source.host,
        "user": source.user,
        "pid": source.pid,
        "parent": source.parent,
        "label": source.label,
    })
}

fn source_from_json(text: &str) -> Option<Source> {
    let json: Json = serde_json::from_str(text).ok()?;
    let part = |name: &str| Some(json.get(name)?.as_str()?.to_owned());
    Some(Source {
        host: part("host")?,
        user: part("user")?,
        pid: i32::try_from(json.get("pid")?.as_i64()?).ok()?,
        parent: part("parent")?,
        label: part("label"),
    })
}

/// Arguments as one value that keeps any byte: each after its length, four bytes little-endian.
fn join_args(args: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(args.iter().map(|arg| arg.len() + 4).sum());
    for arg in args {
        // The system's limit on one argument is far below 4 GiB.
        let len = u32::try_from(arg.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(arg);
    }
    out
}

fn split_args(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut args = Vec::new();
    while !bytes.is_empty() {
        let (len, rest) = bytes.split_first_chunk::<4>()?;
        let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
        let (arg, rest) = rest.split_at_checked(len)?;
        args.push(arg.to_vec());
        bytes = rest;
    }
    Some(args)
}

/// Reads the columns of a row one after the other.
struct Cells<'r> {
    row: &'r Row<'r>,
    at: usize,
}

impl Cells<'_> {
    fn next<T: FromSql>(&mut self) -> Tried<T> {
        let value = self.row.get(self.at)?;
        self.at += 1;
        Ok(value)
    }

    /// A word of a fixed list.
    fn word<T>(&mut self, from: impl Fn(&str) -> Option<T>, what: &'static str) -> Tried<T> {
        from(&self.next::<String>()?).ok_or(Fault::Damaged(what))
    }

    fn optional_word<T>(
        &mut self,
        from: impl Fn(&str) -> Option<T>,
        what: &'static str,
    ) -> Tried<Option<T>> {
        match self.next::<Option<String>>()? {
            Some(word) => from(&word).map(Some).ok_or(Fault::Damaged(what)),
            None => Ok(None),
        }
    }

    fn unsigned(&mut self) -> Tried<u64> {
        Ok(self.next::<i64>()?.cast_unsigned())
    }

    fn ttl(&mut self) -> Tried<Ttl> {
        Ok(match self.next::<Option<i64>>()? {
            Some(ms) => Ttl::For(Duration::from_millis(u64::try_from(ms).unwrap_or(0))),
            None => Ttl::Forever,
        })
    }

    /// Skips columns that have no meaning where the first of their group is null.
    fn skip(&mut self, columns: usize) {
        self.at += columns;
    }
}

/// Reads [`NAME`] and [`BODY`].
pub fn read(row: &Row<'_>) -> Tried<Stored> {
    let mut cells = Cells { row, at: 0 };
    let c = &mut cells;
    let name = read_name(c)?;
    let state = c.word(State::from_word, "an unknown state")?;
    let mut record = Record {
        name,
        state,
        generation: Generation(c.next()?),
        nonce: Nonce(c.next()?),
        token: c.next()?,
        minted_by: Generation(c.next()?),
        fingerprint: Fingerprint(c.next()?),
        created_at: UnixMs(c.next()?),
        since: read_stamp(c)?,
        ttl: c.ttl()?,
        failed_ttl: {
            let ttl = c.ttl()?;
            c.skip(1); // expires_at follows from the rest
            ttl
        },
        class: c.optional_word(Class::from_word, "an unknown class")?,
        reason: c.next()?,
        exit_code: c.next()?,
        retry_at: c.next::<Option<i64>>()?.map(UnixMs),
        output: read_output(c)?,
        attempts: c.next()?,
        dirty: c.next()?,
        owner: read_owner(c)?,
        decided_by: c.next()?,
        source: c.word(source_from_json, "an unreadable source")?,
        proposal: read_proposal(c)?,
        command: CommandLine {
            argv: None,
            cwd: c.next()?,
        },
    };
    let kept = read_kept(c)?;
    record.command.argv = read_args(c)?;
    let preview: Option<Vec<u8>> = c.next()?;
    if let Some(proposal) = &mut record.proposal {
        proposal.preview = preview.unwrap_or_default();
    }
    Ok(Stored { record, kept })
}

fn read_name(c: &mut Cells<'_>) -> Tried<OpName> {
    name(c.next()?, c.next()?)
}

/// A stored scope and key.
pub fn name(scope: String, key: String) -> Tried<OpName> {
    Ok(OpName {
        scope: Scope::new(scope).map_err(|_| Fault::Damaged("an impossible scope"))?,
        key: Key::new(key).map_err(|_| Fault::Damaged("an impossible key"))?,
    })
}

fn read_stamp(c: &mut Cells<'_>) -> Tried<Stamp> {
    Ok(Stamp {
        wall: UnixMs(c.next()?),
        boot_ms: c.next()?,
        boot: BootId(c.next()?),
    })
}

fn read_output(c: &mut Cells<'_>) -> Tried<Option<OutputRef>> {
    let Some(place) = c.optional_word(Place::from_word, "an unknown place")? else {
        c.skip(6);
        return Ok(None);
    };
    Ok(Some(OutputRef {
        place,
        nonce: Nonce(c.next()?),
        number: c.next()?,
        stdout_bytes: c.unsigned()?,
        stderr_bytes: c.unsigned()?,
        truncated: c.next()?,
        lost: c.next()?,
    }))
}

fn read_owner(c: &mut Cells<'_>) -> Tried<Option<OwnerRef>> {
    let Some(pid) = c.next()? else {
        c.skip(10);
        return Ok(None);
    };
    Ok(Some(OwnerRef {
        keeper: ProcessRef {
            pid,
            start_ticks: c.unsigned()?,
        },
        boot_id: BootId(c.next()?),
        pid_namespace: c.unsigned()?,
        lock_file: LockFileId {
            device: c.unsigned()?,
            inode: c.unsigned()?,
        },
        keeper_byte: c.unsigned()?,
        tree_byte: c.unsigned()?,
        child: read_child(c)?,
        nonce: Nonce(c.next()?),
        lease: None,
    }))
}

fn read_child(c: &mut Cells<'_>) -> Tried<Option<ProcessRef>> {
    let pid: Option<i32> = c.next()?;
    let start: Option<i64> = c.next()?;
    Ok(pid.zip(start).map(|(pid, start)| ProcessRef {
        pid,
        start_ticks: start.cast_unsigned(),
    }))
}

fn read_proposal(c: &mut Cells<'_>) -> Tried<Option<Proposal>> {
    let Some(verdict) = c.optional_word(verdict_from_word, "an unknown verdict")? else {
        c.skip(6);
        return Ok(None);
    };
    let argv = Fingerprint(c.next()?);
    let executable = Fingerprint(c.next()?);
    Ok(Some(Proposal {
        identity: Identity {
            argv,
            cwd: c.next()?,
            executable,
        },
        preview: Vec::new(),
        verdict,
        decided_by: c.next()?,
        decided_at: c.next::<Option<i64>>()?.map(UnixMs),
        note: c.next()?,
    }))
}

fn read_kept(c: &mut Cells<'_>) -> Tried<Vec<Nonce>> {
    let bytes: Vec<u8> = c.next()?;
    let (nonces, rest) = bytes.as_chunks::<16>();
    if rest.is_empty() {
        Ok(nonces.iter().copied().map(Nonce).collect())
    } else {
        Err(Fault::Damaged("a broken list of outputs"))
    }
}

fn read_args(c: &mut Cells<'_>) -> Tried<Option<Vec<Vec<u8>>>> {
    match c.next::<Option<Vec<u8>>>()? {
        Some(bytes) => split_args(&bytes)
            .map(Some)
            .ok_or(Fault::Damaged("broken arguments")),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_keep_every_byte() {
        let args = vec![
            b"a".to_vec(),
            Vec::new(),
            vec![0, 255, b'\n'],
            b"\x80".to_vec(),
        ];
        assert_eq!(split_args(&join_args(&args)), Some(args));
        assert_eq!(split_args(&[]), Some(Vec::new()));
        assert_eq!(split_args(&[1, 0, 0, 0]), None);
        assert_eq!(split_args(&[1, 0]), None);
    }

    #[test]
    fn the_columns_are_as_many_as_counted() {
        assert_eq!(BODY.split(',').count(), BODY_LEN);
    }
}
