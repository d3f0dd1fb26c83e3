//! What happens before, between and after the attempts of one execution: a state machine.
//!
//! The engine executes a [`Step`], reports how it went as an [`Event`], and gets the next step, until
//! it is told to settle. One rule stands above all others: an attempt that may have happened is never
//! run again unless a probe says that it did not happen, or the caller declared the repetition safe.

use std::fmt;
use std::time::Duration;

use super::backoff::{Backoff, Jitter};
use super::outcome::Classified;
use crate::domain::outcome::Class;

/// What the options of the call say about repeating.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// `--retries`: how many attempts may follow the first one.
    pub retries: u32,
    /// The pause before a retry, and before a probe is asked again.
    pub backoff: Backoff,
    /// How the pauses are spread.
    pub jitter: Jitter,
    /// Whether a probe was given.
    pub probe: bool,
    /// `--probe-first`: ask even when nothing is known of an earlier attempt.
    pub probe_first: bool,
    /// `--settle`: how long after an attempt's end a probe's no can be too early.
    pub settle: Option<Duration>,
    /// Whether a cleanup was given.
    pub cleanup: bool,
    /// `--idempotent`: a repetition is safe.
    pub idempotent: bool,
    /// `--if-unknown rerun`: an unknown outcome found at the start is run again.
    pub rerun_unknown: bool,
    /// Whether a retry must also be granted by a shared budget or a task.
    pub shared_grants: bool,
    /// A person must approve every run (`--hold`): after a probe's no nothing is run by itself.
    pub held: bool,
    /// Called below another living call, and no retry layer of its own: it does not retry.
    pub nested: bool,
}

/// What an execution finds of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The class of the last attempt, if there was one.
    pub class: Option<Class>,
    /// Whether nothing half done is left: a cleanup has succeeded since the last attempt that may have
    /// left something. That attempt need not be the last one of all.
    pub cleaned: bool,
}

/// What a probe answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Exit 0: it happened.
    Happened,
    /// Exit 1 with nothing on stderr: it did not happen.
    DidNot,
    /// Exit 75: it may still be under way.
    StillUnderWay,
    /// Anything else: the probe could not tell.
    Undetermined,
}

/// How the last step went.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The attempt ended, and this is what it tells.
    Attempted(Classified),
    /// The probe answered.
    Probed(Answer),
    /// The shared budget or task granted a retry, or had none left.
    Granted(bool),
    /// The cleanup exited 0, or did not.
    Cleaned(bool),
    /// The pause is over.
    Paused,
    /// The step was not taken, since something of the earlier attempt is alive and could not be ended.
    LeftoversAlive,
}

/// What the machine must know of the moment at which an event arrives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// What is left until the deadline, if there is one.
    pub remaining: Option<Duration>,
    /// How long ago the last attempt ended, if there was one.
    pub since_attempt: Option<Duration>,
    /// Whether INT, TERM or QUIT was forwarded, or the caller went away and asked for the end.
    pub interrupted: bool,
    /// A random number, uniform in [0, 1).
    pub random: f64,
}

/// What the engine does next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Start the next attempt.
    Attempt,
    /// Ask the probe.
    Probe,
    /// Take one retry from the shared budget or task.
    Grant,
    /// Run the cleanup.
    Cleanup,
    /// Wait this long.
    Pause(Duration),
    /// The execution is over.
    Settle(Settled),
}

/// How an execution is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// The class that the record gets; [`crate::domain::outcome::state_after`] makes it a state.
    pub class: Class,
    /// Why no further step follows.
    pub why: Why,
}

/// Why an execution is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The attempt's class says all.
    Final,
    /// The probe says that it happened: its stdout is the result.
    ProbeFoundIt,
    /// The probe could not tell.
    ProbeUndetermined,
    /// Nobody knows whether it happened, and there is no probe to ask.
    NoProbe,
    /// No retry is left.
    NoRetryLeft,
    /// The shared budget or task grants no further retry.
    NotGranted,
    /// A nested call does not retry.
    Nested,
    /// It could not be started, or `--stop-on` names it.
    NoRetry,
    /// The cleanup failed.
    CleanupFailed,
    /// The deadline has passed, or the next pause would end after it.
    Deadline,
    /// Nothing new starts after an interrupt.
    Interrupted,
    /// Something of the earlier attempt is still alive.
    LeftoversAlive,
    /// The probe says that it did not happen, and a run needs a person's approval.
    NeedsApproval,
    /// The event does not belong to the step that was asked for.
    OutOfOrder,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::Final => "the attempt says it",
            Why::ProbeFoundIt => "the probe says that it happened",
            Why::ProbeUndetermined => "the probe could not tell",
            Why::NoProbe => "there is no probe to ask",
            Why::NoRetryLeft => "no retry is left",
            Why::NotGranted => "the shared budget grants no retry",
            Why::Nested => "a nested call does not retry",
            Why::NoRetry => "it is not to be retried",
            Why::CleanupFailed => "the cleanup failed",
            Why::Deadline => "the deadline leaves no time",
            Why::Interrupted => "it was interrupted",
            Why::LeftoversAlive => "processes of the earlier attempt are still alive",
            Why::NeedsApproval => "the probe says that it did not happen; a run needs approval",
            Why::OutOfOrder => "the steps came out of order",
        })
    }
}

/// A probe is not asked again when less than this remains until the deadline.
const SHORTEST_ASK: Duration = Duration::from_millis(100);

/// Which event the machine waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    ForAttempt,
    ForProbe,
    /// The pause before the probe is asked again.
    ForNextAsk,
    ForGrant,
    ForCleanup,
    /// The pause before the next attempt.
    ForPause,
    Over,
}

/// One execution: everything that is done under one claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    plan: Plan,
    waiting: Waiting,
    /// What the record would get if the execution ended now.
    stands: Class,
    /// What the record gets once a due cleanup is done: a probe's no makes an uncertain attempt safe.
    learnt: Class,
    /// Whether the last attempt may have left something that a cleanup must remove.
    cleanup_due: bool,
    /// An attempt that nobody knows about was followed by another one without a probe's word. A later one
    /// that did nothing, or failed, tells nothing about it.
    doubt: bool,
    /// The last attempt of this call, if there was one.
    last: Option<Last>,
    retries_used: u32,
    /// The pause that was chosen for the coming retry.
    chosen: Duration,
    previous_pause: Option<Duration>,
    asks: u32,
    previous_ask: Option<Duration>,
}

/// What later steps need of the last attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Last {
    retry_after: Option<Duration>,
    /// May be run again although nobody knows whether it happened.
    declared: bool,
    no_retry: bool,
}

impl Execution {
    /// Begins an execution over what was found, and says what to do first.
    pub fn begin(plan: Plan, found: Found, moment: &Moment) -> (Execution, Step) {
        let class = found.class.unwrap_or(Class::Safe);
        let mut execution = Execution {
            plan,
            waiting: Waiting::Over,
            stands: class,
            learnt: class,
            cleanup_due: found.class.is_some() && !found.cleaned,
            doubt: class == Class::Uncertain,
            last: None,
            retries_used: 0,
            chosen: Duration::ZERO,
            previous_pause: None,
            asks: 0,
            previous_ask: None,
        };
        let step = execution.first(moment);
        (execution, step)
    }

    /// Takes the news of the last step and says what to do next.
    pub fn next(&mut self, event: Event, moment: &Moment) -> Step {
        match (self.waiting, event) {
            (Waiting::Over, _) => self.settle(self.stands, Why::OutOfOrder),
            (_, Event::LeftoversAlive) => self.settle(Class::Uncertain, Why::LeftoversAlive),
            (Waiting::ForAttempt, Event::Attempted(told)) => self.attempted(&told, moment),
            (Waiting::ForProbe, Event::Probed(answer)) => self.probed(answer, moment),
            (Waiting::ForNextAsk, Event::Paused) => self.ask(moment),
            (Waiting::ForGrant, Event::Granted(true)) => self.clean_first(moment),
            (Waiting::ForGrant, Event::Granted(false)) => self.settle(self.learnt, Why::NotGranted),
            (Waiting::ForCleanup, Event::Cleaned(done)) => self.cleaned(done, moment),
            (Waiting::ForPause, Event::Paused) => self.attempt(moment),
            _ => self.settle(Class::Uncertain, Why::OutOfOrder),
        }
    }

    /// How many retries this execution has begun.
    pub fn retries_used(&self) -> u32 {
        self.retries_used
    }

    /// Whether the pause that it asked for comes before the probe is asked once more.
    pub fn asks_again(&self) -> bool {
        self.waiting == Waiting::ForNextAsk
    }

    fn first(&mut self, moment: &Moment) -> Step {
        let unknown = self.stands == Class::Uncertain;
        if self.plan.probe && (unknown || self.plan.probe_first) {
            return self.ask(moment);
        }
        if unknown && !self.may_rerun() {
            return self.settle(Class::Uncertain, Why::NoProbe);
        }
        self.clean_first(moment)
    }

    fn attempted(&mut self, told: &Classified, moment: &Moment) -> Step {
        let declared = self.plan.idempotent || told.named_by_retry_on;
        self.stands = told.class;
        self.learnt = told.class;
        self.cleanup_due = told.class.leaves_traces();
        self.doubt |= told.class == Class::Uncertain;
        self.asks = 0;
        self.previous_ask = None;
        self.last = Some(Last {
            retry_after: told.retry_after,
            declared,
            no_retry: told.no_retry,
        });
        match told.class {
            Class::Success | Class::Permanent => self.settle(told.class, Why::Final),
            Class::Safe | Class::Throttled | Class::Retryable => self.retry(moment),
            Class::Uncertain if self.plan.probe => self.ask(moment),
            Class::Uncertain => self.rerun_unknown(Why::NoProbe, moment),
        }
    }

    /// Runs again what nobody knows about, if that was declared safe.
    fn rerun_unknown(&mut self, otherwise: Why, moment: &Moment) -> Step {
        if moment.interrupted {
            return self.settle(Class::Uncertain, Why::Interrupted);
        }
        if !self.may_rerun() {
            return self.settle(Class::Uncertain, otherwise);
        }
        match self.last {
            Some(_) => self.retry(moment),
            None => self.clean_first(moment),
        }
    }

    fn may_rerun(&self) -> bool {
        match self.last {
            Some(last) => last.declared,
            None => self.plan.idempotent || self.plan.rerun_unknown,
        }
    }

    fn ask(&mut self, moment: &Moment) -> Step {
        match forbidden(moment) {
            Some(why) => self.settle(self.stands, why),
            None => self.wait(Waiting::ForProbe, Step::Probe),
        }
    }

    fn probed(&mut self, answer: Answer, moment: &Moment) -> Step {
        match answer {
            Answer::Happened => self.settle(Class::Success, Why::ProbeFoundIt),
            Answer::StillUnderWay => self.ask_again(None, moment),
            Answer::DidNot => match self.too_soon_by(moment) {
                Some(left) => self.ask_again(Some(left), moment),
                None => self.did_not(moment),
            },
            Answer::Undetermined => {
                self.learnt = Class::Uncertain;
                self.rerun_unknown(Why::ProbeUndetermined, moment)
            }
        }
    }

    /// How much longer a no is too early to be believed.
    fn too_soon_by(&self, moment: &Moment) -> Option<Duration> {
        let left = self.plan.settle?.checked_sub(moment.since_attempt?)?;
        (!left.is_zero()).then_some(left)
    }

    fn did_not(&mut self, moment: &Moment) -> Step {
        self.learnt = Class::Safe;
        self.doubt = false;
        if self.plan.held {
            return self.settle(Class::Safe, Why::NeedsApproval);
        }
        match self.last {
            Some(_) => self.retry(moment),
            // A call that came to ask runs it: that is its first attempt, not a retry.
            None => self.clean_first(moment),
        }
    }

    /// Waits before the probe is asked once more; at most `limit`, and not past the deadline.
    fn ask_again(&mut self, limit: Option<Duration>, moment: &Moment) -> Step {
        self.stands = Class::Uncertain;
        self.learnt = Class::Uncertain;
        if moment.interrupted {
            return self.settle(Class::Uncertain, Why::Interrupted);
        }
        self.asks = self.asks.saturating_add(1);
        let plan = &self.plan;
        let pause = plan
            .backoff
            .delay(plan.jitter, self.asks, self.previous_ask, moment.random);
        self.previous_ask = Some(pause);
        let pause = limit.map_or(pause, |l| pause.min(l));
        match moment.remaining {
            Some(left) if left < SHORTEST_ASK => self.settle(Class::Uncertain, Why::Deadline),
            // Half of what is left, so that the answer still comes in time.
            Some(left) => self.wait(Waiting::ForNextAsk, Step::Pause(pause.min(left / 2))),
            None => self.wait(Waiting::ForNextAsk, Step::Pause(pause)),
        }
    }

    /// Begins a retry of this call's last attempt, if everything allows one.
    fn retry(&mut self, moment: &Moment) -> Step {
        if let Some(why) = self.no_retry(moment) {
            return self.settle(self.learnt, why);
        }
        let number = self.retries_used.saturating_add(1);
        let plan = &self.plan;
        let own = plan
            .backoff
            .delay(plan.jitter, number, self.previous_pause, moment.random);
        let hint = self.last.and_then(|last| last.retry_after);
        self.chosen = own.max(hint.unwrap_or_default());
        if moment.remaining.is_some_and(|left| self.chosen >= left) {
            return self.settle(self.learnt, Why::Deadline);
        }
        self.previous_pause = Some(own);
        // The budget pays before the pause: a caller that gets nothing must not wait for it.
        if self.plan.shared_grants {
            return self.wait(Waiting::ForGrant, Step::Grant);
        }
        self.clean_first(moment)
    }

    fn no_retry(&self, moment: &Moment) -> Option<Why> {
        if let Some(why) = forbidden(moment) {
            return Some(why);
        }
        if self.last.is_some_and(|last| last.no_retry) {
            return Some(Why::NoRetry);
        }
        if self.plan.nested {
            return Some(Why::Nested);
        }
        (self.retries_used >= self.plan.retries).then_some(Why::NoRetryLeft)
    }

    /// Runs the cleanup if one is due, then goes on to the attempt.
    fn clean_first(&mut self, moment: &Moment) -> Step {
        if let Some(why) = forbidden(moment) {
            return self.settle(self.learnt, why);
        }
        if self.plan.cleanup && self.cleanup_due {
            return self.wait(Waiting::ForCleanup, Step::Cleanup);
        }
        self.pause_first(moment)
    }

    fn cleaned(&mut self, done: bool, moment: &Moment) -> Step {
        if !done {
            let why = if moment.interrupted {
                Why::Interrupted
            } else {
                Why::CleanupFailed
            };
            // Whatever a probe said: what is left half done is not known.
            return self.settle(self.stands, why);
        }
        self.cleanup_due = false;
        self.stands = self.learnt;
        self.pause_first(moment)
    }

    /// Pauses before a retry; the first attempt of a call needs no pause.
    fn pause_first(&mut self, moment: &Moment) -> Step {
        if self.last.is_none() || self.chosen.is_zero() {
            return self.attempt(moment);
        }
        if let Some(why) = forbidden(moment) {
            return self.settle(self.learnt, why);
        }
        if moment.remaining.is_some_and(|left| self.chosen >= left) {
            return self.settle(self.learnt, Why::Deadline);
        }
        self.wait(Waiting::ForPause, Step::Pause(self.chosen))
    }

    fn attempt(&mut self, moment: &Moment) -> Step {
        if let Some(why) = forbidden(moment) {
            return self.settle(self.learnt, why);
        }
        if self.last.is_some() {
            self.retries_used = self.retries_used.saturating_add(1);
        }
        self.wait(Waiting::ForAttempt, Step::Attempt)
    }

    fn wait(&mut self, waiting: Waiting, step: Step) -> Step {
        self.waiting = waiting;
        step
    }

    fn settle(&mut self, class: Class, why: Why) -> Step {
        let again = matches!(class, Class::Safe | Class::Throttled | Class::Retryable);
        let class = if self.doubt && again {
            Class::Uncertain
        } else {
            class
        };
        self.waiting = Waiting::Over;
        self.stands = class;
        Step::Settle(Settled { class, why })
    }
}

/// Why nothing new may start at this moment.
fn forbidden(moment: &Moment) -> Option<Why> {
    if moment.interrupted {
        Some(Why::Interrupted)
    } else if moment.remaining.is_some_and(|left| left.is_zero()) {
        Some(Why::Deadline)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
