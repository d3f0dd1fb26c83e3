//! The schema and its versions.
//!
//! Migrations are append-only: an entry that was ever released is never changed, and each one only
//! adds. `user_version` counts how many are applied. Few tables, since each costs at every open.

use super::fault::{Fault, Tried};
use rusqlite::{Connection, Transaction, TransactionBehavior};

/// `application_id` of a store: "idem" in ASCII.
pub const APPLICATION_ID: i64 = 0x6964_656d;

/// Every migration, oldest first.
pub const MIGRATIONS: &[&str] = &[VERSION_1];

/// - `operation`: one record each. Owner and proposal are flat, since what decisions need is typed;
///   `source` is for people and one JSON text. `kept` lists the nonces of earlier claims under the
///   same token whose outputs are still there, 16 bytes each. `expires_at` is set for settled records
///   only, so that the index of what may be purged is small. Long values come last.
/// - `output`: one row for each recorded output; `bytes` is null where they lie in a spool file.
/// - `event`: the ledger. It outlives the operation, hence scope and key again.
/// - `guard`: named states of guards, and this store's own counters (kind `store`).
const VERSION_1: &str = "
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

/// What a database is to this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing is in it yet.
    Blank,
    /// A store of an earlier version.
    Older,
    /// A store of this version.
    Ready,
    /// A store of a newer version: this one.
    Newer(i64),
    /// Another application's database.
    Foreign,
}

/// Looks at the marks that the database carries, before anything else is read or written.
pub fn kind(conn: &Connection, migrations: &[&str]) -> Tried<Kind> {
    match kind_so_far(conn, migrations)? {
        // The two marks are two reads, and someone may have set them in between.
        Kind::Blank | Kind::Foreign if conn.is_autocommit() => {
            let snapshot = conn.unchecked_transaction()?;
            kind_so_far(&snapshot, migrations)
        }
        kind => Ok(kind),
    }
}

fn kind_so_far(conn: &Connection, migrations: &[&str]) -> Tried<Kind> {
    let id = header_value(conn, "PRAGMA application_id")?;
    let version = header_value(conn, "PRAGMA user_version")?;
    let known = i64::try_from(migrations.len()).unwrap_or(i64::MAX);
    Ok(match (id, version) {
        (APPLICATION_ID, 1..) if version == known => Kind::Ready,
        (APPLICATION_ID, 1..) if version > known => Kind::Newer(version),
        (APPLICATION_ID, 1..) => Kind::Older,
        (0, 0) if holds_nothing(conn)? => Kind::Blank,
        _ => Kind::Foreign,
    })
}

fn header_value(conn: &Connection, pragma: &str) -> Tried<i64> {
    Ok(conn.query_row(pragma, [], |row| row.get(0))?)
}

fn holds_nothing(conn: &Connection) -> Tried<bool> {
    Ok(
        conn.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| {
            row.get(0)
        })?,
    )
}

/// Brings a blank or older database to this version, in one transaction. Whoever comes second finds
/// the work done.
pub fn migrate(conn: &Connection, migrations: &[&str]) -> Tried<()> {
    if kind(conn, migrations)? == Kind::Blank {
        // Both must come before the first table, and neither can be part of a transaction.
        conn.execute_batch("PRAGMA auto_vacuum = INCREMENTAL")?;
        set_wal(conn)?;
    }
    let tx = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
    let applied = match kind(&tx, migrations)? {
        Kind::Blank => 0,
        Kind::Older => header_value(&tx, "PRAGMA user_version")?,
        Kind::Ready | Kind::Newer(_) | Kind::Foreign => return Ok(()),
    };
    for migration in migrations
        .iter()
        .skip(usize::try_from(applied).unwrap_or(0))
    {
        tx.execute_batch(migration)?;
    }
    tx.execute_batch(&format!(
        "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {}",
        migrations.len()
    ))?;
    tx.commit()?;
    Ok(())
}

/// Switches to a write-ahead log, which the database remembers.
fn set_wal(conn: &Connection) -> Tried<()> {
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode == "wal" {
        Ok(())
    } else {
        Err(Fault::Damaged("it cannot keep a write-ahead log"))
    }
}
