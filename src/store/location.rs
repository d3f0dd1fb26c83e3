//! Where the store is, and a store opened there.

use super::paths::{Paths, beside};
use super::sqlite::{Litter, SqliteStore};
use crate::engine::store::{Store, StoreResult};
use std::fmt;
use std::path::{Path, PathBuf};

/// Where the store is.
#[derive(Debug, Clone)]
pub enum Location {
    /// The embedded store in this file.
    File {
        /// Its path.
        path: PathBuf,
        /// Nobody has named it: it is the user's own.
        default: bool,
    },
}

/// The embedded store or a server, as a user would name it. Never with a password.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::File { path, .. } => path.display().fmt(f),
        }
    }
}

impl Location {
    /// The path that the store's files on this machine are named after.
    pub fn path(&self) -> &Path {
        match self {
            Location::File { path, .. } => path,
        }
    }

    /// A file beside the store, by what its name ends with.
    pub fn beside(&self, suffix: &str) -> PathBuf {
        beside(self.path(), suffix)
    }

    /// Whether it is the user's own on this machine, because nobody has named one.
    pub fn is_default(&self) -> bool {
        match self {
            Location::File { default, .. } => *default,
        }
    }

    /// Whether other machines can use it as well.
    pub fn is_shared(&self) -> bool {
        match self {
            Location::File { .. } => false,
        }
    }

    /// Opens for reading. None where there is no store yet; nothing is created then.
    pub fn open_read(&self) -> StoreResult<Option<AnyStore>> {
        match self {
            Location::File { path, .. } => Ok(SqliteStore::open_read(path)?.map(AnyStore::Sqlite)),
        }
    }

    /// Opens for writing. The embedded store is made if there is none.
    pub fn open_write(&self) -> StoreResult<AnyStore> {
        match self {
            Location::File { path, .. } => Ok(AnyStore::Sqlite(SqliteStore::open_write(path)?)),
        }
    }

    /// Makes the place on this machine ready for a first claim: its lock file is there afterwards.
    pub fn prepare(&self) -> StoreResult<Paths> {
        match self {
            Location::File { path, .. } => SqliteStore::prepare_place(path),
        }
    }
}

/// A store of either kind.
#[derive(Debug)]
pub enum AnyStore {
    /// The embedded one.
    Sqlite(SqliteStore),
}

impl AnyStore {
    /// The port that it implements.
    pub fn port(&mut self) -> &mut dyn Store {
        match self {
            AnyStore::Sqlite(store) => store,
        }
    }

    /// The names of its files on this machine.
    pub fn paths(&self) -> &Paths {
        match self {
            AnyStore::Sqlite(store) => store.paths(),
        }
    }

    /// Really closes it: no connection may be carried across a fork.
    pub fn close_for_fork(self) -> StoreResult<()> {
        match self {
            AnyStore::Sqlite(store) => store.close_for_fork(),
        }
    }

    /// Housekeeping of the embedded store's log, for who has time: see
    /// [`SqliteStore::checkpoint_if_long`].
    pub fn checkpoint_if_long(&mut self) -> StoreResult<()> {
        match self {
            AnyStore::Sqlite(store) => store.checkpoint_if_long(),
        }
    }

    /// Files on this machine that nobody needs any more.
    pub fn litter(&mut self) -> StoreResult<Vec<Litter>> {
        match self {
            AnyStore::Sqlite(store) => store.litter(),
        }
    }

    /// Gives free room back to the file system, as far as nobody is in the way.
    pub fn shrink(&mut self) -> StoreResult<()> {
        match self {
            AnyStore::Sqlite(store) => store.shrink(),
        }
    }

    /// Bytes that the store takes.
    pub fn taken_bytes(&mut self) -> StoreResult<u64> {
        match self {
            AnyStore::Sqlite(store) => {
                let space = store.space()?;
                Ok(space.db_bytes.saturating_add(space.wal_bytes))
            }
        }
    }

    /// The embedded store, if it is that.
    pub fn sqlite(&mut self) -> Option<&mut SqliteStore> {
        match self {
            AnyStore::Sqlite(store) => Some(store),
        }
    }
}
