//! From arguments to a verb and its matches, with errors of one line.

use super::options::{self, store_arg};
use super::verbs;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command};
use std::ffi::OsString;
use std::mem::ManuallyDrop;

/// What was typed.
#[derive(Debug)]
pub enum Typed {
    /// A verb with its options.
    Verb {
        /// Its name.
        verb: &'static str,
        /// Its options.
        matches: ArgMatches,
    },
    /// Help or the version was asked for: print this and end with 0.
    Text(String),
}

/// Parses the arguments after the program's name. The error is one line without `idem: `.
pub fn parse(arguments: &[OsString]) -> Result<Typed, String> {
    let verb = arguments
        .first()
        .and_then(|first| first.to_str())
        .and_then(verbs::by_name);
    match verb {
        Some(verb) => one_verb(verb, arguments),
        None => whole_tree(arguments),
    }
}

/// The usual way: only the options of the verb that was typed are built, since building all of them
/// costs a good part of a replay.
fn one_verb(verb: &'static verbs::Verb, arguments: &[OsString]) -> Result<Typed, String> {
    if verb.name == RUN
        && let Ok(matches) = as_typed(&arguments[1..])
    {
        return Ok(Typed::Verb { verb: RUN, matches });
    }
    let command = verbs::command(verb)
        .bin_name(format!("idem {}", verb.name))
        .no_binary_name(true);
    match command.try_get_matches_from(&arguments[1..]) {
        Ok(matches) => Ok(Typed::Verb {
            verb: verb.name,
            matches,
        }),
        Err(error) => shown_or_failed(&error, &format!("idem {}", verb.name)),
    }
}

/// The verb that is to be quick.
const RUN: &str = "run";

/// Reads the options of `run` with no others built than were typed. An error says only that the whole
/// must be asked, which knows the words for it.
fn as_typed(words: &[OsString]) -> Result<ArgMatches, clap::Error> {
    let end = words.iter().position(|word| word == "--");
    let options = &words[..end.unwrap_or(words.len())];
    // Freeing it piece by piece is left to the end of the process.
    let mut command = ManuallyDrop::new(verbs::run_as_typed(options).no_binary_name(true));
    command.try_get_matches_from_mut(words)
}

fn whole_tree(arguments: &[OsString]) -> Result<Typed, String> {
    let matches = match tree().no_binary_name(true).try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => return shown_or_failed(&error, "idem"),
    };
    let store = matches.get_one::<OsString>("store").cloned();
    let Some((name, _)) = matches.subcommand() else {
        return Ok(Typed::Text(tree().render_help().to_string()));
    };
    let Some(verb) = verbs::by_name(name) else {
        return Err(format!("there is no verb '{name}'; see idem --help"));
    };
    // Options before the verb count as if they stood behind it.
    let at = arguments
        .iter()
        .position(|a| a.to_str() == Some(name))
        .unwrap_or(0);
    let mut rest = vec![OsString::from(name)];
    if let Some(store) = store {
        rest.extend([OsString::from("--store"), store]);
    }
    rest.extend(arguments.iter().skip(at + 1).cloned());
    one_verb(verb, &rest)
}

/// The whole command line, for help, manual pages and completions.
pub fn tree() -> Command {
    let mut command = Command::new("idem")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Makes shell commands safe to repeat")
        .subcommand_required(false)
        .disable_help_subcommand(true)
        .arg(store_arg());
    for verb in verbs::ALL {
        command = command.subcommand(verbs::command(verb));
    }
    command
}

fn shown_or_failed(error: &clap::Error, program: &str) -> Result<Typed, String> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            Ok(Typed::Text(error.render().to_string()))
        }
        _ => Err(one_line(error, program)),
    }
}

/// One line out of clap's several: what is wrong, what it may have been, where to read on.
fn one_line(error: &clap::Error, program: &str) -> String {
    let rendered = error.render().to_string();
    let first = rendered
        .lines()
        .next()
        .unwrap_or("the command line cannot be read");
    let mut line = first.strip_prefix("error: ").unwrap_or(first).to_owned();
    if error.kind() == ErrorKind::MissingRequiredArgument {
        line = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(missing)) => format!("{} is missing", missing.join(" and ")),
            _ => "a required argument is missing".to_owned(),
        };
    }
    for kind in [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedValue,
    ] {
        if let Some(similar) = error.get(kind) {
            line.push_str(&format!("; did you mean '{}'?", first_of(similar)));
        }
    }
    format!("{line}; see {program} --help")
}

fn first_of(value: &ContextValue) -> String {
    match value {
        ContextValue::Strings(all) => all.first().cloned().unwrap_or_default(),
        other => other.to_string(),
    }
}

/// A value of any bytes, if the option was given.
pub fn value<'a>(matches: &'a ArgMatches, name: &str) -> Option<&'a OsString> {
    given(matches, name)
}

/// Whether an option without a value was given.
pub fn flag(matches: &ArgMatches, name: &str) -> bool {
    given(matches, name).copied().unwrap_or(false)
}

/// The word chosen for an option that takes one of several.
pub fn word<'a>(matches: &'a ArgMatches, name: &str) -> Option<&'a str> {
    given(matches, name).map(String::as_str)
}

/// An option that was not even built was not given.
fn given<'a, T: Clone + Send + Sync + 'static>(
    matches: &'a ArgMatches,
    name: &str,
) -> Option<&'a T> {
    let found = matches.try_get_one(name);
    debug_assert!(
        found.is_ok() || run_options().any(|option| option.long == name),
        "no option is called {name}, or its values are of another type"
    );
    found.ok().flatten()
}

/// All options of `idem run` by their long names.
fn run_options() -> impl Iterator<Item = &'static options::Opt> {
    options::RUN_GROUPS.iter().flat_map(|group| group.options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    /// What the whole command line reads, if it reads anything.
    fn by_the_whole(words: &[OsString]) -> Option<ArgMatches> {
        let verb = verbs::by_name(RUN).unwrap();
        let command = verbs::command(verb).no_binary_name(true);
        command.try_get_matches_from(words).ok()
    }

    fn read(matches: &ArgMatches) -> Vec<(String, Vec<OsString>)> {
        let ids = run_options().map(|option| option.long);
        let given = ids.chain(["command", "store"]).filter_map(|id| {
            let raw = matches.try_get_raw(id).ok().flatten()?;
            let typed = matches.value_source(id)? == clap::parser::ValueSource::CommandLine;
            typed.then(|| (id.to_owned(), raw.map(OsString::from).collect()))
        });
        given.collect()
    }

    #[test]
    fn what_is_typed_reads_the_same_with_fewer_options_built() {
        for text in [
            "--key k -- true",
            "--key=k --ttl 1h --store /s -- sh -c x",
            "-k k -qv -- true",
            "-qvkk -- true",
            "--limit 3 --key k true --json -k",
            "--bulkhead=n:3 --key k -- --key x -q",
            "--key --json -- true",
            "--bogus -- true",
            "--key k -z -- true",
            "--key k --help -- true",
            "--key k --keys x -- true",
            "--key k",
            "--if-running maybe -- true",
            "-- --",
            "true --ttl",
        ] {
            let words = words(text);
            let (quick, whole) = (as_typed(&words).ok(), by_the_whole(&words));
            assert_eq!(quick.as_ref().map(read), whole.as_ref().map(read), "{text}");
        }
    }

    #[test]
    fn every_option_alone_reads_the_same() {
        for option in run_options() {
            let value = match option.takes {
                options::Takes::Nothing => String::new(),
                options::Takes::OneOf(words) => format!(" {}", words[0]),
                options::Takes::Value(_) | options::Takes::File(_) => " 1".to_owned(),
            };
            let words = words(&format!("--{}{value} -- true", option.long));
            let quick = as_typed(&words).ok().as_ref().map(read);
            assert_eq!(quick.as_ref().map(Vec::len), Some(2), "{words:?}");
            assert_eq!(quick, by_the_whole(&words).as_ref().map(read));
        }
    }
}
