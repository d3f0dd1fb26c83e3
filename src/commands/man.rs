//! `idem man`.

use crate::cli::parse::tree;
use crate::cli::stdout::print;
use crate::cli::verbs;
use crate::cli::words::{Words, value};
use crate::domain::nearest::nearest;
use anyhow::{Result, anyhow};
use clap::Command;
use clap_mangen::Man;

/// Runs the verb.
pub fn run(words: &Words) -> Result<i32> {
    let command = match value(words, "verb") {
        Some(verb) => of_verb(&verb.to_string_lossy())?,
        None => tree(),
    };
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    print(page)?;
    Ok(0)
}

fn of_verb(name: &str) -> Result<Command> {
    let Some(verb) = verbs::by_name(name) else {
        let known: Vec<&str> = verbs::ALL.iter().map(|verb| verb.name).collect();
        let meant = match nearest(name, &known) {
            Some(meant) => format!("did you mean '{meant}'?"),
            None => "see idem --help".to_owned(),
        };
        return Err(anyhow!("there is no verb '{name}'; {meant}"));
    };
    let title = format!("idem-{name}");
    Ok(verbs::command(verb)
        .name(title)
        .bin_name(format!("idem {name}")))
}
