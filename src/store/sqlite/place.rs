//! Where the store lies: names of its files, and whether the place can be trusted.
//!
//! Whoever can write the database or its directory decides what has happened and what has not, so
//! nothing is opened before that is known. The database is only ever looked at by name: opening and
//! closing it beside SQLite would drop the locks that this process holds on it.

use super::system;
use crate::engine::store::{StoreError, StoreResult};
use crate::process::queue::Queue;
use crate::store::paths::Paths;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Write permission of the group or of others.
const OTHERS_WRITE: u32 = 0o022;

/// What is at the database's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// No file.
    Nothing,
    /// An empty file, which someone is about to fill.
    Empty,
    /// A file with something in it.
    Something,
}

/// Looks without creating anything. None where the directory does not exist.
pub fn look(path: &Path) -> StoreResult<Option<(Paths, Found)>> {
    let (parent, name) = split(path)?;
    let directory = match fs::canonicalize(parent) {
        Ok(directory) => directory,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(parent, &error)),
    };
    check_directory(&directory)?;
    let paths = Paths::new(directory.join(name));
    let found = check_database(&paths.db)?;
    Ok(Some((paths, found)))
}

/// Makes the place ready for writing: the directory (0700), the lock file and an empty database
/// (0600), each only if it is missing. Returns the names, and the lock file opened for queueing.
pub fn prepare(path: &Path) -> StoreResult<(Paths, Queue)> {
    create_directory(path)?;
    let Some((paths, found)) = look(path)? else {
        let missing = io::Error::from(ErrorKind::NotFound);
        return Err(unusable(split(path)?.0, &missing));
    };
    let queue = Queue::open(&paths.locks).map_err(|error| unusable(&paths.locks, &error))?;
    if found == Found::Nothing {
        create_database(&paths)?;
    }
    Ok((paths, queue))
}

/// Makes a directory of this machine ready for the files of a store that is elsewhere: the lock file and
/// what is recorded before it is brought there.
pub fn prepare_beside(path: &Path) -> StoreResult<Paths> {
    create_directory(path)?;
    let Some((paths, _)) = look(path)? else {
        let missing = io::Error::from(ErrorKind::NotFound);
        return Err(unusable(split(path)?.0, &missing));
    };
    Queue::open(&paths.locks).map_err(|error| unusable(&paths.locks, &error))?;
    Ok(paths)
}

fn split(path: &Path) -> StoreResult<(&Path, &std::ffi::OsStr)> {
    let Some(name) = path.file_name() else {
        return Err(StoreError::Place(format!(
            "{} is not the name of a file; give --store the path of a file",
            path.display()
        )));
    };
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => Ok((parent, name)),
        _ => Ok((Path::new("."), name)),
    }
}

fn check_directory(directory: &Path) -> StoreResult<()> {
    let meta = fs::metadata(directory).map_err(|error| unusable(directory, &error))?;
    let shown = directory.display();
    if !meta.is_dir() {
        return Err(StoreError::Place(format!(
            "{shown} is not a directory; choose another place with --store"
        )));
    }
    if meta.mode() & OTHERS_WRITE != 0 {
        return Err(StoreError::Place(format!(
            "others can write in {shown} (mode {:o}), so a store there cannot be trusted; `chmod go-w {shown}`, or choose a directory of your own with --store",
            meta.mode() & 0o7777
        )));
    }
    // Root works in directories of others (a runner's workspace), as long as the files are its own.
    let me = system::effective_user();
    if meta.uid() != me && meta.uid() != 0 && me != 0 {
        return Err(belongs_to_another(directory, &meta));
    }
    Ok(())
}

fn check_database(db: &Path) -> StoreResult<Found> {
    let meta = match fs::symlink_metadata(db) {
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(unusable(db, &error)),
    };
    let shown = db.display();
    if meta.file_type().is_symlink() {
        return Err(StoreError::Place(format!(
            "{shown} is a symbolic link; give --store the file that it points to"
        )));
    }
    if !meta.is_file() {
        return Err(StoreError::Place(format!(
            "{shown} is not a regular file; choose another path with --store"
        )));
    }
    // The log lies beside the name that was used: under another name, what it holds would be missing.
    if meta.nlink() > 1 {
        return Err(StoreError::Place(format!(
            "{shown} has {} names (hard links), and what was written under one is not seen under another; remove all but the first name, and take copies with `idem export`",
            meta.nlink()
        )));
    }
    // Not for root either: it would leave side files that the owner can no longer open.
    if meta.uid() != system::effective_user() {
        return Err(belongs_to_another(db, &meta));
    }
    if meta.mode() & OTHERS_WRITE != 0 {
        return Err(StoreError::Place(format!(
            "others can write {shown} (mode {:o}), so it cannot be trusted; look at what is in it, then `chmod go-w {shown}`",
            meta.mode() & 0o7777
        )));
    }
    Ok(if meta.len() == 0 {
        Found::Empty
    } else {
        Found::Something
    })
}

fn belongs_to_another(path: &Path, meta: &Metadata) -> StoreError {
    StoreError::Place(format!(
        "{} belongs to another user (uid {}); run idem as that user, or choose a place of your own with --store",
        path.display(),
        meta.uid()
    ))
}

fn unusable(path: &Path, error: &io::Error) -> StoreError {
    let shown = path.display();
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::Full(format!(
            "there is no room left for {shown}; free some space on its file system and try again"
        )),
        ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly(format!(
            "{shown} is on a read-only file system; choose another place with --store"
        )),
        _ => StoreError::Place(format!(
            "{shown} cannot be used ({error}); choose another place with --store"
        )),
    }
}

/// Creates the missing directories, private ones, and makes the topmost one's name durable.
fn create_directory(path: &Path) -> StoreResult<()> {
    let (parent, _) = split(path)?;
    let Some(above) = missing_from(parent) else {
        return Ok(());
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(parent)
        .and_then(|()| fs::set_permissions(parent, Permissions::from_mode(0o700)))
        .map_err(|error| unusable(parent, &error))?;
    // The new directory itself is synced when a file is created in it.
    let above_new = parent.ancestors().skip(1);
    for directory in above_new.take_while(|directory| *directory != above) {
        sync_directory(directory)?;
    }
    sync_directory(above)
}

/// The nearest ancestor that exists, if the directory itself does not.
fn missing_from(directory: &Path) -> Option<&Path> {
    let above = directory.ancestors().find(|ancestor| ancestor.exists());
    match above {
        Some(found) if found == directory => None,
        Some(found) => Some(found),
        None => Some(Path::new(".")),
    }
}

fn sync_directory(directory: &Path) -> StoreResult<()> {
    let directory = if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    };
    File::open(directory)
        .and_then(|opened| opened.sync_all())
        .map_err(|error| unusable(directory, &error))
}

/// Held while this process creates a database: the new file is closed again before SQLite opens it,
/// and a close drops every POSIX lock that another thread might have taken on it in between.
static CREATING: Mutex<()> = Mutex::new(());

fn create_database(paths: &Paths) -> StoreResult<()> {
    let _one_at_a_time = CREATING.lock().unwrap_or_else(PoisonError::into_inner);
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_CLOEXEC)
        .open(&paths.db);
    // A umask may have taken the owner's rights away as well.
    let created = created.and_then(|file| file.set_permissions(Permissions::from_mode(0o600)));
    match created {
        Ok(()) => sync_directory(paths.directory()),
        // Another process was first.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(unusable(&paths.db, &error)),
    }
}
