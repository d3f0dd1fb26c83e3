//! What was typed after a verb, whoever read it.

use super::options::{self, BULKHEAD_ALIAS, Opt, Takes};
use super::parse::run_options;
use clap::ArgMatches;
use clap::parser::ValueSource;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

/// The name of the command among the words of `idem run`.
pub const COMMAND: &str = "command";

/// Options and arguments with their values, by their long names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    given: Vec<(String, Vec<OsString>)>,
    takes_scope: bool,
}

impl Words {
    /// What clap has read.
    pub fn of(matches: &ArgMatches) -> Words {
        let typed = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let ids = matches.ids().map(|id| id.as_str()).filter(typed);
        let given = ids.map(|id| {
            let switch = matches.try_get_one::<bool>(id).is_ok();
            let values = matches.try_get_raw(id).ok().flatten();
            let values = values.filter(|_| !switch).into_iter().flatten();
            (id.to_owned(), values.map(OsStr::to_owned).collect())
        });
        Words {
            given: given.collect(),
            takes_scope: matches.try_contains_id("scope").is_ok(),
        }
    }

    /// Reads the plain words of `idem run` without clap, whose start takes longer than all that a replay
    /// does besides. None for whatever is rare, doubtful or wrong: clap is asked then.
    pub fn of_run(words: &[OsString]) -> Option<Words> {
        let mut given: Vec<(String, Vec<OsString>)> = Vec::new();
        let mut rest = words;
        loop {
            let (word, more) = rest.split_first()?;
            if word == "--" {
                rest = more;
                break;
            }
            if word.is_empty() {
                return None;
            }
            if word.as_bytes()[0] != b'-' {
                break;
            }
            let (option, inline) = option(word.as_bytes())?;
            rest = more;
            let values = match (option.takes, inline) {
                (Takes::Nothing, None) => Vec::new(),
                (Takes::Nothing, Some(_)) => return None,
                (_, Some(value)) => vec![value.to_owned()],
                (_, None) => {
                    let (value, more) = rest.split_first()?;
                    rest = more;
                    vec![value.clone()]
                }
            };
            if !values.iter().all(|value| fits(option, value))
                || given.iter().any(|(name, _)| name == option.long)
            {
                return None;
            }
            given.push((option.long.to_owned(), values));
        }
        if rest.is_empty() {
            return None;
        }
        given.push((COMMAND.to_owned(), rest.to_vec()));
        Some(Words {
            given,
            takes_scope: true,
        })
    }

    /// Every value of an option or argument.
    pub fn all(&self, name: &str) -> &[OsString] {
        let found = self.given.iter().find(|(given, _)| given == name);
        found.map_or(&[], |(_, values)| values)
    }

    /// Whether the verb has the option `--scope`.
    pub fn takes_scope(&self) -> bool {
        self.takes_scope
    }
}

/// The option that a word names, and the value in the same word.
fn option(word: &[u8]) -> Option<(&'static Opt, Option<&OsStr>)> {
    let mut options = run_options().chain(options::GLOBAL);
    let Some(long) = word.strip_prefix(b"--") else {
        let [b'-', letter] = *word else {
            return None;
        };
        let named = options.find(|option| option.short == Some(char::from(letter)));
        return named.map(|option| (option, None));
    };
    let (name, value) = match long.iter().position(|byte| *byte == b'=') {
        Some(at) => (&long[..at], Some(OsStr::from_bytes(&long[at + 1..]))),
        None => (long, None),
    };
    let name = match name == BULKHEAD_ALIAS.as_bytes() {
        true => options::BULKHEAD.as_bytes(),
        false => name,
    };
    let named = options.find(|option| option.long.as_bytes() == name);
    named.map(|option| (option, value))
}

/// Whether this is surely a value, and one that the option takes.
fn fits(option: &Opt, value: &OsStr) -> bool {
    let plain = !value.is_empty() && value.as_bytes()[0] != b'-';
    match option.takes {
        Takes::OneOf(words) => words.iter().any(|word| value == *word),
        _ => plain,
    }
}

/// A value of any bytes, if the option was given.
pub fn value<'a>(words: &'a Words, name: &str) -> Option<&'a OsString> {
    words.all(name).first()
}

/// Whether an option without a value was given.
pub fn flag(words: &Words, name: &str) -> bool {
    words.given.iter().any(|(given, _)| given == name)
}

/// The word chosen for an option that takes one of several.
pub fn word<'a>(words: &'a Words, name: &str) -> Option<&'a str> {
    value(words, name).and_then(|word| word.to_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::verbs;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    /// What clap reads, if it reads anything.
    fn by_clap(words: &[OsString]) -> Option<Words> {
        let verb = verbs::by_name("run").unwrap();
        let command = verbs::command(verb).no_binary_name(true);
        let matches = command.try_get_matches_from(words).ok()?;
        Some(Words::of(&matches))
    }

    fn sorted(words: Option<Words>) -> Option<Words> {
        words.map(|mut words| {
            words.given.sort();
            words
        })
    }

    #[test]
    fn plain_words_read_as_by_clap() {
        for text in [
            "--key k -- true",
            "--key=k --ttl 1h --store /s -- sh -c x",
            "-k k -q -- true",
            "--limit 3 --key k true --json -k",
            "--bulkhead=n:3 --key k -- --key x -q",
            "--key=-k --json -- true",
            "--if-running skip --probe=a=b -- true",
            "-k k ls -- -l --",
            "true --ttl",
            "-- --",
            "-- ",
        ] {
            let words = words(text);
            let read = Words::of_run(&words);
            if text != "--key=-k --json -- true" {
                assert!(read.is_some(), "{text}");
            }
            if read.is_some() {
                assert_eq!(sorted(read), sorted(by_clap(&words)), "{text}");
            }
        }
        let odd = OsStr::from_bytes(b"\xff\x80").to_owned();
        let words = ["--key".into(), odd.clone(), "--".into(), odd];
        assert!(Words::of_run(&words).is_some());
        assert_eq!(Words::of_run(&words), by_clap(&words));
    }

    #[test]
    fn every_option_alone_reads_as_by_clap() {
        for option in run_options().chain(options::GLOBAL) {
            let value = match option.takes {
                Takes::Nothing => "",
                Takes::OneOf(words) => words[0],
                Takes::Value(_) | Takes::File(_) => "1",
            };
            let mut ways = vec![format!("--{} {value}", option.long)];
            if !value.is_empty() {
                ways.push(format!("--{}={value}", option.long));
            }
            if let Some(short) = option.short {
                ways.push(format!("-{short} {value}"));
            }
            for way in ways {
                let words = words(&format!("{} -- true", way.trim_end()));
                let read = Words::of_run(&words);
                assert_eq!(
                    read.as_ref().map(|words| words.given.len()),
                    Some(2),
                    "{way}"
                );
                assert_eq!(sorted(read), sorted(by_clap(&words)), "{way}");
            }
        }
    }

    #[test]
    fn what_is_rare_or_wrong_is_left_to_clap() {
        for text in [
            "-qv -- true",
            "-kk -- true",
            "-k=k -- true",
            "--key --json -- true",
            "--key k --key j -- true",
            "--json --json -- true",
            "--json=true -- true",
            "--bogus -- true",
            "-z -- true",
            "--key k --help -- true",
            "--key k --keys x -- true",
            "--key",
            "--key k",
            "--key k --",
            "--key= -- true",
            "--if-running maybe -- true",
            "--timeout -5 -- true",
            "- true",
            " -- true",
        ] {
            assert_eq!(Words::of_run(&words(text)), None, "{text}");
        }
        assert_eq!(Words::of_run(&[]), None);
    }
}
