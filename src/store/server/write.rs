//! Changes: each is decided on what was read, and tried again where somebody was faster.

use super::buffer::{Applied, Buffer};
use super::fault::{Fault, Tried};
use super::lease::Heart;
use super::{CALL_LIMIT, ServerStore, pending};
use crate::domain::name::OpName;
use crate::domain::outcome::{Class, State};
use crate::domain::record::Record;
use crate::engine::store::{
    Change, ClaimId, Claimed, DecideClaim, Fenced, Guards, Import, Imported, Settlement, Step,
    StoreError, StoreResult,
};
use crate::process::{clock, random};
use crate::store::transitions::{End, change, claim, import, settle};
use std::time::{Duration, Instant};

/// How often a change is decided anew in one call because others were faster.
const RACES: u32 = 200;

/// The longest pause before a change is decided anew, in microseconds.
const RACE_PAUSE_US: u64 = 20_000;

/// Why a claim that was made is taken back.
const NOT_CONFIRMED: &str =
    "the server could not confirm the claim (its standby did not answer); nothing was run";

/// How a change went.
pub(super) struct Done<T> {
    /// What the change came to.
    pub(super) value: T,
    applied: Applied,
    /// The reply was lost, and the change was found to have taken place.
    asked_again: bool,
}

impl ServerStore {
    /// Decides and writes, until nobody comes in between.
    pub(super) fn write<T>(
        &mut self,
        durable: bool,
        mut body: impl FnMut(&mut Buffer<'_>) -> Tried<End<T>>,
    ) -> Tried<Done<T>> {
        for race in 0..RACES {
            let until = self.until;
            let mut buffer = Buffer::new(self, durable);
            let done = |value, applied, asked_again| Done {
                value,
                applied,
                asked_again,
            };
            let value = match body(&mut buffer)? {
                End::Rollback(value) => return Ok(done(value, Applied::Kept, false)),
                End::Commit(value) => value,
            };
            match buffer.commit() {
                Ok(applied) => return Ok(done(value, applied, false)),
                Err(Fault::RaceLost) => {}
                Err(fault) if fault.is_connection_lost() => {
                    if buffer.took_place()? {
                        return Ok(done(value, Applied::Kept, true));
                    }
                }
                Err(fault) => return Err(fault),
            }
            if Instant::now() >= until {
                break;
            }
            let longest = RACE_PAUSE_US.min(1_000 << race.min(10));
            std::thread::sleep(Duration::from_micros(random::below(longest + 1)));
        }
        Err(Fault::RaceLost)
    }

    /// As [`ServerStore::write`], for the port.
    fn change_within<T>(
        &mut self,
        durable: bool,
        body: impl FnMut(&mut Buffer<'_>) -> Tried<End<T>>,
    ) -> StoreResult<T> {
        self.begin(CALL_LIMIT);
        let done = self.write(durable, body);
        self.told(done).map(|done| done.value)
    }

    /// Claims, and keeps the lease up from then on.
    ///
    /// A claim whose reply was lost is asked for again; if it is this one's, a renewal of the lease must be
    /// acknowledged before anything starts. A claim that a synchronous standby has not confirmed is none.
    pub(super) fn claim_leased(
        &mut self,
        name: &OpName,
        decide: &mut DecideClaim<'_>,
    ) -> StoreResult<(Claimed, Option<Record>)> {
        self.begin(CALL_LIMIT);
        let done = self.write(true, |tx| claim::claim(tx, name, decide));
        let done = self.told(done)?;
        let (claimed, Some(record)) = &done.value else {
            return Ok(done.value);
        };
        if *claimed != Claimed::Won {
            return Ok(done.value);
        }
        let id = ClaimId {
            name: name.clone(),
            generation: record.generation,
            nonce: record.nonce,
        };
        if done.applied == Applied::Unconfirmed {
            self.take_back(&id);
            return Err(StoreError::Other(format!(
                "{}: {NOT_CONFIRMED}; try again when its standby is back, see `idem doctor`",
                self.place()
            )));
        }
        if done.asked_again {
            let renewed = self.renew(&id);
            if !self.told(renewed)? {
                return Err(StoreError::Unreachable(format!(
                    "the connection to {} was lost while it was claimed, and the claim is gone; nothing was run, try again",
                    self.place()
                )));
            }
        }
        self.heart = Some(Heart::start(&self.place, id));
        Ok(done.value)
    }

    /// Settles a claim under which nothing was run as a failure that is safe to repeat. If that fails as
    /// well, its lease runs out.
    fn take_back(&mut self, claim: &ClaimId) {
        let settlement = Settlement {
            state: State::Failed,
            class: Some(Class::Safe),
            reason: Some(NOT_CONFIRMED.to_owned()),
            exit_code: None,
            retry_at: None,
            output: None,
            dirty: false,
            at: clock::now(),
            events: Vec::new(),
        };
        let _ = self.write(false, |tx| {
            settle::settle(tx, claim, &settlement, &mut |_| Ok(()))
        });
    }

    pub(super) fn step_once(&mut self, claim: &ClaimId, step: &Step) -> StoreResult<Fenced> {
        self.change_within(step.durable, |tx| settle::step(tx, claim, step))
    }

    /// Settles, for as long as there is time; then the result is left on this machine for later.
    pub(super) fn settle_patiently(
        &mut self,
        claim: &ClaimId,
        settlement: &Settlement,
        guards: &mut dyn FnMut(&mut dyn Guards) -> StoreResult<()>,
    ) -> StoreResult<Fenced> {
        self.begin(self.patience());
        let done = self.settle_within(claim, settlement, guards);
        // The lease is kept up until here: others must not take a slow upload for an end.
        self.heart = None;
        match done {
            Ok(fenced) => Ok(fenced),
            Err(fault) if fault.is_connection_lost() || matches!(fault, Fault::RaceLost) => {
                let why = fault.tell(self.place());
                match pending::write(&self.paths, claim, settlement) {
                    Ok(_) => Ok(Fenced::Deferred {
                        why: why.to_string(),
                    }),
                    Err(_) => Err(why),
                }
            }
            Err(fault) => Err(fault.tell(self.place())),
        }
    }

    pub(super) fn change_record(
        &mut self,
        name: &OpName,
        decide: &mut dyn FnMut(Option<&Record>) -> Change,
    ) -> StoreResult<Option<Record>> {
        self.change_within(true, |tx| change::change(tx, name, decide))
    }

    pub(super) fn change_guards(
        &mut self,
        body: &mut dyn FnMut(&mut dyn Guards) -> StoreResult<()>,
    ) -> StoreResult<()> {
        self.change_within(true, |tx| {
            body(tx)?;
            Ok(End::Commit(()))
        })
    }

    pub(super) fn import_record(&mut self, record: &Import) -> StoreResult<Imported> {
        self.change_within(true, |tx| import::import(tx, record))
    }
}
