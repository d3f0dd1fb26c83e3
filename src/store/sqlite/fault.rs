//! What goes wrong below the port, and how it is told: which file, and what to do next.

use crate::engine::store::StoreError;
use crate::store::paths::Paths;
use rusqlite::ErrorCode;
use rusqlite::ffi::{
    SQLITE_IOERR_SHMMAP, SQLITE_IOERR_SHMOPEN, SQLITE_IOERR_SHMSIZE, SQLITE_READONLY_DBMOVED,
    SQLITE_READONLY_ROLLBACK,
};

/// A failure inside the store's code, before the file's name is added.
#[derive(Debug)]
pub enum Fault {
    /// SQLite said no.
    Sql(rusqlite::Error),
    /// A stored value is none that this program writes; says which.
    Damaged(&'static str),
    /// A failure that is already told.
    Told(StoreError),
}

/// Short for what the store's inner functions return.
pub type Tried<T> = Result<T, Fault>;

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        Fault::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Fault {
        Fault::Told(error)
    }
}

impl Fault {
    /// Whether a reader found a transaction that a dead process has left half written to the database
    /// itself, which only ever happens before there is a write-ahead log.
    pub fn needs_a_writer(&self) -> bool {
        let Fault::Sql(rusqlite::Error::SqliteFailure(error, _)) = self else {
            return false;
        };
        error.extended_code == SQLITE_READONLY_ROLLBACK
    }

    /// Tells it about this store.
    pub fn tell(self, paths: &Paths) -> StoreError {
        match self {
            Fault::Told(error) => error,
            Fault::Damaged(what) => damaged(paths, what),
            Fault::Sql(rusqlite::Error::SqliteFailure(error, _)) => {
                tell_code(error.code, error.extended_code, paths)
            }
            Fault::Sql(rusqlite::Error::SqlInputError { .. }) => {
                damaged(paths, "its tables are not those of its version")
            }
            // What remains are values of an unexpected type.
            Fault::Sql(_) => damaged(paths, "a value has the wrong type"),
        }
    }
}

fn tell_code(code: ErrorCode, extended: i32, paths: &Paths) -> StoreError {
    let db = paths.db.display();
    match (code, extended) {
        (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => StoreError::Busy(format!(
            "{db} was kept busy by other processes for too long; try again, `fuser {db}` shows who holds it"
        )),
        (ErrorCode::DiskFull, _) | (_, SQLITE_IOERR_SHMSIZE) => StoreError::Full(format!(
            "there is no room left to write {db}; free some space on its file system and try again"
        )),
        (ErrorCode::NotADatabase, _) => foreign(paths),
        (ErrorCode::DatabaseCorrupt, _) => damaged(paths, "its pages do not fit together"),
        (ErrorCode::ReadOnly, SQLITE_READONLY_DBMOVED) => StoreError::Place(format!(
            "{db} was moved or deleted while it was in use; put it back and try again"
        )),
        (ErrorCode::ReadOnly, _) => StoreError::ReadOnly(format!(
            "{db} can be read and not written; make it writable, or choose another place with --store"
        )),
        (ErrorCode::CannotOpen | ErrorCode::PermissionDenied, _)
        | (_, SQLITE_IOERR_SHMOPEN | SQLITE_IOERR_SHMMAP) => StoreError::Place(format!(
            "{db}, {db}-wal or {db}-shm cannot be opened; look at their permissions and at those of the directory, or choose another place with --store"
        )),
        (ErrorCode::SystemIoFailure, _) => StoreError::Other(format!(
            "reading or writing {db} failed (SQLite's code {extended}); look at the disk, its quota and the system's log"
        )),
        (ErrorCode::OutOfMemory, _) => StoreError::Other(format!(
            "there was not enough memory to use {db}; free some and try again"
        )),
        _ => StoreError::Other(format!(
            "{db} could not be used (SQLite's code {extended}); try again, and report it if it stays so"
        )),
    }
}

/// The file is something else than a store.
pub fn foreign(paths: &Paths) -> StoreError {
    StoreError::Foreign(format!(
        "{} is no store of idem's; choose another path with --store, or move that file away",
        paths.db.display()
    ))
}

/// The file is a store, and something in it is broken.
pub fn damaged(paths: &Paths, what: &str) -> StoreError {
    let db = paths.db.display();
    StoreError::Foreign(format!(
        "{db} is damaged ({what}); bring back a copy, or move it away together with {db}-wal and {db}-shm to start anew"
    ))
}
