//! The embedded store's place.

use crate::Place;
use idem::domain::name::Nonce;
use idem::engine::store::Store;
use idem::store::sqlite::SqliteStore;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub struct SqlitePlace {
    home: TempDir,
}

impl SqlitePlace {
    pub fn new() -> SqlitePlace {
        SqlitePlace {
            home: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> PathBuf {
        self.home.path().join("state/idem.db")
    }
}

pub fn open(path: &Path) -> Box<dyn Store> {
    Box::new(SqliteStore::open_write(path).unwrap())
}

impl Place for SqlitePlace {
    fn open(&self) -> Box<dyn Store> {
        open(&self.path())
    }

    fn location(&self) -> OsString {
        self.path().into()
    }

    fn spool(&self, nonce: &Nonce, number: u32) -> PathBuf {
        let store = SqliteStore::open_write(&self.path()).unwrap();
        store.paths().spool(nonce, number)
    }

    fn keeps_files(&self) -> bool {
        true
    }

    fn check(&self) {
        let conn = rusqlite::Connection::open(self.path()).unwrap();
        let sql = "PRAGMA integrity_check";
        let found: String = conn.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(found, "ok");
    }
}
