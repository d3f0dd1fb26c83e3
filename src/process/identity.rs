//! What exactly a command is: for approvals, which hold for nothing else.

use super::exec::first_executable;
use super::stdin_spool::digest_stream;
use crate::domain::digest::PartsDigest;
use crate::domain::name::Fingerprint;
use crate::domain::record::Identity;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The identity of a command as it would run now, from this directory: its exact words, the directory,
/// and the content of the program that would be executed. One that cannot be read (or found) has the
/// identity of its absence.
pub fn identity(argv: &[OsString], cwd: &[u8]) -> Identity {
    let words: Vec<&[u8]> = argv.iter().map(|word| word.as_bytes()).collect();
    let mut exact = PartsDigest::new();
    exact.part("argv", &words);
    Identity {
        argv: exact.finish(),
        cwd: cwd.to_vec(),
        executable: executable(argv),
    }
}

/// Programs whose first argument is the script that they run.
const INTERPRETERS: [&str; 14] = [
    "sh", "bash", "dash", "zsh", "ksh", "fish", "python", "python3", "perl", "ruby", "node", "php",
    "lua", "Rscript",
];

/// The digest of the program, and of the script where the program is an interpreter.
fn executable(argv: &[OsString]) -> Fingerprint {
    let mut parts = PartsDigest::new();
    let program = argv.first().and_then(|name| first_executable(name));
    let content = program.and_then(|path| digest_file(&path));
    parts.part(
        "program",
        &[content.as_ref().map_or(&[][..], |digest| &digest[..])],
    );
    let name = argv.first().and_then(|name| Path::new(name).file_name());
    if INTERPRETERS
        .iter()
        .any(|interpreter| name.is_some_and(|name| name == *interpreter))
        && let Some(script) = argv.get(1)
        && let Some(digest) = digest_file(Path::new(script))
    {
        parts.part("script", &[&digest]);
    }
    parts.finish()
}

fn digest_file(path: &Path) -> Option<[u8; 32]> {
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    is_file
        .then(|| File::open(path).ok())
        .flatten()
        .and_then(|file| digest_stream(file).ok())
}
