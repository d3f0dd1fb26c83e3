//! `idem output`.

use super::context::{Context, Opened, key_argument, text};
use super::handing::{Ended, Streams, code_after, deliver, recording};
use super::status::not_there;
use crate::cli::attempts::{Attempt, collect};
use crate::cli::present::say_line;
use crate::cli::values::whole_number;
use crate::cli::view::View;
use crate::cli::words::{Words, flag};
use crate::cli::{exit, say};
use crate::domain::name::{Generation, OpName};
use crate::domain::outcome::{Class, State};
use crate::domain::record::OutputRef;
use anyhow::{Result, anyhow};

/// Which attempt's output is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Which {
    /// None for the latest generation that has attempts.
    generation: Option<Generation>,
    number: u32,
}

/// Runs the verb.
pub fn run(words: &Words) -> Result<i32> {
    let context = Context::new(words)?;
    let name = context.name(key_argument(words)?)?;
    let which = text(words, "attempt")?.map(which).transpose()?;
    let streams = match (flag(words, "stderr"), flag(words, "both")) {
        (true, _) => Streams::Stderr,
        (false, true) => Streams::Both,
        (false, false) => Streams::Stdout,
    };
    let found = match context.read()? {
        Some(mut opened) => opened.look(&name)?.map(|view| (opened, view)),
        None => None,
    };
    let Some((mut opened, view)) = found else {
        say_line(&not_there(&name));
        return Ok(exit::NOT_FOUND);
    };
    match which {
        Some(which) => of_attempt(&context, &mut opened, &view, which, streams),
        None => of_operation(&context, &mut opened, &name, view, streams),
    }
}

/// `2`, or `7.2` for the second attempt of generation 7.
fn which(text: &str) -> Result<Which> {
    let wrong = || {
        anyhow!(
            "--attempt: cannot read '{text}'; write a number as `idem status` shows it, 2 or 7.2"
        )
    };
    let (generation, number) = match text.split_once('.') {
        Some((generation, number)) => (Some(generation), number),
        None => (None, text),
    };
    let number = whole_number(number).filter(|number| *number > 0);
    let generation = generation.map(|text| whole_number(text).ok_or_else(wrong));
    Ok(Which {
        generation: generation.transpose()?.map(Generation),
        number: number.ok_or_else(wrong)?,
    })
}

fn of_operation(
    context: &Context,
    opened: &mut Opened,
    name: &OpName,
    mut view: View,
    streams: Streams,
) -> Result<i32> {
    let mut stored = recording(opened, view.record.output.as_ref())?;
    if stored.is_none() && view.record.output.is_some_and(|output| has_bytes(&output)) {
        // Settled anew since the first look, perhaps: then the new one is the one to show.
        if let Some(again) = opened.look(name)? {
            view = again;
            stored = recording(opened, view.record.output.as_ref())?;
        }
    }
    let result = Ended::of_view(&view);
    let delivered = match &result.output {
        Some(output) if result.state != State::Running => deliver(name, output, stored, streams),
        _ => true,
    };
    explain(&view, context);
    Ok(code_after(delivered, result.code()))
}

fn has_bytes(output: &OutputRef) -> bool {
    output.stdout_bytes > 0 || output.stderr_bytes > 0
}

/// Why the code is none of the command's own.
fn explain(view: &View, context: &Context) {
    if let Some(refusal) = view.refusal(&context.now()) {
        let record = &view.record;
        let pids = view.working();
        say_line(&say::refusal(
            refusal,
            &record.name,
            Some(record),
            &pids,
            false,
        ));
    }
}

fn of_attempt(
    context: &Context,
    opened: &mut Opened,
    view: &View,
    which: Which,
    streams: Streams,
) -> Result<i32> {
    let record = &view.record;
    let events = opened.events(&record.name, record.minted_by)?;
    let attempts = collect(&events, record.minted_by);
    let generation = which
        .generation
        .or_else(|| attempts.last().map(|attempt| attempt.generation));
    let found = attempts
        .iter()
        .find(|a| Some(a.generation) == generation && a.number == which.number);
    let Some(attempt) = found else {
        say_line(&no_such_attempt(&record.name, which, &attempts));
        return Ok(exit::NOT_FOUND);
    };
    let stored = recording(opened, attempt.output.as_ref())?;
    let delivered = match &attempt.output {
        Some(output) => deliver(&record.name, output, stored, streams),
        None => true,
    };
    if attempt.ended_at.is_none() {
        explain(view, context);
    }
    Ok(code_after(delivered, attempt_code(attempt, view.state())))
}

fn no_such_attempt(name: &OpName, which: Which, attempts: &[Attempt]) -> String {
    let asked = match which.generation {
        Some(generation) => format!("{generation}.{}", which.number),
        None => which.number.to_string(),
    };
    let known: Vec<String> = attempts
        .iter()
        .map(|attempt| format!("{}.{}", attempt.generation, attempt.number))
        .collect();
    match known.is_empty() {
        true => format!("{name} has no attempt {asked}; the ledger knows of none"),
        false => format!(
            "{name} has no attempt {asked}; there are {}",
            known.join(", ")
        ),
    }
}

/// An attempt's own code; 128+n for a signal. An attempt that nobody knows about is no success.
fn attempt_code(attempt: &Attempt, state: State) -> i32 {
    let signal = attempt.signal.map(|signal| exit::SIGNAL_BASE + signal);
    match (attempt.exit_code.or(signal), attempt.class) {
        (Some(0), Some(Class::Success)) => 0,
        (Some(0), Some(Class::Uncertain)) => exit::UNDECIDED,
        (Some(0), _) => 1,
        (Some(code), _) => code,
        (None, _) if state == State::Running => exit::RUNNING,
        (None, _) => exit::UNDECIDED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_named_as_shown() {
        let parsed = |generation, number| Which {
            generation: Option::map(generation, Generation),
            number,
        };
        assert_eq!(which("2").unwrap(), parsed(None, 2));
        assert_eq!(which("7.2").unwrap(), parsed(Some(7), 2));
        for text in [
            "0",
            "",
            "-1",
            "+1",
            "1.5.2",
            "7.",
            ".2",
            "7.0",
            "x",
            "NaN",
            "99999999999",
            "99999999999999999999.1",
            "1e3",
        ] {
            let error = which(text).unwrap_err().to_string();
            assert!(error.starts_with("--attempt: "), "{text}: {error}");
        }
    }
}
