//! `idem log`.

use super::context::{Context, key_argument};
use super::status::not_there;
use crate::cli::render::style::Style;
use crate::cli::render::timeline;
use crate::cli::stdout::print;
use crate::cli::words::{Words, flag, value};
use crate::cli::{exit, present::say_line};
use crate::domain::name::OpName;
use crate::engine::event::Event;
use crate::process::waiting::Patience;
use anyhow::Result;

/// How much is gathered before it is printed.
const PRINTED_BYTES: usize = 64 * 1024;

/// Runs the verb.
pub fn run(words: &Words) -> Result<i32> {
    let context = Context::new(words)?;
    let name = match value(words, "key") {
        Some(_) => Some(context.name(key_argument(words)?)?),
        None => None,
    };
    let mut shown = Shown {
        json: flag(words, "json"),
        style: Style::of_stdout(),
        with_name: name.is_none(),
        text: String::new(),
        count: 0,
        latest_id: 0,
    };
    if flag(words, "follow") {
        return shown.follow(&context, name.as_ref());
    }
    shown.catch_up(&context, name.as_ref())?;
    match name {
        Some(name) if shown.count == 0 => {
            say_line(&not_there(&name));
            Ok(exit::NOT_FOUND)
        }
        _ => Ok(0),
    }
}

struct Shown {
    json: bool,
    style: Style,
    with_name: bool,
    text: String,
    count: u64,
    /// The latest event that was looked at.
    latest_id: i64,
}

impl Shown {
    /// Prints what is there and then what comes, until the reader has had enough.
    fn follow(&mut self, context: &Context, name: Option<&OpName>) -> Result<i32> {
        let mut watch = context.watch()?;
        loop {
            self.catch_up(context, name)?;
            watch
                .wait(&mut Patience::new(None))
                .map_err(|e| context.cannot_watch(&e))?;
        }
    }

    /// Prints what came after the latest event that was looked at.
    fn catch_up(&mut self, context: &Context, name: Option<&OpName>) -> Result<()> {
        let Some(mut opened) = context.read()? else {
            return Ok(());
        };
        let after_id = self.latest_id;
        self.latest_id = opened.each_event(name, after_id, |event| match &context.scope {
            Some(scope) if name.is_none() && event.name.scope != *scope => Ok(()),
            _ => self.add(&event),
        })?;
        print(&self.text)?;
        self.text.clear();
        Ok(())
    }

    fn add(&mut self, event: &Event) -> Result<()> {
        self.count += 1;
        if self.json {
            self.text.push_str(&timeline::json(event).to_string());
            self.text.push('\n');
        } else {
            let line = timeline::line(event, self.with_name, self.style);
            self.text.push_str(&line);
        }
        if self.text.len() >= PRINTED_BYTES {
            print(&self.text)?;
            self.text.clear();
        }
        Ok(())
    }
}
