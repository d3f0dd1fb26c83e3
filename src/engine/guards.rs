//! The guards around every attempt, in one visible order: permit, breaker lease, deadline; and what a
//! retry takes from budget and task.
//!
//! A permit is a kernel lock, or a leased row where several machines share the store. It is taken before
//! the claim, so that a call without one claims nothing.
//! The rest lives in the store and is read and written in the claim's own transaction.

use super::hands::{Before, Hands};
use super::holder;
use super::plan::{GuardPlan, Plan};
use super::store::{GuardKind, Guards, Permit, PermitWish, Store, StoreError, StoreResult};
use crate::domain::time::{Stamp, UnixMs};
use crate::policy::breaker::{Admission, Breaker, BreakerSpec, Phase, Told};
use crate::policy::budget::Budget;
use crate::policy::state::StateError;
use crate::policy::task::Task;
use serde_json::Value;
use std::time::Duration;

/// A guard's no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarded {
    /// Which one, in a word.
    pub guard: &'static str,
    /// Why, as a lowercase fragment that says what to do.
    pub why: String,
    /// Earliest moment at which another try makes sense.
    pub retry_at: Option<UnixMs>,
}

/// What the guards in the store say before a claim.
#[derive(Debug)]
pub enum Entry {
    /// Nobody objects; the call must be over at this moment of the monotonic clock.
    Free(Option<Duration>),
    /// One says no.
    Refused(Guarded),
}

/// The first and the longest pause before a store that several machines share is asked for a permit again.
const PERMIT_PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Takes a permit of the bulkhead, waiting for it as long as the call may.
pub fn permit(
    store: &mut dyn Store,
    hands: &mut dyn Hands,
    plan: &Plan,
) -> StoreResult<Option<Guarded>> {
    let Some(spec) = plan.guards.bulkhead.as_ref() else {
        return Ok(None);
    };
    let waited = plan
        .limits
        .wait
        .map(|limit| hands.monotonic().saturating_add(limit));
    let until = [waited, plan.limits.deadline].into_iter().flatten().min();
    let wish = PermitWish {
        bulkhead: &spec.name,
        permits: spec.permits,
        auxiliary: plan.guards.auxiliary,
        nonce: hands.nonce(),
    };
    let taken = match store.permit(&wish)? {
        Permit::Taken => true,
        Permit::OfThisMachine => hands.permit(spec, plan.guards.auxiliary, until),
        Permit::NoneFree => wait_for_permit(store, hands, &wish, until)?,
    };
    Ok((!taken).then(|| Guarded {
        guard: "bulkhead",
        why: format!(
            "no permit of bulkhead {} was free ({} at once), nothing was run; try again later or wait longer with --wait",
            spec.name, spec.permits
        ),
        retry_at: None,
    }))
}

/// Asks again and again. A call that was called off meanwhile is told so when it would claim.
fn wait_for_permit(
    store: &mut dyn Store,
    hands: &mut dyn Hands,
    wish: &PermitWish<'_>,
    until: Option<Duration>,
) -> StoreResult<bool> {
    let before = Before::Permit(wish.bulkhead, wish.permits);
    let mut pause = PERMIT_PAUSES.0;
    let taken = loop {
        let now = hands.monotonic();
        let left = until.map(|until| until.saturating_sub(now));
        if left == Some(Duration::ZERO) {
            break Ok(false);
        }
        let spread = pause.mul_f64(1.0 - hands.random() / 4.0);
        hands.pause(left.map_or(spread, |left| left.min(spread)), before);
        if hands.cancelled().is_some() {
            break Ok(true);
        }
        match store.permit(wish) {
            Ok(Permit::NoneFree) => {}
            asked => break asked.map(|_| true),
        }
        pause = (pause * 2).min(PERMIT_PAUSES.1);
    };
    hands.waited();
    taken
}

/// Asks the guards that live in the store, in the claim's transaction.
pub fn before_claim(
    hands: &mut dyn Hands,
    plan: &Plan,
    guards: &mut dyn Guards,
) -> StoreResult<Entry> {
    let deadline = match task_deadline(hands, plan, guards)? {
        Ok(deadline) => deadline,
        Err(ended) => return Ok(Entry::Refused(ended)),
    };
    if deadline.is_some_and(|at| at <= hands.monotonic()) {
        return Ok(Entry::Refused(Guarded {
            guard: "deadline",
            why: "the deadline has already passed, nothing was run; allow more time".to_owned(),
            retry_at: None,
        }));
    }
    Ok(match admit(hands, &plan.guards, guards)? {
        Some(refused) => Entry::Refused(refused),
        None => Entry::Free(deadline),
    })
}

/// The call's deadline, or its task's if that comes first.
fn task_deadline(
    hands: &dyn Hands,
    plan: &Plan,
    guards: &mut dyn Guards,
) -> StoreResult<Result<Option<Duration>, Guarded>> {
    let own = plan.limits.deadline;
    let Some((name, task)) = task_of(&plan.guards, guards)? else {
        return Ok(Ok(own));
    };
    if task.ended.is_some() {
        return Ok(Err(Guarded {
            guard: "task",
            why: format!(
                "task {name} has ended, nothing was run; `idem task open {name}` begins it anew"
            ),
            retry_at: None,
        }));
    }
    let left = task
        .remaining(&hands.now())
        .map(|left| hands.monotonic().saturating_add(left));
    Ok(Ok([own, left].into_iter().flatten().min()))
}

fn task_of(plan: &GuardPlan, guards: &mut dyn Guards) -> StoreResult<Option<(String, Task)>> {
    let Some(name) = &plan.task else {
        return Ok(None);
    };
    let task = state(guards, GuardKind::Task, name, Task::from_json)?;
    Ok(task.map(|task| (name.clone(), task)))
}

/// Asks the breaker, and takes a lease of it where it tries out.
fn admit(
    hands: &dyn Hands,
    plan: &GuardPlan,
    guards: &mut dyn Guards,
) -> StoreResult<Option<Guarded>> {
    let Some(spec) = &plan.breaker else {
        return Ok(None);
    };
    let now = hands.now();
    let mut breaker = breaker_state(guards, spec, &now)?;
    let own = hands.holder();
    let mut living = Vec::new();
    for other in breaker.holders().iter().filter(|holder| **holder != own) {
        if holder::lives(hands, guards, other)? {
            living.push(other.clone());
        }
    }
    let alive = |holder: &str| living.iter().any(|other| other == holder);
    let admission = breaker.admit(spec, &now, &own, plan.auxiliary, &alive);
    let (why, left) = match admission {
        Admission::Admitted => return Ok(None),
        Admission::AdmittedAsProbe => {
            guards.set_guard(GuardKind::Breaker, &spec.name, Some(breaker.to_json()))?;
            return Ok(None);
        }
        Admission::RefusedOpen(left) => ("is open", Some(left)),
        Admission::RefusedProbing => ("tries out whether it works again", None),
    };
    let until = left.map_or_else(String::new, |left| {
        format!(" for {}s", left.as_millis().div_ceil(1000))
    });
    Ok(Some(Guarded {
        guard: "breaker",
        why: format!(
            "breaker {} {why}{until}, nothing was run; try again later, or look at it with `idem breaker {}`",
            spec.name, spec.name
        ),
        retry_at: left.map(|left| later(&now, left)),
    }))
}

fn later(now: &Stamp, wait: Duration) -> UnixMs {
    UnixMs(
        now.wall
            .0
            .saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)),
    )
}

fn breaker_state(guards: &mut dyn Guards, spec: &BreakerSpec, now: &Stamp) -> StoreResult<Breaker> {
    let found = state(guards, GuardKind::Breaker, &spec.name, Breaker::from_json)?;
    Ok(found.unwrap_or_else(|| Breaker::closed(now)))
}

/// Tells the breaker how an attempt ended (or that none took place, which gives a lease back). Returns
/// until when it lets nobody in, if it is open now.
pub fn tell_breaker(
    hands: &dyn Hands,
    plan: &GuardPlan,
    guards: &mut dyn Guards,
    told: Told,
) -> StoreResult<Option<UnixMs>> {
    let Some(spec) = &plan.breaker else {
        return Ok(None);
    };
    let now = hands.now();
    let mut breaker = breaker_state(guards, spec, &now)?;
    breaker.record(spec, &now, &hands.holder(), told);
    guards.set_guard(GuardKind::Breaker, &spec.name, Some(breaker.to_json()))?;
    Ok(match breaker.phase(&now) {
        Phase::Open(left) => Some(later(&now, left)),
        Phase::Closed { .. } | Phase::HalfOpen { .. } => None,
    })
}

/// Whether a retry may take place: the breaker learns of the last attempt and is asked again, and one
/// retry is taken from the budget and from the task. All or nothing.
pub fn grant_retry(
    hands: &dyn Hands,
    plan: &GuardPlan,
    guards: &mut dyn Guards,
    told: Told,
) -> StoreResult<Result<(), Guarded>> {
    tell_breaker(hands, plan, guards, told)?;
    if let Some(refused) = admit(hands, plan, guards)? {
        return Ok(Err(refused));
    }
    let mut task = task_of(plan, guards)?;
    if let Some((name, task)) = &mut task
        && !task.take_retry()
    {
        return Ok(Err(Guarded {
            guard: "task",
            why: format!("the retries of task {name} are used up"),
            retry_at: None,
        }));
    }
    if let Some(spec) = &plan.budget {
        let now = hands.now();
        let found = state(guards, GuardKind::Budget, &spec.name, Budget::from_json)?;
        let mut budget = found.unwrap_or_else(|| Budget::full(spec, &now));
        if let Err(wait) = budget.take(spec, &now) {
            return Ok(Err(Guarded {
                guard: "budget",
                why: format!("the retries of budget {} are used up", spec.name),
                retry_at: Some(later(&now, wait)),
            }));
        }
        guards.set_guard(GuardKind::Budget, &spec.name, Some(budget.to_json()))?;
    }
    if let Some((name, task)) = task {
        guards.set_guard(GuardKind::Task, &name, Some(task.to_json()))?;
    }
    Ok(Ok(()))
}

/// A guard's state; one that cannot be read is an error that names it, never a fresh start.
pub fn state<T>(
    guards: &mut dyn Guards,
    kind: GuardKind,
    name: &str,
    read: impl Fn(&Value) -> Result<T, StateError>,
) -> StoreResult<Option<T>> {
    let Some(value) = guards.guard(kind, name)? else {
        return Ok(None);
    };
    read(&value).map(Some).map_err(|e| {
        StoreError::Other(format!(
            "{} {name} {e}; nothing was run, upgrade idem or delete it",
            kind.word()
        ))
    })
}
