//! Who hears an attempt's output besides the recorder and the caller: what looks for patterns, and what
//! keeps the beginning for the ledger.

use super::child::Listener;
use super::clock;
use crate::domain::frames::Stream;
use crate::domain::outcome::Exit;
use crate::policy::classify::Classifier;
use crate::policy::control;
use crate::policy::nested;
use crate::policy::outcome::{Control, Sightings};
use crate::policy::patterns::Scanner;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// How much of a probe's or a cleanup's output the ledger keeps.
const HEAD_BYTES: usize = 4096;

/// Looks for patterns.
pub(super) struct Ears {
    pub(super) scanner: Scanner,
}

impl Listener for Ears {
    fn heard(&mut self, stream: Stream, bytes: &[u8]) {
        self.scanner.feed(stream, bytes);
    }
}

/// What the output of an ended attempt showed.
pub(super) fn judge(scanner: Scanner, classifier: Option<&Classifier>, exit: Exit) -> Sightings {
    let environment =
        |name: &str| std::env::var_os(name).map(std::os::unix::ffi::OsStringExt::into_vec);
    scanner
        .finish()
        .judge(classifier, exit, &environment, clock::now().wall)
}

/// What the child wrote to its control file, which goes with the attempt. Most write none.
pub(super) fn take_control(path: &Path, argv: &[OsString]) -> Control {
    let Ok(bytes) = std::fs::read(path) else {
        return Control::default();
    };
    // One that stays behind is removed by gc.
    let _ = std::fs::remove_file(path);
    let argv: Vec<&[u8]> = argv.iter().map(|arg| arg.as_bytes()).collect();
    control::parse(&bytes, clock::now().wall, &nested::command(&argv))
}

/// Keeps the beginning of each stream.
#[derive(Default)]
pub(super) struct Heads {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

impl Listener for Heads {
    fn heard(&mut self, stream: Stream, bytes: &[u8]) {
        let head = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let room = HEAD_BYTES.saturating_sub(head.len());
        head.extend(bytes.iter().take(room));
    }
}
