//! `idem completions`, and what the scripts ask for.

use super::context::Context;
use crate::cli::completion;
use crate::cli::config::Config;
use crate::cli::live::Live;
use crate::cli::parse::{Typed, parse};
use crate::cli::stdout::print;
use crate::cli::words::{Words, word};
use crate::domain::name::Scope;
use crate::domain::outcome::State;
use crate::engine::store::{Filter, GuardKind, Store};
use crate::process::sys;
use anyhow::{Result, anyhow};
use clap_complete::Shell;
use std::ffi::{OsStr, OsString};

/// The verb that completion scripts call; no help shows it.
pub const HIDDEN_VERB: &str = "__complete";

/// The most keys that are worth offering.
const MOST_KEYS: u32 = 500;

/// A person who has pressed a key waits no longer for a store that is away.
const MOST_SECONDS: u32 = 2;

/// Runs the verb.
pub fn run(words: &Words) -> Result<i32> {
    let shell = word(words, "shell").unwrap_or_default();
    let shell: Shell = shell.parse().map_err(|_| {
        anyhow!("there is no completion for '{shell}'; see idem completions --help")
    })?;
    print(completion::script(shell))?;
    Ok(0)
}

/// `__complete KIND =PREFIX WORD...`: what begins so, one a line; see [`completion`]. Whatever goes wrong is
/// nothing to complete with: a person is typing.
pub fn complete(arguments: &[OsString]) -> i32 {
    let [_, kind, prefix, words @ ..] = arguments else {
        return 1;
    };
    let Some(prefix) = prefix.to_str().and_then(|prefix| prefix.strip_prefix('=')) else {
        return 1;
    };
    let live = match kind.to_str() {
        Some("here") => Live::behind(words, prefix),
        Some(kind) => Live::of_word(kind),
        None => None,
    };
    let Some(live) = live else { return 1 };
    sys::end_after(MOST_SECONDS);
    let found = match live {
        Live::Profiles => profiles(words),
        Live::Keys | Live::Scopes | Live::Tasks | Live::Breakers => in_store(live, prefix, words),
    };
    let begins = |name: &String| !name.is_empty() && name.starts_with(prefix);
    let names = found.unwrap_or_default().into_iter().filter(begins);
    let lines: String = names.map(|name| name + "\n").collect();
    // Nobody is there to be told.
    let _ = print(lines);
    0
}

fn profiles(words: &[OsString]) -> Result<Vec<String>> {
    let named = last_value(words, "--config");
    let env = |name: &str| std::env::var_os(name);
    let config = Config::read(named.as_deref(), None, &env).map_err(|e| anyhow!(e))?;
    let names = config.iter().flat_map(Config::profiles);
    Ok(names.map(str::to_owned).collect())
}

fn in_store(live: Live, prefix: &str, words: &[OsString]) -> Result<Vec<String>> {
    let mut typed = vec![OsString::from("status")];
    for option in ["--store", "--config", "--profile", "--scope"] {
        if let Some(value) = last_value(words, option) {
            typed.extend([OsString::from(option), value]);
        }
    }
    let Ok(Typed::Verb { words: read, .. }) = parse(&typed) else {
        return Ok(Vec::new());
    };
    let context = Context::new(&read)?;
    let Some(mut opened) = context.peek()? else {
        return Ok(Vec::new());
    };
    let store = opened.store();
    let guards = |store: &mut dyn Store, kind| -> Result<Vec<String>> {
        let guards = store.list_guards(kind)?;
        Ok(guards.into_iter().map(|(name, _)| name).collect())
    };
    Ok(match live {
        Live::Keys | Live::Profiles => keys(store, context.scope, prefix, words)?,
        Live::Breakers => guards(store, GuardKind::Breaker)?,
        Live::Tasks => {
            let mut tasks = guards(store, GuardKind::Task)?;
            // A step does not need an opened task.
            let steps = keys(store, context.scope, prefix, &[])?.into_iter();
            tasks.extend(steps.filter_map(|key| Some(key.split_once('/')?.0.to_owned())));
            tasks.sort();
            tasks.dedup();
            tasks
        }
        Live::Scopes => {
            let counted = store.count_states()?.into_iter();
            let mut scopes: Vec<String> = counted
                .map(|(scope, ..)| scope.as_str().to_owned())
                .collect();
            scopes.dedup();
            scopes
        }
    })
}

/// The keys that begin so, newest first.
fn keys(
    store: &mut dyn Store,
    scope: Option<Scope>,
    prefix: &str,
    words: &[OsString],
) -> Result<Vec<String>> {
    let filter = Filter {
        glob: Some(format!("{}*", literally(prefix))),
        scope: Some(scope.unwrap_or_default()),
        states: match words.iter().any(|word| word == "resolve") {
            true => vec![State::Running, State::Unknown],
            false => Vec::new(),
        },
        limit: Some(MOST_KEYS),
        ..Filter::default()
    };
    let names = store.names(&filter)?.into_iter();
    Ok(names.map(|name| name.key.to_string()).collect())
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
