//! What an ended attempt tells: its class, by everything that has a say in it.
//!
//! Who says something first is believed: the child itself (`IDEM_CONTROL`), then `--stop-on`,
//! `--retry-on`, `--success-codes`, the classifier, and at last the default (a returned code other
//! than 0 is permanent). An attempt that was cut or killed by a signal is uncertain whatever its
//! code and output say, and nothing turns it into a success.

use std::time::Duration;

use super::conditions::{Conditions, Facts, SuccessCodes};
use super::nested::{Heard, Inner};
use crate::domain::outcome::{Class, Cut, Exit};

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// idem itself could not start the command; carries why, as a lowercase fragment.
    NotStarted(String),
    /// The child ended.
    Ended {
        /// Its code or signal.
        exit: Exit,
        /// Why idem ended it, if it did.
        cut: Option<Cut>,
    },
}

/// What the options of the call say about outcomes.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// `--stop-on`.
    pub stop_on: Option<Conditions>,
    /// `--retry-on`.
    pub retry_on: Option<Conditions>,
    /// `--success-codes`.
    pub success_codes: Option<SuccessCodes>,
    /// Whether `--retries` above 0 was given: without `--retry-on` it declares every failed exit
    /// repeatable. It stays true in a nested call, which does not retry.
    pub retries_given: bool,
}

/// What a classifier concludes from a returned code and the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What the attempt tells.
    pub class: Class,
    /// Which tool said what, as a lowercase fragment.
    pub reason: String,
    /// How long the other side asks to wait.
    pub retry_after: Option<Duration>,
    /// The HTTP status that the tool reported.
    pub http_status: Option<u16>,
    /// What a careful user should know about this success.
    pub warning: Option<String>,
}

/// What was seen in the output of the attempt.
#[derive(Debug, Clone, Default)]
pub struct Sightings {
    /// Positions of the items of `--stop-on` whose pattern was seen.
    pub stop_on: Vec<usize>,
    /// Positions of the items of `--retry-on` whose pattern was seen.
    pub retry_on: Vec<usize>,
    /// The classifier's conclusion, if one was asked and has one.
    pub verdict: Option<Verdict>,
}

/// What the child wrote to its `IDEM_CONTROL` file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Control {
    /// The class that it declares; never success.
    pub outcome: Option<Class>,
    /// How long it asks to wait before a retry.
    pub retry_after: Option<Duration>,
    /// What it wants to be remembered.
    pub note: Option<String>,
    /// What calls of idem's that ran inside told.
    pub nested: Heard,
}

/// The class of an ended attempt and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classified {
    /// What the attempt tells.
    pub class: Class,
    /// Why, as a short lowercase fragment.
    pub reason: String,
    /// How long the other side asks to wait before a retry.
    pub retry_after: Option<Duration>,
    /// The HTTP status that the classifier saw.
    pub http_status: Option<u16>,
    /// What a careful user should know although it went well.
    pub warning: Option<String>,
    /// An uncertain attempt that `--retry-on timeout` or `signal` names: it may be run again in this
    /// call, and stays uncertain for the record if it is not.
    pub named_by_retry_on: bool,
    /// Never run again in this call: it could not be started, or `--stop-on` names it.
    pub no_retry: bool,
}

/// Classifies an ended attempt.
pub fn classify(rules: &Rules, ending: &Ending, seen: &Sightings, control: &Control) -> Classified {
    match ending {
        Ending::NotStarted(why) => Classified {
            no_retry: true,
            ..plain(Class::Safe, why.clone())
        },
        Ending::Ended { exit, cut } => {
            let facts = Attempt {
                rules,
                exit: *exit,
                cut: *cut,
                seen,
                nested: &control.nested,
            };
            facts.classify(control)
        }
    }
}

fn plain(class: Class, reason: String) -> Classified {
    Classified {
        class,
        reason,
        retry_after: None,
        http_status: None,
        warning: None,
        named_by_retry_on: false,
        no_retry: false,
    }
}

/// What the child declares about itself. If it only confirms that nobody knows, what the options
/// allow for this kind of end still holds.
fn declare(class: Class, who: &str, options_say: &Classified) -> Classified {
    let confirmed = class == Class::Uncertain && options_say.class == Class::Uncertain;
    Classified {
        named_by_retry_on: confirmed && options_say.named_by_retry_on,
        no_retry: confirmed && options_say.no_retry,
        ..plain(class, format!("{who} says {}", class.word()))
    }
}

/// A child that was started and has ended, with what there is to know about it.
struct Attempt<'a> {
    rules: &'a Rules,
    exit: Exit,
    cut: Option<Cut>,
    seen: &'a Sightings,
    nested: &'a Heard,
}

impl Attempt<'_> {
    fn classify(&self, control: &Control) -> Classified {
        let options_say = self.by_options();
        let declared = control.outcome.filter(|class| *class != Class::Success);
        let mut classified = match (declared, self.inner_class()) {
            (Some(class), _) => declare(class, "the command", &options_say),
            (None, Some(class)) => declare(class, "the idem inside", &options_say),
            (None, None) => options_say,
        };
        // A command that says how long to wait says that it did nothing, unless it says more.
        let says_wait = declared.is_none() && control.retry_after.is_some();
        if says_wait && classified.class == Class::Permanent && !classified.no_retry {
            classified = plain(Class::Throttled, "the command asks to wait".to_owned());
        }
        let verdict = self.verdict();
        classified.http_status = verdict.and_then(|v| v.http_status);
        let hint = control.retry_after.or(self.inner_hint());
        classified.retry_after = hint.or_else(|| verdict.and_then(|v| v.retry_after));
        classified
    }

    /// The classifier has a say only about a child that ended by itself.
    fn verdict(&self) -> Option<&Verdict> {
        match (self.cut, self.exit) {
            (None, Exit::Code(_)) => self.seen.verdict.as_ref(),
            _ => None,
        }
    }

    /// What inner calls say about the whole of a failed attempt.
    fn inner_class(&self) -> Option<Class> {
        if self.cut.is_some() || !self.failed_exit() {
            return None;
        }
        if self.nested.uncertain {
            return Some(Class::Uncertain);
        }
        self.nested
            .last
            .filter(|_| self.nested.whole)
            .map(|inner| inner.class)
    }

    /// The last inner call, if the failed attempt ended with its code.
    fn passed_on(&self) -> Option<Inner> {
        let failed = self.cut.is_none() && self.failed_exit();
        let passed = |inner: &Inner| failed && self.exit == Exit::Code(inner.code);
        self.nested.last.filter(passed)
    }

    fn inner_hint(&self) -> Option<Duration> {
        self.passed_on().and_then(|inner| inner.wait)
    }

    fn by_options(&self) -> Classified {
        let stop = matched(self.rules.stop_on.as_ref(), &self.facts(&self.seen.stop_on));
        let retry = matched(
            self.rules.retry_on.as_ref(),
            &self.facts(&self.seen.retry_on),
        );
        if self.cut.is_some() || matches!(self.exit, Exit::Signal(_)) {
            return Classified {
                named_by_retry_on: stop.is_none() && retry.is_some(),
                no_retry: stop.is_some(),
                ..plain(Class::Uncertain, self.how_it_ended())
            };
        }
        match (stop, retry) {
            (Some(item), _) => Classified {
                no_retry: true,
                ..plain(Class::Permanent, self.named(&item, "--stop-on"))
            },
            (None, Some(item)) => plain(Class::Retryable, self.named(&item, "--retry-on")),
            (None, None) => self.by_code(),
        }
    }

    fn by_code(&self) -> Classified {
        if !self.failed_exit() {
            return self.by_success();
        }
        if self
            .passed_on()
            .is_some_and(|inner| inner.class == Class::Permanent)
        {
            let reason = format!("{}, as the idem inside", self.how_it_ended());
            return plain(Class::Permanent, reason);
        }
        // A given list of success codes is the whole list: no classifier adds to it.
        let listed = self.rules.success_codes.is_some();
        let verdict = self.verdict();
        let verdict = verdict.filter(|v| !(listed && v.class == Class::Success));
        let declared = self.rules.retries_given && self.rules.retry_on.is_none();
        match verdict {
            Some(v) => Classified {
                warning: v.warning.clone(),
                ..plain(v.class, v.reason.clone())
            },
            None if declared => plain(
                Class::Retryable,
                format!("{}, and --retries repeats failures", self.how_it_ended()),
            ),
            None => plain(Class::Permanent, self.how_it_ended()),
        }
    }

    /// A code that means success. Only the default list leaves a classifier that was named a say.
    fn by_success(&self) -> Classified {
        let listed = self.rules.success_codes.is_some();
        match self.verdict() {
            Some(v) if !listed => Classified {
                warning: v.warning.clone(),
                ..plain(v.class, v.reason.clone())
            },
            _ => plain(Class::Success, self.how_it_ended()),
        }
    }

    fn failed_exit(&self) -> bool {
        let Exit::Code(code) = self.exit else {
            return false;
        };
        match &self.rules.success_codes {
            Some(codes) => !codes.contains(code),
            None => code != 0,
        }
    }

    fn facts<'s>(&self, seen: &'s [usize]) -> Facts<'s> {
        Facts {
            exit: self.exit,
            cut: self.cut,
            failed_exit: self.failed_exit(),
            http_status: self.verdict().and_then(|v| v.http_status),
            seen,
        }
    }

    fn named(&self, item: &str, option: &str) -> String {
        format!("{}, and {option} names {item}", self.how_it_ended())
    }

    fn how_it_ended(&self) -> String {
        match (self.cut, self.exit) {
            (Some(Cut::Timeout), _) => "timed out".to_owned(),
            (Some(Cut::Deadline), _) => "the deadline passed".to_owned(),
            (Some(Cut::Interrupted(n)), _) => format!("interrupted by signal {n}"),
            (Some(Cut::InputLost), _) => "ended because its stdin could not be kept".to_owned(),
            (Some(Cut::CallerLost), _) => "ended because the caller went away".to_owned(),
            (None, Exit::Signal(n)) => format!("killed by signal {n}"),
            (None, Exit::Code(n)) => format!("exit code {n}"),
        }
    }
}

fn matched(conditions: Option<&Conditions>, facts: &Facts) -> Option<String> {
    let item = conditions?.first_match(facts)?;
    Some(item.text.clone())
}

#[cfg(test)]
mod tests;
