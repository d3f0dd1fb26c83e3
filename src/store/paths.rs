//! The names of the files that a store has on this machine.

use crate::domain::name::Nonce;
use crate::process::spool::spool_stem;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The names of a store's files. All lie in one directory, whose path has no symbolic link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// The database; for a store on a server the file that would be it, whose name the others begin with.
    pub db: PathBuf,
    /// The lock file: liveness bytes, and the queue of writers. Never deleted.
    pub locks: PathBuf,
}

impl Paths {
    /// The names that belong to this database.
    pub fn new(db: PathBuf) -> Paths {
        let locks = beside(&db, "-locks");
        Paths { db, locks }
    }

    /// The spool file of an output: `<db>-out-<nonce>-<number>`.
    pub fn spool(&self, nonce: &Nonce, number: u32) -> PathBuf {
        let db_name = self.db.file_name().unwrap_or_default();
        self.db.with_file_name(spool_stem(db_name, nonce, number))
    }

    /// The write-ahead log.
    pub fn wal(&self) -> PathBuf {
        beside(&self.db, "-wal")
    }

    /// The file to which calls append what they count.
    pub fn counts(&self) -> PathBuf {
        beside(&self.db, "-counts")
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        self.db.parent().unwrap_or(Path::new("/"))
    }
}

/// A file beside the database, named after it.
pub fn beside(db: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(db);
    name.push(suffix);
    PathBuf::from(name)
}
