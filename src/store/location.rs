//! Where the store is, and a store opened there.

use super::litter::Litter;
use super::paths::{Paths, beside};
#[cfg(feature = "postgres")]
use super::server::{self, ServerPlace, ServerStore};
#[cfg(feature = "postgres")]
use super::sqlite;
use super::sqlite::SqliteStore;
use crate::domain::name::OpName;
use crate::engine::store::{Store, StoreError, StoreResult};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    /// A PostgreSQL server.
    #[cfg(feature = "postgres")]
    Server(Box<ServerPlace>),
}

/// The embedded store or a server, as a user would name it. Never with a password.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::File { path, .. } => path.display().fmt(f),
            #[cfg(feature = "postgres")]
            Location::Server(place) => place.target.fmt(f),
        }
    }
}

impl Location {
    /// The path that the store's files on this machine are named after.
    pub fn path(&self) -> &Path {
        match self {
            Location::File { path, .. } => path,
            #[cfg(feature = "postgres")]
            Location::Server(place) => &place.local,
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
            #[cfg(feature = "postgres")]
            Location::Server(_) => false,
        }
    }

    /// Whether other machines can use it as well.
    pub fn is_shared(&self) -> bool {
        match self {
            Location::File { .. } => false,
            #[cfg(feature = "postgres")]
            Location::Server(_) => true,
        }
    }

    /// Opens for reading. None where there is no store yet; nothing is created then.
    pub fn open_read(&self) -> StoreResult<Option<AnyStore>> {
        match self {
            Location::File { path, .. } => Ok(SqliteStore::open_read(path)?.map(AnyStore::Sqlite)),
            #[cfg(feature = "postgres")]
            Location::Server(place) => open_server(place).map(Some),
        }
    }

    /// Opens for who only looks: as [`Location::open_read`], and what waits for a server goes on waiting.
    pub fn peek(&self) -> StoreResult<Option<AnyStore>> {
        match self {
            Location::File { .. } => self.open_read(),
            #[cfg(feature = "postgres")]
            Location::Server(place) => {
                let store = ServerStore::open(place)?;
                Ok(Some(AnyStore::Server(Box::new(store))))
            }
        }
    }

    /// Opens for writing. The embedded store is made if there is none.
    pub fn open_write(&self) -> StoreResult<AnyStore> {
        match self {
            Location::File { path, .. } => Ok(AnyStore::Sqlite(SqliteStore::open_write(path)?)),
            #[cfg(feature = "postgres")]
            Location::Server(place) => {
                sqlite::prepare_beside(&place.local)?;
                open_server(place)
            }
        }
    }

    /// Makes the place on this machine ready for a first claim: its lock file is there afterwards.
    pub fn prepare(&self) -> StoreResult<Paths> {
        match self {
            Location::File { path, .. } => SqliteStore::prepare_place(path),
            #[cfg(feature = "postgres")]
            Location::Server(place) => sqlite::prepare_beside(&place.local),
        }
    }
}

/// What became of a result that waited on this machine for its server.
#[derive(Debug)]
pub struct Delivery {
    /// Whose result it is.
    pub name: OpName,
    /// What became of it.
    pub fate: Delivered,
}

/// What became of a waiting result.
#[derive(Debug)]
pub enum Delivered {
    /// It is the record's now.
    Now,
    /// The record has moved on: only the ledger has it.
    TooLate,
    /// It goes on waiting.
    NotYet(StoreError),
}

impl Location {
    /// The statements that make a server's tables, and let that role use them; none for an embedded store.
    pub fn init_script(&self, role: Option<&str>) -> Option<String> {
        match self {
            Location::File { .. } => {
                let _ = role;
                None
            }
            #[cfg(feature = "postgres")]
            Location::Server(place) => {
                let schema = place.target.schema();
                let grants = role.map(|role| server::grants(schema, role));
                Some(server::script(schema, 0) + &grants.unwrap_or_default())
            }
        }
    }

    /// Makes or updates a server's tables. Returns the schema's version found, none where there was none.
    pub fn init(&self) -> StoreResult<Option<i64>> {
        match self {
            Location::File { .. } => Ok(None),
            #[cfg(feature = "postgres")]
            Location::Server(place) => ServerStore::init(place),
        }
    }

    /// The newest version of a server's tables that this program knows.
    pub fn newest_schema() -> i64 {
        #[cfg(feature = "postgres")]
        return server::newest();
        #[cfg(not(feature = "postgres"))]
        0
    }

    /// Delivers what waits on this machine for the server.
    pub fn deliver(&self) -> StoreResult<Vec<Delivery>> {
        match self {
            Location::File { .. } => Ok(Vec::new()),
            #[cfg(feature = "postgres")]
            Location::Server(place) => ServerStore::open(place)?.deliver(),
        }
    }
}

/// Connects, and delivers what waits on this machine for that server.
#[cfg(feature = "postgres")]
fn open_server(place: &ServerPlace) -> StoreResult<AnyStore> {
    let mut store = ServerStore::open(place)?;
    // What cannot be delivered goes on waiting; `idem sync` says why.
    let _ = store.deliver();
    Ok(AnyStore::Server(Box::new(store)))
}

/// A store of either kind.
#[derive(Debug)]
pub enum AnyStore {
    /// The embedded one.
    Sqlite(SqliteStore),
    /// The one on a server.
    #[cfg(feature = "postgres")]
    Server(Box<ServerStore>),
}

impl AnyStore {
    /// The port that it implements.
    pub fn port(&mut self) -> &mut dyn Store {
        match self {
            AnyStore::Sqlite(store) => store,
            #[cfg(feature = "postgres")]
            AnyStore::Server(store) => store.as_mut(),
        }
    }

    /// The names of its files on this machine.
    pub fn paths(&self) -> &Paths {
        match self {
            AnyStore::Sqlite(store) => store.paths(),
            #[cfg(feature = "postgres")]
            AnyStore::Server(store) => store.paths(),
        }
    }

    /// Really closes it: no connection may be carried across a fork.
    pub fn close_for_fork(self) -> StoreResult<()> {
        match self {
            AnyStore::Sqlite(store) => store.close_for_fork(),
            #[cfg(feature = "postgres")]
            AnyStore::Server(store) => {
                drop(store);
                Ok(())
            }
        }
    }

    /// Housekeeping of files on this machine, for who has time: folds a long log in
    /// ([`SqliteStore::checkpoint_if_long`]), or deletes outputs that the server has.
    pub fn tidy_up(&mut self) -> StoreResult<()> {
        match self {
            AnyStore::Sqlite(store) => store.checkpoint_if_long(),
            #[cfg(feature = "postgres")]
            AnyStore::Server(store) => {
                store.drop_spent();
                Ok(())
            }
        }
    }

    /// Files on this machine that nobody needs any more.
    pub fn litter(&mut self) -> StoreResult<Vec<Litter>> {
        match self {
            AnyStore::Sqlite(store) => store.litter(),
            #[cfg(feature = "postgres")]
            AnyStore::Server(store) => store.litter(),
        }
    }

    /// Gives free room back to the file system, as far as nobody is in the way.
    pub fn shrink(&mut self) -> StoreResult<()> {
        match self {
            AnyStore::Sqlite(store) => store.shrink(),
            #[cfg(feature = "postgres")]
            AnyStore::Server(store) => store.drop_orphans().map(drop),
        }
    }

    /// Bytes that the store takes.
    pub fn taken_bytes(&mut self) -> StoreResult<u64> {
        match self {
            AnyStore::Sqlite(store) => {
                let space = store.space()?;
                Ok(space.db_bytes.saturating_add(space.wal_bytes))
            }
            #[cfg(feature = "postgres")]
            AnyStore::Server(store) => store.taken_bytes(),
        }
    }

    /// Tells it until when a result may take to be recorded, if the call has a deadline.
    pub fn set_deadline(&mut self, _left: Option<Duration>) {
        match self {
            // The embedded store is there or not.
            AnyStore::Sqlite(_) => {}
            #[cfg(feature = "postgres")]
            AnyStore::Server(store) => {
                if let Some(left) = _left {
                    store.set_deadline(std::time::Instant::now() + left);
                }
            }
        }
    }

    /// The embedded store, if it is that.
    pub fn sqlite(&mut self) -> Option<&mut SqliteStore> {
        match self {
            AnyStore::Sqlite(store) => Some(store),
            #[cfg(feature = "postgres")]
            AnyStore::Server(_) => None,
        }
    }
}
