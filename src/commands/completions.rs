//! `idem completions`, and the keys that the scripts ask for.

use super::context::Context;
use crate::cli::completion;
use crate::cli::parse::{Typed, parse};
use crate::cli::stdout::print;
use crate::cli::words::{Words, word};
use crate::domain::outcome::State;
use crate::engine::store::Filter;
use anyhow::{Result, anyhow};
use clap_complete::Shell;
use std::ffi::{OsStr, OsString};

/// The verb that completion scripts call; no help shows it.
pub const HIDDEN_VERB: &str = "__complete";

/// The most keys that are worth offering.
const MOST_KEYS: u32 = 500;

/// Runs the verb.
pub fn run(words: &Words) -> Result<i32> {
    let shell = word(words, "shell").unwrap_or_default();
    let shell: Shell = shell.parse().map_err(|_| {
        anyhow!("there is no completion for '{shell}'; see idem completions --help")
    })?;
    print(completion::script(shell))?;
    Ok(0)
}

/// `__complete keys =PREFIX WORD...`: the keys that begin so, newest first, one a line. Whatever goes
/// wrong is nothing to complete with: a person is typing.
pub fn complete(arguments: &[OsString]) -> i32 {
    if let [_, kind, prefix, words @ ..] = arguments
        && kind == "keys"
        && let Some(prefix) = prefix.to_str().and_then(|prefix| prefix.strip_prefix('='))
        && let Ok(keys) = keys(prefix, words)
    {
        // Nobody is there to be told.
        let _ = print(keys);
    }
    0
}

fn keys(prefix: &str, words: &[OsString]) -> Result<String> {
    let mut typed = vec![OsString::from("status")];
    for option in ["--store", "--config", "--profile", "--scope"] {
        if let Some(value) = last_value(words, option) {
            typed.extend([OsString::from(option), value]);
        }
    }
    let Ok(Typed::Verb { words: read, .. }) = parse(&typed) else {
        return Ok(String::new());
    };
    let context = Context::new(&read)?;
    let Some(mut opened) = context.read()? else {
        return Ok(String::new());
    };
    let filter = Filter {
        glob: Some(format!("{}*", literally(prefix))),
        scope: Some(context.scope.clone().unwrap_or_default()),
        states: match words.iter().any(|word| word == "resolve") {
            true => vec![State::Running, State::Unknown],
            false => Vec::new(),
        },
        limit: Some(MOST_KEYS),
        ..Filter::default()
    };
    let records = opened.store().list(&filter)?;
    Ok(records
        .iter()
        .map(|record| format!("{}\n", record.name.key))
        .collect())
}

/// The value of an option on a line that is still being typed.
fn last_value(words: &[OsString], option: &str) -> Option<OsString> {
    let options = words.iter().take_while(|word| *word != "--");
    let words: Vec<&OsStr> = options.map(OsString::as_os_str).collect();
    let behind = words.windows(2).rev().find_map(|pair| match pair {
        [name, value] if *name == option => Some(value.to_os_string()),
        _ => None,
    });
    let joined = |word: &&&OsStr| {
        let value = word.to_str()?.strip_prefix(option)?.strip_prefix('=')?;
        Some(OsString::from(value))
    };
    behind.or_else(|| words.iter().rev().find_map(|word| joined(&word)))
}

/// A text as the glob that words only it.
fn literally(text: &str) -> String {
    let mut glob = String::new();
    for c in text.chars() {
        match c {
            '*' | '?' | '[' => glob.extend(['[', c, ']']),
            c => glob.push(c),
        }
    }
    glob
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_half_typed_line_are_found() {
        let value = |line: &str, option| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            last_value(&words, option).map(|value| value.into_string().unwrap())
        };
        assert_eq!(value("status --scope a k", "--scope"), Some("a".into()));
        assert_eq!(value("status --scope=a k", "--scope"), Some("a".into()));
        assert_eq!(value("run -- x --scope a", "--scope"), None);
        assert_eq!(value("status --scope", "--scope"), None);
    }

    #[test]
    fn a_prefix_matches_itself() {
        assert_eq!(literally("a*[b]?"), "a[*][[]b][?]");
    }
}
