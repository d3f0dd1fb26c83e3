//! The two questions to the system that the standard library has no word for.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The effective user.
pub fn effective_user() -> u32 {
    // SAFETY: geteuid takes nothing, touches no memory and cannot fail.
    unsafe { libc::geteuid() }
}

/// Whether the mount that a path lies on is read-only; false where that cannot be found out.
pub fn on_read_only_mount(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    let mut answer = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a NUL and `answer` has room for what the call writes.
    if unsafe { libc::statvfs(path.as_ptr(), answer.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the call succeeded, so it has filled `answer`.
    let answer = unsafe { answer.assume_init() };
    answer.f_flag & libc::ST_RDONLY != 0
}
