//! Recorded outputs on their way into the store, and back for a look at their beginning.

use super::spool::{Recorded, Recording, StoredPlace};
use crate::domain::frames::{RunReader, Stream};
use crate::domain::outcome::Exit;
use crate::engine::hands::HelperEnd;
use crate::engine::store::{NewOutput, OutputBody};
use std::fs::File;

/// The first bytes of a recorded stdout.
pub(super) fn head_of(output: &NewOutput, most: usize) -> Vec<u8> {
    let mut head = Vec::new();
    let recording = match &output.body {
        OutputBody::Nothing => return head,
        OutputBody::Inline(bytes) => Recording::from_bytes(bytes.clone()),
        OutputBody::Spooled(path) => match File::open(path) {
            Ok(file) => Recording::from_file(file),
            Err(_) => return head,
        },
    };
    let Ok(mut reader) = RunReader::new(recording) else {
        return head;
    };
    while let Ok(Some(run)) = reader.next_run() {
        while let Ok(chunk) = reader.chunk() {
            if chunk.is_empty() || head.len() >= most {
                break;
            }
            let count = chunk.len();
            if run.stream == Stream::Stdout {
                head.extend(chunk.iter().take(most - head.len()));
            }
            reader.consume(count);
        }
    }
    head
}

/// A recording made durable, as the store takes it.
pub(super) fn new_output(number: u32, recorded: Recorded) -> NewOutput {
    let stored = recorded.make_durable();
    let (body, lost) = match stored.place {
        StoredPlace::Inline(bytes) if bytes.is_empty() => (OutputBody::Nothing, false),
        StoredPlace::Inline(bytes) => (OutputBody::Inline(bytes), false),
        StoredPlace::File { path, .. } => (OutputBody::Spooled(path), false),
        StoredPlace::Nothing { lost } => (OutputBody::Nothing, lost.is_some()),
    };
    NewOutput {
        number,
        body,
        stdout_bytes: stored.stdout_bytes,
        stderr_bytes: stored.stderr_bytes,
        truncated: stored.truncated,
        lost,
    }
}

/// What a person is told of a preview that did not end well.
pub(super) fn preview_failed(exit: Option<Exit>, end: &HelperEnd) -> String {
    let how = match exit {
        Some(Exit::Code(code)) => format!("ended with {code}"),
        Some(Exit::Signal(signal)) => format!("died of signal {signal}"),
        None => end.trouble.clone().unwrap_or_default(),
    };
    let said = String::from_utf8_lossy(&end.stderr_head);
    let said = said
        .lines()
        .last()
        .map_or_else(String::new, |line| format!(" ({line})"));
    format!("the preview {how}{said}, so there is nothing to decide about; nothing was recorded")
}
