//! From arguments to a verb and its matches, with errors of one line.

use super::options::{self, global_args};
use super::verbs;
use super::words::Words;
use crate::domain::duration::DurationError;
use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// What was typed.
#[derive(Debug)]
pub enum Typed {
    /// A verb with its options.
    Verb {
        /// Its name.
        verb: &'static str,
        /// Its options.
        words: Words,
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

/// The usual way: only the options of the verb that was typed are built, and for plain words of `run`,
/// which is to be quick, none.
fn one_verb(verb: &'static verbs::Verb, arguments: &[OsString]) -> Result<Typed, String> {
    if verb.name == RUN
        && let Some(words) = Words::of_run(&arguments[1..])
    {
        return Ok(Typed::Verb { verb: RUN, words });
    }
    let command = verbs::command(verb)
        .bin_name(format!("idem {}", verb.name))
        .no_binary_name(true);
    match command.try_get_matches_from(&arguments[1..]) {
        Ok(matches) => Ok(Typed::Verb {
            verb: verb.name,
            words: Words::of(&matches),
        }),
        Err(error) => match negative_value(&error, &verbs::command(verb), &arguments[1..]) {
            Some(told) => Err(told),
            None => shown_or_failed(&error, &format!("idem {}", verb.name)),
        },
    }
}

/// What is wrong where the value of an option begins with a minus and a digit, which clap takes for an
/// option that it does not know.
fn negative_value(
    error: &clap::Error,
    command: &Command,
    arguments: &[OsString],
) -> Option<String> {
    let unknown = match (error.kind(), error.get(ContextKind::InvalidArg)?) {
        (ErrorKind::UnknownArgument, ContextValue::String(unknown)) => unknown,
        _ => return None,
    };
    if !unknown
        .strip_prefix('-')?
        .starts_with(|c: char| c.is_ascii_digit())
    {
        return None;
    }
    let at = arguments
        .iter()
        .position(|argument| argument.as_bytes().starts_with(unknown.as_bytes()))?;
    let before = arguments.get(at.checked_sub(1)?)?.to_str()?;
    let named = |arg: &&clap::Arg| {
        let long = arg
            .get_long()
            .is_some_and(|long| before.strip_prefix("--") == Some(long));
        long || arg
            .get_short()
            .is_some_and(|short| before == format!("-{short}"))
    };
    let option = command.get_arguments().find(named)?;
    let takes = option.get_value_names()?.first()?.as_str();
    let (long, value) = (option.get_long()?, arguments.get(at)?.to_string_lossy());
    Some(match takes {
        "DUR" | "DUR|TIME" | "PERIOD" => {
            format!("--{long}: {}", DurationError::Negative(value.into_owned()))
        }
        "N" | "SIZE" => {
            format!("--{long} takes {takes}, and `{value}` is negative; write it without the minus")
        }
        _ => format!("a value that begins with a minus is written --{long}={value}"),
    })
}

/// The verb that is to be quick.
const RUN: &str = "run";

fn whole_tree(arguments: &[OsString]) -> Result<Typed, String> {
    let matches = match tree().no_binary_name(true).try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => return shown_or_failed(&error, "idem"),
    };
    let Some((name, _)) = matches.subcommand() else {
        return Ok(Typed::Text(tree().render_help().to_string()));
    };
    let Some(verb) = verbs::by_name(name) else {
        return Err(format!("there is no verb '{name}'; see idem --help"));
    };
    // Options before the verb count as if they stood behind it.
    let mut rest = vec![OsString::from(name)];
    for option in options::GLOBAL {
        if let Some(value) = matches.get_one::<OsString>(option.long) {
            rest.extend([format!("--{}", option.long).into(), value.clone()]);
        }
    }
    rest.extend(arguments.iter().skip(verb_at(arguments) + 1).cloned());
    one_verb(verb, &rest)
}

/// Where the verb stands behind options that each take a value.
fn verb_at(arguments: &[OsString]) -> usize {
    let mut at = 0;
    while let Some(option) = arguments.get(at).map(|argument| argument.as_bytes())
        && option.starts_with(b"--")
    {
        at += if option.contains(&b'=') { 1 } else { 2 };
    }
    at
}

/// The whole command line, for help, manual pages and completions.
pub fn tree() -> Command {
    let mut command = Command::new("idem")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Makes shell commands safe to repeat")
        .subcommand_required(false)
        .disable_help_subcommand(true)
        .args(global_args(true));
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
    let similar = [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedValue,
    ];
    let similar = similar.into_iter().find_map(|kind| error.get(kind));
    let hint = match (similar, error.kind()) {
        (Some(similar), _) => format!("; did you mean '{}'?", first_of(similar)),
        (None, ErrorKind::InvalidSubcommand) => {
            "; a command is run with `idem run -- COMMAND`".into()
        }
        (None, ErrorKind::InvalidValue) => valid_values(error),
        (None, _) => String::new(),
    };
    format!("{}{hint}; see {program} --help", what_is_wrong(error))
}

fn what_is_wrong(error: &clap::Error) -> String {
    let invalid = |kind| error.get(kind).map(first_of);
    match error.kind() {
        ErrorKind::MissingRequiredArgument => match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(missing)) => {
                let names = missing
                    .iter()
                    .map(|name| name.trim_matches(['<', '>', '.']));
                format!("{} is missing", names.collect::<Vec<_>>().join(" and "))
            }
            _ => "a required argument is missing".to_owned(),
        },
        ErrorKind::InvalidSubcommand => match invalid(ContextKind::InvalidSubcommand) {
            Some(verb) => format!("there is no verb '{verb}'"),
            None => "there is no such verb".to_owned(),
        },
        _ => {
            let rendered = error.render().to_string();
            let first = rendered
                .lines()
                .next()
                .unwrap_or("the command line cannot be read");
            first.strip_prefix("error: ").unwrap_or(first).to_owned()
        }
    }
}

/// What can be written where no word was close to the one typed.
fn valid_values(error: &clap::Error) -> String {
    match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(words)) if !words.is_empty() => {
            format!("; write one of {}", words.join(", "))
        }
        _ => String::new(),
    }
}

fn first_of(value: &ContextValue) -> String {
    match value {
        ContextValue::Strings(all) => all.first().cloned().unwrap_or_default(),
        other => other.to_string(),
    }
}

/// All options of `idem run` by their long names.
pub fn run_options() -> impl Iterator<Item = &'static options::Opt> {
    options::RUN_GROUPS.iter().flat_map(|group| group.options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::words::{COMMAND, value};

    fn typed(line: &str) -> Result<Typed, String> {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        parse(&arguments)
    }

    fn words(line: &str) -> (&'static str, Words) {
        match typed(line) {
            Ok(Typed::Verb { verb, words }) => (verb, words),
            other => panic!("{line}: {other:?}"),
        }
    }

    fn command(words: &Words) -> Vec<&str> {
        let all = words.all(COMMAND).iter();
        all.map(|word| word.to_str().expect("text")).collect()
    }

    #[test]
    fn parsing_stops_at_the_first_positional() {
        for (line, wanted) in [
            ("run -k a ls -k b --json", vec!["ls", "-k", "b", "--json"]),
            ("run -k a -- ls -l", vec!["ls", "-l"]),
            ("run -k a ls -- -l --", vec!["ls", "--", "-l", "--"]),
            ("run -k a -- --odd", vec!["--odd"]),
        ] {
            let (_, words) = words(line);
            assert_eq!(command(&words), wanted, "{line}");
            assert_eq!(value(&words, "key"), Some(&"a".into()), "{line}");
        }
    }

    #[test]
    fn global_options_stand_before_the_verb_too() {
        for line in [
            "--profile run run -k a -- run run",
            "--profile=run --config /c run -k a -- run run",
            "--config=/c --profile run run -k a run run",
        ] {
            let (verb, words) = words(line);
            assert_eq!(verb, "run", "{line}");
            assert_eq!(value(&words, "profile"), Some(&"run".into()), "{line}");
            assert_eq!(command(&words), ["run", "run"], "{line}");
        }
        assert!(typed("--profile a run --profile b -- ls").is_err());
    }

    #[test]
    fn typos_get_a_suggestion_in_one_line() {
        for (line, similar) in [
            ("runn", "run"),
            ("statsu", "status"),
            ("run --timeuot 3s -- ls", "--timeout"),
            ("run --if-running wiat -- ls", "wait"),
            ("run --on-caller-loss=finnish -- ls", "finish"),
            ("status --jsn", "--json"),
            ("completions zshh", "zsh"),
        ] {
            let error = typed(line).expect_err(line);
            assert!(
                error.contains(&format!("did you mean '{similar}'?")),
                "{error}"
            );
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn a_negative_value_is_told_as_one() {
        for (line, wanted) in [
            (
                "run --ttl -5m -- ls",
                "--ttl: a duration cannot be negative, as `-5m` is",
            ),
            (
                "run -t -90s -- ls",
                "--timeout: a duration cannot be negative",
            ),
            ("run --per -15m ls", "--per: a duration cannot be negative"),
            ("wait k --wait -1h", "--wait: a duration cannot be negative"),
            (
                "status --since -1h",
                "--since: a duration cannot be negative",
            ),
            (
                "run --retries -1 -- ls",
                "--retries takes N, and `-1` is negative",
            ),
            (
                "run --key -5m -- ls",
                "a value that begins with a minus is written --key=-5m",
            ),
            ("run -5 -- ls", "unexpected argument '-5'"),
            ("run --json -5m -- ls", "unexpected argument '-5'"),
        ] {
            let error = typed(line).expect_err(line);
            assert!(error.starts_with(wanted), "{line}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn no_help_is_wider_than_a_terminal() {
        let help = |line: &str| match typed(line) {
            Ok(Typed::Text(text)) => text,
            other => panic!("{line}: {other:?}"),
        };
        let verbs = verbs::ALL.iter().map(|verb| verb.name);
        let mut asked = vec!["-h".to_owned(), "--help".to_owned()];
        asked.extend(verbs.flat_map(|verb| [format!("{verb} -h"), format!("{verb} --help")]));
        for line in asked {
            let text = help(&line);
            let wide: Vec<&str> = text.lines().filter(|l| l.chars().count() > 80).collect();
            assert!(wide.is_empty(), "{line}: {wide:#?}");
            assert!(text.ends_with('\n') && !text.contains('\u{1b}'), "{line}");
        }
        let short = help("run -h");
        let (list, _) = short.split_once("Examples:").expect("examples");
        for option in run_options() {
            let shown = list.contains(&format!("--{} ", option.long));
            assert_eq!(shown, option.everyday, "--{} in -h", option.long);
        }
        assert!(
            short.matches("  idem run ").count() == 3,
            "three examples: {short}"
        );
    }
}
