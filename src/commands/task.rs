//! `idem task`.

use super::context::{Context, text};
use crate::cli::render::style::Style;
use crate::cli::render::tree::{TaskView, deadline_at};
use crate::cli::stdout::print;
use crate::cli::values::{self, Deadline};
use crate::cli::words::{Words, flag, value, word};
use crate::cli::{exit, guard_text, present::say_line, quote};
use crate::domain::name::Key;
use crate::domain::time::Stamp;
use crate::engine::guards::state;
use crate::engine::store::{Filter, GuardKind};
use crate::policy::task::Task;
use anyhow::{Result, anyhow};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// Runs the verb.
pub fn run(words: &Words) -> Result<i32> {
    let context = Context::new(words)?;
    let given = value(words, "name").map_or(OsStr::new(""), OsString::as_os_str);
    let name =
        Key::new(given.as_bytes()).map_err(|e| anyhow!("the task's name {e}; give another"))?;
    let name = name.as_str();
    if name.contains('/') {
        return Err(anyhow!(
            "the task's name has a slash, which begins its steps; give another"
        ));
    }
    let action = word(words, "action");
    let opens = action == Some("open");
    if let Some(option) = ["retries", "deadline"]
        .into_iter()
        .find(|option| !opens && value(words, option).is_some())
    {
        return Err(anyhow!(
            "--{option} is for `idem task open`, which sets it once; leave it out"
        ));
    }
    match action {
        Some("open") => open(words, &context, name),
        Some("end") => end(&context, name),
        _ => show(words, &context, name),
    }
}

/// What `open` asks for.
struct Asked {
    retries: Option<u32>,
    deadline: Option<Deadline>,
}

impl Asked {
    fn read(words: &Words) -> Result<Asked> {
        let retries = text(words, "retries")?.map(|given| {
            values::whole_number(given).ok_or_else(|| {
                anyhow!("--retries: cannot read '{given}' as a number; write for example 3")
            })
        });
        let deadline = text(words, "deadline")?
            .map(|given| values::deadline(given).map_err(|e| anyhow!("--deadline: {e}")));
        Ok(Asked {
            retries: retries.transpose()?,
            deadline: deadline.transpose()?,
        })
    }

    fn task(&self, now: &Stamp) -> Task {
        let deadline = self.deadline.map(|deadline| match deadline {
            Deadline::After(duration) => duration,
            Deadline::At(moment) => now.wall.until(moment),
        });
        Task::open(now, self.retries, deadline)
    }

    /// Whether an open task is what is asked for.
    fn is(&self, task: &Task) -> bool {
        let deadline = match self.deadline {
            None => task.deadline.is_none(),
            Some(Deadline::After(duration)) => task.deadline == Some(to_ms(duration)),
            Some(Deadline::At(moment)) => deadline_at(task) == Some(moment),
        };
        self.retries == task.retries && deadline
    }
}

/// As it is stored.
fn to_ms(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Opens a task. Opening it again in the same way changes nothing, so that a script can be repeated; one
/// that has ended begins anew.
fn open(words: &Words, context: &Context, name: &str) -> Result<i32> {
    let asked = Asked::read(words)?;
    if let Some(Deadline::At(moment)) = asked.deadline
        && moment <= context.now().wall
    {
        return Err(anyhow!("--deadline has already passed; allow more time"));
    }
    let mut opened: Result<Task, Task> = Ok(asked.task(&context.now()));
    context.write()?.store().with_guards(&mut |guards| {
        let found = state(guards, GuardKind::Task, name, Task::from_json)?;
        opened = match found.filter(|found| found.ended.is_none()) {
            Some(found) if asked.is(&found) => Ok(found),
            Some(found) => Err(found),
            None => {
                let task = asked.task(&context.now());
                guards.set_guard(GuardKind::Task, name, Some(task.to_json()))?;
                Ok(task)
            }
        };
        Ok(())
    })?;
    match opened {
        Ok(task) => {
            print(format!(
                "{name} {}\n",
                guard_text::task(&task, &context.now())
            ))?;
            Ok(0)
        }
        Err(found) => Err(anyhow!(
            "task {name} {}, which is not what is asked for; end it first with `idem task end {}`",
            guard_text::task(&found, &context.now()),
            quote::shell(name)
        )),
    }
}

fn end(context: &Context, name: &str) -> Result<i32> {
    // Looking for it must not make a store.
    if context.read()?.is_none() {
        return Ok(not_there(name));
    }
    let mut found = false;
    context.write()?.store().with_guards(&mut |guards| {
        let task = state(guards, GuardKind::Task, name, Task::from_json)?;
        found = task.is_some();
        if let Some(mut task) = task.filter(|task| task.ended.is_none()) {
            task.ended = Some(context.now());
            guards.set_guard(GuardKind::Task, name, Some(task.to_json()))?;
        }
        Ok(())
    })?;
    Ok(if found { 0 } else { not_there(name) })
}

fn not_there(name: &str) -> i32 {
    say_line(&format!(
        "there is no task {name}; open it with `idem task open {}`",
        quote::shell(name)
    ));
    exit::NOT_FOUND
}

fn show(words: &Words, context: &Context, name: &str) -> Result<i32> {
    let Some(view) = look(context, name)? else {
        return Ok(not_there(name));
    };
    print(match flag(words, "json") {
        true => format!("{}\n", view.object(&context.now())),
        false => view.page(&context.now(), Style::of_stdout()),
    })?;
    Ok(0)
}

/// The task with its steps; none where neither is there.
fn look(context: &Context, name: &str) -> Result<Option<TaskView>> {
    let Some(mut opened) = context.read()? else {
        return Ok(None);
    };
    let states = opened.store().list_guards(GuardKind::Task)?;
    let task = states
        .iter()
        .find(|(found, _)| found == name)
        .map(|(_, state)| Task::from_json(state))
        .transpose()
        .map_err(|e| anyhow!("task {name} {e}; upgrade idem"))?;
    let filter = Filter {
        scope: context.scope.clone(),
        task: Some(name.to_owned()),
        ..Filter::default()
    };
    let records = opened.store().list(&filter)?;
    if task.is_none() && records.is_empty() {
        return Ok(None);
    }
    Ok(Some(TaskView {
        name: name.to_owned(),
        task,
        steps: records
            .into_iter()
            .map(|record| opened.view(record))
            .collect(),
    }))
}
