//! Changes: each is decided on what was read, and tried again where somebody was faster.

use super::buffer::{Applied, Buffer};
use super::fault::{Fault, Tried};
use super::lease::{Heart, Renewed};
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

/// How long is tried to take a claim back under which nothing was run.
const TAKE_BACK_LIMIT: Duration = Duration::from_secs(2);

/// The pause before a settle is tried again on a server that is not ready for it.
const SETTLE_PAUSE: Duration = Duration::from_secs(1);

/// Why a claim that was made is taken back.
const NOT_CONFIRMED: &str =
    "the server could not confirm the claim (its standby did not answer); nothing was run";
const NO_REPLY: &str = "the server did not answer the claim in time; nothing was run";
const OUTDATED: &str =
    "the claim was made by a statement that had been given up for lost; nothing was run";
const NO_THREAD: &str = "no thread could be made to renew the lease; nothing was run";

/// How a change went.
pub(super) struct Done<T> {
    /// What the change came to.
    pub(super) value: T,
    applied: Applied,
    /// The reply was lost, and the change was found to have taken place.
    asked_again: bool,
    /// It was decided once more before an earlier try was found to have taken place.
    outdated: bool,
}

/// A try whose reply was lost: nobody knows whether it took place.
pub(super) struct Lost<T> {
    stamp: i64,
    value: T,
    /// Which try it was.
    race: u32,
}

impl ServerStore {
    /// Decides and writes, until nobody comes in between.
    pub(super) fn write<T>(
        &mut self,
        durable: bool,
        body: impl FnMut(&mut Buffer<'_>) -> Tried<End<T>>,
    ) -> Tried<Done<T>> {
        self.write_noting(durable, &mut Vec::new(), body)
    }

    /// The same; after an error `lost` has the tries whose replies were lost.
    fn write_noting<T>(
        &mut self,
        durable: bool,
        lost: &mut Vec<Lost<T>>,
        mut body: impl FnMut(&mut Buffer<'_>) -> Tried<End<T>>,
    ) -> Tried<Done<T>> {
        let mut decided_in = 0;
        for race in 0..RACES {
            let until = self.until;
            let earlier = lost.iter().map(|lost| lost.stamp).collect();
            let mut buffer = Buffer::new(self, durable, earlier);
            let done = |value, applied, asked_again| Done {
                value,
                applied,
                asked_again,
                outdated: false,
            };
            let decided = body(&mut buffer);
            if let Some(fault) = buffer.take_fault() {
                return Err(fault);
            }
            let value = match decided {
                Ok(End::Rollback(value)) => return Ok(done(value, Applied::Kept, false)),
                Ok(End::Commit(value)) => value,
                // It was still on its way when it was asked after.
                Err(Fault::TookPlace(stamp)) => {
                    return match lost.iter().position(|lost| lost.stamp == stamp) {
                        Some(at) => {
                            let lost = lost.swap_remove(at);
                            Ok(Done {
                                outdated: lost.race != decided_in,
                                ..done(lost.value, Applied::Kept, true)
                            })
                        }
                        None => Err(Fault::TookPlace(stamp)),
                    };
                }
                Err(fault) => return Err(fault),
            };
            decided_in = race;
            match buffer.commit() {
                Ok(applied) => return Ok(done(value, applied, false)),
                Err(Fault::RaceLost) => {}
                Err(fault) if fault.is_connection_lost() => {
                    let stamp = buffer.stamp();
                    let found = buffer.took_place();
                    if matches!(found, Ok(true)) {
                        return Ok(done(value, Applied::Kept, true));
                    }
                    lost.push(Lost { stamp, value, race });
                    found?;
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
    /// A claim whose reply was lost is asked for again; if it is this one's, or the reply took long, a
    /// renewal of the lease must be acknowledged before anything starts. A claim that a synchronous standby
    /// has not confirmed is none.
    pub(super) fn claim_leased(
        &mut self,
        name: &OpName,
        decide: &mut DecideClaim<'_>,
    ) -> StoreResult<(Claimed, Option<Record>)> {
        self.begin(CALL_LIMIT);
        let mut lost = Vec::new();
        let mut asked_at = clock::since_boot();
        let done = self.write_noting(true, &mut lost, |tx| {
            asked_at = clock::since_boot();
            claim::claim(tx, name, decide)
        });
        let done = match done {
            Ok(done) => done,
            Err(fault) => {
                self.take_back_lost(&lost);
                return Err(fault.tell(self.place()));
            }
        };
        let Some(id) = won(&done.value) else {
            // One that nothing is run under can still be on its way.
            self.take_back_lost(&lost);
            return Ok(done.value);
        };
        if done.outdated {
            // What waits to be started was prepared for the later decision: it knows another token.
            self.take_back(&id, OUTDATED);
            return Err(StoreError::Busy(format!(
                "{}: {OUTDATED}; try again",
                self.place()
            )));
        }
        self.held_at = asked_at;
        self.secure(&id, done.applied, done.asked_again)?;
        match Heart::start(&self.place, id.clone()) {
            Ok(heart) => self.heart = Some(heart),
            Err(error) => {
                self.take_back(&id, NO_THREAD);
                return Err(StoreError::Other(format!(
                    "{NO_THREAD} ({error}); allow more processes and try again"
                )));
            }
        }
        Ok(done.value)
    }

    /// Makes sure of a claim before anything starts under it, or takes it back.
    fn secure(&mut self, id: &ClaimId, applied: Applied, asked_again: bool) -> StoreResult<()> {
        let renewed = match applied {
            Applied::Unconfirmed => Ok(Renewed::Unconfirmed),
            Applied::Kept if asked_again || !self.is_fresh() => {
                self.held_at = clock::since_boot();
                self.renew(id, true)
            }
            Applied::Kept => return Ok(()),
        };
        match renewed {
            Ok(Renewed::Yes) => Ok(()),
            Ok(Renewed::Unconfirmed) => {
                self.take_back(id, NOT_CONFIRMED);
                Err(StoreError::Other(format!(
                    "{}: {NOT_CONFIRMED}; try again when its standby is back, see `idem doctor`",
                    self.place()
                )))
            }
            Ok(Renewed::Lost) => Err(StoreError::Unreachable(format!(
                "{} took too long to answer, and the claim is gone; nothing was run, try again",
                self.place()
            ))),
            Err(fault) => {
                self.take_back(id, NO_REPLY);
                Err(fault.tell(self.place()))
            }
        }
    }

    fn take_back_lost(&mut self, lost: &[Lost<(Claimed, Option<Record>)>]) {
        for id in lost.iter().filter_map(|lost| won(&lost.value)) {
            self.take_back(&id, NO_REPLY);
        }
    }

    /// Settles a claim under which nothing was run as a failure that is safe to repeat. Where the server
    /// cannot be told now, that waits on this machine; elsewhere the lease runs out.
    fn take_back(&mut self, claim: &ClaimId, why: &str) {
        let settlement = Settlement {
            state: State::Failed,
            class: Some(Class::Safe),
            reason: Some(why.to_owned()),
            exit_code: None,
            retry_at: None,
            output: None,
            dirty: false,
            at: clock::now(),
            events: Vec::new(),
        };
        self.begin(TAKE_BACK_LIMIT);
        if !matches!(self.settle_own(claim, &settlement), Ok(true)) {
            let _ = pending::write(&self.paths, claim, &settlement, false);
        }
    }

    /// Settles a claim under which nothing was run, if it is there.
    pub(super) fn settle_own(&mut self, claim: &ClaimId, settlement: &Settlement) -> Tried<bool> {
        let found = self.find_record(&claim.name)?;
        let own =
            |record: &Record| (record.generation, record.nonce) == (claim.generation, claim.nonce);
        if !found.is_some_and(|record| own(&record)) {
            return Ok(false);
        }
        // It must not wait for a standby that is not there.
        let done = self.write(false, |tx| {
            settle::settle(tx, claim, settlement, &mut |_| Ok(()))
        })?;
        Ok(done.value == Fenced::Done)
    }

    pub(super) fn step_once(&mut self, claim: &ClaimId, step: &Step) -> StoreResult<Fenced> {
        let asked_at = clock::since_boot();
        let done = self.change_within(step.durable, |tx| settle::step(tx, claim, step))?;
        if done == Fenced::Done && step.starts_attempt {
            self.held_at = asked_at;
        }
        Ok(done)
    }

    /// Settles, for as long as there is time; then, or where the server refuses it, the result is left on
    /// this machine for later.
    pub(super) fn settle_patiently(
        &mut self,
        claim: &ClaimId,
        settlement: &Settlement,
        guards: &mut dyn FnMut(&mut dyn Guards) -> StoreResult<()>,
    ) -> StoreResult<Fenced> {
        self.begin(self.patience());
        let mut refused = false;
        let mut noting = |open: &mut dyn Guards| {
            let done = guards(open);
            refused = done.is_err();
            done
        };
        let done = loop {
            match self.settle_within(claim, settlement, &mut noting) {
                Err(fault) if fault.may_pass() && Instant::now() + SETTLE_PAUSE < self.until => {
                    std::thread::sleep(SETTLE_PAUSE);
                }
                done => break done,
            }
        };
        // The lease is kept up until here: others must not take a slow upload for an end.
        self.heart = None;
        match done {
            Ok(fenced) => Ok(fenced),
            Err(fault) => {
                // What the caller's own part refuses is no matter of the server's.
                refused &= matches!(fault, Fault::Told(_));
                let why = fault.tell(self.place());
                let fails = match &why {
                    // A guard that could not be asked has refused nothing.
                    StoreError::Unreachable(_) | StoreError::Busy(_) | StoreError::ReadOnly(_) => {
                        false
                    }
                    // It is tried once more without its output.
                    StoreError::Full(_) if settlement.output.is_some() => true,
                    _ => refused,
                };
                if fails {
                    return Err(why);
                }
                match pending::write(&self.paths, claim, settlement, true) {
                    Ok(_) => Ok(Fenced::Deferred {
                        why: why.to_string(),
                    }),
                    Err(_) => Err(why),
                }
            }
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

/// The claim that was won, if one was.
fn won(value: &(Claimed, Option<Record>)) -> Option<ClaimId> {
    let (Claimed::Won, Some(record)) = value else {
        return None;
    };
    Some(ClaimId {
        name: record.name.clone(),
        generation: record.generation,
        nonce: record.nonce,
    })
}
