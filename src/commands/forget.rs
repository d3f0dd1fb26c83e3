//! `idem forget`.

use super::context::{Context, Opened, decider, is_glob, key, observe, source};
use crate::cli::exit;
use crate::cli::present::say_line;
use crate::cli::stdout::print;
use crate::cli::view::View;
use crate::cli::words::{Words, flag};
use crate::domain::name::OpName;
use crate::domain::outcome::State;
use crate::engine::event::{EventKind, NewEvent};
use crate::engine::ledger;
use crate::engine::store::{Change, Filter, StoreResult};
use anyhow::Result;
use std::ffi::OsStr;

/// Runs the verb.
pub fn run(words: &Words) -> Result<i32> {
    let context = Context::new(words)?;
    let arguments = words.all("key");
    // All of them are read before anything is deleted.
    for argument in arguments {
        match key(argument) {
            // Fails where a scope is needed.
            Ok(key) => drop(context.name(key)?),
            Err(error) if !is_glob(argument) => return Err(error),
            Err(_) => {}
        }
    }
    let mut told = Told::default();
    let mut names = Vec::new();
    let mut reader = context.read()?;
    for argument in arguments {
        match meant(&context, reader.as_mut(), argument)? {
            found if found.is_empty() => told.absent.push(argument.display().to_string()),
            found => names.extend(found),
        }
    }
    drop(reader);
    names.sort();
    names.dedup();
    if !names.is_empty() {
        let mut opened = context.write()?;
        for name in &names {
            let forgot = forget(&context, &mut opened, name, flag(words, "force"))?;
            told.tell(name, forgot)?;
        }
    }
    Ok(told.end())
}

/// The operations that an argument means: exactly this one if it is there, else those that match.
fn meant(context: &Context, store: Option<&mut Opened>, argument: &OsStr) -> Result<Vec<OpName>> {
    let Some(opened) = store else {
        return Ok(Vec::new());
    };
    let exact = key(argument).and_then(|key| context.name(key));
    if let Ok(name) = exact
        && opened.store().find(&name)?.is_some()
    {
        return Ok(vec![name]);
    }
    if !is_glob(argument) {
        return Ok(Vec::new());
    }
    let filter = Filter {
        glob: argument.to_str().map(str::to_owned),
        // A glob never reaches into other scopes by itself.
        scope: Some(context.scope.clone().unwrap_or_default()),
        ..Filter::default()
    };
    let records = opened.store().list(&filter)?;
    Ok(records.into_iter().map(|record| record.name).collect())
}

/// What became of one.
enum Forgot {
    Done(State),
    Kept(State),
    Absent,
}

fn forget(
    context: &Context,
    opened: &mut Opened,
    name: &OpName,
    force: bool,
) -> StoreResult<Forgot> {
    let locks = opened.locks();
    let source = source();
    let mut forgot = Forgot::Absent;
    opened.store().change(name, &mut |found| {
        let Some(record) = found else {
            forgot = Forgot::Absent;
            return Change::Leave;
        };
        let view = View {
            record: record.clone(),
            liveness: observe(record, &locks),
        };
        let state = view.state();
        if !state.settled() && !force {
            forgot = Forgot::Kept(state);
            return Change::Leave;
        }
        forgot = Forgot::Done(state);
        let mut detail = ledger::because("someone asked to forget it");
        detail.insert("state".to_owned(), state.word().into());
        detail.insert("decided_by".to_owned(), decider(&source).into());
        detail.insert("source".to_owned(), ledger::source_value(&source));
        Change::Forget {
            events: vec![NewEvent {
                at: context.now().wall,
                kind: EventKind::Forgotten,
                attempt: None,
                detail,
            }],
        }
    })?;
    Ok(forgot)
}

/// What is said in the end.
#[derive(Debug, Default)]
struct Told {
    kept: Vec<String>,
    absent: Vec<String>,
}

impl Told {
    fn tell(&mut self, name: &OpName, forgot: Forgot) -> Result<()> {
        match forgot {
            Forgot::Done(State::Running) => {
                print(format!("forgot {name}, which goes on running unrecorded\n"))?;
            }
            Forgot::Done(state) => print(format!("forgot {name} ({})\n", state.word()))?,
            Forgot::Kept(state) => self.kept.push(format!("{name} ({})", state.word())),
            Forgot::Absent => self.absent.push(name.to_string()),
        }
        Ok(())
    }

    /// One line for all that was not forgotten.
    fn end(self) -> i32 {
        let mut parts = Vec::new();
        if !self.kept.is_empty() {
            let kept = self.kept.join(", ");
            parts.push(format!(
                "kept {kept}; look at it, then delete it with --force"
            ));
        }
        if !self.absent.is_empty() {
            let absent = self.absent.join(", ");
            parts.push(format!(
                "there is no {absent}; list what is there with `idem status`"
            ));
        }
        if !parts.is_empty() {
            say_line(&parts.join("; "));
        }
        match (self.kept.is_empty(), self.absent.is_empty()) {
            (false, _) => exit::OWN_FAILURE,
            (true, false) => exit::NOT_FOUND,
            (true, true) => 0,
        }
    }
}
