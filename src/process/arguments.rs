//! What everybody on the machine can read of this process: its arguments.

use std::ffi::CStr;

use libc::c_char;

use crate::domain::secret::passwords;

/// Writes asterisks over the password of a store's URL, in the memory that `ps` and `/proc` show. The
/// processes that fork from this one have the same memory. Returns whether there was one.
///
/// # Safety
///
/// `argument` must point to a string of its own that nobody else uses and that can be written, as those
/// given to `main` do.
pub(super) unsafe fn hide_password(argument: *const c_char) -> bool {
    // SAFETY: the caller promises a string.
    let ranges = passwords(unsafe { CStr::from_ptr(argument) }.to_bytes());
    let found = !ranges.is_empty();
    for at in ranges.into_iter().flatten() {
        // SAFETY: inside the string, which can be written; its end stays where it is.
        unsafe { argument.cast_mut().cast::<u8>().add(at).write(b'*') };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    #[test]
    fn a_password_is_overwritten_in_its_place() {
        for (argument, wanted) in [
            (
                "--store=postgres://u:secret@h/d",
                "--store=postgres://u:******@h/d",
            ),
            ("--store=/a/path", "--store=/a/path"),
            ("", ""),
        ] {
            let text = CString::new(argument).unwrap().into_raw();
            // SAFETY: the string is this test's own.
            let (found, text) = unsafe { (hide_password(text), CString::from_raw(text)) };
            assert_eq!(text.into_string().unwrap(), wanted);
            assert_eq!(found, argument != wanted);
        }
    }
}
