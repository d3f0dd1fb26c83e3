//! Handing out what is stored: the streams, the exit code, and what is to be said about them.

use super::context::Opened;
use crate::cli::exit;
use crate::cli::present::{say_line, settled_code};
use crate::cli::quote;
use crate::cli::stdout::reason;
use crate::cli::view::View;
use crate::domain::frames::Stream;
use crate::domain::name::{Generation, OpName};
use crate::domain::outcome::{Class, State};
use crate::domain::record::{OutputRef, Place};
use crate::domain::time::UnixMs;
use crate::engine::store::{PastResult, StoreResult};
use crate::process::entry;
use crate::process::replay::{ReplayError, Target, replay};
use crate::process::spool::Recording;

/// How a generation ended, from its record or, once that has moved on, from the ledger.
#[derive(Debug, Clone)]
pub struct Ended {
    /// The generation.
    pub generation: Generation,
    /// Its state.
    pub state: State,
    /// Its class.
    pub class: Option<Class>,
    /// Why.
    pub reason: Option<String>,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// Earliest moment at which another try makes sense.
    pub retry_at: Option<UnixMs>,
    /// Attempts since the token was minted.
    pub attempts: u32,
    /// Its output.
    pub output: Option<OutputRef>,
    /// When it ended.
    pub settled_at: Option<UnixMs>,
}

impl Ended {
    /// Of a record, as it is seen.
    pub fn of_view(view: &View) -> Ended {
        let record = &view.record;
        Ended {
            generation: record.generation,
            state: view.state(),
            class: record.class,
            reason: view.reason(),
            exit_code: record.exit_code,
            retry_at: record.retry_at,
            attempts: record.attempts,
            output: record.output,
            settled_at: view.settled_at(),
        }
    }

    /// Of a generation that another one has followed.
    pub fn of_past(past: &PastResult) -> Ended {
        Ended {
            generation: past.generation,
            state: past.state,
            class: past.class,
            reason: past.reason.clone(),
            exit_code: past.exit_code,
            retry_at: None,
            attempts: 0,
            output: past.output,
            settled_at: Some(past.settled_at),
        }
    }

    /// What a waiter ends with.
    pub fn code(&self) -> i32 {
        settled_code(self.state, self.class, self.exit_code)
    }
}

/// Where the two streams go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// The stored stdout to stdout.
    Stdout,
    /// The stored stderr to stdout.
    Stderr,
    /// Each where it belongs.
    Both,
}

impl Streams {
    fn targets(self) -> (Target, Target) {
        match self {
            Streams::Stdout => (target(1), Target::Skip),
            Streams::Stderr => (Target::Skip, target(1)),
            Streams::Both => (target(1), target(2)),
        }
    }

    fn bytes(self, output: &OutputRef) -> u64 {
        match self {
            Streams::Stdout => output.stdout_bytes,
            Streams::Stderr => output.stderr_bytes,
            Streams::Both => output.stdout_bytes.saturating_add(output.stderr_bytes),
        }
    }
}

fn target(fd: i32) -> Target {
    match entry::state().was_closed(fd) {
        true => Target::Absent,
        false => Target::Fd(fd),
    }
}

/// Writes what is stored of an output, and says what is missing. Whether all that is stored was
/// delivered.
pub fn deliver(
    name: &OpName,
    output: &OutputRef,
    recording: Option<Recording>,
    streams: Streams,
) -> bool {
    let found = recording.is_some();
    let written = recording.map_or(Ok(()), |recording| {
        let (stdout, stderr) = streams.targets();
        replay(recording, stdout, stderr)
    });
    if let Some(line) = missing(name, output, found, streams) {
        say_line(&line);
    }
    match written {
        Ok(()) => true,
        Err(error) => {
            say_line(&undelivered(&error, streams));
            false
        }
    }
}

fn undelivered(error: &ReplayError, streams: Streams) -> String {
    match error {
        ReplayError::Write { stream, error } => {
            let to = match (streams, stream) {
                (Streams::Both, Stream::Stderr) => "stderr",
                _ => "stdout",
            };
            let why = reason(error);
            format!("cannot write to {to}: {why}; what is stored stays, ask again")
        }
        ReplayError::Read(error) => {
            format!("the stored output cannot be read: {error}; see `idem doctor`")
        }
    }
}

/// What the stored copy lacks.
fn missing(name: &OpName, output: &OutputRef, found: bool, streams: Streams) -> Option<String> {
    if output.lost {
        return Some(format!(
            "the output of {name} could not be stored when it ran, so there is none to show"
        ));
    }
    if output.truncated {
        let kept = output.stdout_bytes.saturating_add(output.stderr_bytes);
        return Some(format!(
            "the stored output of {name} ends after {kept} bytes; keep more with --max-output"
        ));
    }
    if streams.bytes(output) == 0 || found {
        return None;
    }
    let operation = quote::operation(name);
    Some(match output.place {
        Place::Nowhere => format!("the output of {name} was not stored (--no-store-output)"),
        Place::Inline | Place::Spool => {
            format!("the stored output of {name} is gone; see `idem status {operation}`")
        }
    })
}

/// The recording of an output, if there is one.
pub fn recording(
    opened: &mut Opened,
    output: Option<&OutputRef>,
) -> StoreResult<Option<Recording>> {
    match output {
        Some(output) => opened.recording(output),
        None => Ok(None),
    }
}

/// The code after a delivery: one that failed is not a success.
pub fn code_after(delivered: bool, code: i32) -> i32 {
    match (delivered, code) {
        (false, 0) => exit::OWN_FAILURE,
        (_, code) => code,
    }
}
