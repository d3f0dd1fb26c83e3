//! Version 1 of the schema, and how its records become those of version 2.
//!
//! Nothing here changes any more: stores of that version are out there.

use super::body;
use super::fault::{Fault, Tried};
use super::rows;
use crate::domain::name::{Fingerprint, Generation, Nonce};
use crate::domain::outcome::{Class, State};
use crate::domain::owner::{LockFileId, OwnerRef, ProcessRef};
use crate::domain::record::{
    CommandLine, Identity, OutputRef, Place, Proposal, Record, Source, Verdict,
};
use crate::domain::time::{BootId, Stamp, Ttl, UnixMs};
use crate::store::transitions::Stored;
use rusqlite::types::FromSql;
use rusqlite::{Connection, Row, params};
use serde_json::Value as Json;
use std::time::Duration;

/// The tables.
///
/// - `operation`: one record each. Owner and proposal are flat, since what decisions need is typed;
///   `source` is for people and one JSON text. `kept` lists the nonces of earlier claims under the
///   same token whose outputs are still there, 16 bytes each. `expires_at` is set for settled records
///   only, so that the index of what may be purged is small. Long values come last.
/// - `output`: one row for each recorded output; `bytes` is null where they lie in a spool file.
/// - `event`: the ledger. It outlives the operation, hence scope and key again.
/// - `guard`: named states of guards, and this store's own counters (kind `store`).
pub const TABLES: &str = "
CREATE TABLE operation(
  id INTEGER PRIMARY KEY,
  scope TEXT NOT NULL, key TEXT NOT NULL,
  state TEXT NOT NULL, generation INTEGER NOT NULL, nonce BLOB NOT NULL,
  token TEXT NOT NULL, minted_by INTEGER NOT NULL, fingerprint BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  since_at INTEGER NOT NULL, since_boot_ms INTEGER NOT NULL, since_boot TEXT NOT NULL,
  ttl_ms INTEGER, failed_ttl_ms INTEGER, expires_at INTEGER,
  class TEXT, reason TEXT, exit_code INTEGER, retry_at INTEGER,
  output_place TEXT, output_nonce BLOB, output_number INTEGER,
  stdout_bytes INTEGER, stderr_bytes INTEGER, truncated INTEGER, lost INTEGER,
  attempts INTEGER NOT NULL, dirty INTEGER NOT NULL,
  owner_pid INTEGER, owner_start INTEGER, owner_boot TEXT, owner_pid_ns INTEGER,
  lock_dev INTEGER, lock_inode INTEGER, keeper_byte INTEGER, tree_byte INTEGER,
  child_pid INTEGER, child_start INTEGER, owner_nonce BLOB,
  decided_by TEXT, source TEXT NOT NULL,
  proposal_verdict TEXT, proposal_argv BLOB, proposal_executable BLOB, proposal_cwd BLOB,
  proposal_by TEXT, proposal_at INTEGER, proposal_note TEXT,
  cwd BLOB NOT NULL, kept BLOB NOT NULL, argv BLOB, proposal_preview BLOB,
  UNIQUE(scope, key)
) STRICT;
CREATE INDEX operation_expiry ON operation(expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE output(
  nonce BLOB NOT NULL, number INTEGER NOT NULL, bytes BLOB,
  PRIMARY KEY(nonce, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE event(
  id INTEGER PRIMARY KEY,
  at INTEGER NOT NULL, scope TEXT NOT NULL, key TEXT NOT NULL, generation INTEGER NOT NULL,
  kind TEXT NOT NULL, attempt INTEGER, detail TEXT NOT NULL
) STRICT;
CREATE INDEX event_name ON event(scope, key);
CREATE TABLE guard(
  kind TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL,
  PRIMARY KEY(kind, name)
) STRICT, WITHOUT ROWID;
";

/// All columns of `operation` that were read, in the order of [`read`].
const COLUMNS: &str = "scope, key, state, generation, nonce, token, minted_by, fingerprint, created_at, \
    since_at, since_boot_ms, since_boot, ttl_ms, failed_ttl_ms, expires_at, \
    class, reason, exit_code, retry_at, \
    output_place, output_nonce, output_number, stdout_bytes, stderr_bytes, truncated, lost, \
    attempts, dirty, \
    owner_pid, owner_start, owner_boot, owner_pid_ns, lock_dev, lock_inode, keeper_byte, tree_byte, \
    child_pid, child_start, owner_nonce, decided_by, source, \
    proposal_verdict, proposal_argv, proposal_executable, proposal_cwd, \
    proposal_by, proposal_at, proposal_note, \
    cwd, kept, argv, proposal_preview";

/// Turns the table into that of version 2, which `new_tables` makes: what statements filter or sort on
/// stays in columns, the rest becomes one value, in the newest encoding.
pub fn convert(conn: &Connection, new_tables: &str) -> Tried<()> {
    conn.execute_batch("ALTER TABLE operation RENAME TO operation_1; DROP INDEX operation_expiry")?;
    conn.execute_batch(new_tables)?;
    let mut old = conn.prepare(&format!(
        "SELECT {COLUMNS}, id FROM operation_1 ORDER BY id"
    ))?;
    let mut new = conn.prepare(
        "INSERT INTO operation(id, scope, key, state, generation, nonce, minted_by, \
         since_at, expires_at, body) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    let mut rows = old.query([])?;
    while let Some(row) = rows.next()? {
        let stored = read(row)?;
        let record = &stored.record;
        new.execute(params![
            row.get::<_, i64>("id")?,
            record.name.scope.as_str(),
            record.name.key.as_str(),
            record.state.word(),
            record.generation.0,
            record.nonce.0,
            record.minted_by.0,
            record.since.wall.0,
            row.get::<_, Option<i64>>("expires_at")?,
            body::encode(&stored),
        ])?;
    }
    drop(rows);
    drop(old);
    Ok(conn.execute_batch("DROP TABLE operation_1")?)
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

/// Reads [`COLUMNS`].
fn read(row: &Row<'_>) -> Tried<Stored> {
    let mut cells = Cells { row, at: 0 };
    let c = &mut cells;
    let name = rows::name(c.next()?, c.next()?)?;
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

fn verdict_from_word(word: &str) -> Option<Verdict> {
    match word {
        "pending" => Some(Verdict::Pending),
        "approved" => Some(Verdict::Approved),
        "rejected" => Some(Verdict::Rejected),
        _ => None,
    }
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
