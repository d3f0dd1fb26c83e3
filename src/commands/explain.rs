//! `idem explain`.

use super::context::Context;
use super::stats::durations;
use crate::cli::settings;
use crate::cli::stdout::print;
use crate::cli::tool_page::ToolPage;
use crate::cli::words::{Words, flag};
use crate::domain::program::label;
use crate::policy::classify::{Classifier, Selection};
use crate::policy::durations::Summary;
use anyhow::Result;
use std::os::unix::ffi::OsStringExt;

/// Runs the verb.
pub fn run(words: &Words) -> Result<i32> {
    let context = Context::new(words)?;
    let argv: Vec<Vec<u8>> = settings::command(words)
        .into_iter()
        .map(OsStringExt::into_vec)
        .collect();
    let command = label(&argv).unwrap_or_default();
    let classifier = Classifier::choose(Selection::Auto, &argv);
    let environment = |name: &str| std::env::var_os(name).map(OsStringExt::into_vec);
    let classifier = classifier.as_ref();
    let page = ToolPage {
        tool: classifier.map(Classifier::tool),
        believed: classifier.and_then(|c| c.believed(&environment)),
        warning: classifier.and_then(|c| c.warning(&environment)),
        durations: seen(&context, &command)?,
        command,
    };
    print(match flag(words, "json") {
        true => format!("{}\n", page.to_json()),
        false => page.to_text(),
    })?;
    Ok(0)
}

/// How long this command has taken so far.
fn seen(context: &Context, command: &str) -> Result<Option<(String, Summary)>> {
    let Some(mut opened) = context.peek()? else {
        return Ok(None);
    };
    Ok(durations(&mut opened, None, None)?.remove_entry(command))
}
