//! What everybody on the machine can read of this process: its arguments.

use std::ffi::CStr;
use std::ops::Range;

use libc::c_char;

/// The beginnings of URLs that can have a password.
const SCHEMES: [&[u8]; 2] = [b"postgres://", b"postgresql://"];

/// The parameters of such a URL that are passwords end so.
const PASSWORD_PARAMETER: &[u8] = b"password=";

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

/// Where an argument has passwords. In doubt a little more: whoever needs the words has a copy.
fn passwords(argument: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let scheme = SCHEMES
        .iter()
        .filter_map(|scheme| Some(position(argument, scheme)? + scheme.len()));
    let Some(start) = scheme.min() else {
        return found;
    };
    // A password that is not encoded can have any of the characters that end one.
    if let Some(at) = argument.iter().rposition(|b| *b == b'@')
        && let Some(user) = argument.get(start..at)
        && let Some(colon) = user.iter().position(|b| *b == b':')
    {
        found.push(start + colon + 1..at);
    }
    let mut from = start;
    while let Some(next) = argument
        .get(from..)
        .and_then(|rest| position(rest, PASSWORD_PARAMETER))
    {
        let value = from + next + PASSWORD_PARAMETER.len();
        let length = argument[value..].iter().position(|b| *b == b'&');
        let end = length.map_or(argument.len(), |length| value + length);
        found.push(value..end);
        from = end;
    }
    found
}

fn position(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    fn hidden(argument: &str) -> String {
        let text = CString::new(argument).unwrap().into_raw();
        // SAFETY: the string is this test's own.
        let text = unsafe {
            hide_password(text);
            CString::from_raw(text)
        };
        text.into_string().unwrap()
    }

    #[test]
    fn passwords_become_asterisks_and_nothing_else_does() {
        for (argument, wanted) in [
            ("postgres://u:secret@h/d", "postgres://u:******@h/d"),
            (
                "--store=postgresql://u:s@h:5/d",
                "--store=postgresql://u:*@h:5/d",
            ),
            ("postgres://u:a/b?c@h/d", "postgres://u:*****@h/d"),
            ("postgres://u:a@b@h/d", "postgres://u:***@h/d"),
            (
                "postgres:///d?password=x&host=h",
                "postgres:///d?password=*&host=h",
            ),
            (
                "postgres://u@h/d?sslpassword=a&password=bc",
                "postgres://u@h/d?sslpassword=*&password=**",
            ),
            ("postgres://u:@h/d", "postgres://u:@h/d"),
            ("postgres://h:5432/d", "postgres://h:5432/d"),
            ("mysql://u:p@h/d", "mysql://u:p@h/d"),
            ("password=x", "password=x"),
            ("postgres://", "postgres://"),
            ("", ""),
        ] {
            assert_eq!(hidden(argument), wanted);
        }
    }
}
