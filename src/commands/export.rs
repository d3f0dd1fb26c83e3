//! `idem export`.

use super::context::{Context, Opened, is_glob, key};
use super::status::not_there;
use crate::cli::stdout::print;
use crate::cli::transfer::{end_line, piece_line, record_line};
use crate::cli::words::Words;
use crate::cli::{exit, present::say_line};
use crate::domain::frames::{ReadError, RunReader};
use crate::domain::name::OpName;
use crate::engine::store::Filter;
use crate::process::spool::Recording;
use anyhow::{Result, anyhow};
use std::ffi::OsStr;

/// Runs the verb.
pub fn run(words: &Words) -> Result<i32> {
    let context = Context::new(words)?;
    let arguments = words.all("key");
    let mut code = 0;
    let Some(mut opened) = context.read()? else {
        return Ok(code);
    };
    let mut names = Vec::new();
    if arguments.is_empty() {
        names = matching(&context, &mut opened, None)?;
    }
    for argument in arguments {
        let found = meant(&context, &mut opened, argument)?;
        if found.is_empty() && !is_glob(argument) {
            say_line(&not_there(&context.name(key(argument)?)?));
            code = exit::NOT_FOUND;
        }
        names.extend(found);
    }
    names.sort();
    names.dedup();
    for name in &names {
        one(&mut opened, name)?;
    }
    Ok(code)
}

/// Exactly this one if it is there, else those that match.
fn meant(context: &Context, opened: &mut Opened, argument: &OsStr) -> Result<Vec<OpName>> {
    if let Ok(key) = key(argument) {
        let name = context.name(key)?;
        if opened.store().find(&name)?.is_some() {
            return Ok(vec![name]);
        }
    }
    match argument.to_str().filter(|_| is_glob(argument)) {
        Some(glob) => matching(context, opened, Some(glob)),
        None => Ok(Vec::new()),
    }
}

fn matching(context: &Context, opened: &mut Opened, glob: Option<&str>) -> Result<Vec<OpName>> {
    let filter = Filter {
        glob: glob.map(str::to_owned),
        scope: context.scope.clone(),
        ..Filter::default()
    };
    Ok(opened.store().names(&filter)?)
}

/// One record as it is now; nothing where it is gone meanwhile.
fn one(opened: &mut Opened, name: &OpName) -> Result<()> {
    let Some(record) = opened.store().find(name)? else {
        return Ok(());
    };
    let recording = match &record.output {
        Some(output) => opened.recording(output)?,
        None => None,
    };
    print(format!("{}\n", record_line(&record, recording.is_some())))?;
    match recording {
        Some(recording) => pieces(name, recording),
        None => Ok(()),
    }
}

fn pieces(name: &OpName, recording: Recording) -> Result<()> {
    let unreadable = |error: ReadError| {
        anyhow!("the stored output of {name} cannot be read: {error}; see `idem doctor`")
    };
    let mut reader = RunReader::new(recording).map_err(unreadable)?;
    while let Some(run) = reader.next_run().map_err(unreadable)? {
        loop {
            let chunk = reader.chunk().map_err(unreadable)?;
            let count = chunk.len();
            if count == 0 {
                break;
            }
            print(format!("{}\n", piece_line(run.stream, chunk)))?;
            reader.consume(count);
        }
    }
    print(format!("{}\n", end_line()))?;
    Ok(())
}
