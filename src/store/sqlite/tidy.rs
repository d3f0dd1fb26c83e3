//! Looking after the files of a store: what nobody needs any more, what is missing, how much room is
//! taken.

use super::fault::Tried;
use super::{SqliteStore, checkpoint_now, purge, wal_bytes};
use crate::domain::name::Nonce;
use crate::engine::store::{Guards, Store, StoreError, StoreResult};
use crate::store::litter::{self, Known, Litter};
use crate::store::paths::Paths;
use rusqlite::Connection;
use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

/// The room that a store takes, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// The database.
    pub db_bytes: u64,
    /// Free pages in it.
    pub free_bytes: u64,
    /// The write-ahead log.
    pub wal_bytes: u64,
}

impl SqliteStore {
    /// Files that nobody needs any more. The files are listed first: whatever was about to be recorded
    /// then has its row by the time that the rows are read.
    pub fn litter(&mut self) -> StoreResult<Vec<Litter>> {
        let files = litter::list(&self.paths).map_err(|error| unreadable(&self.paths, &error))?;
        if files.is_empty() {
            return Ok(files);
        }
        if self.queue.is_some() {
            // A claim makes its files inside its transaction; one that was open just now is over then.
            self.with_guards(&mut |_: &mut dyn Guards| Ok(()))?;
        }
        let known = self.told(known(&self.conn, &self.paths))?;
        let paths = self.paths.clone();
        let is_left = |file: &Litter| !known.needs(&paths, file);
        Ok(files.into_iter().filter(is_left).collect())
    }

    /// Outputs that are recorded and whose files are gone.
    pub fn missing_spool(&mut self) -> StoreResult<Vec<PathBuf>> {
        let rows = self.told(spooled(&self.conn))?;
        let path = |(nonce, number): &(Nonce, u32)| self.paths.spool(nonce, *number);
        let absent: Vec<PathBuf> = rows
            .iter()
            .map(path)
            .filter(|path| !path.exists())
            .collect();
        // A record that was deleted meanwhile misses nothing.
        let again: HashSet<PathBuf> = self.told(spooled(&self.conn))?.iter().map(path).collect();
        Ok(absent
            .into_iter()
            .filter(|path| again.contains(path))
            .collect())
    }

    /// Gives free pages back and folds the log into the database, as far as nobody is in the way.
    pub fn shrink(&mut self) -> StoreResult<()> {
        let done = purge::vacuum(&self.conn, 0).and_then(|()| checkpoint_now(&mut self.conn));
        done.map_err(|fault| fault.tell(&self.paths))
    }

    /// Reads the whole database; returns what does not fit together, nothing where all does.
    pub fn quick_check(&mut self) -> StoreResult<Vec<String>> {
        self.told(quick_check(&self.conn))
    }

    /// The room that it takes.
    pub fn space(&mut self) -> StoreResult<Space> {
        let number = |pragma: &str| -> Tried<u64> {
            let number: i64 = self.conn.query_row(pragma, [], |row| row.get(0))?;
            Ok(number.cast_unsigned())
        };
        let pages = || -> Tried<(u64, u64, u64)> {
            Ok((
                number("PRAGMA page_size")?,
                number("PRAGMA page_count")?,
                number("PRAGMA freelist_count")?,
            ))
        };
        let (size, count, free) = self.told(pages())?;
        Ok(Space {
            db_bytes: size * count,
            free_bytes: size * free,
            wal_bytes: wal_bytes(&self.paths),
        })
    }
}

fn unreadable(paths: &Paths, error: &io::Error) -> StoreError {
    StoreError::Place(format!(
        "{} cannot be read ({error}); look at its permissions",
        paths.directory().display()
    ))
}

fn known(conn: &Connection, paths: &Paths) -> Tried<Known> {
    let snapshot = conn.unchecked_transaction()?;
    let spooled = spooled(&snapshot)?.into_iter();
    let spooled = spooled
        .map(|(nonce, number)| paths.spool(&nonce, number))
        .collect();
    let mut statement = snapshot.prepare("SELECT nonce FROM operation WHERE state = 'running'")?;
    let running = statement.query_map([], |row| Ok(Nonce(row.get(0)?)))?;
    Ok(Known {
        spooled,
        running: running.collect::<Result<_, _>>()?,
        now: SystemTime::now(),
    })
}

/// The outputs that lie in files.
fn spooled(conn: &Connection) -> Tried<Vec<(Nonce, u32)>> {
    let mut statement = conn.prepare("SELECT nonce, number FROM output WHERE bytes IS NULL")?;
    let rows = statement.query_map([], |row| Ok((Nonce(row.get(0)?), row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn quick_check(conn: &Connection) -> Tried<Vec<String>> {
    let mut statement = conn.prepare("PRAGMA quick_check(20)")?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
    let mut found: Vec<String> = rows.collect::<Result<_, _>>()?;
    found.retain(|line| line != "ok");
    Ok(found)
}
