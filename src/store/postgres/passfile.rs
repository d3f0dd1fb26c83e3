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
