//! The keeper's side of a call: claim, attempts, settle.
//!
//! Nothing is executed before the claim is durable, and the caller learns nothing before the result is.

use super::claim::{self, Claim, FirstLook, NotClaimed};
use super::ending::CallerEnd;
use super::environment::ChildContext;
use super::event::{EventKind, NewEvent};
use super::guards::{self, Guarded};
use super::hands::{AttemptEnd, Before, Hands, HelperEnd, HowEnded, Role};
use super::ledger;
use super::plan::Plan;
use super::store::{Fenced, NewOutput, Step as StoreStep, Store, StoreError, StoreResult};
use crate::domain::name::Generation;
use crate::domain::outcome::{Class, Cut, Exit, State};
use crate::domain::time::UnixMs;
use crate::policy::breaker::Told;
use crate::policy::outcome::{Classified, Ending, classify};
use crate::policy::retry::{Answer, Event, Settled, Step};
use std::ffi::{OsStr, OsString};
use std::time::Duration;

mod settle;

/// How often a settle is tried while the store is busy.
const SETTLE_TRIES: u32 = 3;

/// How long a probe or a cleanup may take where neither `--timeout` nor `--deadline` bounds it.
const HELPER_LIMIT: Duration = Duration::from_secs(60);

const NOTHING_NEW: StoreStep = StoreStep {
    starts_attempt: false,
    child: None,
    dirty: None,
    output: None,
    events: Vec::new(),
    durable: false,
};

/// What the keeper has to say in the end.
#[derive(Debug)]
pub enum Kept {
    /// Nothing was executed.
    NotClaimed(NotClaimed),
    /// The command, or its probe, ran.
    Executed(Box<Executed>),
}

/// How an execution went.
#[derive(Debug)]
pub struct Executed {
    /// The claim's generation.
    pub generation: Generation,
    /// The final state.
    pub state: State,
    /// The final class.
    pub class: Class,
    /// Why, in a few words.
    pub reason: String,
    /// The record's exit code.
    pub exit_code: Option<i32>,
    /// Earliest moment at which another try makes sense.
    pub retry_at: Option<UnixMs>,
    /// When it was settled.
    pub settled_at: UnixMs,
    /// Attempts made by this call.
    pub attempts: u32,
    /// What the caller is to get.
    pub end: CallerEnd,
    /// The result's output, wherever it is now.
    pub output: Option<NewOutput>,
    /// The result is a probe's answer, whose output the caller has not seen.
    pub by_probe: bool,
    /// It is recorded as unknown, and nobody knew that before.
    pub new_unknown: bool,
    /// Whether and how the result was recorded.
    pub recorded: Recorded,
    /// Processes that could not be ended.
    pub survivors: Vec<i32>,
    /// Why idem ended the last attempt, if it did.
    pub cut: Option<Cut>,
    /// The last attempt could not be started.
    pub not_started: bool,
    /// An attempt of this call came before it.
    pub is_retry: bool,
    /// What a careful user should know although it went well.
    pub warning: Option<String>,
}

/// Whether a result was recorded.
#[derive(Debug)]
pub enum Recorded {
    /// Whole.
    Yes,
    /// Without its output, which did not fit.
    WithoutOutput,
    /// The record has moved on (resolved, forgotten, claimed anew): the ledger alone has this result.
    Superseded,
    /// Whole, and only on this machine: the store's server is away, for this reason.
    Deferred(String),
    /// Not at all, for this reason.
    No(StoreError),
}

/// Claims and executes, or says why not.
pub fn keep(
    store: &mut dyn Store,
    hands: &mut dyn Hands,
    plan: &Plan,
    first: &FirstLook,
) -> Result<Kept, StoreError> {
    if plan.request.hold
        && let Err(why) = take_preview(hands, plan, first)
    {
        return Ok(Kept::NotClaimed(NotClaimed::NoPreview(why)));
    }
    if let Some(refused) = guards::permit(store, hands, plan)? {
        return Ok(Kept::NotClaimed(NotClaimed::Guarded(refused)));
    }
    let claim = match claim::claim(store, hands, plan, first)? {
        Ok(claim) => claim,
        Err(not) => {
            if plan.guards.bulkhead.is_some() {
                // One that stays taken runs out with its lease.
                let _ = store.give_back_permit(&hands.nonce());
            }
            return Ok(Kept::NotClaimed(not));
        }
    };
    hands.claimed(claim.id.generation);
    let mut run = Run::new(store, hands, plan, claim);
    let settled = run.execute();
    Ok(Kept::Executed(Box::new(run.settle(settled))))
}

/// A proposal shows what it is about. The preview runs before anything is written: it only looks.
fn take_preview(hands: &mut dyn Hands, plan: &Plan, first: &FirstLook) -> Result<(), String> {
    if !first.proposes {
        return Ok(());
    }
    let context = ChildContext {
        name: &plan.name,
        token: "",
        generation: Generation(0),
        attempt: 0,
        deadline_unix_ms: claim::handed_down_deadline(hands, plan.limits.deadline),
        ancestry: &plan.ancestry,
    };
    let limit = plan.limits.timeout.unwrap_or(HELPER_LIMIT);
    hands.take_preview(plan.helpers.preview.as_deref(), &context, limit)
}

/// One execution under its claim.
struct Run<'a> {
    store: &'a mut dyn Store,
    hands: &'a mut dyn Hands,
    plan: &'a Plan,
    claim: Claim,
    /// Events that the next write takes along.
    events: Vec<NewEvent>,
    /// The number of the latest attempt of this generation.
    number: u32,
    last: Option<Last>,
    /// A re-execution needs the cleanup first.
    dirty: bool,
    probe_output: Option<NewOutput>,
    survivors: Vec<i32>,
    previous_dirty: bool,
    /// What the breaker has not been told yet.
    untold: Told,
    refused: Option<Guarded>,
}

/// The latest attempt.
struct Last {
    end: AttemptEnd,
    classified: Classified,
    /// Its output, if the ledger has been told of its end already.
    noted: Option<NewOutput>,
}

impl Last {
    fn was_interrupted(&self) -> bool {
        matches!(
            self.end.how,
            HowEnded::Ended {
                cut: Some(Cut::Interrupted(_)),
                ..
            }
        )
    }
}

impl<'a> Run<'a> {
    fn new(
        store: &'a mut dyn Store,
        hands: &'a mut dyn Hands,
        plan: &'a Plan,
        claim: Claim,
    ) -> Self {
        let dirty = claim.found_dirty;
        Run {
            store,
            hands,
            plan,
            claim,
            events: Vec::new(),
            number: 0,
            last: None,
            dirty,
            probe_output: None,
            survivors: Vec::new(),
            previous_dirty: dirty,
            untold: Told::Nothing,
            refused: None,
        }
    }

    /// Takes the steps of the policy machine until it says that the execution is over.
    fn execute(&mut self) -> Settled {
        let (mut execution, mut step) = self.claim.begun.clone();
        loop {
            let event = match step {
                Step::Attempt => self.attempt(),
                Step::Probe => self.probe(),
                Step::Grant => self.grant(),
                Step::Cleanup => self.cleanup(),
                Step::Pause(delay) => self.pause(delay, execution.asks_again()),
                Step::Settle(settled) => return settled,
            };
            let attempted = matches!(event, Event::Attempted(_));
            let moment = self.moment();
            step = execution.next(event, &moment);
            if attempted && !matches!(step, Step::Settle(_)) {
                self.note_attempt();
            }
        }
    }

    fn moment(&mut self) -> crate::policy::retry::Moment {
        let now = self.hands.monotonic();
        let own = self
            .last
            .as_ref()
            .map(|last| now.saturating_sub(last.end.ended));
        claim::moment(
            self.hands,
            self.claim.deadline,
            own.or(self.claim.since_end),
        )
    }

    fn attempt(&mut self) -> Event {
        self.number += 1;
        if self.number > 1 || !self.claim.prepared {
            if let Some(alive) = self.leftovers_alive() {
                self.number -= 1;
                return alive;
            }
            if let Err(why) = self.start_another() {
                return self.not_started(why);
            }
        }
        if let Err(why) = self.still_held() {
            self.hands.abandon();
            return self.not_started(why);
        }
        self.previous_dirty = self.dirty;
        self.dirty = true;
        let end = self.hands.attempt(self.number, self.claim.deadline);
        self.ended(end)
    }

    /// Everything of the earlier attempt must be gone before anything new starts.
    fn leftovers_alive(&mut self) -> Option<Event> {
        self.survivors = self.hands.end_leftovers();
        (!self.survivors.is_empty()).then_some(Event::LeftoversAlive)
    }

    /// Prepares a further attempt and makes its start durable, so that a crash never forgets it.
    fn start_another(&mut self) -> Result<(), String> {
        let ancestry = claim::ancestry(self.hands, self.plan);
        let context = ChildContext {
            name: &self.plan.name,
            token: &self.claim.token,
            generation: self.claim.id.generation,
            attempt: self.number,
            deadline_unix_ms: claim::handed_down_deadline(self.hands, self.claim.deadline),
            ancestry: &ancestry,
        };
        self.hands.prepare(&context)?;
        let child = self.hands.owner().child;
        self.event(
            EventKind::AttemptStarted,
            Some(self.number),
            ledger::started(child),
        );
        let step = StoreStep {
            starts_attempt: true,
            child,
            dirty: Some(true),
            durable: true,
            ..NOTHING_NEW
        };
        match self.write_step(step) {
            Ok(Fenced::Done) => Ok(()),
            Ok(Fenced::Superseded | Fenced::Deferred { .. }) => {
                self.hands.abandon();
                Err("the record was resolved or forgotten meanwhile".to_owned())
            }
            Err(error) => {
                self.hands.abandon();
                Err(format!("its start could not be recorded: {error}"))
            }
        }
    }

    /// Nothing that has effects starts under a claim that others may have taken over meanwhile.
    fn still_held(&mut self) -> Result<(), String> {
        match self.store.still_holds(&self.claim.id) {
            Ok(true) => Ok(()),
            Ok(false) => Err(
                "the claim was given up by others meanwhile, since nothing was heard of it"
                    .to_owned(),
            ),
            Err(error) => Err(format!("the claim could not be renewed: {error}")),
        }
    }

    fn not_started(&mut self, why: String) -> Event {
        let end = AttemptEnd {
            how: HowEnded::NotStarted { code: 126, why },
            duration: Duration::ZERO,
            seen: Default::default(),
            control: Default::default(),
            ended: self.hands.monotonic(),
            held_terminal: false,
            survivors: Vec::new(),
        };
        self.previous_dirty = self.dirty;
        self.ended(end)
    }

    fn ended(&mut self, end: AttemptEnd) -> Event {
        let rules = self.plan.retry.rules();
        let ending = match &end.how {
            HowEnded::NotStarted { why, .. } => Ending::NotStarted(why.clone()),
            HowEnded::Ended { exit, cut } => Ending::Ended {
                exit: *exit,
                cut: *cut,
            },
        };
        let classified = classify(&rules, &ending, &end.seen, &end.control);
        self.untold = Told::by(&ending, classified.class);
        if matches!(classified.class, Class::Safe | Class::Throttled) {
            // Nothing happened, so a cleanup has no more to do than before.
            self.dirty = self.previous_dirty;
        }
        self.survivors.clone_from(&end.survivors);
        let event = Event::Attempted(classified.clone());
        self.last = Some(Last {
            end,
            classified,
            noted: None,
        });
        event
    }

    /// The end of an attempt after which more is done. Its output is kept for `idem output --attempt`, and
    /// is still the result if no other attempt follows.
    fn note_attempt(&mut self) {
        let output = self.hands.take_output();
        self.attempt_event(Some(&output));
        let step = StoreStep {
            dirty: Some(self.dirty),
            output: Some(output.clone()),
            ..NOTHING_NEW
        };
        // If that fails, the settlement stores what can be stored; the ledger may be short of an output.
        let _ = self.write_step(step);
        if let Some(last) = &mut self.last {
            last.noted = Some(output);
        }
    }

    /// Writes a step with the events so far. If it cannot be written, the next write takes them along.
    fn write_step(&mut self, step: StoreStep) -> StoreResult<Fenced> {
        let step = StoreStep {
            events: std::mem::take(&mut self.events),
            ..step
        };
        let written = self.store.step(&self.claim.id, &step);
        if written.is_err() {
            self.events = step.events;
        }
        written
    }

    fn attempt_event(&mut self, output: Option<&NewOutput>) {
        let Some(last) = &self.last else { return };
        let detail = ledger::attempt_ended(&last.end, &last.classified, output);
        self.event(EventKind::AttemptEnded, Some(self.number), detail);
    }

    fn event(&mut self, kind: EventKind, attempt: Option<u32>, detail: ledger::Detail) {
        let at = self.hands.now().wall;
        self.events.push(NewEvent {
            at,
            kind,
            attempt,
            detail,
        });
    }

    /// Asks the probe.
    fn probe(&mut self) -> Event {
        if let Some(alive) = self.leftovers_alive() {
            return alive;
        }
        let command = self.plan.helpers.probe.clone().unwrap_or_default();
        let end = self.helper(Role::Probe, &command);
        let answer = answer_of(&end);
        self.event(
            EventKind::Probed,
            None,
            ledger::helper(&command, &end, answer_word(answer)),
        );
        if answer == Answer::Happened {
            self.probe_output = Some(end.stdout);
        } else {
            self.hands.discard(&end.stdout);
        }
        Event::Probed(answer)
    }

    /// Runs the cleanup, and notes at once that it need not run again for the same attempt.
    fn cleanup(&mut self) -> Event {
        if let Some(alive) = self.leftovers_alive() {
            return alive;
        }
        let command = self.plan.helpers.cleanup.clone().unwrap_or_default();
        if self.still_held().is_err() {
            return Event::Cleaned(false);
        }
        let end = self.helper(Role::Cleanup, &command);
        self.hands.discard(&end.stdout);
        let done = end.exit == Some(Exit::Code(0));
        let word = if done { "done" } else { "failed" };
        self.event(
            EventKind::Cleaned,
            None,
            ledger::helper(&command, &end, word),
        );
        Event::Cleaned(done && self.note_cleaned())
    }

    fn note_cleaned(&mut self) -> bool {
        self.dirty = false;
        let step = StoreStep {
            dirty: Some(false),
            durable: true,
            ..NOTHING_NEW
        };
        matches!(self.write_step(step), Ok(Fenced::Done))
    }

    fn helper(&mut self, role: Role, command: &OsString) -> HelperEnd {
        let ancestry = claim::ancestry(self.hands, self.plan);
        let now = self.hands.monotonic();
        let remaining = self.claim.deadline.map(|at| at.saturating_sub(now));
        let limit = [self.plan.limits.timeout, remaining]
            .into_iter()
            .flatten()
            .min();
        let context = ChildContext {
            name: &self.plan.name,
            token: &self.claim.token,
            generation: self.claim.id.generation,
            attempt: self.number,
            deadline_unix_ms: claim::handed_down_deadline(self.hands, self.claim.deadline),
            ancestry: &ancestry,
        };
        let limit = limit.unwrap_or(HELPER_LIMIT);
        self.hands
            .helper(role, OsStr::new(command), &context, limit)
    }

    /// Asks for one more attempt what all calls share: breaker, task and budget.
    fn grant(&mut self) -> Event {
        let (hands, plan, told) = (&*self.hands, &self.plan.guards, self.untold);
        let mut answer = Ok(());
        let asked = self.store.with_guards(&mut |guards| {
            answer = guards::grant_retry(hands, plan, guards, told)?;
            Ok(())
        });
        self.refused = match (asked, answer) {
            (Ok(()), Ok(())) => None,
            (Ok(()), Err(refused)) => Some(refused),
            // Who cannot be asked has not agreed.
            (Err(error), _) => Some(Guarded {
                guard: "store",
                why: error.to_string(),
                retry_at: None,
            }),
        };
        if !matches!(&self.refused, Some(refused) if refused.guard == "store") {
            self.untold = Told::Nothing;
        }
        if let Some(refused) = self.refused.clone() {
            self.event(EventKind::Guarded, None, ledger::guarded(&refused));
        }
        Event::Granted(self.refused.is_none())
    }

    fn pause(&mut self, delay: Duration, asks_again: bool) -> Event {
        self.event(EventKind::Paused, None, ledger::paused(delay));
        let last = self.last.as_ref();
        let reason = last.map_or("", |last| last.classified.reason.as_str());
        let before = match asks_again {
            true => Before::Probe,
            false => Before::Attempt(self.number + 1, reason),
        };
        self.hands.pause(delay, before);
        Event::Paused
    }
}

/// What a probe's end means. An asker that could not ask does not pass for a no.
fn answer_of(end: &HelperEnd) -> Answer {
    match end.exit {
        Some(Exit::Code(0)) => Answer::Happened,
        Some(Exit::Code(1)) if end.stderr_head.is_empty() => Answer::DidNot,
        Some(Exit::Code(75)) => Answer::StillUnderWay,
        _ => Answer::Undetermined,
    }
}

fn answer_word(answer: Answer) -> &'static str {
    match answer {
        Answer::Happened => "it happened",
        Answer::DidNot => "it did not happen",
        Answer::StillUnderWay => "still under way",
        Answer::Undetermined => "could not tell",
    }
}
