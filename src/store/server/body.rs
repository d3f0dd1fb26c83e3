//! A record as one JSON text, and back. What statements look for has columns of its own beside it.

use crate::domain::name::{Fingerprint, Generation, Nonce, OpName};
use crate::domain::outcome::{Class, State};
use crate::domain::owner::{Lease, LockFileId, OwnerRef, ProcessRef};
use crate::domain::record::{CommandLine, Identity, Proposal, Record, Source, Verdict};
use crate::domain::time::{BootId, Stamp, Ttl, UnixMs};
use crate::engine::detail::{output_from_detail, output_to_detail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use serde_json::{Value, json};
use std::time::Duration;

/// The text of a record, without its name and without what is left of its lease.
pub fn write(record: &Record) -> String {
    json!({
        "state": record.state.word(),
        "generation": record.generation.0,
        "nonce": record.nonce.hex(),
        "token": record.token,
        "minted_by": record.minted_by.0,
        "fingerprint": base64(&record.fingerprint.0),
        "argv": record.command.argv.as_ref().map(|argv| argv.iter().map(|arg| base64(arg)).collect::<Vec<_>>()),
        "cwd": base64(&record.command.cwd),
        "created_at": record.created_at.0,
        "since": stamp_to_json(&record.since),
        "ttl_ms": record.ttl.ms(),
        "failed_ttl_ms": record.failed_ttl.ms(),
        "class": record.class.map(Class::word),
        "reason": record.reason,
        "exit_code": record.exit_code,
        "retry_at": record.retry_at.map(|at| at.0),
        "output": record.output.as_ref().map(output_to_detail),
        "attempts": record.attempts,
        "dirty": record.dirty,
        "owner": record.owner.as_ref().map(owner),
        "source": {
            "host": record.source.host,
            "user": record.source.user,
            "pid": record.source.pid,
            "parent": record.source.parent,
            "label": record.source.label,
        },
        "proposal": record.proposal.as_ref().map(proposal),
        "decided_by": record.decided_by,
    })
    .to_string()
}

fn base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// A moment with both of its clocks.
pub fn stamp_to_json(stamp: &Stamp) -> Value {
    json!([stamp.wall.0, stamp.boot_ms, stamp.boot.0])
}

fn owner(owner: &OwnerRef) -> Value {
    let process = |process: &ProcessRef| json!([process.pid, process.start_ticks]);
    json!({
        "keeper": process(&owner.keeper),
        "boot": owner.boot_id.0,
        "pid_namespace": owner.pid_namespace,
        "lock_file": [owner.lock_file.device, owner.lock_file.inode],
        "bytes": [owner.keeper_byte, owner.tree_byte],
        "child": owner.child.as_ref().map(process),
        "nonce": owner.nonce.hex(),
    })
}

fn proposal(proposal: &Proposal) -> Value {
    json!({
        "argv": base64(&proposal.identity.argv.0),
        "cwd": base64(&proposal.identity.cwd),
        "executable": base64(&proposal.identity.executable.0),
        "preview": base64(&proposal.preview),
        "verdict": proposal.verdict.word(),
        "decided_by": proposal.decided_by,
        "decided_at": proposal.decided_at.map(|at| at.0),
        "note": proposal.note,
    })
}

/// Reads what [`write`] wrote; none where a part is missing or is no such value.
pub fn read(name: OpName, text: &str, lease: Option<Lease>) -> Option<Record> {
    let body: Value = serde_json::from_str(text).ok()?;
    let part = Part(&body);
    Some(Record {
        name,
        state: State::from_word(part.text("state")?)?,
        generation: Generation(part.integer("generation")?),
        nonce: Nonce::from_hex(part.text("nonce")?)?,
        token: part.text("token")?.to_owned(),
        minted_by: Generation(part.integer("minted_by")?),
        fingerprint: part.fingerprint("fingerprint")?,
        command: CommandLine {
            argv: part.optional("argv", |argv| {
                argv.as_array()?.iter().map(bytes_of).collect()
            })?,
            cwd: part.bytes("cwd")?,
        },
        created_at: UnixMs(part.integer("created_at")?),
        since: stamp_from_json(part.get("since")?)?,
        ttl: part.ttl("ttl_ms")?,
        failed_ttl: part.ttl("failed_ttl_ms")?,
        class: part.optional("class", |class| Class::from_word(class.as_str()?))?,
        reason: part.optional_text("reason")?,
        exit_code: part.optional("exit_code", |code| i32::try_from(code.as_i64()?).ok())?,
        retry_at: part.optional("retry_at", |at| at.as_i64().map(UnixMs))?,
        output: part.optional("output", output_from_detail)?,
        attempts: u32::try_from(part.integer("attempts")?).ok()?,
        dirty: part.get("dirty")?.as_bool()?,
        owner: part.optional("owner", |owner| read_owner(owner, lease))?,
        source: read_source(part.get("source")?)?,
        proposal: part.optional("proposal", read_proposal)?,
        decided_by: part.optional_text("decided_by")?,
    })
}

/// An object whose members are read.
struct Part<'v>(&'v Value);

impl<'v> Part<'v> {
    fn get(&self, name: &str) -> Option<&'v Value> {
        self.0.get(name)
    }

    fn text(&self, name: &str) -> Option<&'v str> {
        self.get(name)?.as_str()
    }

    fn integer(&self, name: &str) -> Option<i64> {
        self.get(name)?.as_i64()
    }

    fn unsigned(&self, name: &str) -> Option<u64> {
        self.get(name)?.as_u64()
    }

    fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        bytes_of(self.get(name)?)
    }

    fn fingerprint(&self, name: &str) -> Option<Fingerprint> {
        self.bytes(name)?.try_into().ok().map(Fingerprint)
    }

    /// A member that can be null: the outer option is for what cannot be read.
    fn optional<T>(
        &self,
        name: &str,
        read: impl FnOnce(&'v Value) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.get(name)? {
            Value::Null => Some(None),
            value => read(value).map(Some),
        }
    }

    fn optional_text(&self, name: &str) -> Option<Option<String>> {
        self.optional(name, |text| text.as_str().map(str::to_owned))
    }

    fn ttl(&self, name: &str) -> Option<Ttl> {
        let limit = self.optional(name, Value::as_u64)?;
        Some(limit.map_or(Ttl::Forever, |ms| Ttl::For(Duration::from_millis(ms))))
    }
}

fn bytes_of(value: &Value) -> Option<Vec<u8>> {
    BASE64.decode(value.as_str()?).ok()
}

/// Reads what [`stamp_to_json`] wrote.
pub fn stamp_from_json(value: &Value) -> Option<Stamp> {
    let [wall, boot_ms, boot] = value.as_array()?.as_slice() else {
        return None;
    };
    Some(Stamp {
        wall: UnixMs(wall.as_i64()?),
        boot_ms: boot_ms.as_i64()?,
        boot: BootId(boot.as_str()?.to_owned()),
    })
}

fn pair(value: &Value) -> Option<(u64, u64)> {
    match value.as_array()?.as_slice() {
        [first, second] => Some((first.as_u64()?, second.as_u64()?)),
        _ => None,
    }
}

fn process(value: &Value) -> Option<ProcessRef> {
    let (pid, start_ticks) = pair(value)?;
    let pid = i32::try_from(pid).ok()?;
    Some(ProcessRef { pid, start_ticks })
}

fn read_owner(value: &Value, lease: Option<Lease>) -> Option<OwnerRef> {
    let part = Part(value);
    let (device, inode) = pair(part.get("lock_file")?)?;
    let (keeper_byte, tree_byte) = pair(part.get("bytes")?)?;
    Some(OwnerRef {
        keeper: process(part.get("keeper")?)?,
        boot_id: BootId(part.text("boot")?.to_owned()),
        pid_namespace: part.unsigned("pid_namespace")?,
        lock_file: LockFileId { device, inode },
        keeper_byte,
        tree_byte,
        child: part.optional("child", process)?,
        nonce: Nonce::from_hex(part.text("nonce")?)?,
        lease,
    })
}

fn read_source(value: &Value) -> Option<Source> {
    let part = Part(value);
    Some(Source {
        host: part.text("host")?.to_owned(),
        user: part.text("user")?.to_owned(),
        pid: i32::try_from(part.integer("pid")?).ok()?,
        parent: part.text("parent")?.to_owned(),
        label: part.optional_text("label")?,
    })
}

fn read_proposal(value: &Value) -> Option<Proposal> {
    let part = Part(value);
    Some(Proposal {
        identity: Identity {
            argv: part.fingerprint("argv")?,
            cwd: part.bytes("cwd")?,
            executable: part.fingerprint("executable")?,
        },
        preview: part.bytes("preview")?,
        verdict: Verdict::from_word(part.text("verdict")?)?,
        decided_by: part.optional_text("decided_by")?,
        decided_at: part.optional("decided_at", |at| at.as_i64().map(UnixMs))?,
        note: part.optional_text("note")?,
    })
}
