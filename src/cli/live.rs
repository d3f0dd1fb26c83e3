//! What of the store or the configuration fits at a place of a line that is still being typed.

use super::parse::tree;
use clap::{Arg, Command};
use std::ffi::OsString;

/// What a place can be completed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Live {
    /// Keys of operations.
    Keys,
    /// Scopes that have operations.
    Scopes,
    /// Tasks.
    Tasks,
    /// Breakers.
    Breakers,
    /// Profiles of the configuration.
    Profiles,
}

impl Live {
    /// All kinds.
    pub const ALL: [Live; 5] = [
        Live::Keys,
        Live::Scopes,
        Live::Tasks,
        Live::Breakers,
        Live::Profiles,
    ];

    /// Its name in the completion scripts.
    pub fn word(self) -> &'static str {
        match self {
            Live::Keys => "keys",
            Live::Scopes => "scopes",
            Live::Tasks => "tasks",
            Live::Breakers => "breakers",
            Live::Profiles => "profiles",
        }
    }

    /// The kind with this name.
    pub fn of_word(word: &str) -> Option<Live> {
        Live::ALL.into_iter().find(|live| live.word() == word)
    }

    /// What is completed as the value of an option, or as the argument of a verb.
    pub fn of_arg(verb: &str, arg: &Arg) -> Option<Live> {
        match (verb, arg.get_id().as_str(), arg.is_positional()) {
            (_, "key", _) => Some(Live::Keys),
            (_, "scope", false) => Some(Live::Scopes),
            (_, "task", false) | ("task", "name", true) => Some(Live::Tasks),
            (_, "breaker", false) | ("breaker", "name", true) => Some(Live::Breakers),
            (_, "profile", false) => Some(Live::Profiles),
            _ => None,
        }
    }

    /// What fits behind these words (without the program's name) as the beginning of the next one.
    pub fn behind(words: &[OsString], next: &str) -> Option<Live> {
        let tree = tree();
        let mut command = &tree;
        let mut value_of: Option<&Arg> = None;
        let mut arguments = 0;
        for word in words {
            let word = word.to_str().unwrap_or_default();
            if value_of.take().is_some() {
                continue;
            }
            if word == "--" {
                return None;
            }
            if word.len() > 1 && word.starts_with('-') {
                value_of = option(command, word).filter(|arg| arg.get_action().takes_values());
            } else if command.get_name() == tree.get_name() {
                command = tree.find_subcommand(word)?;
            } else {
                arguments += 1;
                if command.get_positionals().any(Arg::is_trailing_var_arg_set) {
                    return None;
                }
            }
        }
        let verb = command.get_name();
        if value_of.is_some() {
            return Live::of_arg(verb, value_of?);
        }
        if next.starts_with('-') {
            return None;
        }
        let positionals: Vec<&Arg> = command.get_positionals().collect();
        let last = positionals.len().checked_sub(1)?;
        let arg = positionals.get(arguments.min(last))?;
        let several = arg.get_num_args().is_some_and(|n| n.max_values() > 1);
        Live::of_arg(verb, arg).filter(|_| arguments <= last || several)
    }
}

/// The option that a word names; none if its value stands in the same word.
fn option<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let is = |arg: &&Arg| match word.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg
            .get_short()
            .is_some_and(|short| word == format!("-{short}")),
    };
    command.get_arguments().find(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_known_by_what_stands_before_it() {
        for (line, live) in [
            ("status ", Some(Live::Keys)),
            ("status --state failed ", Some(Live::Keys)),
            ("status --state ", None),
            ("status --scope ", Some(Live::Scopes)),
            ("status --scope=x ", Some(Live::Keys)),
            ("status --task ", Some(Live::Tasks)),
            ("status one ", None),
            ("status -", None),
            ("forget one ", Some(Live::Keys)),
            ("run ", None),
            ("run -k ", Some(Live::Keys)),
            ("run --key ", Some(Live::Keys)),
            ("run --breaker ", Some(Live::Breakers)),
            ("run --probe ", None),
            ("run -- --scope ", None),
            ("run cmd --scope ", None),
            ("run -q ", None),
            ("--profile ", Some(Live::Profiles)),
            ("--profile deploy status ", Some(Live::Keys)),
            ("stats --profile ", Some(Live::Profiles)),
            ("task ", None),
            ("task show ", Some(Live::Tasks)),
            ("breaker ", Some(Live::Breakers)),
            ("breaker --cooldown ", None),
            ("nosuch ", None),
            ("", None),
        ] {
            let mut words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let next = words.pop().unwrap_or_default();
            let found = Live::behind(&words, next.to_str().unwrap_or_default());
            assert_eq!(found, live, "{line:?}");
        }
    }

    #[test]
    fn words_name_kinds() {
        for live in Live::ALL {
            assert_eq!(Live::of_word(live.word()), Some(live));
        }
        assert_eq!(Live::of_word("here"), None);
    }
}
