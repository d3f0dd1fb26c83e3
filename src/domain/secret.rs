//! Passwords in texts that others get to see.

use std::ops::Range;

/// The beginnings of URLs that can have a password.
const SCHEMES: [&[u8]; 2] = [b"postgres://", b"postgresql://"];

/// The parameters of such a URL that are passwords end so.
const PASSWORD_PARAMETER: &[u8] = b"password=";

/// Where a text has passwords of a store's URL. In doubt a little more.
pub fn passwords(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let scheme = SCHEMES
        .iter()
        .filter_map(|scheme| Some(position(text, scheme)? + scheme.len()));
    let Some(start) = scheme.min() else {
        return found;
    };
    // A password that is not encoded can have any of the characters that end one.
    if let Some(at) = text.iter().rposition(|b| *b == b'@')
        && let Some(user) = text.get(start..at)
        && let Some(colon) = user.iter().position(|b| *b == b':')
    {
        found.push(start + colon + 1..at);
    }
    let mut from = start;
    while let Some(next) = text
        .get(from..)
        .and_then(|rest| position(rest, PASSWORD_PARAMETER))
    {
        let value = from + next + PASSWORD_PARAMETER.len();
        let length = text[value..].iter().position(|b| *b == b'&');
        let end = length.map_or(text.len(), |length| value + length);
        found.push(value..end);
        from = end;
    }
    found
}

fn position(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// The text with asterisks in their place.
pub fn hidden(text: &str) -> String {
    let mut shown = text.to_owned();
    for range in passwords(text.as_bytes()).into_iter().rev() {
        // Their ends are characters of ASCII or the text's own.
        let stars = "*".repeat(range.len());
        shown.replace_range(range, &stars);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_become_asterisks_and_nothing_else_does() {
        for (text, wanted) in [
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
            assert_eq!(hidden(text), wanted);
        }
    }
}
