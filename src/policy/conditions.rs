//! The items of `--retry-on` and `--stop-on`, and the codes of `--success-codes`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use regex::bytes::{Regex, RegexBuilder};

use super::text::digits;
pub use crate::domain::frames::Stream;
use crate::domain::outcome::{Cut, Exit};

/// One thing that an attempt can be recognised by.
#[derive(Debug, Clone)]
pub enum Condition {
    /// `exit:75`, `exit:100-110`: it returned one of these codes.
    Exit(RangeInclusive<u8>),
    /// `http:429`, `http:5xx`: the classifier saw one of these statuses.
    Http(RangeInclusive<u16>),
    /// `timeout`: its own time limit ended it.
    Timeout,
    /// `signal`, `signal:SEGV`: a signal that idem did not send killed it (this one, or any).
    Signal(Option<i32>),
    /// `stdout:/RE/`, `stderr:/RE/`: a line of this stream matches.
    Output(Stream, Regex),
    /// `any`: every failed exit, and neither a timeout nor a signal.
    Any,
}

/// A condition and how it was written.
#[derive(Debug, Clone)]
pub struct Item {
    /// As typed, for messages.
    pub text: String,
    /// What it means.
    pub condition: Condition,
}

/// A list of conditions; one that holds is enough.
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    items: Vec<Item>,
}

/// What an ended attempt offers to the conditions.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// How the child ended.
    pub exit: Exit,
    /// Why idem ended it, if it did.
    pub cut: Option<Cut>,
    /// Whether a returned code counts as a failure.
    pub failed_exit: bool,
    /// The HTTP status that the classifier saw.
    pub http_status: Option<u16>,
    /// The positions of the items whose output pattern was seen.
    pub seen: &'a [usize],
}

/// Why a text is no list of conditions or codes. Each message is a fragment that follows the option's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConditionError {
    /// The list has no item at all.
    EmptyList,
    /// Nothing stands between two commas, or before or after one.
    EmptyItem,
    /// The item begins with no known word; carries it.
    Unknown(String),
    /// The number or range is malformed or outside its limits; carries the item, lowest and highest.
    Number(String, u16, u16),
    /// The range ends before it begins; carries the item.
    Reversed(String),
    /// No signal has this name or number; carries the item.
    UnknownSignal(String),
    /// The pattern has no closing slash; carries the item.
    Unclosed(String),
    /// Something follows the closing slash; carries the item.
    AfterPattern(String),
    /// The pattern between the slashes is empty; carries the item.
    EmptyPattern(String),
    /// The pattern is no regular expression; carries it and the reason.
    Pattern(String, String),
}

impl fmt::Display for ConditionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ConditionError as E;
        match self {
            E::EmptyList => write!(f, "the list is empty, expected at least one item"),
            E::EmptyItem => write!(f, "the list has an empty item, expected one between commas"),
            E::Unknown(t) => write!(
                f,
                "`{t}` is not a condition, expected exit:75, exit:100-110, http:429, http:5xx, timeout, signal, signal:SEGV, stdout:/RE/, stderr:/RE/ or any"
            ),
            E::Number(t, low, high) => write!(
                f,
                "`{t}` is out of range, expected a number from {low} to {high} or two joined by -"
            ),
            E::Reversed(t) => {
                write!(
                    f,
                    "`{t}` ends before it begins, expected the smaller number first"
                )
            }
            E::UnknownSignal(t) => write!(
                f,
                "`{t}` names no signal, expected for example SEGV, SIGSEGV or 11"
            ),
            E::Unclosed(t) => write!(f, "`{t}` has no closing slash, expected stderr:/RE/"),
            E::AfterPattern(t) => write!(
                f,
                "`{t}` goes on after its closing slash, expected a comma there, or \\/ for a slash in the pattern"
            ),
            E::EmptyPattern(t) => write!(
                f,
                "`{t}` has an empty pattern, expected a regular expression between the slashes"
            ),
            E::Pattern(t, why) => {
                write!(
                    f,
                    "`{t}` is not a regular expression ({why}), expected the syntax of the regex crate"
                )
            }
        }
    }
}

impl std::error::Error for ConditionError {}

impl FromStr for Conditions {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Conditions, ConditionError> {
        if text.trim().is_empty() {
            return Err(ConditionError::EmptyList);
        }
        let items = split(text)
            .into_iter()
            .map(item)
            .collect::<Result<_, _>>()?;
        Ok(Conditions { items })
    }
}

impl Conditions {
    /// The items in the order in which they were written.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The output patterns, each with its item's position.
    pub fn patterns(&self) -> impl Iterator<Item = (usize, Stream, &Regex)> {
        let numbered = self.items.iter().enumerate();
        numbered.filter_map(|(position, item)| match &item.condition {
            Condition::Output(stream, regex) => Some((position, *stream, regex)),
            _ => None,
        })
    }

    /// The first item that holds. An attempt that was cut or killed matches only `timeout` and
    /// `signal`: its output and code do not say whether it happened.
    pub fn first_match(&self, facts: &Facts) -> Option<&Item> {
        let numbered = self.items.iter().enumerate();
        let mut matching = numbered.filter(|(i, item)| item.condition.holds(*i, facts));
        matching.next().map(|(_, item)| item)
    }
}

impl Condition {
    fn holds(&self, position: usize, facts: &Facts) -> bool {
        match (facts.cut, facts.exit) {
            (Some(Cut::Timeout), _) => matches!(self, Condition::Timeout),
            (Some(Cut::Deadline | Cut::Interrupted(_) | Cut::CallerLost | Cut::InputLost), _) => {
                false
            }
            (None, Exit::Signal(number)) => {
                matches!(self, Condition::Signal(named) if named.is_none_or(|n| n == number))
            }
            (None, Exit::Code(code)) => self.holds_for_code(code, position, facts),
        }
    }

    fn holds_for_code(&self, code: i32, position: usize, facts: &Facts) -> bool {
        match self {
            Condition::Exit(codes) => u8::try_from(code).is_ok_and(|c| codes.contains(&c)),
            Condition::Http(statuses) => facts.http_status.is_some_and(|s| statuses.contains(&s)),
            Condition::Output(..) => facts.seen.contains(&position),
            Condition::Any => facts.failed_exit,
            Condition::Timeout | Condition::Signal(_) => false,
        }
    }
}

/// Cuts a list at its commas, except at those inside `/RE/`.
fn split(text: &str) -> Vec<&str> {
    let mut items = Vec::new();
    let mut rest = text;
    loop {
        let end = item_end(rest);
        let (item, after) = rest.split_at(end);
        items.push(item.trim());
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None => return items,
        }
    }
}

/// Where the first item of a list ends: at a comma outside its pattern, or at the end.
fn item_end(text: &str) -> usize {
    let pattern_at = pattern_start(text);
    let closed_at = pattern_at.map_or(0, |at| at + closing_slash(&text[at..]));
    let comma = text[closed_at..].find(',');
    comma.map_or(text.len(), |c| closed_at + c)
}

/// The offset just behind the opening slash, if the first item is an output pattern.
fn pattern_start(text: &str) -> Option<usize> {
    let item = text.trim_start();
    let indent = text.len() - item.len();
    let opens = item.starts_with("stdout:/") || item.starts_with("stderr:/");
    opens.then_some(indent + "stdout:/".len())
}

/// The offset of the slash that closes a pattern, or its end when none does.
fn closing_slash(pattern: &str) -> usize {
    let mut escaped = false;
    for (at, c) in pattern.char_indices() {
        match c {
            '/' if !escaped => return at,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    pattern.len()
}

fn item(text: &str) -> Result<Item, ConditionError> {
    let condition = match text.split_once(':') {
        Some(("exit", range)) => Condition::Exit(exit_range(text, range)?),
        Some(("http", range)) => Condition::Http(http_range(text, range)?),
        Some(("signal", name)) => {
            let number = signal_number(name)
                .ok_or_else(|| ConditionError::UnknownSignal(text.to_owned()))?;
            Condition::Signal(Some(number))
        }
        Some(("stdout", slashed)) => Condition::Output(Stream::Stdout, pattern(text, slashed)?),
        Some(("stderr", slashed)) => Condition::Output(Stream::Stderr, pattern(text, slashed)?),
        _ => word(text)?,
    };
    Ok(Item {
        text: text.to_owned(),
        condition,
    })
}

fn word(text: &str) -> Result<Condition, ConditionError> {
    match text {
        "timeout" => Ok(Condition::Timeout),
        "signal" => Ok(Condition::Signal(None)),
        "any" => Ok(Condition::Any),
        "" => Err(ConditionError::EmptyItem),
        _ => Err(ConditionError::Unknown(text.to_owned())),
    }
}

/// Reads `N` or `N-M` within limits; `item` is what a message shows.
fn number_range(
    item: &str,
    range: &str,
    low: u16,
    high: u16,
) -> Result<RangeInclusive<u16>, ConditionError> {
    let (from, to) = range.split_once('-').unwrap_or((range, range));
    let number = |t: &str| digits::<u16>(t).filter(|n| (low..=high).contains(n));
    match (number(from), number(to)) {
        (Some(from), Some(to)) if from <= to => Ok(from..=to),
        (Some(_), Some(_)) => Err(ConditionError::Reversed(item.to_owned())),
        _ => Err(ConditionError::Number(item.to_owned(), low, high)),
    }
}

fn exit_range(item: &str, range: &str) -> Result<RangeInclusive<u8>, ConditionError> {
    let codes = number_range(item, range, 0, 255)?;
    // Both ends are within 0–255 here.
    Ok(codes.start().to_le_bytes()[0]..=codes.end().to_le_bytes()[0])
}

fn http_range(item: &str, range: &str) -> Result<RangeInclusive<u16>, ConditionError> {
    let hundreds = range.strip_suffix("xx").and_then(digits::<u16>);
    match hundreds {
        Some(h) if (1..=5).contains(&h) => Ok(h * 100..=h * 100 + 99),
        _ => number_range(item, range, 100, 599),
    }
}

fn pattern(item: &str, slashed: &str) -> Result<Regex, ConditionError> {
    let Some(body) = slashed.strip_prefix('/') else {
        return Err(ConditionError::Unknown(item.to_owned()));
    };
    let end = closing_slash(body);
    match body.get(end..) {
        Some("/") => {}
        Some("") | None => return Err(ConditionError::Unclosed(item.to_owned())),
        Some(_) => return Err(ConditionError::AfterPattern(item.to_owned())),
    }
    if end == 0 {
        return Err(ConditionError::EmptyPattern(item.to_owned()));
    }
    compile(&body[..end])
}

/// Compiles a pattern so that `.` means any byte, since output need not be UTF-8. A pattern that
/// needs Unicode (`[é]`, `\p{…}`) is compiled with it.
fn compile(source: &str) -> Result<Regex, ConditionError> {
    let build = |unicode| RegexBuilder::new(source).unicode(unicode).build();
    build(false).or_else(|_| build(true)).map_err(|e| {
        // The last line of a syntax error says what is wrong; the others draw it.
        let full = e.to_string();
        let why = full.lines().last().unwrap_or_default();
        let why = why.strip_prefix("error: ").unwrap_or(why);
        ConditionError::Pattern(source.to_owned(), why.to_owned())
    })
}

/// The number of a signal given as `SEGV`, `SIGSEGV` or `11`.
fn signal_number(text: &str) -> Option<i32> {
    if let Some(number) = digits::<i32>(text) {
        return (1..=64).contains(&number).then_some(number);
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let found = SIGNALS.iter().find(|(known, _)| *known == name);
    found.map(|(_, number)| *number)
}

const SIGNALS: [(&str, i32); 27] = [
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ILL", libc::SIGILL),
    ("TRAP", libc::SIGTRAP),
    ("ABRT", libc::SIGABRT),
    ("BUS", libc::SIGBUS),
    ("FPE", libc::SIGFPE),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("SEGV", libc::SIGSEGV),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("CHLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("STOP", libc::SIGSTOP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("VTALRM", libc::SIGVTALRM),
    ("PROF", libc::SIGPROF),
    ("SYS", libc::SIGSYS),
];

/// The exit codes that mean success: `0,3,10-12`. It replaces the default, which is 0 alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuccessCodes {
    ranges: Vec<RangeInclusive<u8>>,
}

impl SuccessCodes {
    /// Whether this returned code means success.
    pub fn contains(&self, code: i32) -> bool {
        u8::try_from(code).is_ok_and(|c| self.ranges.iter().any(|r| r.contains(&c)))
    }
}

impl Default for SuccessCodes {
    fn default() -> SuccessCodes {
        SuccessCodes {
            ranges: vec![0..=0],
        }
    }
}

impl FromStr for SuccessCodes {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<SuccessCodes, ConditionError> {
        if text.trim().is_empty() {
            return Err(ConditionError::EmptyList);
        }
        let range = |t: &str| match t.trim() {
            "" => Err(ConditionError::EmptyItem),
            t => exit_range(t, t),
        };
        let ranges = text.split(',').map(range).collect::<Result<_, _>>()?;
        Ok(SuccessCodes { ranges })
    }
}

#[cfg(test)]
mod tests;
