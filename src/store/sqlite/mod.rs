//! The embedded store: one SQLite database with a write-ahead log.
//!
//! A process leaves without closing its connection. A close as the last one would checkpoint the log
//! and delete it: several syncs for other processes' work, and a store that can no longer be read
//! from a full disk or a read-only mount.

mod body;
mod fault;
mod place;
mod purge;
mod read;
mod rows;
mod schema;
mod system;
mod tidy;
mod tx;
mod version_1;
mod vfs;

pub use place::prepare_beside;
pub use tidy::Space;

use crate::domain::name::{Generation, OpName, Scope};
use crate::domain::outcome::State;
use crate::domain::record::{OutputRef, Record};
use crate::domain::time::Stamp;
use crate::engine::event::Event;
use crate::engine::store::{
    Change, ClaimId, Claimed, DecideClaim, Fenced, Filter, GuardKind, Guards, Import, Imported,
    OpenOutput, PastResult, Purged, Settlement, Step, Store, StoreError, StoreResult,
};
use crate::process::queue::{Queue, Turn};
use crate::process::random;
use crate::store::paths::Paths;
use crate::store::transitions::{End, change, claim, import, settle};
use fault::{Fault, Tried};
use place::Found;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};
use schema::{Kind, MIGRATIONS, Migration};
use serde_json::Value;
use std::cmp::Ordering;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tx::Tx;

/// How long a writer waits for its turn in the queue before it goes on without: the queue saves a crowd
/// from sleeping through each other's pauses, and a holder can be stopped for hours.
const QUEUE_LIMIT: Duration = Duration::from_secs(2);

/// Who can as well leave the work to the next does not wait for a turn at all.
const QUEUE_GLANCE: Duration = Duration::ZERO;

/// How long SQLite's own locks are waited for.
const BUSY_LIMIT: Duration = Duration::from_secs(10);

/// Shortest and longest pause between two tries of SQLite's lock, in microseconds.
const BUSY_PAUSE_US: (u64, u64) = (1_000, 10_000);

/// From how many frames on a commit folds the log into the database, while all others wait.
const LONGEST_WAL_FRAMES: u64 = 512;

/// From how many frames on a process folds it that has nothing else to do any more.
const LONG_WAL_FRAMES: u64 = 64;

/// The same for who has time and is alone. Every lone opener reads the log again, so that each frame
/// costs each replay; in a crowd there is none, and a fold would make all others wait.
const QUIET_WAL_FRAMES: u64 = 16;

/// Bytes of a frame in the log (a page and its header), and of the log's own header.
const FRAME_BYTES: u64 = 4096 + 24;
const WAL_HEADER_BYTES: u64 = 32;

/// One connection to the embedded store.
#[derive(Debug)]
pub struct SqliteStore {
    conn: Connection,
    paths: Paths,
    /// Where writers take turns; none on a connection for reading.
    queue: Option<Queue>,
    /// The version of the schema that this connection knows.
    version: i64,
    /// How long the log was after this connection's last commit.
    left_wal_bytes: u64,
}

impl SqliteStore {
    /// Opens for reading. None where there is no store yet; nothing is created then. A read-only
    /// mount is read as well. A store of an earlier version is brought up to date first.
    pub fn open_read(path: &Path) -> StoreResult<Option<SqliteStore>> {
        SqliteStore::read_migrated(path, MIGRATIONS)
    }

    /// Opens for writing; creates what is missing, private to the user. Any number of processes may
    /// do this at once, also for the first time.
    pub fn open_write(path: &Path) -> StoreResult<SqliteStore> {
        SqliteStore::write_migrated(path, MIGRATIONS)
    }

    fn read_migrated(path: &Path, migrations: &[Migration]) -> StoreResult<Option<SqliteStore>> {
        let Some((paths, Found::Something)) = place::look(path)? else {
            return Ok(None);
        };
        let (conn, kind) = match connect_to_read(&paths, migrations) {
            // Whoever made the store died before it was whole: only a writer may undo what it left.
            Err(fault) if fault.needs_a_writer() => {
                return SqliteStore::write_migrated(path, migrations).map(Some);
            }
            looked => looked.map_err(|fault| fault.tell(&paths))?,
        };
        match kind {
            Kind::Ready => Ok(Some(SqliteStore {
                conn,
                paths,
                queue: None,
                version: schema::version_of(migrations),
                left_wal_bytes: 0,
            })),
            Kind::Blank => Ok(None),
            Kind::Older => {
                drop(conn);
                SqliteStore::write_migrated(path, migrations).map(Some)
            }
            Kind::Newer(_) | Kind::Foreign => Err(refusal(kind, &paths, migrations)),
        }
    }

    fn write_migrated(path: &Path, migrations: &[Migration]) -> StoreResult<SqliteStore> {
        let (paths, queue) = place::prepare(path)?;
        let conn =
            connect_to_write(&paths, &queue, migrations).map_err(|fault| fault.tell(&paths))?;
        Ok(SqliteStore {
            conn,
            paths,
            queue: Some(queue),
            version: schema::version_of(migrations),
            left_wal_bytes: 0,
        })
    }

    /// Makes the place ready for a first claim, as opening for writing would, without opening the
    /// database: the lock file is there afterwards. Returns the names of the files.
    pub fn prepare_place(path: &Path) -> StoreResult<Paths> {
        place::prepare(path).map(|(paths, _)| paths)
    }

    /// The names of the store's files.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// Really closes the connection, without a checkpoint: none may be carried across a fork.
    pub fn close_for_fork(self) -> StoreResult<()> {
        let SqliteStore { conn, paths, .. } = self;
        conn.close()
            .map_err(|(_, error)| Fault::from(error).tell(&paths))
    }

    /// Folds a long log into the database if nobody is in the way at this moment. For processes that
    /// commit little and leave: what they add to the log stays otherwise.
    pub fn checkpoint_if_long(&mut self) -> StoreResult<()> {
        let Some(queue) = &self.queue else {
            return Ok(());
        };
        let bytes = wal_bytes(&self.paths);
        let most = match bytes == self.left_wal_bytes {
            true => QUIET_WAL_FRAMES,
            false => LONG_WAL_FRAMES,
        };
        if frames_in(bytes) <= most {
            return Ok(());
        }
        let Some(_turn) = turn(queue, QUEUE_GLANCE) else {
            return Ok(());
        };
        let done = checkpoint_now(&mut self.conn);
        done.map_err(|fault| fault.tell(&self.paths))
    }

    /// Runs a body in a write transaction.
    fn write<T>(&mut self, body: impl FnOnce(&mut Tx<'_>) -> Tried<End<T>>) -> StoreResult<T> {
        let Some(queue) = &self.queue else {
            return Err(StoreError::ReadOnly(format!(
                "{} was opened for reading only; open it for writing",
                self.paths.db.display()
            )));
        };
        let turn = turn(queue, QUEUE_LIMIT);
        let done = transact(&self.conn, &self.paths, self.version, body);
        self.left_wal_bytes = wal_bytes(&self.paths);
        drop(turn);
        let (value, doomed) = self.told(done)?;
        for spool in doomed {
            // What stays behind is found by the housekeeping.
            let _ = std::fs::remove_file(spool);
        }
        Ok(value)
    }

    /// As [`SqliteStore::write`], without waiting for the disk: a crash of the system may undo it, and
    /// what is undone is whole.
    fn write_lazily<T>(
        &mut self,
        body: impl FnOnce(&mut Tx<'_>) -> Tried<End<T>>,
    ) -> StoreResult<T> {
        self.pragma("PRAGMA synchronous = NORMAL")?;
        let done = self.write(body);
        self.pragma("PRAGMA synchronous = FULL")?;
        done
    }

    fn pragma(&self, sql: &str) -> StoreResult<()> {
        self.told(self.conn.execute_batch(sql).map_err(Fault::from))
    }

    fn told<T>(&self, tried: Tried<T>) -> StoreResult<T> {
        tried.map_err(|fault| match fault {
            // A newer program may have changed the tables since this connection was opened.
            Fault::Sql(_) | Fault::Damaged(_) => {
                match unchanged(&self.conn, &self.paths, self.version) {
                    Err(Fault::Told(newer)) => newer,
                    _ => fault.tell(&self.paths),
                }
            }
            fault => fault.tell(&self.paths),
        })
    }
}

/// One transaction: begins as a writer, so that what it reads stays true until it commits.
fn transact<T>(
    conn: &Connection,
    paths: &Paths,
    version: i64,
    body: impl FnOnce(&mut Tx<'_>) -> Tried<End<T>>,
) -> Tried<(T, Vec<std::path::PathBuf>)> {
    // Dropped on every early return, which rolls back.
    let open = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
    unchanged(conn, paths, version)?;
    let mut tx = Tx {
        conn,
        paths,
        doomed: Vec::new(),
    };
    match body(&mut tx)? {
        End::Commit(value) => {
            let doomed = tx.doomed;
            open.commit()?;
            Ok((value, doomed))
        }
        End::Rollback(value) => {
            open.rollback()?;
            Ok((value, Vec::new()))
        }
    }
}

/// Fails if the store is of another version by now: a newer program can come while this one runs.
fn unchanged(conn: &Connection, paths: &Paths, version: i64) -> Tried<()> {
    let found = schema::version(conn)?;
    match found.cmp(&version) {
        Ordering::Equal => Ok(()),
        Ordering::Greater => Err(newer(found, version, paths).into()),
        Ordering::Less => Err(Fault::Damaged("it became older while it was in use")),
    }
}

fn newer(found: i64, known: i64, paths: &Paths) -> StoreError {
    StoreError::Newer {
        found,
        known,
        store: paths.db.display().to_string(),
    }
}

fn connect(path: &Path, flags: OpenFlags) -> Tried<Connection> {
    let flags = flags
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let mut conn = match vfs::name() {
        Some(name) => Connection::open_with_flags_and_vfs(path, flags, name)?,
        None => Connection::open_with_flags(path, flags)?,
    };
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    wait_when_busy(&mut conn)?;
    Ok(conn)
}

/// Random pauses within a limit: a crowd with equal pauses would meet again each time.
fn wait_when_busy(conn: &mut Connection) -> Tried<()> {
    let mut since = Instant::now();
    conn.busy_handler(Some(move |tries| {
        if tries == 0 {
            since = Instant::now();
        }
        let more = since.elapsed() < BUSY_LIMIT;
        if more {
            pause(BUSY_PAUSE_US);
        }
        more
    }))?;
    Ok(())
}

fn connect_to_read(paths: &Paths, migrations: &[Migration]) -> Tried<(Connection, Kind)> {
    let looked = connect(&paths.db, OpenFlags::SQLITE_OPEN_READ_ONLY).and_then(|conn| {
        let kind = schema::kind(&conn, migrations)?;
        Ok((conn, kind))
    });
    match looked {
        Err(Fault::Sql(error)) if cannot_open(&error) && is_frozen(paths) => {
            connect_to_frozen(paths, migrations)
        }
        looked => looked,
    }
}

fn cannot_open(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::CannotOpen)
}

/// Whether the database's file is all there is, and nobody can change it: a read-only mount, and no
/// log with something in it.
fn is_frozen(paths: &Paths) -> bool {
    wal_bytes(paths) == 0 && system::on_read_only_mount(&paths.db)
}

/// Reads a file that nobody changes, without locks and without side files.
fn connect_to_frozen(paths: &Paths, migrations: &[Migration]) -> Tried<(Connection, Kind)> {
    let mut uri = String::from("file:");
    for byte in paths.db.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                uri.push(char::from(*byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let conn = connect(Path::new(&uri), flags)?;
    let kind = schema::kind(&conn, migrations)?;
    Ok((conn, kind))
}

fn connect_to_write(paths: &Paths, queue: &Queue, migrations: &[Migration]) -> Tried<Connection> {
    let conn = connect(&paths.db, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    match schema::kind(&conn, migrations)? {
        Kind::Ready => {}
        Kind::Blank | Kind::Older => {
            let _turn = turn(queue, QUEUE_LIMIT);
            migrate(&conn, migrations)?;
        }
        kind @ (Kind::Newer(_) | Kind::Foreign) => {
            return Err(refusal(kind, paths, migrations).into());
        }
    }
    conn.execute_batch(&format!(
        "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = {LONGEST_WAL_FRAMES}"
    ))?;
    Ok(conn)
}

/// Migrates. SQLite does not wait for readers where it changes the kind of journal, so this does.
fn migrate(conn: &Connection, migrations: &[Migration]) -> Tried<()> {
    let started = Instant::now();
    loop {
        match schema::migrate(conn, migrations) {
            Err(Fault::Sql(error))
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && started.elapsed() < BUSY_LIMIT =>
            {
                pause(BUSY_PAUSE_US);
            }
            done => return done,
        }
    }
}

/// A turn in the queue of writers, if it comes in time. SQLite's own lock keeps transactions apart.
fn turn(queue: &Queue, limit: Duration) -> Option<Turn<'_>> {
    queue.enter(limit).ok().flatten()
}

/// Sleeps for a random time, so that a crowd does not wake at once.
fn pause((least_us, most_us): (u64, u64)) {
    let us = least_us + random::below(most_us - least_us + 1);
    std::thread::sleep(Duration::from_micros(us));
}

fn refusal(kind: Kind, paths: &Paths, migrations: &[Migration]) -> StoreError {
    match kind {
        Kind::Newer(found) => newer(found, schema::version_of(migrations), paths),
        _ => fault::foreign(paths),
    }
}

fn wal_bytes(paths: &Paths) -> u64 {
    std::fs::metadata(paths.wal()).map_or(0, |meta| meta.len())
}

/// Frames that a log of this length has room for. After a restart from its beginning fewer are in use.
fn frames_in(wal_bytes: u64) -> u64 {
    wal_bytes.saturating_sub(WAL_HEADER_BYTES) / FRAME_BYTES
}

/// Checkpoints and truncates without waiting for anyone.
fn checkpoint_now(conn: &mut Connection) -> Tried<()> {
    conn.busy_handler(None::<fn(i32) -> bool>)?;
    let done = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    wait_when_busy(conn)?;
    match done {
        // Its row says whether someone was in the way; the next one will do it then.
        Ok(()) => Ok(()),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Store for SqliteStore {
    fn find(&mut self, name: &OpName) -> StoreResult<Option<Record>> {
        let found = self.told(tx::find(&self.conn, name))?;
        Ok(found.map(|stored| stored.record))
    }

    fn claim(
        &mut self,
        name: &OpName,
        decide: &mut DecideClaim<'_>,
    ) -> StoreResult<(Claimed, Option<Record>)> {
        self.write(|tx| claim::claim(tx, name, decide))
    }

    fn step(&mut self, claim: &ClaimId, step: &Step) -> StoreResult<Fenced> {
        if step.durable {
            self.write(|tx| settle::step(tx, claim, step))
        } else {
            self.write_lazily(|tx| settle::step(tx, claim, step))
        }
    }

    fn settle(
        &mut self,
        claim: &ClaimId,
        settlement: &Settlement,
        guards: &mut dyn FnMut(&mut dyn Guards) -> StoreResult<()>,
    ) -> StoreResult<Fenced> {
        self.write(|tx| settle::settle(tx, claim, settlement, guards))
    }

    fn change(
        &mut self,
        name: &OpName,
        decide: &mut dyn FnMut(Option<&Record>) -> Change,
    ) -> StoreResult<Option<Record>> {
        self.write(|tx| change::change(tx, name, decide))
    }

    fn with_guards(
        &mut self,
        body: &mut dyn FnMut(&mut dyn Guards) -> StoreResult<()>,
    ) -> StoreResult<()> {
        self.write(|tx| {
            body(tx)?;
            Ok(End::Commit(()))
        })
    }

    fn list(&mut self, filter: &Filter) -> StoreResult<Vec<Record>> {
        self.told(read::list(&self.conn, filter))
    }

    fn names(&mut self, filter: &Filter) -> StoreResult<Vec<OpName>> {
        self.told(read::names(&self.conn, filter))
    }

    fn import(&mut self, import: &Import) -> StoreResult<Imported> {
        self.write(|tx| import::import(tx, import))
    }

    fn count_states(&mut self) -> StoreResult<Vec<(Scope, State, u64)>> {
        self.told(read::count_states(&self.conn))
    }

    fn list_guards(&mut self, kind: GuardKind) -> StoreResult<Vec<(String, Value)>> {
        self.told(read::list_guards(&self.conn, kind))
    }

    fn events(
        &mut self,
        name: Option<&OpName>,
        after_id: i64,
        limit: u32,
    ) -> StoreResult<Vec<Event>> {
        self.told(read::events(&self.conn, name, after_id, limit))
    }

    fn past_result(
        &mut self,
        name: &OpName,
        generation: Generation,
    ) -> StoreResult<Option<PastResult>> {
        self.told(read::past_result(&self.conn, name, generation))
    }

    fn open_output(&mut self, output: &OutputRef) -> StoreResult<OpenOutput> {
        read::open_output(&self.conn, &self.paths, output)
    }

    fn purge(&mut self, now: &Stamp, limit: u32, keep_events: Duration) -> StoreResult<Purged> {
        if !self.told(purge::is_due(&self.conn, now, keep_events))? {
            return Ok(Purged::default());
        }
        let purged = self.write_lazily(|tx| purge::purge(tx, now, limit, keep_events))?;
        self.told(purge::give_back_pages(&self.conn))?;
        Ok(purged)
    }
}

#[cfg(test)]
mod tests;
