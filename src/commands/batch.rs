//! `idem batch`.

use super::context::Context;
use super::keeping;
use crate::cli::stdout::print;
use crate::cli::words::{Words, flag, value};
use crate::domain::name::{Key, hex};
use crate::engine::store::{GuardKind, StoreResult};
use crate::process::random;
use anyhow::{Result, anyhow};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Runs the verb.
pub fn run(words: &Words) -> Result<i32> {
    let context = Context::new(words)?;
    let given = value(words, "name").map_or(OsStr::new(""), OsString::as_os_str);
    // The rules of keys, since it becomes part of some.
    let name = Key::new(given.as_bytes())
        .map_err(|e| anyhow!("the batch's name {e}; give its business name"))?;
    let present = match flag(words, "rotate") {
        true => rotate(&context, name.as_str())?,
        false => keeping::batch_name(&context.location, name.as_str())?,
    };
    print(format!("{present}\n"))?;
    Ok(0)
}

/// A new random name: what is keyed by the batch from now on has not happened yet.
fn rotate(context: &Context, name: &str) -> StoreResult<String> {
    let mut opened = context.write()?;
    let present = hex(&random::bytes::<8>());
    opened.store().with_guards(&mut |guards| {
        guards.set_guard(GuardKind::Batch, name, Some(present.clone().into()))
    })?;
    Ok(present)
}
