//! The schema and its versions.
//!
//! Migrations are append-only: an entry that was ever released is never changed. `user_version` counts
//! how many are applied. A column or value that stays keeps its meaning, since a process that opened the
//! store before may still read; what it cannot read it must not find. Few tables with few columns, since
//! each costs at every open.

use super::fault::{Fault, Tried};
use super::version_1;
use rusqlite::{Connection, Transaction, TransactionBehavior};

/// `application_id` of a store: "idem" in ASCII.
pub const APPLICATION_ID: i64 = 0x6964_656d;

/// One step from a version to the next, inside the transaction of all.
#[derive(Debug, Clone, Copy)]
pub enum Migration {
    /// Statements.
    Sql(&'static str),
    /// What statements alone cannot do.
    Code(fn(&Connection) -> Tried<()>),
}

/// Every migration, oldest first.
pub const MIGRATIONS: &[Migration] = &[
    Migration::Sql(version_1::TABLES),
    Migration::Code(|conn| version_1::convert(conn, VERSION_2)),
];

/// `operation` with what statements filter or sort on, and the rest of a record in `body` (see there).
/// `expires_at` is set for settled records only, so that the index of what may be purged is small. The
/// long value comes last.
const VERSION_2: &str = "
CREATE TABLE operation(
  id INTEGER PRIMARY KEY,
  scope TEXT NOT NULL, key TEXT NOT NULL,
  state TEXT NOT NULL, generation INTEGER NOT NULL, nonce BLOB NOT NULL, minted_by INTEGER NOT NULL,
  since_at INTEGER NOT NULL, expires_at INTEGER,
  body BLOB NOT NULL,
  UNIQUE(scope, key)
) STRICT;
CREATE INDEX operation_expiry ON operation(expires_at) WHERE expires_at IS NOT NULL;
";

/// The version that so many migrations lead to.
pub fn version_of(migrations: &[Migration]) -> i64 {
    i64::try_from(migrations.len()).unwrap_or(i64::MAX)
}

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
pub fn kind(conn: &Connection, migrations: &[Migration]) -> Tried<Kind> {
    match kind_so_far(conn, migrations)? {
        // The two marks are two reads, and someone may have set them in between.
        Kind::Blank | Kind::Foreign if conn.is_autocommit() => {
            let snapshot = conn.unchecked_transaction()?;
            kind_so_far(&snapshot, migrations)
        }
        kind => Ok(kind),
    }
}

fn kind_so_far(conn: &Connection, migrations: &[Migration]) -> Tried<Kind> {
    let id = header_value(conn, "PRAGMA application_id")?;
    let version = version(conn)?;
    let known = version_of(migrations);
    Ok(match (id, version) {
        (APPLICATION_ID, 1..) if version == known => Kind::Ready,
        (APPLICATION_ID, 1..) if version > known => Kind::Newer(version),
        (APPLICATION_ID, 1..) => Kind::Older,
        (0, 0) if holds_nothing(conn)? => Kind::Blank,
        _ => Kind::Foreign,
    })
}

/// How many migrations are applied.
pub fn version(conn: &Connection) -> Tried<i64> {
    header_value(conn, "PRAGMA user_version")
}

fn header_value(conn: &Connection, pragma: &str) -> Tried<i64> {
    let mut statement = conn.prepare_cached(pragma)?;
    Ok(statement.query_row([], |row| row.get(0))?)
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
pub fn migrate(conn: &Connection, migrations: &[Migration]) -> Tried<()> {
    if kind(conn, migrations)? == Kind::Blank {
        // Both must come before the first table, and neither can be part of a transaction.
        conn.execute_batch("PRAGMA auto_vacuum = INCREMENTAL")?;
        set_wal(conn)?;
    }
    let tx = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
    let applied = match kind(&tx, migrations)? {
        Kind::Blank => 0,
        Kind::Older => version(&tx)?,
        Kind::Ready | Kind::Newer(_) | Kind::Foreign => return Ok(()),
    };
    for migration in migrations
        .iter()
        .skip(usize::try_from(applied).unwrap_or(0))
    {
        match migration {
            Migration::Sql(sql) => tx.execute_batch(sql)?,
            Migration::Code(code) => code(&tx)?,
        }
    }
    tx.execute_batch(&format!(
        "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {}",
        version_of(migrations)
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
