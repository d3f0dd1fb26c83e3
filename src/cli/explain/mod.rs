//! What `idem run --dry-run` explains: what a call would do and why, from what is there at this moment.
//! Nothing here looks anything up; the facts come in.

mod json;
#[cfg(test)]
mod tests;
mod text;

pub use json::object;
pub use text::{codes, page, says};

use super::exit;
use super::layers::Effective;
use super::quote;
use super::say;
use super::settings::Named;
use super::view::View;
use super::when::length;
use crate::domain::decision::{Decision, IfRunning, Refusal};
use crate::domain::outcome::{Cut, Exit, State};
use crate::domain::time::{Stamp, Ttl};
use crate::engine::ledger::why_text;
use crate::engine::plan::Plan;
use crate::policy::classify::Tool;
use crate::policy::outcome::{Control, Ending, Sightings, classify};
use std::time::Duration;

/// More pauses than this are not listed one by one.
const SHOWN_PAUSES: u32 = 10;

/// More than this are not added up one by one: from here on every pause has the length of the last.
const ADDED_PAUSES: u32 = 10_000;

/// What a guard of the call is like at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardView {
    /// Which kind: breaker, budget, bulkhead, task.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// How it stands, as a fragment.
    pub stands: String,
    /// It would refuse this call now.
    pub refuses: bool,
}

/// Everything that an explanation is made of.
#[derive(Debug)]
pub struct Explanation<'a> {
    /// The call.
    pub plan: &'a Plan,
    /// The operation's name and its period.
    pub named: &'a Named,
    /// How the key came about, as a fragment.
    pub key_from: String,
    /// What was given, by whatever layer.
    pub given: Vec<Effective>,
    /// The store, as a user would name it.
    pub store: String,
    /// There is such a file.
    pub store_exists: bool,
    /// The record found.
    pub found: Option<View>,
    /// The previous period's execution is still at work.
    pub previous_runs: bool,
    /// What the call would do.
    pub decision: Decision,
    /// The classifier in use.
    pub classifier: Option<&'static Tool>,
    /// The guards of the call.
    pub guards: Vec<GuardView>,
    /// Retries that are left to the task, if it limits them.
    pub task_retries_left: Option<u32>,
    /// What is left of the total time, by the call's own deadline, an outer call's or the task's.
    pub deadline_left: Option<Duration>,
    /// The moment.
    pub now: Stamp,
}

/// The pauses before the retries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// How many retries this call makes at most.
    pub retries: u32,
    /// Shortest and longest pause before each of the first retries.
    pub pauses: Vec<(Duration, Duration)>,
    /// The shortest and the longest time that all pauses take together.
    pub total: (Duration, Duration),
}

impl Explanation<'_> {
    /// The decision as one word for programs.
    fn word(&self) -> &'static str {
        match self.decision {
            Decision::Execute(_) => "execute",
            Decision::Ask(_) => "ask_probe",
            Decision::Propose => "propose",
            Decision::Replay | Decision::ReplayFailure => "replay",
            Decision::Wait(_) => "wait",
            Decision::WaitForApproval => "wait_for_approval",
            Decision::Skip => "skip",
            Decision::Refuse(_) => "refuse",
        }
    }

    /// The decision in plain words.
    fn would(&self) -> String {
        match self.decision {
            Decision::Execute(_) => "execute the command".to_owned(),
            Decision::Ask(_) => "ask the probe, and execute the command if it says no".to_owned(),
            Decision::Propose => "record a proposal that a person has to approve".to_owned(),
            Decision::Replay => format!("replay the stored result (exit {})", self.stored_code()),
            Decision::ReplayFailure => {
                format!("replay the stored failure (exit {})", self.stored_code())
            }
            Decision::Wait(_) => {
                "wait for the execution that is under way and hand out its result".to_owned()
            }
            Decision::WaitForApproval => "wait for a person's approval".to_owned(),
            Decision::Skip => "skip: end with 0 and say nothing".to_owned(),
            Decision::Refuse(refusal) => format!("refuse (exit {})", exit::of_refusal(refusal)),
        }
    }

    fn stored_code(&self) -> i32 {
        let record = self.found.as_ref().map(|found| &found.record);
        record.and_then(|record| record.exit_code).unwrap_or(0)
    }

    /// Why.
    fn because(&self) -> String {
        match self.decision {
            Decision::Execute(why) | Decision::Ask(why) => why_text(why).to_owned(),
            Decision::Propose => "--hold asks for approval before every execution".to_owned(),
            Decision::Replay => "the same command has succeeded under this key".to_owned(),
            Decision::ReplayFailure => {
                "the same command has failed for good under this key; --if-failed rerun runs it again"
                    .to_owned()
            }
            Decision::Wait(_) | Decision::Skip => "it is running".to_owned(),
            Decision::WaitForApproval => "it is held, and nobody has decided".to_owned(),
            Decision::Refuse(refusal) => self.refusal(refusal),
        }
    }

    fn refusal(&self, refusal: Refusal) -> String {
        let record = self.found.as_ref().map(|found| &found.record);
        let pids = self.found.as_ref().and_then(View::survivors);
        say::refusal(
            refusal,
            &self.named.name,
            record,
            pids.unwrap_or_default(),
            false,
        )
    }

    /// What comes before the decision.
    fn first(&self) -> Option<String> {
        let previous = self
            .named
            .previous
            .as_ref()
            .filter(|_| self.previous_runs)?;
        let what = match self.plan.request.if_running {
            IfRunning::Wait => "it is waited for first",
            IfRunning::Refuse => "so the call is refused (exit 120)",
            IfRunning::Skip => "so the call is skipped (exit 0)",
        };
        Some(format!(
            "{} of the previous period is still running, {what}",
            previous.key
        ))
    }

    /// The guards that would refuse, where the call comes to them at all.
    fn refused_by(&self) -> Vec<&GuardView> {
        let executes = matches!(self.decision, Decision::Execute(_) | Decision::Ask(_));
        let refusing = self.guards.iter().filter(|guard| guard.refuses && executes);
        refusing.collect()
    }

    fn schedule(&self) -> Schedule {
        let retry = &self.plan.retry;
        let mut retries = if retry.nested { 0 } else { retry.retries };
        if let Some(left) = self.task_retries_left {
            retries = retries.min(left);
        }
        let bounds = |number| retry.backoff.bounds(retry.jitter, number);
        let mut total = (Duration::ZERO, Duration::ZERO);
        for number in 1..=retries.min(ADDED_PAUSES) {
            let (low, high) = bounds(number);
            total = (total.0.saturating_add(low), total.1.saturating_add(high));
        }
        let more = retries.saturating_sub(ADDED_PAUSES);
        let (low, high) = bounds(retries.max(1));
        Schedule {
            retries,
            pauses: (1..=retries.min(SHOWN_PAUSES)).map(bounds).collect(),
            total: (
                total.0.saturating_add(low.saturating_mul(more)),
                total.1.saturating_add(high.saturating_mul(more)),
            ),
        }
    }

    /// How often this call executes the command at most.
    fn most_executions(&self) -> u32 {
        let executing = self.schedule().retries.saturating_add(1);
        match self.decision {
            Decision::Execute(_) | Decision::Ask(_) => executing,
            // If its owner dies, the waiter decides anew about an unknown outcome.
            Decision::Wait(_) if self.decides_unknown() => executing,
            // An approval lets it run, and so does whatever takes the proposal's place.
            Decision::WaitForApproval => executing,
            _ => 0,
        }
    }

    fn decides_unknown(&self) -> bool {
        self.plan.request.probe || self.plan.request.rerun_unknown
    }

    /// How long the attempts with their retries can last; none where an attempt has no limit.
    fn longest(&self) -> Option<Duration> {
        let schedule = self.schedule();
        let attempt = self
            .plan
            .limits
            .timeout
            .map(|timeout| timeout.saturating_add(self.plan.limits.kill_after));
        let attempts = attempt.map(|one| one.saturating_mul(schedule.retries.saturating_add(1)));
        let all = attempts.map(|all| all.saturating_add(schedule.total.1));
        [all, self.deadline_left].into_iter().flatten().min()
    }

    fn warnings(&self) -> Vec<String> {
        let schedule = self.schedule();
        let pauses = schedule.total.1;
        let last = self.longest().unwrap_or(pauses);
        let mut warnings = Vec::new();
        if let Ttl::For(ttl) = self.plan.ttl
            && ttl < last
        {
            warnings.push(format!(
                "a result is kept for {}, and the retries of one call can last {}: a caller that comes back later runs it again; keep it longer with --ttl",
                length(ttl),
                length(last)
            ));
        }
        if let (Some(timeout), Some(left)) = (self.plan.limits.timeout, self.deadline_left) {
            let all = timeout.saturating_mul(schedule.retries.saturating_add(1));
            if all > left {
                warnings.push(format!(
                    "{} attempts of {} each take {}, and the deadline leaves {}: not all of them can take place",
                    schedule.retries.saturating_add(1),
                    length(timeout),
                    length(all),
                    length(left)
                ));
            }
        }
        if self.plan.retry.nested && self.plan.retry.retries > 0 {
            warnings.push(
                "this call runs below another idem, which does the retrying: --retries makes none here without --retry-layer"
                    .to_owned(),
            );
        }
        warnings
    }

    /// The answer to "what is the key?".
    fn the_key(&self) -> String {
        let scope = match self.named.name.scope.as_str() {
            "" => String::new(),
            scope => format!(" in the scope {scope}"),
        };
        format!("{}{scope}, {}", self.named.name.key, self.key_from)
    }

    /// The answer to "where is the state?".
    fn the_place(&self) -> String {
        let path = &self.store;
        if self.store_exists {
            format!(
                "{path}; see it with `idem status {}`",
                quote::operation(&self.named.name)
            )
        } else {
            format!("{path}, which the first execution makes")
        }
    }

    /// The answer to "what happens after a timeout?".
    fn after_timeout(&self) -> String {
        let limits = &self.plan.limits;
        let ends = match (limits.timeout, self.deadline_left) {
            (None, None) => {
                return "there is no time limit, so it is waited for as long as it takes; give --timeout or --deadline".to_owned();
            }
            (Some(timeout), _) => format!("after {}", length(timeout)),
            (None, Some(left)) => format!("when the deadline passes, in {},", length(left)),
        };
        format!(
            "{ends} the command gets SIGTERM, {} later SIGKILL, and its outcome is unknown: {}",
            length(limits.kill_after),
            self.about_unknown()
        )
    }

    fn about_unknown(&self) -> String {
        let again = match self.schedule().retries {
            0 => "a later call runs it again",
            _ => "it is run again",
        };
        if self.plan.helpers.probe.is_some() {
            let otherwise = if self.repeats_timeouts() {
                again
            } else {
                "it stays unknown"
            };
            return format!(
                "the probe is asked; yes is the result, after a no {again}, and if it cannot tell, {otherwise}"
            );
        }
        if self.repeats_timeouts() {
            return format!("{again}, since that is declared to be safe");
        }
        if self.plan.request.rerun_unknown {
            return "a later call like this one runs it again".to_owned();
        }
        "it is not run again; later calls end with 122 until a person says what happened with `idem resolve`, or a call brings a --probe".to_owned()
    }

    /// Whether the options declare that an attempt that timed out may be repeated.
    fn repeats_timeouts(&self) -> bool {
        let ending = Ending::Ended {
            exit: Exit::Signal(libc::SIGTERM),
            cut: Some(Cut::Timeout),
        };
        let rules = self.plan.retry.rules();
        let nothing = Sightings::default();
        let told = classify(&rules, &ending, &nothing, &Control::default());
        self.plan.retry.idempotent || told.named_by_retry_on
    }

    /// The record found, as a fragment.
    fn record(&self) -> String {
        let Some(found) = &self.found else {
            return "none".to_owned();
        };
        let record = &found.record;
        let code = match (found.state(), record.exit_code) {
            (State::Succeeded | State::Failed, Some(code)) => format!(" (exit {code})"),
            _ => String::new(),
        };
        let reason = found
            .reason()
            .map_or_else(String::new, |reason| format!(": {reason}"));
        let age = record.since.age(&self.now);
        format!("{}{code} for {}{reason}", found.state().word(), length(age))
    }

    /// When the record found expires, as a fragment.
    fn expiry(&self) -> Option<String> {
        let record = &self.found.as_ref()?.record;
        let Ttl::For(kept) = record.kept_for() else {
            return Some("it never expires".to_owned());
        };
        let left = kept.saturating_sub(record.since.age(&self.now));
        Some(if left.is_zero() {
            "it has expired".to_owned()
        } else {
            format!("it expires in {}", length(left))
        })
    }
}
