//! Templates of keys: text with facts in braces, `backup-{day}-{host}`.

use super::facts::{ClockPeriod, FactError, Facts, argument, required_env};
use super::name::{Key, NameError, hex};
use super::nearest::nearest;
use super::period::{Period, PeriodError};
use jiff::Timestamp;
use std::fmt;

/// What can stand in braces, as it is written.
const FORMS: [&str; 14] = [
    "{day}",
    "{hour}",
    "{week}",
    "{month}",
    "{window:15m}",
    "{host}",
    "{user}",
    "{cwd}",
    "{env:NAME}",
    "{arg:N}",
    "{git:head}",
    "{sha256:FILE}",
    "{stdin}",
    "{batch:NAME}",
];
const NAMES: [&str; 14] = [
    "day", "hour", "week", "month", "window", "host", "user", "cwd", "env", "arg", "git", "sha256",
    "stdin", "batch",
];

/// A key with gaps for facts.
///
/// `{day}` `{hour}` `{week}` `{month}` `{window:15m}` are windows of time in UTC, or local with
/// `:local` behind them (`{day:local}`, `{window:15m:local}`). `{{` and `}}` are braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Gap { written: String, fact: Fact },
}

/// What a gap stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fact {
    Clock(ClockPeriod),
    Host,
    User,
    Cwd,
    Env(String),
    Arg(usize),
    GitHead,
    FileDigest(String),
    Stdin,
    Batch(String),
}

/// Why a template is none, or gives no key. Gaps are carried as they are written, without braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateError {
    /// The template's bytes are not UTF-8.
    NotUtf8,
    /// A `{` has no `}`; carries what follows it.
    Unclosed(String),
    /// A `}` closes nothing; carries what stands before it.
    StrayClose(String),
    /// No fact has this name; with the one that may be meant, as it is written.
    UnknownName(String, Option<String>),
    /// The fact takes something else behind its colon; carries how it is written.
    BadArgument(String, &'static str),
    /// The length of a window cannot be read.
    Period(PeriodError),
    /// A fact is not to be had.
    Fact(FactError),
    /// A fact's value cannot be part of a key.
    FactValue(String, NameError),
    /// The whole is no key.
    Key(NameError),
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TemplateError::NotUtf8 => write!(f, "the key is not UTF-8: use printable text"),
            TemplateError::Unclosed(text) => write!(
                f,
                "`{{{text}` in the key is not closed: add a closing brace, or write {{{{ for a brace"
            ),
            TemplateError::StrayClose(text) => write!(
                f,
                "the brace after `{text}` in the key closes nothing: write }}}} for a brace"
            ),
            TemplateError::UnknownName(name, meant) => write_unknown(f, name, meant.as_deref()),
            TemplateError::BadArgument(written, form) => {
                write!(f, "cannot read `{{{written}}}` in the key: write {form}")
            }
            TemplateError::Period(e) => write!(f, "in the key: {e}"),
            TemplateError::Fact(e) => write!(f, "cannot fill the key: {e}"),
            TemplateError::FactValue(written, e) => write!(
                f,
                "the value of `{{{written}}}` {e}: a key takes printable text of at most 255 bytes"
            ),
            TemplateError::Key(e) => {
                write!(f, "the key {e}: give it 1 to 255 bytes of printable text")
            }
        }
    }
}

fn write_unknown(f: &mut fmt::Formatter<'_>, name: &str, meant: Option<&str>) -> fmt::Result {
    write!(f, "`{{{name}}}` in the key is unknown: ")?;
    match meant {
        Some(meant) => write!(f, "did you mean {meant}? ")?,
        None => write!(f, "there are {} ", FORMS.join(" "))?,
    }
    write!(f, "(write {{{{ and }}}} for braces)")
}

impl std::error::Error for TemplateError {}

impl Template {
    /// Reads a template. The text outside of gaps is taken as it is.
    pub fn parse(bytes: impl AsRef<[u8]>) -> Result<Template, TemplateError> {
        let mut rest = std::str::from_utf8(bytes.as_ref()).map_err(|_| TemplateError::NotUtf8)?;
        let (mut pieces, mut text) = (Vec::new(), String::new());
        while let Some((before, brace)) = split_at_brace(rest) {
            text.push_str(before);
            rest = if let Some(after) = brace.strip_prefix("{{") {
                text.push('{');
                after
            } else if let Some(after) = brace.strip_prefix("}}") {
                text.push('}');
                after
            } else {
                let (piece, after) = parse_gap(before, brace)?;
                pieces.push(Piece::Text(std::mem::take(&mut text)));
                pieces.push(piece);
                after
            };
        }
        text.push_str(rest);
        pieces.push(Piece::Text(text));
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
        Ok(Template(pieces))
    }

    /// The key, with all gaps filled as of `at`.
    pub fn fill(&self, facts: &mut dyn Facts, at: Timestamp) -> Result<Key, TemplateError> {
        let mut key = Vec::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => key.extend_from_slice(text.as_bytes()),
                Piece::Gap { written, fact } => key.extend(fact.checked(written, facts, at)?),
            }
        }
        Key::new(key).map_err(TemplateError::Key)
    }
}

fn split_at_brace(text: &str) -> Option<(&str, &str)> {
    text.find(['{', '}']).map(|i| text.split_at(i))
}

/// Reads the gap that `brace` begins with; gives what comes after it.
fn parse_gap<'a>(before: &str, brace: &'a str) -> Result<(Piece, &'a str), TemplateError> {
    let Some(inside) = brace.strip_prefix('{') else {
        return Err(TemplateError::StrayClose(before.to_owned()));
    };
    match inside.split_once(['{', '}']) {
        Some((written, after)) if inside[written.len()..].starts_with('}') => {
            let fact = Fact::parse(written)?;
            let written = written.to_owned();
            Ok((Piece::Gap { written, fact }, after))
        }
        Some((written, _)) => Err(TemplateError::Unclosed(written.to_owned())),
        None => Err(TemplateError::Unclosed(inside.to_owned())),
    }
}

impl Fact {
    /// Reads what stands between the braces.
    fn parse(written: &str) -> Result<Fact, TemplateError> {
        let (name, argument) = match written.split_once(':') {
            Some((name, argument)) => (name, Some(argument)),
            None => (written, None),
        };
        let bad = |form| TemplateError::BadArgument(written.to_owned(), form);
        let named = |form| match argument {
            Some(text) if !text.is_empty() => Ok(text.to_owned()),
            _ => Err(bad(form)),
        };
        let alone = |fact, form| match argument {
            None => Ok(fact),
            Some(_) => Err(bad(form)),
        };
        let calendar = |period, form| match argument {
            None => Ok(clock(period, false)),
            Some("local") => Ok(clock(period, true)),
            Some(_) => Err(bad(form)),
        };
        match name {
            "day" => calendar(Period::DAY, "{day} or {day:local}"),
            "hour" => calendar(Period::HOUR, "{hour} or {hour:local}"),
            "week" => calendar(Period::WEEK, "{week} or {week:local}"),
            "month" => calendar(Period::MONTH, "{month} or {month:local}"),
            "window" => parse_window(&named("{window:15m} or {window:15m:local}")?),
            "host" => alone(Fact::Host, "{host}"),
            "user" => alone(Fact::User, "{user}"),
            "cwd" => alone(Fact::Cwd, "{cwd}"),
            "stdin" => alone(Fact::Stdin, "{stdin}"),
            "env" => Ok(Fact::Env(
                variable(&named("{env:NAME}")?).ok_or_else(|| bad("{env:NAME}"))?,
            )),
            "arg" => {
                let index = named("{arg:N}")?.parse();
                index
                    .map(Fact::Arg)
                    .map_err(|_| bad("{arg:N} with N from 0, the command itself"))
            }
            "git" if argument == Some("head") => Ok(Fact::GitHead),
            "git" => Err(bad("{git:head}")),
            "sha256" => Ok(Fact::FileDigest(named("{sha256:FILE}")?)),
            "batch" => Ok(Fact::Batch(named("{batch:NAME}")?)),
            _ => Err(TemplateError::UnknownName(
                written.to_owned(),
                meant_by(name),
            )),
        }
    }

    /// The fact's value, if it can be part of a key. It may be empty.
    fn checked(
        &self,
        written: &str,
        facts: &mut dyn Facts,
        at: Timestamp,
    ) -> Result<Vec<u8>, TemplateError> {
        let value = self.value(facts, at).map_err(TemplateError::Fact)?;
        match Key::new(&value) {
            Ok(_) | Err(NameError::Empty) => Ok(value),
            Err(e) => Err(TemplateError::FactValue(written.to_owned(), e)),
        }
    }

    fn value(&self, facts: &mut dyn Facts, at: Timestamp) -> Result<Vec<u8>, FactError> {
        match self {
            Fact::Clock(period) => period.name(facts, at).map(String::into_bytes),
            Fact::Host => facts.host(),
            Fact::User => facts.user(),
            Fact::Cwd => facts.cwd(),
            Fact::Env(name) => required_env(facts, name),
            Fact::Arg(index) => argument(facts, *index),
            Fact::GitHead => facts.git_head(),
            Fact::FileDigest(path) => Ok(hex(&facts.file_digest(path.as_bytes())?).into_bytes()),
            Fact::Stdin => Ok(hex(&facts.stdin_digest()?).into_bytes()),
            Fact::Batch(name) => facts.batch(name),
        }
    }
}

fn clock(period: Period, local: bool) -> Fact {
    Fact::Clock(ClockPeriod { period, local })
}

fn parse_window(argument: &str) -> Result<Fact, TemplateError> {
    ClockPeriod::parse(argument)
        .map(Fact::Clock)
        .map_err(TemplateError::Period)
}

/// An environment variable's name, if it can be one.
fn variable(name: &str) -> Option<String> {
    (!name.contains(['=', '\0'])).then(|| name.to_owned())
}

/// The gap that was probably meant: another spelling, a variable in the shell's manner, a near miss.
fn meant_by(name: &str) -> Option<String> {
    let meant = match name {
        "date" | "today" => Some("day"),
        "hostname" => Some("host"),
        "pwd" => Some("cwd"),
        "file" => Some("sha256"),
        "head" | "commit" => Some("git"),
        _ => nearest(name, &NAMES),
    };
    let form = meant.and_then(|meant| NAMES.iter().position(|known| *known == meant));
    let shouted = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    match form.and_then(|i| FORMS.get(i)) {
        Some(form) => Some((*form).to_owned()),
        None if !name.is_empty() && name.chars().all(shouted) => Some(format!("{{env:{name}}}")),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::facts::fake::FakeFacts;
    use proptest::prelude::*;

    fn fill(template: &str) -> Result<String, TemplateError> {
        let at = "2026-11-30T17:20:00Z".parse().unwrap();
        let key = Template::parse(template)?.fill(&mut FakeFacts::default(), at)?;
        Ok(key.as_str().to_owned())
    }

    #[track_caller]
    fn check(template: &str, key: &str) {
        assert_eq!(fill(template), Ok(key.to_owned()));
    }

    #[test]
    fn every_gap_is_filled() {
        check("backup-{day}", "backup-2026-11-30");
        check("{day:local}", "2026-12-01");
        check("{hour}/{hour:local}", "2026-11-30T17/2026-12-01T02");
        check("{week}", "2026-W49");
        check("{month}-{month:local}", "2026-11-2026-12");
        check("{window:15m}", "2026-11-30T17:15");
        check("{window:15m:local}", "2026-12-01T02:15");
        check("{window:1d}", "2026-11-30");
        check("{user}@{host}:{cwd}", "deploy@web-1:/srv/app");
        check("b-{env:STAGE}", "b-prod");
        check("{arg:0} {arg:1}", "echo one");
        check("{git:head}", "0123456789abcdef0123456789abcdef01234567");
        check("{sha256:/etc/app:1.toml}", &"11".repeat(32));
        check("{stdin}", &"ab".repeat(32));
        check("r-{batch:nightly}", "r-nightly-7f3a");
    }

    #[test]
    fn text_stays_as_it_is() {
        check("a{{x}}", "a{x}");
        check("{{{{}}}}", "{{}}");
        check("{{{host}}}", "{web-1}");
        check("  é %d $HOME ", "  é %d $HOME ");
    }

    #[test]
    fn an_empty_value_is_an_empty_piece_but_no_key() {
        check("a{env:EMPTY}b", "ab");
        for template in ["", "{env:EMPTY}"] {
            assert_eq!(fill(template), Err(TemplateError::Key(NameError::Empty)));
        }
        assert_eq!(
            fill("").unwrap_err().to_string(),
            "the key is empty: give it 1 to 255 bytes of printable text"
        );
    }

    #[test]
    fn what_cannot_be_told_is_an_error() {
        let unset = FactError::EnvUnset("NOT_SET".into());
        assert_eq!(fill("a-{env:NOT_SET}"), Err(TemplateError::Fact(unset)));
        let none = FactError::NoArgument { index: 3, count: 3 };
        assert_eq!(fill("{arg:3}"), Err(TemplateError::Fact(none)));
        assert!(matches!(fill("{sha256:gone}"), Err(TemplateError::Fact(_))));
    }

    #[test]
    fn an_unusable_value_says_which() {
        let of = |written: &str, e| Err(TemplateError::FactValue(written.into(), e));
        assert_eq!(fill("x{env:BYTES}"), of("env:BYTES", NameError::NotUtf8));
        assert_eq!(fill("{arg:2}"), of("arg:2", NameError::NotUtf8));
        assert_eq!(
            fill("{env:LINE}"),
            of("env:LINE", NameError::NotPrintable('\n'))
        );
        assert_eq!(fill("{env:LONG}"), of("env:LONG", NameError::TooLong(256)));
        let long = format!("{}{{stdin}}", "x".repeat(200));
        assert_eq!(
            fill(&long),
            Err(TemplateError::Key(NameError::TooLong(264)))
        );
        assert_eq!(
            fill("a\tb"),
            Err(TemplateError::Key(NameError::NotPrintable('\t')))
        );
        assert_eq!(Template::parse([0xff]), Err(TemplateError::NotUtf8));
    }

    #[test]
    fn braces_must_match() {
        let of = |template: &str| Template::parse(template).unwrap_err();
        assert_eq!(of("a{day"), TemplateError::Unclosed("day".into()));
        assert_eq!(of("a{day{hour}"), TemplateError::Unclosed("day".into()));
        assert_eq!(of("{"), TemplateError::Unclosed("".into()));
        assert_eq!(of("{{{"), TemplateError::Unclosed("".into()));
        assert_eq!(of("a}b"), TemplateError::StrayClose("a".into()));
        assert_eq!(of("{day}}"), TemplateError::StrayClose("".into()));
        assert_eq!(of("}}}"), TemplateError::StrayClose("".into()));
    }

    #[test]
    fn an_unknown_name_brings_a_suggestion() {
        let meant = |template: &str| match Template::parse(template).unwrap_err() {
            TemplateError::UnknownName(_, meant) => meant.unwrap_or_default(),
            other => panic!("{other:?}"),
        };
        assert_eq!(meant("{days}"), "{day}");
        assert_eq!(meant("{date}"), "{day}");
        assert_eq!(meant("{hostname}"), "{host}");
        assert_eq!(meant("{Env:HOME}"), "{env:NAME}");
        assert_eq!(meant("${BUILD_ID}"), "{env:BUILD_ID}");
        assert_eq!(meant("{zebra}"), "");
        assert_eq!(meant("{}"), "");
        let text = Template::parse("{zebra}").unwrap_err().to_string();
        assert!(
            text.contains("{sha256:FILE}") && text.contains("{{"),
            "{text}"
        );
        let text = Template::parse("{dayy}").unwrap_err().to_string();
        assert!(text.contains("did you mean {day}?"), "{text}");
    }

    #[test]
    fn a_wrong_argument_brings_the_form() {
        for template in [
            "{day:utc}",
            "{host:x}",
            "{env}",
            "{env:}",
            "{env:a=b}",
            "{arg:-1}",
            "{arg}",
            "{git}",
            "{git:branch}",
            "{sha256:}",
            "{stdin:1}",
            "{batch}",
            "{window}",
        ] {
            let error = Template::parse(template).unwrap_err();
            assert!(
                matches!(error, TemplateError::BadArgument(..)),
                "{template}: {error:?}"
            );
        }
        for template in ["{window:30s}", "{window:soon}", "{window:15m:utc}"] {
            let error = Template::parse(template).unwrap_err();
            assert!(
                matches!(error, TemplateError::Period(_)),
                "{template}: {error:?}"
            );
        }
    }

    #[test]
    fn both_lists_of_names_agree() {
        for (name, form) in NAMES.iter().zip(FORMS) {
            assert!(form.strip_prefix('{').unwrap().starts_with(name), "{form}");
            assert!(!matches!(
                Fact::parse(name),
                Err(TemplateError::UnknownName(..))
            ));
        }
    }

    proptest! {
        #[test]
        fn no_template_panics(text in "[{}a-z:0-9]{0,24}|\\PC{0,24}") {
            let _ = fill(&text);
        }

        #[test]
        fn escaped_text_comes_back(text in "[{}a-z:]{1,40}") {
            let escaped = text.replace('{', "{{").replace('}', "}}");
            prop_assert_eq!(fill(&escaped), Ok(text));
        }
    }
}
