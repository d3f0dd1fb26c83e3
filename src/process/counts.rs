//! What calls count that write nothing to the database: a file beside it that they append to.
//!
//! A record is one write(2) in append mode, under a shared lock, so that a replay waits for nobody and
//! for no disk. Whoever counts the file first gives it a name of its own, and then takes its lock for
//! itself: whoever appends looks under its lock whether the file still has the name that it was opened
//! by, so nothing is ever appended to a file that is already counted.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::random;
use super::sys::check;
use crate::domain::name::{Scope, hex};
use crate::domain::tally::Count;

/// What a record begins with. It cannot be part of a scope, which is UTF-8.
const MAGIC: [u8; 2] = [0xff, 0xc1];

/// Bytes before a record's scope: the magic, what is counted, the scope's length, the hour, a checksum.
const HEAD_BYTES: usize = 16;

/// Records fill whole cells of this many bytes.
const CELL_BYTES: usize = 16;

/// A file is renamed while it is opened at most this often in a row.
const OPEN_TRIES: u32 = 64;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// In which scope.
    pub scope: Scope,
    /// In which hour since 1970.
    pub hour: u32,
    /// What.
    pub count: Count,
}

/// Appends one record; the file is made (0600) if there is none.
pub fn append(path: &Path, counted: &Counted) -> io::Result<()> {
    for _ in 0..OPEN_TRIES {
        let mut file = open(path)?;
        match flock(&file, libc::LOCK_SH | libc::LOCK_NB) {
            // It was renamed meanwhile, and is being counted.
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            locked => locked?,
        }
        let (opened, named) = (file.metadata()?, fs::symlink_metadata(path));
        let same =
            |named: &fs::Metadata| (named.dev(), named.ino()) == (opened.dev(), opened.ino());
        if !named.is_ok_and(|named| same(&named)) {
            continue;
        }
        if opened.mode() & 0o777 != 0o600 {
            // A umask may have taken the owner's rights away, and then nobody could count it.
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        return file.write_all(&encode(counted));
    }
    Err(ErrorKind::ResourceBusy.into())
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
}

fn flock(file: &File, how: libc::c_int) -> io::Result<()> {
    // SAFETY: integers only.
    check(unsafe { libc::flock(file.as_raw_fd(), how) }).map(drop)
}

/// A file that nobody appends to any more, held for counting.
#[derive(Debug)]
pub struct Batch {
    file: File,
    path: PathBuf,
}

impl Batch {
    /// Its name, which no other ever has.
    pub fn name(&self) -> String {
        name_of(&self.path)
    }

    /// What is in it.
    pub fn read(&mut self) -> io::Result<Vec<Counted>> {
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes)?;
        Ok(decode(&bytes))
    }

    /// Deletes it, once it is counted.
    pub fn delete(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// Takes what was appended so far out of the way, and returns all files that can be counted now. One
/// that someone is still appending to, or another process counts, is left to the next.
pub fn take(path: &Path) -> io::Result<Vec<Batch>> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.len() > 0 => rename_away(path)?,
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let batches = list(path)?;
    Ok(batches.into_iter().filter_map(hold).collect())
}

fn rename_away(path: &Path) -> io::Result<()> {
    let mut name = OsString::from(path);
    name.push(format!("-{}", hex(&random::bytes::<16>())));
    match fs::rename(path, name) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Takes its lock; the file must still be there then, since a holder before may have counted it.
fn hold(path: PathBuf) -> Option<Batch> {
    let file = open_to_read(&path).ok()?;
    flock(&file, libc::LOCK_EX | libc::LOCK_NB).ok()?;
    let still_there = file.metadata().is_ok_and(|meta| meta.nlink() > 0);
    still_there.then_some(Batch { file, path })
}

fn open_to_read(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
}

/// The files that were taken out of the way and are still there.
fn list(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut prefix = name_of(path);
    prefix.push('-');
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// A name of the directory that a file is in, which hardly any other machine has as well: two that did
/// would take each other's files for their own, and count one twice after a crash.
pub fn place_of(path: &Path) -> String {
    let host = fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    let directory = fs::metadata(path.parent().unwrap_or(Path::new(".")));
    let (device, inode) = directory.map_or((0, 0), |meta| (meta.dev(), meta.ino()));
    let numbers = [device.to_le_bytes(), inode.to_le_bytes()].concat();
    format!("{:016x}", checksum(&host, &numbers))
}

/// What was appended and is in none of these files, without taking or locking anything: for a store that
/// can only be read.
pub fn peek(path: &Path, counted: &[String]) -> Vec<Counted> {
    let mut found = Vec::new();
    let taken = list(path).unwrap_or_default();
    for path in std::iter::once(path.to_owned()).chain(taken) {
        let mut bytes = Vec::new();
        let is_counted = counted.contains(&name_of(&path));
        if !is_counted && open_to_read(&path).is_ok_and(|mut f| f.read_to_end(&mut bytes).is_ok()) {
            found.extend(decode(&bytes));
        }
    }
    found
}

fn encode(counted: &Counted) -> Vec<u8> {
    let scope = counted.scope.as_str().as_bytes();
    let mut bytes = Vec::with_capacity(HEAD_BYTES + scope.len() + CELL_BYTES);
    bytes.extend(MAGIC);
    bytes.push(counted.count.code());
    // A scope has at most 255 bytes.
    bytes.push(u8::try_from(scope.len()).unwrap_or(u8::MAX));
    bytes.extend(counted.hour.to_le_bytes());
    let sum = checksum(&bytes, scope);
    bytes.extend(sum.to_le_bytes());
    bytes.extend(scope);
    bytes.resize(bytes.len().next_multiple_of(CELL_BYTES), 0);
    bytes
}

/// The records of a file. After a torn one (the disk was full) the next whole one is looked for.
fn decode(mut bytes: &[u8]) -> Vec<Counted> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (counted, length) = match decode_one(bytes) {
            Some((counted, length)) => (Some(counted), length),
            None => (None, 1),
        };
        found.extend(counted);
        bytes = bytes.get(length..).unwrap_or_default();
    }
    found
}

fn decode_one(bytes: &[u8]) -> Option<(Counted, usize)> {
    let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let (fields, sum) = head.split_first_chunk::<8>()?;
    let [magic0, magic1, code, length, hour @ ..] = *fields;
    let scope = rest.get(..usize::from(length))?;
    if [magic0, magic1] != MAGIC || sum != checksum(fields, scope).to_le_bytes() {
        return None;
    }
    let counted = Counted {
        scope: Scope::new(scope).ok()?,
        hour: u32::from_le_bytes(hour),
        count: Count::from_code(code)?,
    };
    Some((
        counted,
        (HEAD_BYTES + scope.len()).next_multiple_of(CELL_BYTES),
    ))
}

/// FNV-1a with 64 bits: it only has to tell a whole record from a torn one, or one place from another.
fn checksum(head: &[u8], scope: &[u8]) -> u64 {
    let bytes = head.iter().chain(scope);
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(scope: &str, count: Count) -> Counted {
        Counted {
            scope: Scope::new(scope).expect("a scope"),
            hour: 500_000,
            count,
        }
    }

    fn place() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("idem.db-counts");
        (dir, path)
    }

    fn all(path: &Path) -> Vec<Counted> {
        let mut batches = take(path).expect("batches");
        batches
            .iter_mut()
            .flat_map(|batch| batch.read().expect("a read"))
            .collect()
    }

    #[test]
    fn records_come_back_whatever_their_scope() {
        let (_dir, path) = place();
        let wanted: Vec<Counted> = ["", "x", "sixteen-bytes-xx", &"é".repeat(127)]
            .map(|scope| counted(scope, Count::Replay))
            .to_vec();
        for one in &wanted {
            append(&path, one).expect("appended");
        }
        assert_eq!(peek(&path, &[]), wanted);
        let meta = fs::metadata(&path).expect("a file");
        assert_eq!(meta.mode() & 0o777, 0o600);
        assert_eq!(all(&path), wanted);
    }

    #[test]
    fn a_torn_record_costs_no_other() {
        let (one, two) = (counted("a", Count::Replay), counted("b", Count::Wait));
        for torn in 0..32 {
            let mut bytes = encode(&one);
            bytes.extend(&encode(&two)[..torn]);
            bytes.extend(encode(&two));
            assert_eq!(decode(&bytes), [one.clone(), two.clone()], "{torn}");
        }
    }

    #[test]
    fn what_is_taken_is_left_alone_until_it_is_deleted() {
        let (_dir, path) = place();
        let one = counted("", Count::Replay);
        append(&path, &one).expect("appended");
        let mut batches = take(&path).expect("batches");
        append(&path, &one).expect("appended");
        let mut batch = batches.pop().expect("a batch");
        let name = batch.name();
        assert_eq!(batch.read().expect("a read"), vec![one.clone()]);
        // Whoever comes meanwhile gets only what is new.
        assert_eq!(all(&path), vec![one.clone()]);
        assert_eq!(peek(&path, &[name]), [one]);
        batch.delete().expect("deleted");
        let rest = take(&path).expect("batches");
        assert_eq!(rest.len(), 1);
    }

    #[test]
    fn a_file_that_is_appended_to_is_not_counted_yet() {
        let (_dir, path) = place();
        append(&path, &counted("", Count::Replay)).expect("appended");
        let appending = open(&path).expect("a file");
        flock(&appending, libc::LOCK_SH).expect("its lock");
        assert!(take(&path).expect("batches").is_empty());
        drop(appending);
        assert_eq!(all(&path).len(), 1);
    }

    #[test]
    fn nothing_is_lost_or_doubled_while_others_count() {
        const EACH: usize = 300;
        let (_dir, path) = place();
        let sum = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        append(&path, &counted("s", Count::Replay)).expect("appended");
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        for mut batch in take(&path).expect("batches") {
                            let read = batch.read().expect("a read").len();
                            sum.fetch_add(read, std::sync::atomic::Ordering::Relaxed);
                            batch.delete().expect("deleted");
                        }
                    }
                });
            }
        });
        let rest = all(&path).len();
        assert_eq!(sum.into_inner() + rest, 4 * EACH);
    }
}
