//! From arguments to a verb and its matches, with errors of one line.

use super::options::{self, store_arg};
use super::verbs;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command};
use std::ffi::OsString;

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
    matches.get_one::<OsString>(name)
}

/// Whether an option without a value was given.
pub fn flag(matches: &ArgMatches, name: &str) -> bool {
    matches.get_flag(name)
}

/// The word chosen for an option that takes one of several.
pub fn word<'a>(matches: &'a ArgMatches, name: &str) -> Option<&'a str> {
    matches.get_one::<String>(name).map(String::as_str)
}

/// All options of `idem run` by their long names.
pub fn run_options() -> impl Iterator<Item = &'static options::Opt> {
    options::RUN_GROUPS.iter().flat_map(|group| group.options)
}
