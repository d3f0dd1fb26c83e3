//! SQLite's own way to the system with four differences, each worth a good part of a short call.
//!
//! A log that has something in it is opened and not created. After the first sync of a log that it may
//! have created SQLite syncs the directory too, in every process anew. Whoever put the first frames into
//! the log has done that before its commit returned, so for all others it is one wait for the disk too
//! many in front of the command.
//!
//! Paths come resolved (see `place`), so they are not walked a second time.
//!
//! The first process at a store empties the index of the log, which is then filled with zeros page by
//! page. Where it has the size that it is about to get, its head alone is emptied: it says that there is
//! nothing in the index, and whoever puts the first frame of a part into it empties the part before.
//!
//! For root SQLite gives the log and its index to the owner of the database at every open. Where they
//! belong to it already, that would be two writes to the file system for nothing.

use rusqlite::ffi;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;
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
        copy.xFullPathname = Some(full_pathname);
        if let Some(set) = (*base).xSetSystemCall {
            // Without them SQLite's own are called, which do the same.
            let truncate = mem::transmute::<Truncate, SystemCall>(truncate);
            let _ = set(base, c"ftruncate".as_ptr(), Some(truncate));
            let give = mem::transmute::<Give, SystemCall>(give);
            let _ = set(base, c"fchown".as_ptr(), Some(give));
        }
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

unsafe extern "C" fn full_pathname(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite passes on what was registered, a string, and a buffer of so many bytes.
    unsafe {
        let length = libc::strlen(name);
        if *name.cast::<u8>() == b'/' && usize::try_from(room).is_ok_and(|room| length < room) {
            std::ptr::copy_nonoverlapping(name, out, length + 1);
            return ffi::SQLITE_OK;
        }
        let base: *mut ffi::sqlite3_vfs = (*vfs).pAppData.cast();
        match (*base).xFullPathname {
            Some(full_pathname) => full_pathname(base, name, room, out),
            None => ffi::SQLITE_CANTOPEN,
        }
    }
}

type Truncate = unsafe extern "C" fn(c_int, libc::off_t) -> c_int;
type SystemCall = unsafe extern "C" fn();

/// The size by which SQLite marks an index of the log that it has emptied.
const EMPTIED_INDEX: libc::off_t = 3;

/// The size of the index of a log that was never long: its first part, which SQLite makes as a whole.
const INDEX_BYTES: usize = 32 * 1024;

/// The part of the index that holds its head: two copies of the header and the marks of the readers, in
/// the layout that SQLite gives as fixed in its description of the format of the log.
const INDEX_HEAD_BYTES: usize = 136;

unsafe extern "C" fn truncate(file: c_int, size: libc::off_t) -> c_int {
    // SAFETY: SQLite's own open descriptor.
    unsafe {
        if size == EMPTIED_INDEX && empty_head(file) {
            return 0;
        }
        libc::ftruncate(file, size)
    }
}

/// Empties an index that has the usual size. Nobody else has it open then, SQLite has made sure.
///
/// # Safety
///
/// `file` must be an open descriptor.
unsafe fn empty_head(file: c_int) -> bool {
    let zeros = [0_u8; INDEX_HEAD_BYTES];
    // SAFETY: the zeros are as many as are written.
    unsafe {
        stat_of(file).is_some_and(|stat| usize::try_from(stat.st_size) == Ok(INDEX_BYTES))
            && libc::pwrite(file, zeros.as_ptr().cast::<c_void>(), zeros.len(), 0)
                == zeros.len().cast_signed()
    }
}

type Give = unsafe extern "C" fn(c_int, libc::uid_t, libc::gid_t) -> c_int;

unsafe extern "C" fn give(file: c_int, owner: libc::uid_t, group: libc::gid_t) -> c_int {
    // SAFETY: SQLite's own open descriptor.
    unsafe {
        match stat_of(file) {
            Some(stat) if stat.st_uid == owner && stat.st_gid == group => 0,
            _ => libc::fchown(file, owner, group),
        }
    }
}

/// # Safety
///
/// `file` must be an open descriptor.
unsafe fn stat_of(file: c_int) -> Option<libc::stat> {
    // SAFETY: all-zero is a valid stat, and fstat fills the one that it is given.
    unsafe {
        let mut stat: libc::stat = mem::zeroed();
        (libc::fstat(file, &mut stat) == 0).then_some(stat)
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
        let mut stat: libc::stat = mem::zeroed();
        libc::stat(name, &mut stat) == 0 && stat.st_size > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::MetadataExt as _;

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

    #[test]
    fn the_head_of_the_index_is_emptied_and_nothing_cut() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("index");
        let emptied = |size: usize| {
            std::fs::write(&path, vec![7; size]).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            // SAFETY: an open descriptor.
            let done = unsafe { truncate(file.as_raw_fd(), EMPTIED_INDEX) };
            assert_eq!(done, 0);
            std::fs::read(&path).unwrap()
        };
        let mut index = vec![7; INDEX_BYTES];
        index[..INDEX_HEAD_BYTES].fill(0);
        assert_eq!(emptied(INDEX_BYTES), index);
        assert_eq!(emptied(2 * INDEX_BYTES), [7; 3]);
        assert_eq!(emptied(INDEX_BYTES - 1), [7; 3]);
    }

    #[test]
    fn a_file_is_given_to_others_only_where_it_is_not_theirs() {
        let home = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(home.path().join("log")).unwrap();
        let stat = file.metadata().unwrap();
        let (owner, group) = (stat.uid(), stat.gid());
        // SAFETY: an open descriptor.
        let give = |owner, group| unsafe { give(file.as_raw_fd(), owner, group) };
        let changed = |stat: &std::fs::Metadata| (stat.ctime(), stat.ctime_nsec());
        assert_eq!(give(owner, group), 0);
        assert_eq!(changed(&file.metadata().unwrap()), changed(&stat));
        let given = give(owner + 1, group);
        // Only root may.
        let owner = if owner == 0 { 1 } else { owner };
        assert_eq!(given == 0, stat.uid() == 0);
        assert_eq!(file.metadata().unwrap().uid(), owner);
    }

    #[test]
    fn what_the_index_said_before_is_never_believed() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("db");
        let open = || {
            let flags = rusqlite::OpenFlags::default();
            rusqlite::Connection::open_with_flags_and_vfs(&path, flags, name().unwrap()).unwrap()
        };
        let db = open();
        let sql = "PRAGMA journal_mode = WAL; CREATE TABLE t(x); INSERT INTO t VALUES(1)";
        db.execute_batch(sql).unwrap();
        drop(db);
        let db = open();
        for number in 0..20 {
            db.execute("INSERT INTO t VALUES(?1)", [number]).unwrap();
        }
        let index = std::fs::read(home.path().join("db-shm")).unwrap();
        assert_eq!(index.len(), INDEX_BYTES);
        let count = |db: &rusqlite::Connection| -> i64 {
            db.query_row("SELECT count(*) FROM t", [], |row| row.get(0))
                .unwrap()
        };
        assert_eq!(count(&db), 21);
        drop(db);
        // The log was folded in and is gone, and the index tells of it all the same.
        std::fs::write(home.path().join("db-shm"), index).unwrap();
        let db = open();
        assert_eq!(count(&db), 21);
        db.execute_batch("PRAGMA integrity_check").unwrap();
        let index = std::fs::metadata(home.path().join("db-shm")).unwrap();
        assert_eq!(index.len(), INDEX_BYTES as u64);
    }
}
