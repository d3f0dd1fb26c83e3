//! `idem log`.

use super::context::{Context, key_argument};
use super::status::not_there;
use crate::cli::parse::{flag, value};
use crate::cli::render::style::Style;
use crate::cli::render::timeline;
use crate::cli::stdout::print;
use crate::cli::{exit, present::say_line};
use crate::engine::event::Event;
use anyhow::Result;
use clap::ArgMatches;

/// How much is gathered before it is printed.
const PRINTED_BYTES: usize = 64 * 1024;

/// Runs the verb.
pub fn run(matches: &ArgMatches) -> Result<i32> {
    let context = Context::new(matches)?;
    let name = match value(matches, "key") {
        Some(_) => Some(context.name(key_argument(matches)?)),
        None => None,
    };
    let mut shown = Shown {
        json: flag(matches, "json"),
        style: Style::of_stdout(),
        with_name: name.is_none(),
        text: String::new(),
        count: 0,
    };
    if let Some(mut opened) = context.read()? {
        opened.each_event(name.as_ref(), |event| match &context.scope {
            Some(scope) if name.is_none() && event.name.scope != *scope => Ok(()),
            _ => shown.add(&event),
        })?;
    }
    print(&shown.text)?;
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
}

impl Shown {
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
