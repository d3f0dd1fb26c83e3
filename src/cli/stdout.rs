//! What the verbs print on stdout. A reader that has seen enough is no failure; anything else is.

use crate::process::front::die_of;
use crate::process::leaving::leave;
use crate::process::{entry, sys};
use std::fmt;
use std::io::{self, ErrorKind, Write};

/// Stdout could not be written.
#[derive(Debug)]
pub struct PrintError(io::Error);

impl fmt::Display for PrintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = reason(&self.0);
        write!(f, "cannot write to stdout: {why}; send it elsewhere")
    }
}

impl std::error::Error for PrintError {}

impl From<io::Error> for PrintError {
    fn from(error: io::Error) -> PrintError {
        PrintError(error)
    }
}

/// Why something failed, in the lower case of idem's messages.
pub fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(errno) => sys::errno_text(errno),
        None => error.to_string(),
    }
}

/// Prints all of it. Where the reader has closed its end, the process ends at once and silently, of
/// SIGPIPE as any other tool.
pub fn print(text: impl AsRef<[u8]>) -> Result<(), PrintError> {
    let text = text.as_ref();
    if text.is_empty() {
        return Ok(());
    }
    if entry::state().was_closed(1) {
        return Err(io::Error::from_raw_os_error(libc::EBADF).into());
    }
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => reader_gone(),
        done => Ok(done?),
    }
}

fn reader_gone() -> ! {
    if !entry::state().was_ignored(libc::SIGPIPE) {
        die_of(libc::SIGPIPE, false);
    }
    leave(super::exit::SIGNAL_BASE + libc::SIGPIPE, Vec::new())
}
