//! Claiming: the second decision, made under the exclusive right to change the record.
//!
//! The front decided from a plain read. Between that read and the claim anything may have happened,
//! so the keeper decides again inside the transaction that claims. What it finds there decides what
//! this call is: if another generation has come meanwhile, the call has become a waiter of that one.

use super::environment::{Ancestor, ChildContext};
use super::event::{EventKind, NewEvent};
use super::guards::{self, Entry, Guarded};
use super::hands::{Cancelled, Hands};
use super::ledger;
use super::plan::Plan;
use super::propose;
use super::store::{
    ClaimId, Claimable, Claimed, Claiming, NewClaim, NewRecord, Store, StoreResult, TokenChoice,
};
use crate::domain::decision::{Decision, Request, Why, decide};
use crate::domain::name::Generation;
use crate::domain::outcome::{Class, State};
use crate::domain::owner::Liveness;
use crate::domain::record::{Identity, Record};
use crate::domain::time::{Stamp, UnixMs};
use crate::policy::deadline;
use crate::policy::retry::{self, Execution, Found, Moment, Step};
use std::time::Duration;

/// What the front found when it looked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstLook {
    /// The record's generation, if there was a record.
    pub generation: Option<Generation>,
    /// What it asked for was a proposal, not an execution.
    pub proposes: bool,
    /// What exactly would run, where an approval is asked for or used.
    pub identity: Option<Identity>,
}

/// Why there is no claim.
#[derive(Debug)]
pub enum NotClaimed {
    /// Another generation has come: wait for it, or take its result.
    Changed(Generation),
    /// The record is the same and asks for something else now.
    LookAgain,
    /// The call was called off.
    Cancelled(Cancelled),
    /// A guard said no.
    Guarded(Guarded),
    /// A proposal with this generation waits for a person.
    Proposed(Generation),
    /// The preview of a proposal failed; carries why.
    NoPreview(String),
    /// No process could be made; carries why.
    CannotFork(String),
}

/// A claim that is durable and held.
#[derive(Debug)]
pub struct Claim {
    /// Its name for fenced changes.
    pub id: ClaimId,
    /// The record's token.
    pub token: String,
    /// The first attempt's child waits behind its gate, and its start is part of the claim.
    pub prepared: bool,
    /// The execution, and its first step.
    pub begun: (Execution, Step),
    /// The record found needs the cleanup before another run.
    pub found_dirty: bool,
    /// The record found was known to be unknown.
    pub found_unknown: bool,
    /// How long ago the last attempt of the record found ended.
    pub since_end: Option<Duration>,
    /// The moment of the monotonic clock at which the call must be over.
    pub deadline: Option<Duration>,
    /// Attempts made before this claim under the same token.
    pub attempts_before: u32,
}

/// What the closure learnt that the store does not tell.
pub(super) struct Considered {
    prepared: bool,
    begun: (Execution, Step),
    found_dirty: bool,
    found_unknown: bool,
    since_end: Option<Duration>,
    deadline: Option<Duration>,
}

/// Claims, or says why not.
pub fn claim(
    store: &mut dyn Store,
    hands: &mut dyn Hands,
    plan: &Plan,
    first: &FirstLook,
) -> StoreResult<Result<Claim, NotClaimed>> {
    let mut considered = Err(NotClaimed::LookAgain);
    let result = store.claim(&plan.name, &mut |found| {
        hands.abandon();
        let (verdict, claiming) = consider(hands, plan, first, found)?;
        considered = verdict;
        Ok(claiming)
    });
    let (claimed, record) = match result {
        Ok(done) => done,
        Err(error) => {
            hands.abandon();
            return Err(error);
        }
    };
    match (claimed, record, considered) {
        (Claimed::Won, Some(record), Ok(c)) => Ok(Ok(held(record, c))),
        (Claimed::Proposed, Some(record), _) => Ok(Err(NotClaimed::Proposed(record.generation))),
        (_, _, Err(not)) => Ok(Err(not)),
        _ => Ok(Err(NotClaimed::LookAgain)),
    }
}

fn held(record: Record, c: Considered) -> Claim {
    Claim {
        id: ClaimId {
            name: record.name,
            generation: record.generation,
            nonce: record.nonce,
        },
        token: record.token,
        prepared: c.prepared,
        begun: c.begun,
        found_dirty: c.found_dirty,
        found_unknown: c.found_unknown,
        since_end: c.since_end,
        deadline: c.deadline,
        attempts_before: record.attempts.saturating_sub(u32::from(c.prepared)),
    }
}

/// What the closure concludes, and what the store is to do.
pub(super) type Verdict = (Result<Considered, NotClaimed>, Claiming);

fn leave(not: NotClaimed) -> Verdict {
    (Err(not), Claiming::Leave)
}

/// A guard's no leaves the record as it is and is told in the ledger.
fn guarded(at: UnixMs, refused: Guarded) -> Verdict {
    let event = NewEvent {
        at,
        kind: EventKind::Guarded,
        attempt: None,
        detail: ledger::guarded(&refused),
    };
    let events = vec![event];
    (
        Err(NotClaimed::Guarded(refused)),
        Claiming::Refuse { events },
    )
}

fn consider(
    hands: &mut dyn Hands,
    plan: &Plan,
    first: &FirstLook,
    found: Claimable<'_>,
) -> StoreResult<Verdict> {
    if let Some(record) = found.record
        && first.generation != Some(record.generation)
    {
        return Ok(leave(NotClaimed::Changed(record.generation)));
    }
    let now = hands.now();
    let liveness = found
        .record
        .map_or(Liveness::Gone, |record| hands.observe(record));
    let request = Request {
        identity: first.identity.clone(),
        ..plan.request.clone()
    };
    let why = match decide(found.record, &request, &liveness, &now) {
        Decision::Execute(why) | Decision::Ask(why) => why,
        Decision::Propose => return Ok(propose::propose(hands, plan, first, found.record, now)),
        _ => return Ok(leave(NotClaimed::LookAgain)),
    };
    if let Some(cancelled) = hands.cancelled() {
        return Ok(leave(NotClaimed::Cancelled(cancelled)));
    }
    let deadline = match guards::before_claim(hands, plan, found.guards)? {
        Entry::Free(deadline) => deadline,
        Entry::Refused(refused) => return Ok(guarded(now.wall, refused)),
    };
    Ok(begin(
        hands,
        plan,
        found.record,
        found.generation,
        why,
        deadline,
    ))
}

/// Everything allows the claim: decides its first step and prepares the child if that is an attempt.
fn begin(
    hands: &mut dyn Hands,
    plan: &Plan,
    record: Option<&Record>,
    generation: Generation,
    why: Why,
    deadline: Option<Duration>,
) -> Verdict {
    // A record that has expired, or that another command failed under, is history.
    let continued = record.filter(|_| continues(why));
    let token = match continued {
        Some(_) => TokenChoice::Keep,
        None => TokenChoice::Mint(hands.mint_token()),
    };
    let since_end = continued.map(|record| record.since.age(&hands.now()));
    let begun = Execution::begin(
        machine(plan, why),
        found(record, why),
        &moment(hands, deadline, since_end),
    );
    let prepared = begun.1 == Step::Attempt;
    if prepared {
        let text = token_text(&token, continued);
        if let Err(error) = prepare_first(hands, plan, generation, &text, deadline) {
            return leave(NotClaimed::CannotFork(error));
        }
    }
    let found_dirty = record.is_some_and(|record| record.dirty) && why != Why::Expired;
    let at = hands.now();
    let claim = NewClaim {
        record: NewRecord {
            dirty: prepared || found_dirty,
            events: first_events(hands, plan, record, prepared, why, at.wall),
            ..new_record(hands, plan, token, at)
        },
        owner: hands.owner(),
        starts_attempt: prepared,
    };
    let considered = Considered {
        prepared,
        begun,
        found_dirty,
        found_unknown: record.is_some_and(|record| record.state == State::Unknown),
        since_end,
        deadline,
    };
    (Ok(considered), Claiming::Claim(Box::new(claim)))
}

/// Whether the execution belongs to the record found: its token, its attempts and its traces count.
fn continues(why: Why) -> bool {
    match why {
        Why::New | Why::Expired | Why::Corrected => false,
        Why::FailedBefore | Why::FailedRerun | Why::UnknownRerun | Why::Approved => true,
    }
}

fn token_text(token: &TokenChoice, record: Option<&Record>) -> String {
    match (token, record) {
        (TokenChoice::Mint(text), _) => text.clone(),
        (TokenChoice::Keep, record) => record.map(|r| r.token.clone()).unwrap_or_default(),
    }
}

fn prepare_first(
    hands: &mut dyn Hands,
    plan: &Plan,
    generation: Generation,
    token: &str,
    deadline: Option<Duration>,
) -> Result<(), String> {
    let ancestry = ancestry(hands, plan);
    let context = ChildContext {
        name: &plan.name,
        token,
        generation,
        attempt: 1,
        deadline_unix_ms: handed_down_deadline(hands, deadline),
        ancestry: &ancestry,
    };
    hands.prepare(&context)
}

/// The claims that a child of this one runs under: the caller's, and this one last.
pub fn ancestry(hands: &dyn Hands, plan: &Plan) -> Vec<Ancestor> {
    let owner = hands.owner();
    let own = Ancestor {
        nonce: hands.nonce(),
        keeper: owner.keeper,
    };
    plan.ancestry.iter().copied().chain([own]).collect()
}

/// The deadline that a child learns of: this call's own, less a reserve for ending in order.
pub fn handed_down_deadline(hands: &dyn Hands, deadline: Option<Duration>) -> Option<i64> {
    let remaining = deadline?.saturating_sub(hands.monotonic());
    let handed = i64::try_from(deadline::handed_down(remaining).as_millis()).unwrap_or(i64::MAX);
    Some(hands.now().wall.0.saturating_add(handed))
}

fn machine(plan: &Plan, why: Why) -> retry::Plan {
    let retry = &plan.retry;
    retry::Plan {
        retries: retry.retries,
        backoff: retry.backoff,
        jitter: retry.jitter,
        probe: plan.helpers.probe.is_some(),
        probe_first: plan.request.probe_first,
        settle: plan.helpers.settle,
        cleanup: plan.helpers.cleanup.is_some(),
        idempotent: retry.idempotent,
        rerun_unknown: retry.rerun_unknown,
        shared_grants: {
            let guards = &plan.guards;
            guards.budget.is_some() || guards.task.is_some() || guards.breaker.is_some()
        },
        held: plan.request.hold && why != Why::Approved,
        nested: retry.nested,
    }
}

fn found(record: Option<&Record>, why: Why) -> Found {
    let Some(record) = record.filter(|_| !matches!(why, Why::New | Why::Expired)) else {
        return Found {
            class: None,
            cleaned: true,
        };
    };
    let class = match record.state {
        State::Running | State::Unknown => Some(Class::Uncertain),
        // Whatever was done before the proposal is told by `cleaned`.
        State::Held => Some(Class::Safe),
        State::Succeeded | State::Failed => record.class,
    };
    Found {
        class,
        cleaned: !record.dirty,
    }
}

/// What the policies must know of this moment.
pub fn moment(
    hands: &mut dyn Hands,
    deadline: Option<Duration>,
    since_attempt: Option<Duration>,
) -> Moment {
    let now = hands.monotonic();
    Moment {
        remaining: deadline.map(|at| at.saturating_sub(now)),
        since_attempt,
        interrupted: hands.interrupted(),
        random: hands.random(),
    }
}

/// What this call asks for, as a claim or a proposal of now writes it: clean and without events.
pub(super) fn new_record(
    hands: &dyn Hands,
    plan: &Plan,
    token: TokenChoice,
    at: Stamp,
) -> NewRecord {
    NewRecord {
        nonce: hands.nonce(),
        token,
        fingerprint: plan.request.fingerprint,
        command: plan.command.clone(),
        ttl: plan.ttl,
        failed_ttl: plan.failed_ttl,
        source: plan.source.clone(),
        dirty: false,
        at,
        events: Vec::new(),
    }
}

/// What the ledger learns with the claim.
fn first_events(
    hands: &dyn Hands,
    plan: &Plan,
    record: Option<&Record>,
    starts_attempt: bool,
    why: Why,
    at: UnixMs,
) -> Vec<NewEvent> {
    let event = |kind, attempt, detail| NewEvent {
        at,
        kind,
        attempt,
        detail,
    };
    let mut events = vec![event(
        EventKind::Claimed,
        None,
        ledger::claimed(why, record, &plan.command, &plan.source),
    )];
    if starts_attempt {
        events.push(event(
            EventKind::AttemptStarted,
            Some(1),
            ledger::started(hands.owner().child),
        ));
    }
    events
}
