//! SQLite's own way to the system with one difference: a log that has something in it is opened and
//! not created.
//!
//! After the first sync of a log that it may have created SQLite syncs the directory too, in every
//! process anew. Whoever put the first frames into the log has done that before its commit returned,
//! so for all others it is one wait for the disk too many in front of the command.

use rusqlite::ffi;
use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

const NAME: &CStr = c"idem";

/// Its name, for opening a connection. None if SQLite cannot take it, which then does without.
pub fn name() -> Option<&'static CStr> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    REGISTERED.get_or_init(register).then_some(NAME)
}

fn register() -> bool {
    // SAFETY: a null name asks for the default, which lives as long as the program. The copy differs in
    // its name, its data and its way to open; the other methods make no use of the data. It is leaked,
    // since SQLite keeps it.
    unsafe {
        let base = ffi::sqlite3_vfs_find(std::ptr::null());
        if base.is_null() {
            return false;
        }
        let mut copy = *base;
        copy.pNext = std::ptr::null_mut();
        copy.zName = NAME.as_ptr();
        copy.pAppData = base.cast();
        copy.xOpen = Some(open);
        ffi::sqlite3_vfs_register(Box::leak(Box::new(copy)), 0) == ffi::SQLITE_OK
    }
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes on what was registered, and the rest as the default's own method expects it.
    unsafe {
        let base: *mut ffi::sqlite3_vfs = (*vfs).pAppData.cast();
        let Some(open) = (*base).xOpen else {
            return ffi::SQLITE_CANTOPEN;
        };
        if flags & ffi::SQLITE_OPEN_WAL != 0 && has_content(name) {
            let there = flags & !ffi::SQLITE_OPEN_CREATE;
            if open(base, name, file, there, flags_out) == ffi::SQLITE_OK {
                return ffi::SQLITE_OK;
            }
            // Gone in between.
        }
        open(base, name, file, flags, flags_out)
    }
}

/// # Safety
///
/// `name` must be null or a string.
unsafe fn has_content(name: *const c_char) -> bool {
    if name.is_null() {
        return false;
    }
    // SAFETY: all-zero is a valid stat, and stat fills the one that it is given.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::stat(name, &mut stat) == 0 && stat.st_size > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn only_a_log_with_something_in_it_counts() {
        let home = tempfile::tempdir().unwrap();
        let log = home.path().join("log");
        let name = CString::new(log.as_os_str().as_bytes()).unwrap();
        // SAFETY: null, and a string that outlives the calls.
        let has_content = |name: *const c_char| unsafe { has_content(name) };
        assert!(!has_content(std::ptr::null()) && !has_content(name.as_ptr()));
        std::fs::write(&log, "").unwrap();
        assert!(!has_content(name.as_ptr()));
        std::fs::write(&log, "frames").unwrap();
        assert!(has_content(name.as_ptr()));
    }

    #[test]
    fn databases_open_with_a_log_and_without() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("db");
        for round in 1..=3 {
            let flags = rusqlite::OpenFlags::default();
            let name = name().expect("registered");
            let db = rusqlite::Connection::open_with_flags_and_vfs(&path, flags, name).unwrap();
            let sql = "PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS t(x);\
                INSERT INTO t VALUES(1)";
            db.execute_batch(sql).unwrap();
            let count = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0));
            assert_eq!(count, Ok(round));
            if round == 1 {
                // Never closed: its log stays, and the next one finds it.
                std::mem::forget(db);
            }
        }
    }
}
