//! `idem approve` and `idem reject`: a person decides a held operation.

use super::context::{Context, decider, key_argument, source, text};
use super::status::not_there;
use crate::cli::exit;
use crate::cli::present::say_line;
use crate::cli::quote;
use crate::cli::stdout::print;
use crate::cli::values;
use crate::cli::words::{Words, flag};
use crate::domain::name::OpName;
use crate::domain::outcome::State;
use crate::domain::record::{Proposal, Record, Verdict};
use crate::engine::event::{EventKind, NewEvent};
use crate::engine::ledger;
use crate::engine::store::Change;
use anyhow::{Result, anyhow};
use std::io::{self, BufRead, IsTerminal, Write};

const SHOWN_COMMAND_CHARS: usize = 400;

/// Lets a held command run once.
pub fn approve(words: &Words) -> Result<i32> {
    decide(words, Verdict::Approved)
}

/// Keeps it from running.
pub fn reject(words: &Words) -> Result<i32> {
    decide(words, Verdict::Rejected)
}

fn decide(words: &Words, verdict: Verdict) -> Result<i32> {
    let context = Context::new(words)?;
    let name = context.name(key_argument(words)?)?;
    let note = text(words, "note")?.map(str::to_owned);
    let shown = text(words, "generation")?.map(generation).transpose()?;
    // Looked at for reading first, so that a mistyped key makes no store.
    let found = match context.read()? {
        Some(mut opened) => opened.look(&name)?,
        None => None,
    };
    let Some(view) = found else {
        say_line(&not_there(&name));
        return Ok(exit::NOT_FOUND);
    };
    if let Some(why) = objection(&name, &view.record, shown, &context) {
        return Err(anyhow!(why));
    }
    if !flag(words, "yes") && !confirmed(&name, &view.record, verdict)? {
        print(format!("{name} stays as it is\n"))?;
        return Ok(1);
    }
    write(&context, &name, verdict, note, view.record.generation.0)
}

fn generation(text: &str) -> Result<i64> {
    values::whole_number(text).ok_or_else(|| {
        anyhow!(
            "--generation: '{text}' is no generation; write the number that `idem status` shows"
        )
    })
}

/// Why this proposal cannot be decided, if it cannot.
fn objection(
    name: &OpName,
    record: &Record,
    shown: Option<i64>,
    context: &Context,
) -> Option<String> {
    let operation = quote::operation(name);
    if record.state != State::Held {
        return Some(format!(
            "{name} is {}, and only a held operation can be decided; look at it with `idem status {operation}`",
            record.state.word()
        ));
    }
    let proposal = record.proposal.as_ref()?;
    if shown.is_some_and(|shown| shown != record.generation.0) {
        return Some(format!(
            "{name} has another proposal by now (generation {}); look at it with `idem status {operation}`",
            record.generation
        ));
    }
    if record.expired(&context.now()) {
        return Some(format!(
            "the proposal of {name} has expired; `idem forget --force {operation}` makes room for a new one"
        ));
    }
    match proposal.verdict {
        Verdict::Pending => None,
        Verdict::Approved => Some(format!(
            "{name} is approved already; run it, or take the approval back with `idem forget --force {operation}`"
        )),
        Verdict::Rejected => Some(format!(
            "{name} was rejected; `idem forget --force {operation}` makes room for a new proposal"
        )),
    }
}

/// Shows what is to be decided and asks. Without a terminal nobody can have looked.
fn confirmed(name: &OpName, record: &Record, verdict: Verdict) -> Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(anyhow!(
            "nobody can be asked without a terminal; look at `idem status {}`, then say --yes",
            quote::operation(name)
        ));
    }
    let command = record.command.argv.as_ref().map_or_else(
        || "a command whose arguments are not stored".to_owned(),
        |argv| quote::command(argv, SHOWN_COMMAND_CHARS),
    );
    let mut shown = format!(
        "{command}\n  in {}\n",
        String::from_utf8_lossy(&record.command.cwd)
    );
    if let Some(proposal) = record
        .proposal
        .as_ref()
        .filter(|proposal| !proposal.preview.is_empty())
    {
        shown.push_str(&printable(&proposal.preview));
    }
    let asked = match verdict {
        Verdict::Rejected => "reject",
        Verdict::Approved | Verdict::Pending => "approve",
    };
    print(format!(
        "{shown}{asked} {name} (generation {})? [y/N] ",
        record.generation
    ))?;
    io::stdout().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(
        answer.trim().to_ascii_lowercase().as_str(),
        "y" | "yes"
    ))
}

/// A preview must not move the cursor over what the person reads.
fn printable(preview: &[u8]) -> String {
    let text = String::from_utf8_lossy(preview);
    let mut shown: String = text
        .chars()
        .map(|c| {
            if c.is_control() && c != '\n' && c != '\t' {
                '?'
            } else {
                c
            }
        })
        .collect();
    if !shown.ends_with('\n') {
        shown.push('\n');
    }
    shown
}

/// Writes the verdict, if the proposal that was looked at is still the one and undecided: of two who
/// decide at once, one wins.
fn write(
    context: &Context,
    name: &OpName,
    verdict: Verdict,
    note: Option<String>,
    generation: i64,
) -> Result<i32> {
    let source = source();
    let decided_by = decider(&source);
    let mut why = None;
    let mut opened = context.write()?;
    opened.store().change(name, &mut |found| {
        why = match found {
            Some(record) => objection(name, record, Some(generation), context),
            None => Some(not_there(name)),
        };
        match found.and_then(|record| record.proposal.as_ref()) {
            Some(proposal) if why.is_none() => Change::Decide {
                proposal: Box::new(Proposal {
                    verdict,
                    decided_by: Some(decided_by.clone()),
                    decided_at: Some(context.now().wall),
                    note: note.clone(),
                    ..proposal.clone()
                }),
                events: vec![NewEvent {
                    at: context.now().wall,
                    kind: match verdict {
                        Verdict::Rejected => EventKind::Rejected,
                        Verdict::Approved | Verdict::Pending => EventKind::Approved,
                    },
                    attempt: None,
                    detail: ledger::decided(&decided_by, note.as_deref(), &source),
                }],
            },
            _ => Change::Leave,
        }
    })?;
    if let Some(why) = why {
        return Err(anyhow!(why));
    }
    let said = match verdict {
        Verdict::Rejected => format!("{name} is rejected; it does not run\n"),
        Verdict::Approved | Verdict::Pending => {
            format!("{name} is approved; it runs once, with the same command\n")
        }
    };
    print(said)?;
    Ok(0)
}
