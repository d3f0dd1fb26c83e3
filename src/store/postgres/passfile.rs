//! The passfile: lines `host:port:database:user:password`, as libpq reads them.

use std::fs::File;
use std::io::{Read, Take};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// More than this is no passfile.
const LIMIT: u64 = 1024 * 1024;

/// Permissions of the group or of others.
const OTHERS: u32 = 0o077;

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    pub host: &'a str,
    pub port: u16,
    pub database: &'a str,
    pub user: &'a str,
}

/// What a passfile had.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    Password(String),
    /// Nothing, or there is no such file.
    Nothing,
    /// The file is left aside; says why and what to do.
    Ignored(String),
}

/// The password of the first line that fits.
pub fn look_up(path: &Path, wanted: Wanted<'_>) -> Found {
    let shown = path.display();
    // Opening a FIFO must not wait for its other end.
    let opened = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path);
    let Ok(file) = opened else {
        return Found::Nothing;
    };
    let Ok(metadata) = file.metadata() else {
        return Found::Nothing;
    };
    if !metadata.is_file() {
        return Found::Ignored(format!(
            "the passfile {shown} is ignored since it is no file"
        ));
    }
    if metadata.mode() & OTHERS != 0 {
        return Found::Ignored(format!(
            "the passfile {shown} is ignored since others may read or change it; run chmod 0600 on it"
        ));
    }
    let mut text = Vec::new();
    let mut limited: Take<File> = file.take(LIMIT);
    if limited.read_to_end(&mut text).is_err() {
        return Found::Nothing;
    }
    match text
        .split(|byte| *byte == b'\n')
        .find_map(|line| password(line, wanted))
    {
        Some(password) => match String::from_utf8(password) {
            Ok(password) => Found::Password(password),
            Err(_) => Found::Ignored(format!(
                "the password in {shown} is ignored since it is not UTF-8"
            )),
        },
        None => Found::Nothing,
    }
}

/// The password of a line, if the line is about what is wanted.
fn password(line: &[u8], wanted: Wanted<'_>) -> Option<Vec<u8>> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.first() == Some(&b'#') {
        return None;
    }
    let port = wanted.port.to_string();
    let mut rest = line;
    for expected in [wanted.host, &port, wanted.database, wanted.user] {
        let (field, after) = split(rest);
        if field != b"*" && unescape(field) != expected.as_bytes() {
            return None;
        }
        rest = after?;
    }
    let password = unescape(split(rest).0);
    (!password.is_empty()).then_some(password)
}

/// The first field as it is written, and what is behind its colon.
fn split(line: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut escaped = false;
    let end = line.iter().position(|&byte| {
        let ends = byte == b':' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    match end {
        Some(end) => (&line[..end], line.get(end + 1..)),
        None => (line, None),
    }
}

/// A backslash stands for the byte behind it.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        match (byte, rest.as_slice().first()) {
            (b'\\', Some(&next)) => {
                bytes.push(next);
                rest.next();
            }
            _ => bytes.push(byte),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const WANTED: Wanted<'static> = Wanted {
        host: "db.example",
        port: 5432,
        database: "orders",
        user: "me",
    };

    fn found(line: &str) -> Option<String> {
        password(line.as_bytes(), WANTED).map(|bytes| String::from_utf8(bytes).expect("UTF-8"))
    }

    #[test]
    fn a_line_fits_exactly_or_by_stars() {
        for line in [
            "db.example:5432:orders:me:pw",
            "*:5432:orders:me:pw",
            "db.example:*:*:*:pw",
            "*:*:*:*:pw",
            "*:*:*:*:pw\r",
            "*:*:*:*:pw:more",
            "d\\b.example:5432:orders:me:pw",
        ] {
            assert_eq!(found(line).as_deref(), Some("pw"), "{line}");
        }
        for line in [
            "",
            "#*:*:*:*:pw",
            "db.example:5432:orders:you:pw",
            "db.example:543:orders:me:pw",
            "db.exampl:5432:orders:me:pw",
            "db.*:5432:orders:me:pw",
            "\\*:5432:orders:me:pw",
            "*:*:*:*:",
            "*:*:*:*",
            "*",
        ] {
            assert_eq!(found(line), None, "{line}");
        }
    }

    #[test]
    fn a_backslash_takes_the_meaning_from_what_follows() {
        assert_eq!(
            found("*:*:*:*:a\\:b\\\\c\\d\\").as_deref(),
            Some("a:b\\cd\\")
        );
        let ipv6 = Wanted {
            host: "::1",
            ..WANTED
        };
        assert_eq!(password(b"\\:\\:1:*:*:*:pw", ipv6), Some(b"pw".to_vec()));
        assert_eq!(password(b"::1:*:*:*:pw", ipv6), None);
    }

    #[test]
    fn the_first_line_that_fits_counts_and_only_in_a_private_file() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("passfile");
        let text = "# mine\nother:*:*:*:no\n*:*:orders:*:first\n*:*:*:*:second\n";
        std::fs::write(&path, text).expect("written");
        let set_mode = |mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, permissions).expect("set");
        };
        for mode in [0o600, 0o400] {
            set_mode(mode);
            assert_eq!(look_up(&path, WANTED), Found::Password("first".to_owned()));
        }
        for mode in [0o640, 0o604, 0o620] {
            set_mode(mode);
            let Found::Ignored(why) = look_up(&path, WANTED) else {
                panic!("mode {mode:o} must be refused");
            };
            assert!(why.contains("chmod 0600"), "{why}");
        }
        assert_eq!(look_up(&place.path().join("none"), WANTED), Found::Nothing);
        assert!(matches!(look_up(place.path(), WANTED), Found::Ignored(_)));
    }
}
