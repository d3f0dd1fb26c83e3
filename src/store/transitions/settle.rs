//! Fenced changes of a claim by its own keeper.

use super::{End, Stored, Tx, with_output};
use crate::domain::outcome::{Class, State};
use crate::domain::record::OutputRef;
use crate::domain::time::UnixMs;
use crate::engine::detail::output_to_detail;
use crate::engine::event::{EventKind, NewEvent};
use crate::engine::store::{ClaimId, Fenced, Guards, Settlement, Step, StoreResult};
use serde_json::{Map, Value, json};

/// Where a claim stands.
enum Standing {
    /// The record is this claim's, and open: running, or unknown to observers.
    Open(Box<Stored>),
    /// The record is this claim's, and settled by it.
    Settled,
    /// The record is another's, or gone.
    Lost,
}

fn standing<T: Tx>(tx: &mut T, claim: &ClaimId) -> Result<Standing, T::Fault> {
    let Some(stored) = tx.find(&claim.name)? else {
        return Ok(Standing::Lost);
    };
    let record = &stored.record;
    if record.generation != claim.generation || record.nonce != claim.nonce {
        return Ok(Standing::Lost);
    }
    Ok(match record.state {
        State::Running | State::Unknown => Standing::Open(Box::new(stored)),
        State::Succeeded | State::Failed => Standing::Settled,
        State::Held => Standing::Lost,
    })
}

/// Notes a step. Nothing new may start under a claim that observers have given up (unknown), but what
/// already happened is still noted.
pub fn step<T: Tx>(tx: &mut T, claim: &ClaimId, step: &Step) -> Result<End<Fenced>, T::Fault> {
    let Standing::Open(mut stored) = standing(tx, claim)? else {
        return Ok(End::Rollback(Fenced::Superseded));
    };
    if step.starts_attempt && stored.record.state != State::Running {
        return Ok(End::Rollback(Fenced::Superseded));
    }
    let output = match &step.output {
        Some(output) => Some(tx.put_output(claim.nonce, output)?),
        None => None,
    };
    let events = with_output(&step.events, output.as_ref());
    tx.append(&claim.name, claim.generation, &events)?;
    if change_by_step(&mut stored, step) {
        tx.update(&stored)?;
    }
    Ok(End::Commit(Fenced::Done))
}

/// Whether the record itself changes.
fn change_by_step(stored: &mut Stored, step: &Step) -> bool {
    let before = stored.record.clone();
    let record = &mut stored.record;
    record.attempts = record
        .attempts
        .saturating_add(u32::from(step.starts_attempt));
    if let Some(dirty) = step.dirty {
        record.dirty = dirty;
    }
    if let (Some(owner), Some(child)) = (&mut record.owner, step.child) {
        owner.child = Some(child);
    }
    *record != before
}

/// Ends an execution.
pub fn settle<T: Tx>(
    tx: &mut T,
    claim: &ClaimId,
    settlement: &Settlement,
    guards: &mut dyn FnMut(&mut dyn Guards) -> StoreResult<()>,
) -> Result<End<Fenced>, T::Fault> {
    let mut stored = match standing(tx, claim)? {
        Standing::Open(stored) => stored,
        Standing::Settled => return Ok(End::Rollback(Fenced::Done)),
        Standing::Lost => return superseded(tx, claim, settlement),
    };
    let repeated = stored.record.state == State::Unknown
        && settlement.state == State::Unknown
        && tx.has_event(&claim.name, claim.generation, EventKind::Settled)?;
    if repeated {
        return Ok(End::Rollback(Fenced::Done));
    }
    guards(tx.guards())?;
    let output = match &settlement.output {
        Some(output) => Some(tx.put_output(claim.nonce, output)?),
        None => None,
    };
    apply(&mut stored, settlement, output);
    tx.update(&stored)?;
    let events = settled_events(settlement, output.as_ref());
    tx.append(&claim.name, claim.generation, &events)?;
    Ok(End::Commit(Fenced::Done))
}

fn apply(stored: &mut Stored, settlement: &Settlement, output: Option<OutputRef>) {
    let record = &mut stored.record;
    record.state = settlement.state;
    record.since = settlement.at.clone();
    record.class = settlement.class;
    record.reason.clone_from(&settlement.reason);
    record.exit_code = settlement.exit_code;
    record.retry_at = settlement.retry_at;
    record.output = output;
    record.dirty = settlement.dirty;
}

/// A settle that came too late: the ledger keeps what it said, once; the record does not change.
fn superseded<T: Tx>(
    tx: &mut T,
    claim: &ClaimId,
    settlement: &Settlement,
) -> Result<End<Fenced>, T::Fault> {
    // It may have taken place before the record moved on, and only the reply to it was lost.
    if tx.has_event(&claim.name, claim.generation, EventKind::Settled)? {
        return Ok(End::Rollback(Fenced::Done));
    }
    if tx.has_event(&claim.name, claim.generation, EventKind::Superseded)? {
        return Ok(End::Rollback(Fenced::Superseded));
    }
    let mut events = settled_events(settlement, None);
    for event in &mut events {
        if event.kind == EventKind::Settled {
            event.kind = EventKind::Superseded;
        }
    }
    tx.append(&claim.name, claim.generation, &events)?;
    Ok(End::Commit(Fenced::Superseded))
}

fn settled_events(settlement: &Settlement, output: Option<&OutputRef>) -> Vec<NewEvent> {
    let result = Outcome {
        state: settlement.state,
        class: settlement.class,
        reason: settlement.reason.as_deref(),
        exit_code: settlement.exit_code,
        output,
    };
    let mut events = with_output(&settlement.events, output);
    result.tell(&mut events, EventKind::Settled, settlement.at.wall);
    events
}

/// What a settled or resolved generation ended with, as the ledger keeps it for those who ask later.
pub struct Outcome<'a> {
    /// The state.
    pub state: State,
    /// The class.
    pub class: Option<Class>,
    /// Why.
    pub reason: Option<&'a str>,
    /// The exit code.
    pub exit_code: Option<i32>,
    /// The output.
    pub output: Option<&'a OutputRef>,
}

impl Outcome<'_> {
    /// Adds it to the event of this kind, which is appended if it is missing.
    pub fn tell(&self, events: &mut Vec<NewEvent>, kind: EventKind, at: UnixMs) {
        let found = events.iter_mut().find(|event| event.kind == kind);
        if let Some(event) = found {
            self.write(&mut event.detail);
            return;
        }
        let mut detail = Map::new();
        self.write(&mut detail);
        events.push(NewEvent {
            at,
            kind,
            attempt: None,
            detail,
        });
    }

    fn write(&self, detail: &mut Map<String, Value>) {
        let fields = [
            ("state", Some(json!(self.state.word()))),
            ("class", self.class.map(|class| json!(class.word()))),
            ("reason", self.reason.map(Value::from)),
            ("exit_code", self.exit_code.map(Value::from)),
            ("output", self.output.map(output_to_detail)),
        ];
        for (name, value) in fields {
            match value {
                Some(value) => detail.insert(name.to_owned(), value),
                None => detail.remove(name),
            };
        }
    }
}
