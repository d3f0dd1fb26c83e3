//! What a call below another one tells it, by the file that `IDEM_CONTROL` names.

use super::entry;
use crate::domain::outcome::Class;
use crate::engine::environment::{Ancestor, CONTROL};
use crate::policy::nested::{self, Inner};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt;

/// Tells the outer call, if there is one that lives, how this one ended. A success is told by its code.
pub fn tell(ancestry: &[Ancestor], inner: Inner) {
    if ancestry.is_empty() || inner.class == Class::Success {
        return;
    }
    let Some(path) = std::env::var_os(CONTROL) else {
        return;
    };
    let typed = entry::typed().into_iter();
    let argv: Vec<Vec<u8>> = typed.map(OsStringExt::into_vec).collect();
    let line = inner.line(&nested::command(&argv));
    let file = OpenOptions::new().append(true).create(true).open(path);
    if let Ok(mut file) = file {
        // Untold, the outer call reads the exit code alone, as it does for every other command.
        let _ = file.write_all(line.as_bytes());
    }
}
