//! Keys and fingerprints that are digests of parts of the call, and keys of the steps of a task.

use super::digest::PartsDigest;
use super::facts::{ClockPeriod, FactError, Facts, required_env};
use super::name::{Fingerprint, Key, NameError};
use super::nearest::nearest;
use super::period::PeriodError;
use super::template::TemplateError;
use jiff::Timestamp;
use std::fmt;

const FORMS: &str = "argv, cwd, stdin, env:NAME, file:PATH, window:1d, git:head, host";
const NAMES: [&str; 8] = [
    "argv", "cwd", "stdin", "env", "file", "window", "git", "host",
];

/// Parts of a call that are digested together. Their order does not count, nor does naming one twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts(Vec<Part>);

/// One part. The order of the variants is the order of hashing, so it must never change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Argv,
    Cwd,
    Stdin,
    Env(String),
    File(Vec<u8>),
    Window(ClockPeriod),
    GitHead,
    Host,
}

/// Why a text is no list of parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartsError {
    /// The list, or one of its items, is empty.
    Empty,
    /// No part has this name; with the one that may be meant.
    Unknown(String, Option<&'static str>),
    /// The part takes something else behind its colon; carries the part and how it is written.
    BadArgument(String, &'static str),
    /// The length of a window cannot be read.
    Period(PeriodError),
    /// `none` stands beside other parts.
    NoneAmongOthers,
}

impl fmt::Display for PartsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartsError::Empty => write!(f, "a part is empty: name some of {FORMS}"),
            PartsError::Unknown(text, Some(meant)) => {
                write!(f, "unknown part `{text}`: did you mean {meant}?")
            }
            PartsError::Unknown(text, None) => {
                write!(f, "unknown part `{text}`: there are {FORMS}")
            }
            PartsError::BadArgument(text, form) => {
                write!(f, "cannot read the part `{text}`: write {form}")
            }
            PartsError::Period(e) => e.fmt(f),
            PartsError::NoneAmongOthers => {
                write!(f, "`none` stands alone: leave it or the other parts out")
            }
        }
    }
}

impl std::error::Error for PartsError {}

impl Parts {
    /// What a key is derived from when none is given: the command and where it runs.
    pub fn default_key() -> Parts {
        Parts(vec![Part::Argv, Part::Cwd])
    }

    /// What tells two commands under one key apart by default: the command alone.
    pub fn default_fingerprint() -> Parts {
        Parts(vec![Part::Argv])
    }

    /// Reads the parts of a key, separated by commas. A path need not be UTF-8, but has no comma.
    pub fn parse(text: &[u8]) -> Result<Parts, PartsError> {
        let items = text.split(|byte| *byte == b',').map(Part::parse);
        let mut parts = items.collect::<Result<Vec<_>, _>>()?;
        parts.sort();
        parts.dedup();
        Ok(Parts(parts))
    }

    /// Reads the parts of a fingerprint: as [`Parts::parse`], or `none`, for which all commands are
    /// the same.
    pub fn parse_fingerprint(text: &[u8]) -> Result<Parts, PartsError> {
        if text == b"none" {
            return Ok(Parts(Vec::new()));
        }
        if text.split(|byte| *byte == b',').any(|item| item == b"none") {
            return Err(PartsError::NoneAmongOthers);
        }
        Parts::parse(text)
    }

    /// The key that is derived from all parts as of `at`: their digest in hex.
    pub fn key(&self, facts: &mut dyn Facts, at: Timestamp) -> Result<Key, TemplateError> {
        let digest = self.fingerprint(facts, at).map_err(TemplateError::Fact)?;
        Key::new(digest.hex()).map_err(TemplateError::Key)
    }

    /// The digest of all parts as of `at`.
    pub fn fingerprint(
        &self,
        facts: &mut dyn Facts,
        at: Timestamp,
    ) -> Result<Fingerprint, FactError> {
        let mut digest = PartsDigest::new();
        for part in &self.0 {
            part.add_to(&mut digest, facts, at)?;
        }
        Ok(digest.finish())
    }
}

impl Part {
    fn parse(item: &[u8]) -> Result<Part, PartsError> {
        if let Some(path) = item.strip_prefix(b"file:")
            && !path.is_empty()
        {
            return Ok(Part::File(path.to_owned()));
        }
        let text = String::from_utf8_lossy(item);
        let (name, argument) = match text.split_once(':') {
            Some((name, argument)) => (name, Some(argument)),
            None => (&*text, None),
        };
        match (name, argument) {
            ("", None) => Err(PartsError::Empty),
            ("argv", None) => Ok(Part::Argv),
            ("cwd", None) => Ok(Part::Cwd),
            ("stdin", None) => Ok(Part::Stdin),
            ("host", None) => Ok(Part::Host),
            ("git", Some("head")) => Ok(Part::GitHead),
            ("env", Some(variable)) if is_variable(variable) => Ok(Part::Env(variable.to_owned())),
            ("window", Some(period)) => ClockPeriod::parse(period)
                .map(Part::Window)
                .map_err(PartsError::Period),
            _ => Err(wrong(&text, name)),
        }
    }

    fn add_to(
        &self,
        digest: &mut PartsDigest,
        facts: &mut dyn Facts,
        at: Timestamp,
    ) -> Result<(), FactError> {
        match self {
            Part::Argv => digest.part("argv", facts.argv()),
            Part::Cwd => digest.part("cwd", &[facts.cwd()?]),
            Part::Stdin => digest.part("stdin", &[facts.stdin_digest()?]),
            Part::Env(name) => {
                let value = required_env(facts, name)?;
                digest.part("env", &[name.as_bytes(), &value]);
            }
            // The content alone: the same file in another checkout is the same input.
            Part::File(path) => digest.part("file", &[facts.file_digest(path)?]),
            Part::Window(period) => digest.part("window", &[period.name(facts, at)?]),
            Part::GitHead => digest.part("git:head", &[facts.git_head()?]),
            Part::Host => digest.part("host", &[facts.host()?]),
        }
        Ok(())
    }
}

/// Whether an environment variable can have this name; U+FFFD stands for bytes that were not UTF-8.
fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0', char::REPLACEMENT_CHARACTER])
}

/// A known name with a wrong argument, or an unknown name.
fn wrong(text: &str, name: &str) -> PartsError {
    let form = match name {
        "argv" => "argv",
        "cwd" => "cwd",
        "stdin" => "stdin",
        "host" => "host",
        "git" => "git:head",
        "env" => "env:NAME",
        "file" => "file:PATH",
        "window" => "window:1d",
        _ => return PartsError::Unknown(text.to_owned(), nearest(name, &NAMES)),
    };
    PartsError::BadArgument(text.to_owned(), form)
}

/// Why the names of a task, a step and a call give no key. Each carries which of them is at fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskKeyError {
    /// It has a `/`, which separates the names: two different steps could get the same key.
    Slash(&'static str),
    /// It is empty or has something that cannot be in a key.
    Name(&'static str, NameError),
    /// All together are longer than a key may be.
    Key(NameError),
}

impl fmt::Display for TaskKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskKeyError::Slash(which) => write!(
                f,
                "the {which} name has a `/`, which separates task, step and call: use another character"
            ),
            TaskKeyError::Name(which, e) => {
                write!(f, "the {which} name {e}: give it printable text")
            }
            TaskKeyError::Key(e) => {
                write!(f, "the key of task, step and call {e}: use shorter names")
            }
        }
    }
}

impl std::error::Error for TaskKeyError {}

/// `task/step` or `task/step/call`. No name is empty or has a slash, so that no two are the same key.
pub fn task_key(task: &[u8], step: &[u8], call: Option<&[u8]>) -> Result<Key, TaskKeyError> {
    let mut key = format!("{}/{}", name("task", task)?, name("step", step)?);
    if let Some(call) = call {
        key.push('/');
        key.push_str(name("call", call)?.as_str());
    }
    Key::new(key).map_err(TaskKeyError::Key)
}

/// The name of a task alone, as [`task_key`] takes it.
pub fn task_name(task: &[u8]) -> Result<Key, TaskKeyError> {
    name("task", task)
}

fn name(which: &'static str, bytes: &[u8]) -> Result<Key, TaskKeyError> {
    if bytes.contains(&b'/') {
        return Err(TaskKeyError::Slash(which));
    }
    Key::new(bytes).map_err(|e| TaskKeyError::Name(which, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::facts::fake::FakeFacts;
    use proptest::prelude::*;

    fn at() -> Timestamp {
        "2026-11-30T17:20:00Z".parse().unwrap()
    }

    fn parts(text: &str) -> Parts {
        Parts::parse(text.as_bytes()).unwrap()
    }

    fn digest(parts: &Parts, facts: &mut FakeFacts) -> Fingerprint {
        parts.fingerprint(facts, at()).unwrap()
    }

    #[test]
    fn each_part_counts() {
        let mut seen = Vec::new();
        for text in [
            "argv",
            "cwd",
            "stdin",
            "env:STAGE",
            "env:EMPTY",
            "file:/etc/app:1.toml",
            "file:other",
            "window:1d",
            "window:1d:local",
            "window:15m",
            "git:head",
            "host",
            "argv,cwd",
            "argv,cwd,stdin",
            "argv,env:STAGE",
            "argv,env:EMPTY",
        ] {
            let digest = digest(&parts(text), &mut FakeFacts::default());
            assert!(!seen.contains(&digest), "{text}");
            seen.push(digest);
        }
    }

    #[test]
    fn what_a_part_names_changes_the_digest_and_nothing_else_does() {
        let (argv, both) = (parts("argv"), parts("argv,cwd"));
        let mut moved = FakeFacts {
            cwd: b"/elsewhere".to_vec(),
            ..FakeFacts::default()
        };
        let mut here = FakeFacts::default();
        assert_eq!(digest(&argv, &mut here), digest(&argv, &mut moved));
        assert_ne!(digest(&both, &mut here), digest(&both, &mut moved));
        let mut split = FakeFacts {
            argv: vec![b"echo".to_vec(), b"o".to_vec(), b"ne\xfe".to_vec()],
            ..FakeFacts::default()
        };
        assert_ne!(digest(&argv, &mut here), digest(&argv, &mut split));
    }

    #[test]
    fn the_order_of_parts_does_not_count() {
        assert_eq!(parts("cwd,argv"), parts("argv,cwd"));
        assert_eq!(parts("cwd,argv,cwd"), Parts::default_key());
        assert_eq!(parts("argv"), Parts::default_fingerprint());
        assert_eq!(parts("env:B,host,env:A"), parts("env:A,env:B,host"));
    }

    #[test]
    fn the_default_key_stays_the_same_in_later_versions() {
        let mut facts = FakeFacts::default();
        let fingerprint = digest(&Parts::default_key(), &mut facts);
        let mut by_hand = PartsDigest::new();
        by_hand.part("argv", &[&b"echo"[..], b"one", b"\xfe"]);
        by_hand.part("cwd", &["/srv/app"]);
        assert_eq!(fingerprint, by_hand.finish());
        let key = Parts::default_key().key(&mut facts, at()).unwrap();
        assert_eq!(key.as_str(), fingerprint.hex());
    }

    #[test]
    fn none_is_for_fingerprints_and_stands_alone() {
        let none = Parts::parse_fingerprint(b"none").unwrap();
        let mut other = FakeFacts {
            argv: vec![b"date".to_vec()],
            ..FakeFacts::default()
        };
        assert_eq!(
            digest(&none, &mut FakeFacts::default()),
            digest(&none, &mut other)
        );
        assert_ne!(
            digest(&none, &mut other),
            digest(&parts("argv"), &mut other)
        );
        assert_eq!(
            Parts::parse_fingerprint(b"argv,none"),
            Err(PartsError::NoneAmongOthers)
        );
        assert!(matches!(
            Parts::parse(b"none"),
            Err(PartsError::Unknown(..))
        ));
    }

    #[test]
    fn wrong_parts_say_what_to_write() {
        for text in ["", "argv,", ",argv", "argv,,cwd"] {
            assert_eq!(
                Parts::parse(text.as_bytes()),
                Err(PartsError::Empty),
                "{text}"
            );
        }
        let of = |text: &str| Parts::parse(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(of("args"), "unknown part `args`: did you mean argv?");
        assert!(of("zebra").contains(FORMS));
        assert!(of("ARGV").contains("did you mean argv?"));
        for text in [
            "argv:0",
            "git",
            "git:branch",
            "env",
            "env:",
            "env:a=b",
            "file",
            "file:",
            "window",
            "host:x",
        ] {
            let error = Parts::parse(text.as_bytes()).unwrap_err();
            assert!(
                matches!(error, PartsError::BadArgument(..)),
                "{text}: {error:?}"
            );
        }
        assert!(matches!(
            Parts::parse(b"window:5s"),
            Err(PartsError::Period(_))
        ));
        assert!(matches!(
            Parts::parse(b"env:\xff"),
            Err(PartsError::BadArgument(..))
        ));
    }

    #[test]
    fn a_path_keeps_its_bytes() {
        assert_eq!(
            Parts::parse(b"file:\xff"),
            Ok(Parts(vec![Part::File(b"\xff".to_vec())]))
        );
        assert!(Parts::parse(b"file:a:b").is_ok());
    }

    #[test]
    fn what_cannot_be_told_is_an_error() {
        let error = parts("env:NOT_SET").fingerprint(&mut FakeFacts::default(), at());
        assert_eq!(error, Err(FactError::EnvUnset("NOT_SET".into())));
        assert!(
            parts("file:gone")
                .fingerprint(&mut FakeFacts::default(), at())
                .is_err()
        );
    }

    #[test]
    fn a_step_has_a_key() {
        let key = task_key(b"release-7", b"push", None).unwrap();
        assert_eq!(key.as_str(), "release-7/push");
        let key = task_key(b"release-7", b"push", Some(b"eu")).unwrap();
        assert_eq!(key.as_str(), "release-7/push/eu");
    }

    #[test]
    fn no_name_of_a_step_is_empty_or_has_a_slash() {
        let empty = |which| Err(TaskKeyError::Name(which, NameError::Empty));
        assert_eq!(task_key(b"", b"s", None), empty("task"));
        assert_eq!(task_key(b"t", b"", None), empty("step"));
        assert_eq!(task_key(b"t", b"s", Some(b"")), empty("call"));
        assert_eq!(
            task_key(b"a/b", b"s", None),
            Err(TaskKeyError::Slash("task"))
        );
        assert_eq!(
            task_key(b"t", b"a/b", None),
            Err(TaskKeyError::Slash("step"))
        );
        assert_eq!(
            task_key(b"t", b"s", Some(b"a/b")),
            Err(TaskKeyError::Slash("call"))
        );
        let long = vec![b'x'; 200];
        assert_eq!(
            task_key(&long, &long, None),
            Err(TaskKeyError::Key(NameError::TooLong(401)))
        );
    }

    proptest! {
        #[test]
        fn two_different_steps_never_have_the_same_key(
            a in ("[ab/]{1,3}", "[ab/]{1,3}", proptest::option::of("[ab/]{1,3}")),
            b in ("[ab/]{1,3}", "[ab/]{1,3}", proptest::option::of("[ab/]{1,3}")),
        ) {
            let key = |t: &(String, String, Option<String>)| {
                task_key(t.0.as_bytes(), t.1.as_bytes(), t.2.as_ref().map(|c| c.as_bytes())).ok()
            };
            if let (Some(left), Some(right)) = (key(&a), key(&b)) {
                prop_assert_eq!(left == right, a == b);
            }
        }

        #[test]
        fn no_list_of_parts_panics(text in proptest::collection::vec(any::<u8>(), 0..30)) {
            let _ = Parts::parse_fingerprint(&text);
        }
    }
}
