//! The front's side of a call: look, decide, wait, and leave executing to a keeper.

use super::claim::FirstLook;
use super::plan::Plan;
use super::store::{PastResult, Store, StoreResult};
use crate::domain::decision::{Decision, IfRunning, Refusal, Request, decide, seen_state};
use crate::domain::name::{Generation, OpName};
use crate::domain::outcome::State;
use crate::domain::owner::Liveness;
use crate::domain::record::{Identity, Record};
use crate::domain::time::{Stamp, Ttl};
use std::time::Duration;

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// The owner, or what was left of it, is gone, or the record has changed: look again.
    LookAgain,
    /// The time for waiting is over.
    TimedOut,
}

/// How the keeper that was asked to execute ended.
#[derive(Debug)]
pub enum Delegated<T> {
    /// It executed; this is for the caller.
    Ended(T),
    /// Another generation has come.
    Changed(Generation),
    /// The record asks for something else now.
    LookAgain,
}

/// What the front needs done.
pub trait Caller {
    /// What an execution hands back.
    type Execution;

    /// The store, open for reading; none where there is no store yet.
    fn store(&mut self) -> StoreResult<Option<&mut dyn Store>>;
    /// The moment.
    fn now(&self) -> Stamp;
    /// The monotonic clock.
    fn monotonic(&self) -> Duration;
    /// What is left of a record's owner.
    fn observe(&mut self, record: &Record) -> Liveness;
    /// Waits for a record's owner (or, with the owner gone, for what it left) until that moment.
    fn wait(&mut self, record: &Record, liveness: &Liveness, until: Option<Duration>) -> WaitEnd;
    /// Waits until the store may have changed since the last look at a held record, or until that moment.
    fn wait_for_change(&mut self, record: &Record, until: Option<Duration>) -> WaitEnd;
    /// What exactly would run.
    fn identity(&mut self) -> Identity;
    /// Notes durably that a running record's owner is gone. Not being able to is no error: every other
    /// observer sees the same.
    fn note_owner_lost(&mut self, record: &Record);
    /// Closes the store and lets a keeper execute.
    fn delegate(&mut self, first: FirstLook) -> StoreResult<Delegated<Self::Execution>>;
}

/// How a call ends.
#[derive(Debug)]
pub enum Outcome<T> {
    /// The stored result is handed out.
    Replayed {
        /// The record.
        record: Box<Record>,
        /// It is an old failure, which must be said.
        old_failure: bool,
    },
    /// The result of the execution that was waited for is handed out, whatever it is.
    Waited {
        /// The record, still of that generation.
        record: Box<Record>,
    },
    /// The same, from the ledger, since the record has moved on.
    WaitedPast {
        /// How that generation ended.
        result: Box<PastResult>,
    },
    /// Nothing is executed or handed out.
    Refused {
        /// Why.
        refusal: Refusal,
        /// The operation that is in the way: the call's own, or its previous period's.
        name: OpName,
        /// The record, as found.
        record: Option<Box<Record>>,
        /// Process IDs of what is still alive, where they are known.
        pids: Vec<i32>,
        /// A wait ran out before this.
        waited: bool,
    },
    /// `--if-running skip`.
    Skipped,
    /// `--detach` wants it under way, and another call's execution is.
    UnderWay {
        /// Its generation.
        generation: Generation,
    },
    /// A keeper executed.
    Executed(T),
}

/// One call, from the first look to its end.
pub fn call<C: Caller>(caller: &mut C, plan: &Plan) -> StoreResult<Outcome<C::Execution>> {
    if let Some(outcome) = meet_previous_period(caller, plan)? {
        return Ok(outcome);
    }
    Front {
        caller,
        plan,
        request: plan.request.clone(),
        waiting: None,
        wait_until: None,
    }
    .run()
}

/// What a waiter waits for.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    generation: Generation,
    /// Its owner lived when the wait began, so whatever that owner settles is handed out.
    owner_lived: bool,
    /// It was seen to be of the same command.
    same: bool,
}

struct Front<'a, C> {
    caller: &'a mut C,
    plan: &'a Plan,
    request: Request,
    waiting: Option<Waiting>,
    wait_until: Option<Duration>,
}

impl<C: Caller> Front<'_, C> {
    fn run(mut self) -> StoreResult<Outcome<C::Execution>> {
        loop {
            let (record, liveness) = look(self.caller, &self.plan.name)?;
            if let Some(outcome) = self.awaited(record.as_ref(), &liveness)? {
                return Ok(outcome);
            }
            if let Some(outcome) = self.act(record, &liveness)? {
                return Ok(outcome);
            }
        }
    }

    /// The result that was waited for, if it is there. Where it cannot be handed out (the record was
    /// forgotten, the owner died), the wait is over and the call decides anew.
    fn awaited(
        &mut self,
        record: Option<&Record>,
        liveness: &Liveness,
    ) -> StoreResult<Option<Outcome<C::Execution>>> {
        let Some(waiting) = self.waiting else {
            return Ok(None);
        };
        let Some(record) = record else {
            self.waiting = None;
            return Ok(None);
        };
        if record.generation != waiting.generation {
            self.waiting = None;
            if !waiting.same {
                return Ok(None);
            }
            let past = match self.caller.store()? {
                Some(store) => store.past_result(&self.plan.name, waiting.generation)?,
                None => None,
            };
            return Ok(past.map(|result| Outcome::WaitedPast {
                result: Box::new(result),
            }));
        }
        let same = record.fingerprint == self.plan.request.fingerprint;
        self.waiting = Some(Waiting { same, ..waiting });
        let by_person = record.settled_by_person();
        match seen_state(record, liveness) {
            State::Running => return Ok(None),
            State::Succeeded | State::Failed if same && !by_person => {}
            State::Unknown if same && waiting.owner_lived && record.state == State::Unknown => {}
            State::Succeeded | State::Failed | State::Unknown | State::Held => {
                self.waiting = None;
                return Ok(None);
            }
        }
        Ok(Some(Outcome::Waited {
            record: Box::new(record.clone()),
        }))
    }

    fn act(
        &mut self,
        record: Option<Record>,
        liveness: &Liveness,
    ) -> StoreResult<Option<Outcome<C::Execution>>> {
        let now = self.caller.now();
        let held = record
            .as_ref()
            .is_some_and(|record| record.state == State::Held);
        if (held || self.request.hold) && self.request.identity.is_none() {
            self.request.identity = Some(self.caller.identity());
        }
        Ok(
            match decide(record.as_ref(), &self.request, liveness, &now) {
                Decision::Execute(_) | Decision::Ask(_) => self.delegate(record, false)?,
                Decision::Propose => self.delegate(record, true)?,
                Decision::Replay => replayed(record, false),
                Decision::ReplayFailure => replayed(record, true),
                Decision::Wait(generation) => self.wait(generation, record, liveness),
                Decision::WaitForApproval => self.wait_for_approval(record, &now),
                Decision::Skip => Some(Outcome::Skipped),
                Decision::Refuse(refusal) => self.refuse(refusal, record, liveness),
            },
        )
    }

    fn delegate(
        &mut self,
        record: Option<Record>,
        proposes: bool,
    ) -> StoreResult<Option<Outcome<C::Execution>>> {
        let first = FirstLook {
            generation: record.map(|record| record.generation),
            proposes,
            identity: self.request.identity.clone(),
        };
        Ok(match self.caller.delegate(first)? {
            Delegated::Ended(execution) => Some(Outcome::Executed(execution)),
            Delegated::Changed(generation) => {
                self.waiting = Some(Waiting {
                    generation,
                    owner_lived: true,
                    same: false,
                });
                None
            }
            Delegated::LookAgain => None,
        })
    }

    fn wait(
        &mut self,
        generation: Generation,
        record: Option<Record>,
        liveness: &Liveness,
    ) -> Option<Outcome<C::Execution>> {
        if self.plan.running.detach {
            return Some(Outcome::UnderWay { generation });
        }
        let record = record?;
        let owner_lives = matches!(liveness, Liveness::OwnerAlive | Liveness::OutOfSight);
        let waiting = self.waiting.get_or_insert(Waiting {
            generation,
            owner_lived: owner_lives,
            same: true,
        });
        if !owner_lives && record.state == State::Running {
            waiting.owner_lived = false;
        }
        let until = self.wait_end();
        match self.caller.wait(&record, liveness, until) {
            WaitEnd::LookAgain => None,
            WaitEnd::TimedOut => Some(refused(
                Refusal::StillRunning,
                Some(record),
                liveness,
                true,
                self.plan,
            )),
        }
    }

    fn wait_for_approval(
        &mut self,
        record: Option<Record>,
        now: &Stamp,
    ) -> Option<Outcome<C::Execution>> {
        let record = record?;
        let valid = match record.kept_for() {
            Ttl::For(ttl) => Some(ttl.saturating_sub(record.since.age(now))),
            Ttl::Forever => None,
        };
        let expires = valid.map(|left| self.caller.monotonic().saturating_add(left));
        let until = [self.wait_end(), expires].into_iter().flatten().min();
        match self.caller.wait_for_change(&record, until) {
            WaitEnd::LookAgain => None,
            WaitEnd::TimedOut if until == expires && expires.is_some() => None,
            WaitEnd::TimedOut => Some(refused(
                Refusal::NeedsApproval,
                Some(record),
                &Liveness::Gone,
                true,
                self.plan,
            )),
        }
    }

    /// The moment at which all waiting of this call ends.
    fn wait_end(&mut self) -> Option<Duration> {
        let now = self.caller.monotonic();
        if self.wait_until.is_none() {
            self.wait_until = self.plan.limits.wait.map(|limit| now.saturating_add(limit));
        }
        [self.wait_until, self.plan.limits.deadline]
            .into_iter()
            .flatten()
            .min()
    }

    fn refuse(
        &mut self,
        refusal: Refusal,
        record: Option<Record>,
        liveness: &Liveness,
    ) -> Option<Outcome<C::Execution>> {
        if let Some(record) = &record
            && record.state == State::Running
            && *liveness == Liveness::Gone
        {
            self.caller.note_owner_lost(record);
        }
        Some(refused(refusal, record, liveness, false, self.plan))
    }
}

fn replayed<T>(record: Option<Record>, old_failure: bool) -> Option<Outcome<T>> {
    record.map(|record| Outcome::Replayed {
        record: Box::new(record),
        old_failure,
    })
}

fn refused<T>(
    refusal: Refusal,
    record: Option<Record>,
    liveness: &Liveness,
    waited: bool,
    plan: &Plan,
) -> Outcome<T> {
    let pids = match liveness {
        Liveness::TreeAlive { pids } => pids.clone(),
        Liveness::OwnerAlive | Liveness::OutOfSight => record
            .iter()
            .filter_map(|record| record.owner.as_ref())
            .map(|owner| owner.keeper.pid)
            .collect(),
        Liveness::Gone => Vec::new(),
    };
    let name = record
        .as_ref()
        .map_or_else(|| plan.name.clone(), |record| record.name.clone());
    Outcome::Refused {
        refusal,
        name,
        record: record.map(Box::new),
        pids,
        waited,
    }
}

/// The record and what is left of its owner. A record whose owner is found gone is read once more: the
/// owner may have settled it and left between the read and the look.
fn look<C: Caller>(caller: &mut C, name: &OpName) -> StoreResult<(Option<Record>, Liveness)> {
    let mut record = find(caller, name)?;
    let Some(found) = record.as_ref().filter(|record| watched(record)) else {
        return Ok((record, Liveness::Gone));
    };
    let liveness = caller.observe(found);
    if liveness == Liveness::OwnerAlive {
        return Ok((record, liveness));
    }
    let generation = found.generation;
    record = find(caller, name)?;
    match record.as_ref().filter(|record| watched(record)) {
        Some(again) if again.generation == generation => Ok((record, liveness)),
        // Another claim since: its owner lives, or the next look will tell.
        Some(again) => {
            let liveness = caller.observe(again);
            Ok((record, liveness))
        }
        None => Ok((record, Liveness::Gone)),
    }
}

fn watched(record: &Record) -> bool {
    matches!(record.state, State::Running | State::Unknown)
}

fn find<C: Caller>(caller: &mut C, name: &OpName) -> StoreResult<Option<Record>> {
    match caller.store()? {
        Some(store) => store.find(name),
        None => Ok(None),
    }
}

/// `--per`: the previous period's execution may still be at work when this period begins. It is met as
/// `--if-running` says before this period's own operation is looked at.
fn meet_previous_period<C: Caller>(
    caller: &mut C,
    plan: &Plan,
) -> StoreResult<Option<Outcome<C::Execution>>> {
    let Some(previous) = &plan.previous else {
        return Ok(None);
    };
    let until = plan
        .limits
        .wait
        .map(|limit| caller.monotonic().saturating_add(limit));
    let until = [until, plan.limits.deadline].into_iter().flatten().min();
    loop {
        let (record, liveness) = look(caller, previous)?;
        let Some(record) = record.filter(|record| seen_state(record, &liveness) == State::Running)
        else {
            return Ok(None);
        };
        if plan.request.ancestry.contains(&record.nonce) {
            return Ok(None);
        }
        match plan.request.if_running {
            IfRunning::Skip => return Ok(Some(Outcome::Skipped)),
            IfRunning::Refuse => {
                return Ok(Some(refused(
                    Refusal::StillRunning,
                    Some(record),
                    &liveness,
                    false,
                    plan,
                )));
            }
            IfRunning::Wait => {
                if caller.wait(&record, &liveness, until) == WaitEnd::TimedOut {
                    return Ok(Some(refused(
                        Refusal::StillRunning,
                        Some(record),
                        &liveness,
                        true,
                        plan,
                    )));
                }
            }
        }
    }
}
