//! What the file system below a path is, how much room it has, and whether a file is in use.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::sys::check;

/// The file system that a path lies on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// Its name where it is known, else its number in hex.
    pub name: String,
    /// Other machines may have it mounted as well, so that locks and shared memory do not hold.
    pub network: bool,
    /// Nothing on it outlives the machine's next start.
    pub volatile: bool,
    /// Bytes that are left for the user.
    pub free_bytes: u64,
}

/// Magic numbers of statfs(2), as the kernel's `magic.h` and the file systems themselves have them:
/// number, name, network.
const KINDS: [(u32, &str, bool); 21] = [
    (0xef53, "ext4", false),
    (0x5846_5342, "xfs", false),
    (0x9123_683e, "btrfs", false),
    (0x2fc1_2fc1, "zfs", false),
    (0xf2f5_2010, "f2fs", false),
    (0xca45_1a4e, "bcachefs", false),
    (0x794c_7630, "overlayfs", false),
    (0x0102_1994, "tmpfs", false),
    (0x8584_58f6, "ramfs", false),
    (0x4d44, "vfat", false),
    (0x2011_bab0, "exfat", false),
    (0x7366_746e, "ntfs3", false),
    (0x6969, "nfs", true),
    (0xff53_4d42, "cifs", true),
    (0xfe53_4d42, "smb2", true),
    (0x517b, "smb", true),
    (0x0102_1997, "9p", true),
    (0x00c3_6400, "ceph", true),
    (0x5346_414f, "afs", true),
    (0x0bd0_0bd0, "lustre", true),
    // Most of these are sshfs, s3fs, gluster and the like.
    (0x6573_5546, "fuse", true),
];

/// Why this process cannot make files in a directory, if it cannot.
pub fn refuses_files(directory: &Path) -> io::Result<()> {
    let path = CString::new(directory.as_os_str().as_bytes())?;
    let wanted = libc::W_OK | libc::X_OK;
    // SAFETY: the path ends with a NUL and lives through the call.
    check(unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), wanted, libc::AT_EACCESS) })
        .map(drop)
}

/// Looks at the file system below a path.
pub fn of(path: &Path) -> io::Result<FileSystem> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut answer = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the path ends with a NUL and `answer` has room for what the call writes.
    check(unsafe { libc::statfs(path.as_ptr(), answer.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it has filled `answer`.
    let answer = unsafe { answer.assume_init() };
    // The width and the sign of these fields differ between C libraries.
    let kind = answer.f_type as u32;
    let (name, network) = match KINDS.iter().find(|(number, ..)| *number == kind) {
        Some((_, name, network)) => ((*name).to_owned(), *network),
        None => (format!("{kind:#x}"), false),
    };
    Ok(FileSystem {
        volatile: matches!(name.as_str(), "tmpfs" | "ramfs"),
        network,
        name,
        free_bytes: answer
            .f_bavail
            .saturating_mul(u64::try_from(answer.f_bsize).unwrap_or(0)),
    })
}

/// fcntl(2): which signal tells of a lease that someone wants. Not in every C library's headers.
const F_SETSIG: libc::c_int = 10;

/// Whether any other description of this file is open, in whatever process: a lease for writing is given
/// to a sole opener only, fcntl(2). Where that cannot be found out it counts as open.
pub fn is_open_elsewhere(path: &Path) -> bool {
    let Ok(file) = File::open(path) else {
        return true;
    };
    // The signal that is sent by default would end the process.
    // SAFETY: integers only.
    unsafe { libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) };
    // SAFETY: integers only.
    let leased = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) } == 0;
    if leased {
        // SAFETY: integers only.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
    }
    !leased
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_file_system() {
        let dir = tempfile::tempdir().expect("a directory");
        let found = of(dir.path()).expect("a file system");
        assert!(!found.name.is_empty() && found.free_bytes > 0, "{found:?}");
        assert!(of(Path::new("/nonexistent/x")).is_err());
        assert_eq!(of(Path::new("/proc")).expect("proc").name, "0x9fa0");
    }

    #[test]
    fn a_file_that_is_written_is_open() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("f");
        let writer = File::create(&path).expect("a file");
        assert!(is_open_elsewhere(&path));
        drop(writer);
        assert!(!is_open_elsewhere(&path));
        assert!(is_open_elsewhere(&dir.path().join("none")));
    }
}
