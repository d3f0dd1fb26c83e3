//! A store in memory for one operation.

use super::super::event::{Event, EventKind, NewEvent};
use super::super::store::{
    Change, ClaimId, Claimable, Claimed, Claiming, DecideClaim, Fenced, Filter, GuardKind, Guards,
    Import, Imported, NewClaim, NewOutput, OpenOutput, OutputBody, PastResult, Purged, Settlement,
    Step, Store, StoreError, StoreResult, TokenChoice,
};
use super::Log;
use crate::domain::name::{Generation, Nonce, OpName, Scope};
use crate::domain::outcome::State;
use crate::domain::record::{OutputRef, Place, Record};
use crate::domain::time::{Stamp, UnixMs};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// The guards, by kind and name.
pub type GuardMap = HashMap<(GuardKind, String), Value>;

pub struct Memory {
    log: Log,
    pub record: Option<Record>,
    /// The records of other operations, which nothing here changes.
    pub others: Vec<Record>,
    pub events: Vec<Event>,
    pub guards: GuardMap,
    pub past: Vec<PastResult>,
    /// What goes wrong with the next settles; nothing for one that works.
    pub settle_errors: VecDeque<Option<StoreError>>,
    /// The same for steps.
    pub step_errors: VecDeque<Option<StoreError>>,
    /// The lease ran out, and others have taken over.
    pub lease_lost: bool,
    /// The same for the guards' own transactions.
    pub guard_errors: VecDeque<Option<StoreError>>,
    /// The record is another's by now, whatever it looks like.
    pub moved_on: bool,
    generation: i64,
}

struct Open<'a>(&'a mut GuardMap);

impl Guards for Open<'_> {
    fn guard(&mut self, kind: GuardKind, name: &str) -> StoreResult<Option<Value>> {
        Ok(self.0.get(&(kind, name.to_owned())).cloned())
    }

    fn set_guard(&mut self, kind: GuardKind, name: &str, state: Option<Value>) -> StoreResult<()> {
        match state {
            Some(state) => self.0.insert((kind, name.to_owned()), state),
            None => self.0.remove(&(kind, name.to_owned())),
        };
        Ok(())
    }
}

impl Memory {
    pub fn new(log: &Log) -> Memory {
        Memory {
            log: log.clone(),
            record: None,
            others: Vec::new(),
            events: Vec::new(),
            guards: GuardMap::new(),
            past: Vec::new(),
            settle_errors: VecDeque::new(),
            step_errors: VecDeque::new(),
            lease_lost: false,
            guard_errors: VecDeque::new(),
            moved_on: false,
            generation: 0,
        }
    }

    pub fn put(&mut self, record: Record) {
        self.generation = self.generation.max(record.generation.0);
        self.record = Some(record);
    }

    fn say(&self, text: String) {
        self.log.borrow_mut().push(text);
    }

    fn append(&mut self, generation: Generation, events: &[NewEvent]) {
        for event in events {
            self.events.push(Event {
                id: i64::try_from(self.events.len()).unwrap() + 1,
                at: event.at,
                name: super::name("k"),
                generation,
                kind: event.kind,
                attempt: event.attempt,
                detail: event.detail.clone(),
            });
        }
    }

    fn claimed(&self, name: &OpName, new: &NewClaim, generation: Generation) -> Record {
        let asked = &new.record;
        let kept = match &asked.token {
            TokenChoice::Keep => self.record.clone(),
            TokenChoice::Mint(_) => None,
        };
        let token = match &asked.token {
            TokenChoice::Keep => kept.as_ref().map(|kept| kept.token.clone()).unwrap(),
            TokenChoice::Mint(token) => token.clone(),
        };
        let attempts = kept.as_ref().map_or(0, |kept| kept.attempts);
        Record {
            name: name.clone(),
            state: State::Running,
            generation,
            nonce: asked.nonce,
            token,
            minted_by: kept.as_ref().map_or(generation, |kept| kept.minted_by),
            fingerprint: asked.fingerprint,
            command: asked.command.clone(),
            created_at: UnixMs(0),
            since: asked.at.clone(),
            ttl: asked.ttl,
            failed_ttl: asked.failed_ttl,
            class: None,
            reason: None,
            exit_code: None,
            retry_at: None,
            output: None,
            attempts: attempts + u32::from(new.starts_attempt),
            dirty: asked.dirty,
            owner: Some(new.owner.clone()),
            source: asked.source.clone(),
            proposal: None,
            decided_by: None,
        }
    }

    fn mine(&mut self, claim: &ClaimId) -> Option<&mut Record> {
        let moved_on = self.moved_on;
        self.record.as_mut().filter(|record| {
            !moved_on
                && record.generation == claim.generation
                && record.nonce == claim.nonce
                && matches!(record.state, State::Running | State::Unknown)
        })
    }
}

fn stored(nonce: Nonce, output: &NewOutput) -> OutputRef {
    let place = match output.body {
        OutputBody::Nothing => Place::Nowhere,
        OutputBody::Inline(_) => Place::Inline,
        OutputBody::Spooled(_) => Place::Spool,
    };
    output.stored(nonce, place)
}

fn describe(step: &Step) -> String {
    let mut text = "step".to_owned();
    if step.starts_attempt {
        text.push_str(" start");
    }
    if let Some(output) = &step.output {
        text.push_str(&format!(" output {}", output.number));
    }
    match step.dirty {
        Some(true) => text.push_str(" dirty"),
        Some(false) => text.push_str(" clean"),
        None => {}
    }
    if step.durable {
        text.push_str(" durable");
    }
    text
}

impl Store for Memory {
    fn find(&mut self, name: &OpName) -> StoreResult<Option<Record>> {
        let all = self.record.iter().chain(&self.others);
        let mut named = all.filter(|record| record.name == *name);
        Ok(named.next().cloned())
    }

    fn claim(
        &mut self,
        name: &OpName,
        decide: &mut DecideClaim<'_>,
    ) -> StoreResult<(Claimed, Option<Record>)> {
        let found = self.record.clone();
        let generation = Generation(self.generation + 1);
        let mut guards = self.guards.clone();
        let claiming = decide(Claimable {
            record: found.as_ref(),
            generation,
            guards: &mut Open(&mut guards),
        })?;
        let new = match claiming {
            Claiming::Claim(new) => new,
            Claiming::Refuse { events } => {
                self.guards = guards;
                let found_generation = found.as_ref().map_or(Generation(0), |f| f.generation);
                self.append(found_generation, &events);
                return Ok((Claimed::Left, found));
            }
            Claiming::Propose(new) => {
                self.generation = generation.0;
                let record = Record {
                    generation,
                    proposal: Some(new.proposal),
                    dirty: new.record.dirty,
                    ..super::record(State::Held, None)
                };
                self.record = Some(record.clone());
                self.say(format!("propose {generation}"));
                return Ok((Claimed::Proposed, Some(record)));
            }
            Claiming::Leave => return Ok((Claimed::Left, found)),
        };
        self.guards = guards;
        self.generation = generation.0;
        let record = self.claimed(name, &new, generation);
        self.record = Some(record.clone());
        self.append(generation, &new.record.events);
        self.say(format!("claim {generation}"));
        Ok((Claimed::Won, Some(record)))
    }

    fn step(&mut self, claim: &ClaimId, step: &Step) -> StoreResult<Fenced> {
        self.say(describe(step));
        if let Some(Some(error)) = self.step_errors.pop_front() {
            return Err(error);
        }
        let Some(record) = self.mine(claim) else {
            return Ok(Fenced::Superseded);
        };
        record.attempts += u32::from(step.starts_attempt);
        record.dirty = step.dirty.unwrap_or(record.dirty);
        self.append(claim.generation, &step.events);
        Ok(Fenced::Done)
    }

    fn still_holds(&mut self, _claim: &ClaimId) -> StoreResult<bool> {
        Ok(!self.lease_lost)
    }

    fn settle(
        &mut self,
        claim: &ClaimId,
        settlement: &Settlement,
        guards: &mut dyn FnMut(&mut dyn Guards) -> StoreResult<()>,
    ) -> StoreResult<Fenced> {
        let word = settlement.state.word();
        self.say(format!("settle {word}"));
        if let Some(Some(error)) = self.settle_errors.pop_front() {
            // The transaction is rolled back, with all that the guards were told in it.
            guards(&mut Open(&mut self.guards.clone()))?;
            return Err(error);
        }
        let output = settlement.output.as_ref();
        let Some(record) = self.mine(claim) else {
            return Ok(Fenced::Superseded);
        };
        record.state = settlement.state;
        record.class = settlement.class;
        record.reason.clone_from(&settlement.reason);
        record.exit_code = settlement.exit_code;
        record.retry_at = settlement.retry_at;
        record.dirty = settlement.dirty;
        record.since = settlement.at.clone();
        record.output = output.map(|output| stored(claim.nonce, output));
        guards(&mut Open(&mut self.guards))?;
        self.append(claim.generation, &settlement.events);
        Ok(Fenced::Done)
    }

    fn change(
        &mut self,
        _name: &OpName,
        decide: &mut dyn FnMut(Option<&Record>) -> Change,
    ) -> StoreResult<Option<Record>> {
        let found = self.record.clone();
        decide(found.as_ref());
        Ok(found)
    }

    fn with_guards(
        &mut self,
        body: &mut dyn FnMut(&mut dyn Guards) -> StoreResult<()>,
    ) -> StoreResult<()> {
        self.say("guards".into());
        let mut guards = self.guards.clone();
        body(&mut Open(&mut guards))?;
        if let Some(Some(error)) = self.guard_errors.pop_front() {
            return Err(error);
        }
        self.guards = guards;
        Ok(())
    }

    fn list(&mut self, _filter: &Filter) -> StoreResult<Vec<Record>> {
        Ok(self.record.clone().into_iter().collect())
    }

    fn names(&mut self, _filter: &Filter) -> StoreResult<Vec<OpName>> {
        Ok(self
            .record
            .iter()
            .map(|record| record.name.clone())
            .collect())
    }

    fn import(&mut self, _import: &Import) -> StoreResult<Imported> {
        Ok(Imported::Kept)
    }

    fn count_states(&mut self) -> StoreResult<Vec<(Scope, State, u64)>> {
        Ok(Vec::new())
    }

    fn list_guards(&mut self, _kind: GuardKind) -> StoreResult<Vec<(String, Value)>> {
        Ok(Vec::new())
    }

    fn events(
        &mut self,
        _name: Option<&OpName>,
        _after_id: i64,
        _limit: u32,
    ) -> StoreResult<Vec<Event>> {
        Ok(self.events.clone())
    }

    fn past_result(
        &mut self,
        _name: &OpName,
        generation: Generation,
    ) -> StoreResult<Option<PastResult>> {
        let mut past = self.past.iter();
        Ok(past.find(|result| result.generation == generation).cloned())
    }

    fn open_output(&mut self, _output: &OutputRef) -> StoreResult<OpenOutput> {
        Ok(OpenOutput::Nothing)
    }

    fn purge(&mut self, _: &Stamp, _: u32, _: Duration) -> StoreResult<Purged> {
        Ok(Purged::default())
    }
}

/// The details of the events of one kind.
pub fn details(events: &[Event], kind: EventKind) -> Vec<String> {
    let of_kind = events.iter().filter(|event| event.kind == kind);
    of_kind
        .map(|event| Value::Object(event.detail.clone()).to_string())
        .collect()
}
