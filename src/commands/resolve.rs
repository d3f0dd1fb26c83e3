//! `idem resolve`.

use super::context::{Context, Opened, decider, key_argument, new_nonce, observe, source, text};
use super::status::not_there;
use crate::cli::present::say_line;
use crate::cli::stdout::{print, reason};
use crate::cli::values;
use crate::cli::view::View;
use crate::cli::words::{Words, flag, value};
use crate::cli::{exit, quote, say};
use crate::domain::decision::Refusal;
use crate::domain::frames::Stream;
use crate::domain::name::{Nonce, OpName};
use crate::domain::outcome::{Class, State};
use crate::engine::event::{EventKind, NewEvent};
use crate::engine::ledger;
use crate::engine::store::{Change, NewOutput, OutputBody, Resolution};
use crate::process::spool::{Recorder, Stored, StoredPlace};
use anyhow::{Result, anyhow};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The size of a read.
const READ_BYTES: usize = 64 * 1024;

/// What a person says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Succeeded(i32),
    Failed(i32),
    NotDone,
}

impl Answer {
    fn read(words: &Words) -> Result<Answer> {
        let code = text(words, "exit-code")?.map(exit_code).transpose()?;
        Ok(if flag(words, "succeeded") {
            Answer::Succeeded(code.unwrap_or(0))
        } else if flag(words, "failed") {
            Answer::Failed(match code {
                Some(0) => {
                    return Err(anyhow!(
                        "--exit-code: a failure does not end with 0; write 1 to 255, or say --succeeded"
                    ));
                }
                code => code.unwrap_or(1),
            })
        } else {
            Answer::NotDone
        })
    }

    fn state(self) -> State {
        match self {
            Answer::Succeeded(_) => State::Succeeded,
            Answer::Failed(_) | Answer::NotDone => State::Failed,
        }
    }

    fn class(self) -> Class {
        match self {
            Answer::Succeeded(_) => Class::Success,
            Answer::Failed(_) => Class::Permanent,
            Answer::NotDone => Class::Safe,
        }
    }

    fn exit_code(self) -> Option<i32> {
        match self {
            Answer::Succeeded(code) | Answer::Failed(code) => Some(code),
            Answer::NotDone => None,
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Answer::Succeeded(_) => "a person said that it happened",
            Answer::Failed(_) => "a person said that it failed",
            Answer::NotDone => "a person said that it did not happen",
        }
    }

    fn done(self, name: &OpName) -> String {
        match self {
            Answer::Succeeded(code) => {
                format!("{name} is resolved: succeeded; later calls replay it (exit {code})\n")
            }
            Answer::Failed(code) => {
                format!("{name} is resolved: failed; later calls replay that (exit {code})\n")
            }
            Answer::NotDone => format!("{name} is resolved: not done; the next call runs it\n"),
        }
    }
}

fn exit_code(text: &str) -> Result<i32> {
    let code: Option<u8> = values::whole_number(text);
    code.map(i32::from)
        .ok_or_else(|| anyhow!("--exit-code: '{text}' is no exit code; write 0 to 255"))
}

/// Runs the verb.
pub fn run(words: &Words) -> Result<i32> {
    let context = Context::new(words)?;
    let name = context.name(key_argument(words)?)?;
    let answer = Answer::read(words)?;
    if !matches!(answer, Answer::Succeeded(_)) && value(words, "stdout").is_some() {
        return Err(anyhow!(
            "--stdout is what a success has printed; give it with --succeeded"
        ));
    }
    let stdout = match value(words, "stdout") {
        Some(path) => Some(Given::open(Path::new(path))?),
        None => None,
    };
    // Looked at for reading first, so that a mistyped key makes no store.
    let found = match context.read()? {
        Some(mut opened) => opened.look(&name)?,
        None => None,
    };
    if let Some(refused) = refusal(&context, &name, found.as_ref()) {
        return Ok(refused.say());
    }
    let mut opened = context.write()?;
    let nonce = new_nonce();
    let stored = stdout
        .map(|given| given.record(opened.recorder(&nonce)))
        .transpose()?;
    settle(&context, &mut opened, &name, answer, nonce, stored)
}

fn settle(
    context: &Context,
    opened: &mut Opened,
    name: &OpName,
    answer: Answer,
    nonce: Nonce,
    stored: Option<Stored>,
) -> Result<i32> {
    let resolution = resolution(context, answer, nonce, stored.as_ref())?;
    let locks = opened.locks();
    let mut refused = None;
    let changed = opened.store().change(name, &mut |found| {
        let view = found.map(|record| View {
            record: record.clone(),
            liveness: observe(record, &locks),
        });
        refused = refusal(context, name, view.as_ref());
        match refused {
            Some(_) => Change::Leave,
            None => Change::Resolve(Box::new(resolution.clone())),
        }
    });
    // A commit that failed can turn out to be there all the same, and then its record needs the file.
    if refused.is_some()
        && let Some(stored) = stored
    {
        stored.discard();
    }
    changed?;
    if let Some(refused) = refused {
        return Ok(refused.say());
    }
    print(answer.done(name))?;
    Ok(0)
}

/// Why it is not settled.
struct Refused {
    line: String,
    code: i32,
}

impl Refused {
    fn say(&self) -> i32 {
        say_line(&self.line);
        self.code
    }
}

/// Only an unknown outcome is a person's to settle.
fn refusal(context: &Context, name: &OpName, found: Option<&View>) -> Option<Refused> {
    let Some(view) = found else {
        return Some(Refused {
            line: not_there(name),
            code: exit::NOT_FOUND,
        });
    };
    match view.refusal(&context.now()) {
        Some(Refusal::Unknown) => None,
        Some(refusal) => {
            let pids = view.working();
            Some(Refused {
                line: say::refusal(refusal, name, Some(&view.record), &pids, false),
                code: exit::of_refusal(refusal),
            })
        }
        None => Some(Refused {
            line: already_settled(name, view.state()),
            code: exit::OWN_FAILURE,
        }),
    }
}

fn already_settled(name: &OpName, state: State) -> String {
    let operation = quote::operation(name);
    let has = match state {
        State::Succeeded => "has succeeded",
        _ => "has failed",
    };
    format!(
        "{name} {has}, and only an unknown outcome can be resolved; `idem forget {operation}` makes the next call run it"
    )
}

fn resolution(
    context: &Context,
    answer: Answer,
    nonce: Nonce,
    stored: Option<&Stored>,
) -> Result<Resolution> {
    let source = source();
    let decided_by = decider(&source);
    let mut detail = ledger::because(answer.reason());
    detail.insert("decided_by".to_owned(), decided_by.clone().into());
    detail.insert("source".to_owned(), ledger::source_value(&source));
    Ok(Resolution {
        state: answer.state(),
        class: Some(answer.class()),
        reason: Some(answer.reason().to_owned()),
        exit_code: answer.exit_code(),
        output: stored.map(new_output).transpose()?,
        nonce,
        decided_by,
        at: context.now(),
        events: vec![NewEvent {
            at: context.now().wall,
            kind: EventKind::Resolved,
            attempt: None,
            detail,
        }],
    })
}

/// The file that a replay is to print; `-` is stdin.
struct Given<'a> {
    path: &'a Path,
    file: Box<dyn Read>,
}

impl Given<'_> {
    fn open(path: &Path) -> Result<Given<'_>> {
        if path == Path::new("-") {
            let file = Box::new(io::stdin().lock());
            return Ok(Given { path, file });
        }
        let cannot = |error| unreadable(path, &error);
        let file = File::open(path).map_err(cannot)?;
        if file.metadata().map_err(cannot)?.is_dir() {
            return Err(cannot(io::Error::from_raw_os_error(libc::EISDIR)));
        }
        let file = Box::new(file);
        Ok(Given { path, file })
    }

    fn record(mut self, mut recorder: Recorder) -> Result<Stored> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match self.file.read(&mut buffer) {
                Ok(0) => return Ok(recorder.finish().make_durable()),
                Ok(count) => {
                    recorder.record(Stream::Stdout, buffer.get(..count).unwrap_or_default());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(self.path, &error)),
            }
        }
    }
}

fn unreadable(path: &Path, error: &io::Error) -> anyhow::Error {
    anyhow!(
        "--stdout: {} cannot be read: {}; give a file that can",
        path.display(),
        reason(error)
    )
}

fn new_output(stored: &Stored) -> Result<NewOutput> {
    let body = match &stored.place {
        StoredPlace::Inline(bytes) => OutputBody::Inline(bytes.clone()),
        StoredPlace::File { path, .. } => OutputBody::Spooled(path.clone()),
        StoredPlace::Nothing { lost: None } => OutputBody::Nothing,
        StoredPlace::Nothing { lost: Some(why) } => {
            return Err(anyhow!(
                "--stdout: the output cannot be stored: {why}; nothing was resolved"
            ));
        }
    };
    Ok(NewOutput {
        number: 0,
        body,
        stdout_bytes: stored.stdout_bytes,
        stderr_bytes: stored.stderr_bytes,
        truncated: stored.truncated,
        lost: false,
    })
}
