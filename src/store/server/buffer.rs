//! A transaction that reads as it goes and writes everything in its last statement.
//!
//! A transaction that stayed open between statements would hold row locks for as long as its client is
//! stopped, paged out or cut off. So nothing is locked: what is read carries a version, and the one
//! statement that writes takes place only if the versions are still those. It is safe behind a pooler in
//! transaction mode, and the server's own clock counts the leases.

use super::fault::{Fault, Tried, is_conflict};
use super::output::{self, Part};
use super::read::name_params;
use super::{ServerStore, rows};
use crate::domain::name::{Generation, Nonce, OpName};
use crate::domain::outcome::State;
use crate::domain::record::{OutputRef, Place, Record};
use crate::engine::event::{EventKind, NewEvent};
use crate::engine::store::{GuardKind, Guards, NewOutput, OutputBody, StoreError, StoreResult};
use crate::process::random;
use crate::store::postgres::Param;
use crate::store::transitions::{Stored, Tx};
use serde_json::Value as Json;
use std::path::PathBuf;

/// An open transaction.
pub struct Buffer<'s> {
    store: &'s mut ServerStore,
    /// The version that every row gets which this transaction writes. It tells, after a lost reply,
    /// whether the statement took place.
    stamp: i64,
    /// The stamps of earlier tries of the same change whose replies were lost.
    lost: Vec<i64>,
    /// Waits for the server's disk, and for a synchronous standby's.
    durable: bool,
    found: Option<Found>,
    generation: Option<i64>,
    operation: Option<Write>,
    dropped: Vec<Nonce>,
    outputs: Vec<Part>,
    /// Spool files whose content is on the server, and needs them no more once a record names it.
    uploads: Vec<PathBuf>,
    events: Vec<(OpName, Generation, NewEvent)>,
    guards: Vec<Guard>,
    /// Why a guard could not be read: whoever asked for it can only pass on that it was so.
    fault: Option<Fault>,
}

/// The record as it was read.
struct Found {
    name: OpName,
    /// None where there was none.
    version: Option<i64>,
    has_outputs: bool,
    /// The claim that runs, which may hold permits.
    running: Option<Nonce>,
}

/// What becomes of the record.
enum Write {
    Insert(Box<Stored>),
    Update(Box<Stored>),
    Delete,
}

/// A guard that was read, and what it becomes.
struct Guard {
    kind: GuardKind,
    name: String,
    /// None where there was none.
    version: Option<i64>,
    state: Option<Json>,
    changed: bool,
}

/// What became of the last statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It took place, and the server promises to keep it.
    Kept,
    /// It took place here; the standby that must have it as well has not confirmed it.
    Unconfirmed,
}

/// The warning in place of an error where the wait for a synchronous standby was cancelled.
pub const NOT_CONFIRMED: &str = "01000";

impl<'s> Buffer<'s> {
    /// Begins one. `durable` waits until the changes are on the server's disk. `lost` are the stamps
    /// of earlier tries whose replies were lost.
    pub fn new(store: &'s mut ServerStore, durable: bool, lost: Vec<i64>) -> Buffer<'s> {
        Buffer {
            store,
            stamp: i64::from_ne_bytes(random::bytes()),
            lost,
            durable,
            found: None,
            generation: None,
            operation: None,
            dropped: Vec::new(),
            outputs: Vec::new(),
            uploads: Vec::new(),
            events: Vec::new(),
            guards: Vec::new(),
            fault: None,
        }
    }

    /// Why nothing can come of it, if a guard could not be read.
    pub fn take_fault(&mut self) -> Option<Fault> {
        self.fault.take()
    }

    /// The version that every row gets which this transaction writes.
    pub fn stamp(&self) -> i64 {
        self.stamp
    }

    /// Writes everything. Nothing of it has happened after an error, unless the connection was lost.
    pub fn commit(&mut self) -> Tried<Applied> {
        let guards: Vec<&Guard> = self.guards.iter().filter(|guard| guard.changed).collect();
        let freed = self.freed().copied();
        let sql = self.sql();
        let sql = self.store.within(&sql);
        let record = match &self.operation {
            Some(Write::Insert(stored) | Write::Update(stored)) => Some(rows::columns(stored)),
            _ => None,
        };
        let name = self.found.as_ref().map(|found| &found.name);
        let lease = self.store.lease_seconds();
        let running = matches!(&self.operation, Some(Write::Insert(s) | Write::Update(s)) if s.record.state == State::Running);
        let kept: Vec<Option<&[u8]>> = record.as_ref().map_or(Vec::new(), |r| {
            r.kept.iter().map(|n| Some(&n.0[..])).collect()
        });
        let details: Vec<String> = self
            .events
            .iter()
            .map(|(_, _, event)| Json::Object(event.detail.clone()).to_string())
            .collect();
        let states: Vec<Option<String>> = guards
            .iter()
            .map(|guard| guard.state.as_ref().map(Json::to_string))
            .collect();
        let mut params = vec![
            Param::Text(name.map(|name| name.scope.as_str())),
            Param::Text(name.map(|name| name.key.as_str())),
            Param::Bool(Some(self.durable)),
            Param::Int8(Some(self.stamp)),
            Param::Int8(self.found.as_ref().and_then(|found| found.version)),
            Param::Text(record.as_ref().map(|r| r.state)),
            Param::Int8(record.as_ref().map(|r| r.generation)),
            Param::Bytes(record.as_ref().map(|r| &r.nonce.0[..])),
            Param::Int8(record.as_ref().map(|r| r.minted_by)),
            Param::Int8(record.as_ref().map(|r| r.since_at)),
            Param::Int8(record.as_ref().and_then(|r| r.expires_at)),
            Param::Float8(running.then_some(lease)),
            Param::BytesArray(kept),
            Param::Text(record.as_ref().map(|r| r.body.as_str())),
            Param::BytesArray(self.dropped.iter().map(|n| Some(&n.0[..])).collect()),
        ];
        params.extend(output_params(&self.outputs));
        params.extend(event_params(&self.events, &details));
        params.extend(guard_params(&guards, &states));
        params.push(Param::Bytes(freed.as_ref().map(|nonce| &nonce.0[..])));
        let (written, confirmed) =
            self.store
                .execute(&sql, &params)
                .map_err(|fault| match fault {
                    Fault::Pg(error) if is_conflict(&error) => Fault::RaceLost,
                    fault => fault,
                })?;
        if !written {
            return Err(Fault::RaceLost);
        }
        self.store.spent.append(&mut self.uploads);
        Ok(match confirmed {
            true => Applied::Kept,
            false => Applied::Unconfirmed,
        })
    }

    fn sql(&self) -> String {
        let operation = match &self.operation {
            Some(Write::Insert(_)) => INSERT,
            Some(Write::Update(_)) => UPDATE,
            Some(Write::Delete) => DELETE,
            None => NOTHING,
        };
        let durable = durable(3);
        let freed = self.freed().map_or("", |_| FREED);
        format!("WITH {durable}, op AS ({operation}){freed}{REST}")
    }

    /// The claim that runs no more with this transaction.
    fn freed(&self) -> Option<&Nonce> {
        let running = self.found.as_ref()?.running.as_ref()?;
        let goes_on = match self.operation.as_ref()? {
            Write::Insert(stored) | Write::Update(stored) => {
                stored.record.state == State::Running && stored.record.nonce == *running
            }
            Write::Delete => false,
        };
        (!goes_on).then_some(running)
    }

    /// Whether the last statement took place whose reply was lost. Asked over another connection.
    pub fn took_place(&mut self) -> Tried<bool> {
        let took_place = self.is_written()?;
        if took_place {
            self.store.spent.append(&mut self.uploads);
        }
        Ok(took_place)
    }

    fn is_written(&mut self) -> Tried<bool> {
        if let (Some(found), Some(operation)) = (&self.found, &self.operation) {
            let sql = self
                .store
                .within("SELECT written FROM @operation WHERE scope = $1 AND key = $2");
            let rows = self.store.ask(&sql, &name_params(&found.name))?;
            let written: Option<i64> = rows.first().map(|row| row.get(0)).transpose()?;
            return Ok(match operation {
                Write::Delete => written.is_none(),
                Write::Insert(_) | Write::Update(_) => written == Some(self.stamp),
            });
        }
        if let Some(guard) = self.guards.iter().find(|g| g.changed && g.state.is_some()) {
            let (kind, name) = (guard.kind, guard.name.clone());
            let (_, version) = self.store.read_guard(kind, &name)?;
            return Ok(version == Some(self.stamp));
        }
        if let Some((name, generation, event)) = self.events.last() {
            return self.store.has_line(name, *generation, event);
        }
        Err(Fault::Told(StoreError::Unreachable(
            "the connection was lost, and whether the change was made is not known; look before you repeat it".to_owned(),
        )))
    }
}

/// `$16` to `$18`.
fn output_params(outputs: &[Part]) -> [Param<'_>; 3] {
    [
        Param::BytesArray(outputs.iter().map(|part| Some(&part.nonce.0[..])).collect()),
        Param::Int4Array(outputs.iter().map(|part| Some(part.number)).collect()),
        Param::BytesArray(
            outputs
                .iter()
                .map(|part| Some(part.bytes.as_slice()))
                .collect(),
        ),
    ]
}

/// `$19` to `$25`.
fn event_params<'p>(
    events: &'p [(OpName, Generation, NewEvent)],
    details: &'p [String],
) -> [Param<'p>; 7] {
    let texts = |text: fn(&(OpName, Generation, NewEvent)) -> &str| {
        Param::TextArray(events.iter().map(|event| Some(text(event))).collect())
    };
    [
        Param::Int8Array(events.iter().map(|(_, _, e)| Some(e.at.0)).collect()),
        texts(|(name, ..)| name.scope.as_str()),
        texts(|(name, ..)| name.key.as_str()),
        Param::Int8Array(events.iter().map(|(_, g, _)| Some(g.0)).collect()),
        texts(|(_, _, event)| event.kind.word()),
        Param::Int4Array(events.iter().map(|(_, _, e)| attempt(e)).collect()),
        Param::TextArray(details.iter().map(|detail| Some(detail.as_str())).collect()),
    ]
}

/// `$26` to `$29`.
fn guard_params<'p>(guards: &[&'p Guard], states: &'p [Option<String>]) -> [Param<'p>; 4] {
    [
        Param::TextArray(guards.iter().map(|guard| Some(guard.kind.word())).collect()),
        Param::TextArray(guards.iter().map(|g| Some(g.name.as_str())).collect()),
        Param::TextArray(states.iter().map(Option::as_deref).collect()),
        Param::Int8Array(guards.iter().map(|guard| guard.version).collect()),
    ]
}

fn attempt(event: &NewEvent) -> Option<i32> {
    event
        .attempt
        .map(|number| i32::try_from(number).unwrap_or(i32::MAX))
}

/// How the commit waits, by the parameter of this number. A role or database may be set to lose its latest
/// commits in a crash; a claim that is lost would be made again. It counts where a statement reads from it.
pub fn durable(parameter: u32) -> String {
    format!(
        "durable AS MATERIALIZED (SELECT set_config('synchronous_commit', \
         CASE WHEN NOT ${parameter} THEN 'off' \
         WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on' \
         ELSE current_setting('synchronous_commit') END, true))"
    )
}

const INSERT: &str = "INSERT INTO @operation(scope, key, version, written, state, generation, nonce, minted_by, \
    since_at, expires_at, lease_until, kept, body) \
    SELECT $1, $2, $4, $4, $6, $7, $8, $9, $10, $11, clock_timestamp() + make_interval(secs => $12), $13, $14 \
    FROM durable WHERE $5 IS NULL ON CONFLICT DO NOTHING RETURNING 1";

const UPDATE: &str = "UPDATE @operation SET version = $4, written = $4, state = $6, generation = $7, nonce = $8, \
    minted_by = $9, since_at = $10, expires_at = $11, \
    lease_until = clock_timestamp() + make_interval(secs => $12), kept = $13, body = $14 \
    FROM durable WHERE scope = $1 AND key = $2 AND version = $5 RETURNING 1";

const DELETE: &str = "DELETE FROM @operation USING durable \
    WHERE scope = $1 AND key = $2 AND version = $5 RETURNING 1";

const NOTHING: &str = "SELECT 1 FROM durable";

/// The permits of a claim end with it.
const FREED: &str =
    ", freed AS (DELETE FROM @permit WHERE nonce = $30 AND EXISTS (SELECT FROM op))";

/// Everything else happens only if the record was still the one that was read. A guard that has changed
/// undoes all of it, with an error that nothing else here can raise.
const REST: &str = ", \
    gone AS (DELETE FROM @output WHERE nonce = ANY($15) AND EXISTS (SELECT FROM op)), \
    put AS (INSERT INTO @output(nonce, number, part, bytes) \
      SELECT u.nonce, u.number, 0, u.bytes FROM unnest($16, $17, $18) AS u(nonce, number, bytes) \
      WHERE EXISTS (SELECT FROM op) \
      ON CONFLICT (nonce, number, part) DO UPDATE SET bytes = EXCLUDED.bytes), \
    told AS (INSERT INTO @event(at, scope, key, generation, kind, attempt, detail) \
      SELECT u.at, u.scope, u.key, u.generation, u.kind, u.attempt, u.detail \
      FROM unnest($19, $20, $21, $22, $23, $24, $25) WITH ORDINALITY \
        AS u(at, scope, key, generation, kind, attempt, detail, n) \
      WHERE EXISTS (SELECT FROM op) ORDER BY u.n), \
    wanted AS MATERIALIZED (SELECT * FROM unnest($26, $27, $28, $29) AS w(kind, name, state, version) \
      WHERE EXISTS (SELECT FROM op)), \
    made AS (INSERT INTO @guard(kind, name, state, version) \
      SELECT kind, name, state, $4 FROM wanted WHERE version IS NULL \
      ON CONFLICT DO NOTHING RETURNING 1), \
    changed AS (UPDATE @guard AS g SET state = w.state, version = $4 FROM wanted AS w \
      WHERE g.kind = w.kind AND g.name = w.name AND g.version = w.version AND w.state IS NOT NULL \
      RETURNING 1), \
    removed AS (DELETE FROM @guard AS g USING wanted AS w \
      WHERE g.kind = w.kind AND g.name = w.name AND g.version = w.version AND w.state IS NULL \
      RETURNING 1), \
    sums AS (SELECT (SELECT count(*) FROM made) + (SELECT count(*) FROM changed) \
      + (SELECT count(*) FROM removed) AS done, (SELECT count(*) FROM wanted) AS wanted) \
    SELECT EXISTS (SELECT FROM op), 1 / CASE WHEN done = wanted THEN 1 ELSE 0 END FROM sums";

impl Tx for Buffer<'_> {
    type Fault = Fault;

    fn find(&mut self, name: &OpName) -> Tried<Option<Stored>> {
        let (found, generation) = self.store.find_for_change(name)?;
        // Taken with the first look, in the same round trip; one that is not used is no loss.
        self.generation = Some(generation);
        let (stored, version, has_outputs) = match found {
            Some(found) if self.lost.contains(&found.written) => {
                return Err(Fault::TookPlace(found.written));
            }
            Some(found) => (Some(found.stored), Some(found.version), found.has_outputs),
            None => (None, None, false),
        };
        let record = stored.as_ref().map(|stored| &stored.record);
        let running = record.filter(|record| record.state == State::Running);
        self.found = Some(Found {
            name: name.clone(),
            version,
            has_outputs,
            running: running.map(|record| record.nonce),
        });
        Ok(stored)
    }

    fn next_generation(&mut self) -> Tried<Generation> {
        match self.generation.take() {
            Some(generation) => Ok(Generation(generation)),
            None => self.store.next_generation(),
        }
    }

    fn insert(&mut self, stored: &Stored) -> Tried<()> {
        self.operation = Some(Write::Insert(Box::new(stored.clone())));
        Ok(())
    }

    fn update(&mut self, stored: &Stored) -> Tried<()> {
        self.operation = Some(Write::Update(Box::new(stored.clone())));
        Ok(())
    }

    fn delete(&mut self, stored: &Stored) -> Tried<()> {
        self.operation = Some(Write::Delete);
        self.drop_outputs(stored)
    }

    fn drop_outputs_of(&mut self, nonce: &Nonce) -> Tried<()> {
        self.dropped.push(*nonce);
        Ok(())
    }

    fn has_outputs(&mut self, _nonce: &Nonce) -> Tried<bool> {
        Ok(self.found.as_ref().is_some_and(|found| found.has_outputs))
    }

    fn put_output(&mut self, nonce: Nonce, output: &NewOutput) -> Tried<OutputRef> {
        let place = match &output.body {
            OutputBody::Nothing => Place::Nowhere,
            OutputBody::Inline(bytes) => {
                self.outputs.push(Part {
                    nonce,
                    number: output::number(output.number),
                    bytes: bytes.clone(),
                });
                Place::Inline
            }
            OutputBody::Spooled(path) => {
                self.store.upload(nonce, output.number, path)?;
                self.uploads.push(path.clone());
                Place::Spool
            }
        };
        Ok(output.stored(nonce, place))
    }

    fn append(&mut self, name: &OpName, generation: Generation, events: &[NewEvent]) -> Tried<()> {
        let events = events.iter().cloned();
        self.events
            .extend(events.map(|event| (name.clone(), generation, event)));
        Ok(())
    }

    fn has_event(&mut self, name: &OpName, generation: Generation, kind: EventKind) -> Tried<bool> {
        self.store.has_event(name, generation, kind)
    }

    fn guards(&mut self) -> &mut dyn Guards {
        self
    }
}

impl Guards for Buffer<'_> {
    fn guard(&mut self, kind: GuardKind, name: &str) -> StoreResult<Option<Json>> {
        let known = |guard: &&Guard| guard.kind == kind && guard.name == name;
        if let Some(guard) = self.guards.iter().find(known) {
            return Ok(guard.state.clone());
        }
        let (state, version) = match self.store.read_guard(kind, name) {
            Ok(read) => read,
            Err(fault) => {
                self.fault = Some(fault);
                let text = format!("{} could not be asked", self.store.place());
                return Err(StoreError::Unreachable(text));
            }
        };
        self.guards.push(Guard {
            kind,
            name: name.to_owned(),
            version,
            state: state.clone(),
            changed: false,
        });
        Ok(state)
    }

    fn record_of(&mut self, name: &OpName) -> StoreResult<Option<Record>> {
        let found = self.store.find_record(name);
        found.map_err(|fault| fault.tell(self.store.place()))
    }

    fn set_guard(&mut self, kind: GuardKind, name: &str, state: Option<Json>) -> StoreResult<()> {
        // What it replaces must be known, so that nobody's change in between is lost.
        self.guard(kind, name)?;
        let wanted = |guard: &&mut Guard| guard.kind == kind && guard.name == name;
        if let Some(guard) = self.guards.iter_mut().find(wanted) {
            // One that is neither there nor to be there needs no statement.
            guard.changed = guard.version.is_some() || state.is_some();
            guard.state = state;
        }
        Ok(())
    }
}
