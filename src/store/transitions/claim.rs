//! The claiming transaction.

use super::{End, Stored, Tx};
use crate::domain::name::{Generation, Nonce, OpName};
use crate::domain::outcome::State;
use crate::domain::record::Record;
use crate::engine::event::NewEvent;
use crate::engine::store::{
    Claimable, Claimed, Claiming, DecideClaim, NewClaim, NewProposal, NewRecord, StoreError,
    TokenChoice,
};

/// From how many earlier claims under one token the outputs are kept. A job that fails every minute
/// would otherwise fill the disk with what it said each time.
const KEPT_CLAIMS: usize = 32;

/// Decides and claims.
pub fn claim<T: Tx>(
    tx: &mut T,
    name: &OpName,
    decide: &mut DecideClaim<'_>,
) -> Result<End<(Claimed, Option<Record>)>, T::Fault> {
    let found = tx.find(name)?;
    // Taken before the decision, which hands it to the child; a rollback gives it back.
    let generation = tx.next_generation()?;
    let decision = decide(Claimable {
        record: found.as_ref().map(|stored| &stored.record),
        generation,
        guards: tx.guards(),
    })?;
    let (claimed, record) = match decision {
        Claiming::Leave => {
            return Ok(End::Rollback((Claimed::Left, found.map(|s| s.record))));
        }
        Claiming::Refuse { events } => {
            let found_generation = found
                .as_ref()
                .map_or(Generation(0), |s| s.record.generation);
            tx.append(name, found_generation, &events)?;
            (Claimed::Left, found.map(|s| s.record))
        }
        Claiming::Claim(new) => {
            let (kept, base) = lineage(tx, found, &new.record.token)?;
            let record = claimed_record(name, generation, &new, &base);
            write(tx, &base, record, kept, &new.record.events)?
        }
        Claiming::Propose(new) => {
            let (kept, base) = lineage(tx, found, &new.record.token)?;
            let record = proposed_record(name, generation, &new, &base);
            let (_, record) = write(tx, &base, record, kept, &new.record.events)?;
            (Claimed::Proposed, record)
        }
    };
    Ok(End::Commit((claimed, record)))
}

/// What a new claim builds on.
struct Base {
    /// The record found.
    found: Option<Record>,
    /// The same, if its token is kept.
    kept: Option<Record>,
}

/// Sorts out the outputs of earlier claims: kept with the token, or dropped with it.
fn lineage<T: Tx>(
    tx: &mut T,
    found: Option<Stored>,
    token: &TokenChoice,
) -> Result<(Vec<Nonce>, Base), T::Fault> {
    match (found, token) {
        (Some(stored), TokenChoice::Keep) => {
            let nonces = keep_outputs(tx, &stored)?;
            let base = Base {
                found: Some(stored.record.clone()),
                kept: Some(stored.record),
            };
            Ok((nonces, base))
        }
        (Some(stored), TokenChoice::Mint(_)) => {
            tx.drop_outputs(&stored)?;
            let base = Base {
                found: Some(stored.record),
                kept: None,
            };
            Ok((Vec::new(), base))
        }
        (None, TokenChoice::Mint(_)) => {
            let base = Base {
                found: None,
                kept: None,
            };
            Ok((Vec::new(), base))
        }
        (None, TokenChoice::Keep) => Err(StoreError::Other(
            "the record was forgotten meanwhile, so its token cannot be kept; try again".to_owned(),
        )
        .into()),
    }
}

/// The nonces with outputs from now on: those so far and the latest claim's, the oldest dropped where
/// they become too many.
pub fn keep_outputs<T: Tx>(tx: &mut T, stored: &Stored) -> Result<Vec<Nonce>, T::Fault> {
    let mut nonces = stored.kept.clone();
    if tx.has_outputs(&stored.record.nonce)? {
        nonces.push(stored.record.nonce);
    }
    let too_many = nonces.len().saturating_sub(KEPT_CLAIMS);
    for nonce in nonces.drain(..too_many) {
        tx.drop_outputs_of(&nonce)?;
    }
    Ok(nonces)
}

fn write<T: Tx>(
    tx: &mut T,
    base: &Base,
    record: Record,
    kept: Vec<Nonce>,
    events: &[NewEvent],
) -> Result<(Claimed, Option<Record>), T::Fault> {
    let stored = Stored { record, kept };
    match base.found {
        Some(_) => tx.update(&stored)?,
        None => tx.insert(&stored)?,
    }
    tx.append(&stored.record.name, stored.record.generation, events)?;
    Ok((Claimed::Won, Some(stored.record)))
}

fn claimed_record(name: &OpName, generation: Generation, new: &NewClaim, base: &Base) -> Record {
    // A claim that consumes an approval shows it as long as the record lives.
    let held = base
        .found
        .as_ref()
        .filter(|found| found.state == State::Held);
    let approval = held.or(base.kept.as_ref());
    let record = new_record(name, State::Running, generation, &new.record, base);
    Record {
        attempts: record
            .attempts
            .saturating_add(u32::from(new.starts_attempt)),
        owner: Some(new.owner.clone()),
        proposal: approval.and_then(|record| record.proposal.clone()),
        decided_by: held.and_then(|record| record.decided_by.clone()),
        ..record
    }
}

fn proposed_record(
    name: &OpName,
    generation: Generation,
    new: &NewProposal,
    base: &Base,
) -> Record {
    Record {
        proposal: Some(new.proposal.clone()),
        ..new_record(name, State::Held, generation, &new.record, base)
    }
}

/// The record's new generation, without what only a claim or only a proposal has.
fn new_record(
    name: &OpName,
    state: State,
    generation: Generation,
    new: &NewRecord,
    base: &Base,
) -> Record {
    let kept = base.kept.as_ref();
    Record {
        name: name.clone(),
        state,
        generation,
        nonce: new.nonce,
        token: token(&new.token, kept),
        minted_by: kept.map_or(generation, |record| record.minted_by),
        fingerprint: new.fingerprint,
        command: new.command.clone(),
        created_at: kept.map_or(new.at.wall, |record| record.created_at),
        since: new.at.clone(),
        ttl: new.ttl,
        failed_ttl: new.failed_ttl,
        class: None,
        reason: None,
        exit_code: None,
        retry_at: None,
        output: None,
        attempts: kept.map_or(0, |record| record.attempts),
        dirty: new.dirty,
        owner: None,
        source: new.source.clone(),
        proposal: None,
        decided_by: None,
    }
}

fn token(choice: &TokenChoice, kept: Option<&Record>) -> String {
    match (choice, kept) {
        (TokenChoice::Mint(token), _) => token.clone(),
        (TokenChoice::Keep, kept) => kept.map(|record| record.token.clone()).unwrap_or_default(),
    }
}
