//! What a person, or an observer who found the owner gone, changes.

use super::claim::keep_outputs;
use super::settle::Outcome;
use super::{End, Stored, Tx};
use crate::domain::name::OpName;
use crate::domain::outcome::State;
use crate::domain::record::{Proposal, Record};
use crate::domain::time::Stamp;
use crate::engine::event::{EventKind, NewEvent};
use crate::engine::store::{Change, Resolution};

/// Decides and changes. Returns the record as found.
pub fn change<T: Tx>(
    tx: &mut T,
    name: &OpName,
    decide: &mut dyn FnMut(Option<&Record>) -> Change,
) -> Result<End<Option<Record>>, T::Fault> {
    let found = tx.find(name)?;
    let change = decide(found.as_ref().map(|stored| &stored.record));
    let Some(stored) = found else {
        return Ok(End::Rollback(None));
    };
    let record = stored.record.clone();
    let changed = match change {
        Change::Resolve(resolution) => resolve(tx, stored, &resolution)?,
        Change::Decide { proposal, events } => verdict(tx, stored, *proposal, &events)?,
        Change::Forget { events } => forget(tx, &stored, &events)?,
        Change::OwnerLost { at, reason, events } => owner_lost(tx, stored, &at, &reason, &events)?,
        Change::Leave => false,
    };
    Ok(if changed {
        End::Commit(Some(record))
    } else {
        End::Rollback(Some(record))
    })
}

/// Settles it under a new generation, which fences the old keeper.
fn resolve<T: Tx>(tx: &mut T, stored: Stored, resolution: &Resolution) -> Result<bool, T::Fault> {
    let kept = keep_outputs(tx, &stored)?;
    let generation = tx.next_generation()?;
    let output = match &resolution.output {
        Some(output) => Some(tx.put_output(resolution.nonce, output)?),
        None => None,
    };
    let result = Outcome {
        state: resolution.state,
        class: resolution.class,
        reason: resolution.reason.as_deref(),
        exit_code: resolution.exit_code,
        output: output.as_ref(),
    };
    let mut events = resolution.events.clone();
    result.tell(&mut events, EventKind::Resolved, resolution.at.wall);
    tx.append(&stored.record.name, generation, &events)?;
    let record = Record {
        state: resolution.state,
        generation,
        nonce: resolution.nonce,
        since: resolution.at.clone(),
        class: resolution.class,
        reason: resolution.reason.clone(),
        exit_code: resolution.exit_code,
        retry_at: None,
        output,
        // A person who says that it did not happen does not say that nothing is half done.
        dirty: stored.record.dirty && resolution.state != State::Succeeded,
        decided_by: Some(resolution.decided_by.clone()),
        ..stored.record
    };
    tx.update(&Stored { record, kept })?;
    Ok(true)
}

/// Notes a person's verdict on a proposal; the time of the proposal goes on counting.
fn verdict<T: Tx>(
    tx: &mut T,
    mut stored: Stored,
    proposal: Proposal,
    events: &[NewEvent],
) -> Result<bool, T::Fault> {
    if stored.record.state != State::Held {
        return Ok(false);
    }
    stored.record.decided_by.clone_from(&proposal.decided_by);
    stored.record.proposal = Some(proposal);
    tx.update(&stored)?;
    tx.append(&stored.record.name, stored.record.generation, events)?;
    Ok(true)
}

fn forget<T: Tx>(tx: &mut T, stored: &Stored, events: &[NewEvent]) -> Result<bool, T::Fault> {
    tx.delete(stored)?;
    tx.append(&stored.record.name, stored.record.generation, events)?;
    Ok(true)
}

fn owner_lost<T: Tx>(
    tx: &mut T,
    mut stored: Stored,
    at: &Stamp,
    reason: &str,
    events: &[NewEvent],
) -> Result<bool, T::Fault> {
    if stored.record.state != State::Running {
        return Ok(false);
    }
    stored.record.state = State::Unknown;
    stored.record.since = at.clone();
    stored.record.reason = Some(reason.to_owned());
    tx.update(&stored)?;
    let mut events = events.to_vec();
    let result = Outcome {
        state: State::Unknown,
        class: None,
        reason: Some(reason),
        exit_code: None,
        output: None,
    };
    result.tell(&mut events, EventKind::OwnerLost, at.wall);
    tx.append(&stored.record.name, stored.record.generation, &events)?;
    Ok(true)
}
