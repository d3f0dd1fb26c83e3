//! What is only read.

use super::ServerStore;
use super::fault::{Fault, Tried};
use super::rows::{self, COLUMN_COUNT, COLUMNS, FoundRow};
use crate::domain::name::{Generation, Nonce, OpName, Scope};
use crate::domain::outcome::State;
use crate::domain::record::Record;
use crate::domain::time::UnixMs;
use crate::engine::detail::past_from_detail;
use crate::engine::event::{Event, EventKind, NewEvent};
use crate::engine::store::{Filter, GuardKind, PastResult};
use crate::store::glob;
use crate::store::postgres::{Param, Row};
use serde_json::{Map, Value as Json};
use std::collections::HashSet;
use std::time::Duration;

/// Rows that one statement of a list reads: what both sides hold in memory.
const ROWS_A_PAGE: i64 = 500;

/// How long a line of the ledger may be on its way, in seconds: a line that comes after a gap and is older
/// than this shows that what is missing never comes.
const LINE_ON_ITS_WAY: f64 = 30.0;

/// How often a gap in the ledger is looked at again in one call, and the pause before that. The
/// transaction that fills it is mostly just committing.
const LOOKS_AT_A_GAP: u32 = 10;
const GAP_PAUSE: Duration = Duration::from_millis(5);

impl ServerStore {
    pub(super) fn find_record(&mut self, name: &OpName) -> Tried<Option<Record>> {
        let sql = self.within(&format!(
            "SELECT {COLUMNS} FROM @operation AS o WHERE o.scope = $1 AND o.key = $2"
        ));
        let rows = self.ask(&sql, &name_params(name))?;
        let found = rows.first().map(|row| rows::read(&row, 0)).transpose()?;
        Ok(found.flatten().map(|found| found.stored.record))
    }

    /// Reads a record, and takes a generation for whoever is about to change it.
    pub(super) fn find_for_change(&mut self, name: &OpName) -> Tried<(Option<FoundRow>, i64)> {
        let sql = self.within(&format!(
            "SELECT nextval('@generation'), {COLUMNS} FROM (SELECT) AS one \
             LEFT JOIN @operation AS o ON o.scope = $1 AND o.key = $2"
        ));
        let rows = self.ask(&sql, &name_params(name))?;
        let row = rows.only()?;
        let found = rows::read(&row, 1)?;
        let next: i64 = row.get(0)?;
        // A counter that was set back (a restored server) must not fence the present claim off.
        let known = found
            .as_ref()
            .map_or(0, |found| found.stored.record.generation.0);
        Ok((found, next.max(known.saturating_add(1))))
    }

    /// A guard's state and version.
    pub(super) fn read_guard(
        &mut self,
        kind: GuardKind,
        name: &str,
    ) -> Tried<(Option<Json>, Option<i64>)> {
        let sql = self.within("SELECT state, version FROM @guard WHERE kind = $1 AND name = $2");
        let rows = self.ask(&sql, &[kind.word().into(), name.into()])?;
        let Some(row) = rows.first() else {
            return Ok((None, None));
        };
        Ok((Some(parse_guard(row.get(0)?)?), Some(row.get(1)?)))
    }

    pub(super) fn read_guards(&mut self, kind: GuardKind) -> Tried<Vec<(String, Json)>> {
        let sql = self
            .within("SELECT name, state FROM @guard WHERE kind = $1 ORDER BY name COLLATE \"C\"");
        let rows = self.ask(&sql, &[kind.word().into()])?;
        rows.iter()
            .map(|row| Ok((row.get(0)?, parse_guard(row.get(1)?)?)))
            .collect()
    }

    pub(super) fn has_event(
        &mut self,
        name: &OpName,
        generation: Generation,
        kind: EventKind,
    ) -> Tried<bool> {
        let sql = self.within(
            "SELECT EXISTS (SELECT FROM @event \
             WHERE scope = $1 AND key = $2 AND generation = $3 AND kind = $4)",
        );
        let [scope, key] = name_params(name);
        let params = [scope, key, generation.0.into(), kind.word().into()];
        Ok(self.ask(&sql, &params)?.only()?.get(0)?)
    }

    /// Whether the ledger has this very line.
    pub(super) fn has_line(
        &mut self,
        name: &OpName,
        generation: Generation,
        event: &NewEvent,
    ) -> Tried<bool> {
        let sql = self.within(
            "SELECT EXISTS (SELECT FROM @event WHERE scope = $1 AND key = $2 AND generation = $3 \
             AND kind = $4 AND at = $5 AND detail = $6)",
        );
        let [scope, key] = name_params(name);
        let detail = Json::Object(event.detail.clone()).to_string();
        let params = [
            scope,
            key,
            generation.0.into(),
            event.kind.word().into(),
            event.at.0.into(),
            detail.as_str().into(),
        ];
        Ok(self.ask(&sql, &params)?.only()?.get(0)?)
    }

    pub(super) fn list_records(&mut self, filter: &Filter) -> Tried<Vec<Record>> {
        self.walk(
            filter,
            &format!("{COLUMNS}, o.since_at, o.generation"),
            COLUMN_COUNT,
            |row| {
                let found = rows::read(row, 0)?.ok_or(Fault::Damaged("a record without a name"))?;
                Ok((found.stored.record.name.clone(), found.stored.record))
            },
        )
    }

    pub(super) fn list_names(&mut self, filter: &Filter) -> Tried<Vec<OpName>> {
        self.walk(
            filter,
            "o.scope, o.key, o.since_at, o.generation",
            2,
            |row| {
                let name = rows::name(row.get(0)?, row.get(1)?)?;
                Ok((name.clone(), name))
            },
        )
    }

    /// Reads what a filter lets through, newest first, a page after the other. The two columns at
    /// `position` say where a page ends.
    fn walk<T>(
        &mut self,
        filter: &Filter,
        columns: &str,
        position: usize,
        read: impl Fn(&Row<'_>) -> Tried<(OpName, T)>,
    ) -> Tried<Vec<T>> {
        let sql = self.within(&format!(
            "SELECT {columns} FROM @operation AS o WHERE {CONDITION} \
             ORDER BY o.since_at DESC, o.generation DESC LIMIT $7"
        ));
        let limit = filter
            .limit
            .map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
        let task = filter.task.as_ref().map(|task| format!("{task}/"));
        let mut after = (i64::MAX, i64::MAX);
        let mut found = Vec::new();
        loop {
            let params = [
                Param::Text(filter.scope.as_ref().map(Scope::as_str)),
                Param::Text(task.as_deref()),
                Param::TextArray(
                    filter
                        .states
                        .iter()
                        .map(|state| Some(state.word()))
                        .collect(),
                ),
                Param::Int8(filter.since.map(|since| since.0)),
                Param::Int8(Some(after.0)),
                Param::Int8(Some(after.1)),
                Param::Int8(Some(ROWS_A_PAGE)),
            ];
            self.begin(super::CALL_LIMIT);
            let rows = self.ask(&sql, &params)?;
            for row in rows.iter() {
                let (name, value) = read(&row)?;
                let wanted = |glob: &String| glob::matches(glob, name.key.as_str());
                if found.len() < limit && filter.glob.as_ref().is_none_or(wanted) {
                    found.push(value);
                }
                after = (row.get(position)?, row.get(position + 1)?);
            }
            let full = i64::try_from(rows.len()).unwrap_or(i64::MAX) == ROWS_A_PAGE;
            if !full || found.len() >= limit {
                return Ok(found);
            }
        }
    }

    pub(super) fn read_counts(&mut self) -> Tried<Vec<(Scope, State, u64)>> {
        let sql = self.within(
            "SELECT scope, state, count(*) FROM @operation GROUP BY scope, state \
             ORDER BY scope COLLATE \"C\", state COLLATE \"C\"",
        );
        let rows = self.ask(&sql, &[])?;
        let read = |row: Row<'_>| {
            let scope: &str = row.get(0)?;
            let count: i64 = row.get(2)?;
            Ok((
                Scope::new(scope).map_err(|_| Fault::Damaged("an impossible scope"))?,
                State::from_word(row.get(1)?).ok_or(Fault::Damaged("an unknown state"))?,
                count.cast_unsigned(),
            ))
        };
        rows.iter().map(read).collect()
    }

    /// The claims that may still be settled by their keepers, on whichever machine: one that others gave up
    /// brings its output late.
    pub(super) fn open_nonces(&mut self) -> Tried<HashSet<Nonce>> {
        let sql = self.within("SELECT nonce FROM @operation WHERE state IN ('running', 'unknown')");
        let rows = self.ask(&sql, &[])?;
        let nonce = |row: Row<'_>| {
            let bytes: &[u8] = row.get(0)?;
            let nonce = bytes
                .try_into()
                .map_err(|_| Fault::Damaged("a nonce of another length"))?;
            Ok(Nonce(nonce))
        };
        rows.iter().map(nonce).collect()
    }

    /// A part of the ledger, oldest first.
    ///
    /// Positions are given out before their lines can be seen, so that a later line can be there before an
    /// earlier one. Whoever goes on from a position must not pass over that one. So what comes after a gap
    /// is held back while somebody writes to the ledger, or until it is clearly too late for that. Where
    /// nobody does any more, whatever was on its way at the first look is there at a second.
    /// The lines of one operation are written one after the other.
    pub(super) fn read_events(
        &mut self,
        name: Option<&OpName>,
        after_id: i64,
        limit: u32,
    ) -> Tried<Vec<Event>> {
        let mut looks = 0;
        loop {
            let (mut events, gap) = self.read_lines(name, after_id, limit)?;
            let (Some(gap), Some(last)) = (gap.filter(|_| name.is_none()), events.last()) else {
                return Ok(events);
            };
            if !self.is_written_to()? {
                let last = last.id;
                (events, _) = self.read_lines(name, after_id, limit)?;
                events.retain(|event| event.id <= last);
                return Ok(events);
            }
            looks += 1;
            if looks > LOOKS_AT_A_GAP {
                events.truncate(gap);
                return Ok(events);
            }
            std::thread::sleep(GAP_PAUSE);
        }
    }

    /// Lines as one look has them, and the number of the first that comes after a gap and was put there
    /// lately.
    fn read_lines(
        &mut self,
        name: Option<&OpName>,
        after_id: i64,
        limit: u32,
    ) -> Tried<(Vec<Event>, Option<usize>)> {
        let sql = self.within(
            "SELECT id, at, scope, key, generation, kind, attempt, detail, \
               put_at > clock_timestamp() - make_interval(secs => $5) \
             FROM @event WHERE id > $1 AND ($3 IS NULL OR scope = $3) AND ($4 IS NULL OR key = $4) \
             ORDER BY id LIMIT $2",
        );
        let params = [
            Param::Int8(Some(after_id)),
            Param::Int8(Some(i64::from(limit))),
            Param::Text(name.map(|name| name.scope.as_str())),
            Param::Text(name.map(|name| name.key.as_str())),
            Param::Float8(Some(LINE_ON_ITS_WAY)),
        ];
        let rows = self.ask(&sql, &params)?;
        let (mut events, mut gap) = (Vec::new(), None);
        let mut previous = after_id;
        for (number, row) in rows.iter().enumerate() {
            let event = read_event(&row)?;
            let lately: bool = row.get(8)?;
            if event.id != previous + 1 && lately && gap.is_none() {
                gap = Some(number);
            }
            previous = event.id;
            events.push(event);
        }
        Ok((events, gap))
    }

    /// Whether somebody's transaction has written to the ledger and is open. It holds this lock from before
    /// it draws a position until its lines can be seen. (A snapshot does not tell of all that are open.)
    fn is_written_to(&mut self) -> Tried<bool> {
        let sql = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'relation' \
            AND mode = 'RowExclusiveLock' AND relation = $1::regclass \
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
            AND pid IS DISTINCT FROM pg_backend_pid())";
        let table = self.within("@event");
        Ok(self.ask(sql, &[table.as_str().into()])?.only()?.get(0)?)
    }

    /// How a generation ended, by the ledger: the last line counts, since a late result comes after the
    /// loss of its owner.
    pub(super) fn read_past(
        &mut self,
        name: &OpName,
        generation: Generation,
    ) -> Tried<Option<PastResult>> {
        let sql = self.within(
            "SELECT at, detail FROM @event WHERE scope = $1 AND key = $2 AND generation = $3 \
             AND kind IN ('settled', 'resolved', 'owner_lost') ORDER BY id DESC LIMIT 1",
        );
        let [scope, key] = name_params(name);
        let rows = self.ask(&sql, &[scope, key, generation.0.into()])?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let at: i64 = row.get(0)?;
        let detail = parse_detail(row.get(1)?)?;
        let past = past_from_detail(generation, UnixMs(at), &detail);
        past.map(Some)
            .ok_or(Fault::Damaged("an ended generation without a state"))
    }
}

/// What SQL can decide of a filter, and where the page begins.
const CONDITION: &str = "($1 IS NULL OR o.scope = $1) \
    AND ($2 IS NULL OR left(o.key, length($2)) = $2) \
    AND (cardinality($3) = 0 OR o.state = ANY($3)) \
    AND ($4 IS NULL OR o.since_at >= $4) \
    AND (o.since_at, o.generation) < ($5, $6)";

/// The first two parameters of most statements.
pub fn name_params(name: &OpName) -> [Param<'_>; 2] {
    [name.scope.as_str().into(), name.key.as_str().into()]
}

fn parse_guard(text: &str) -> Tried<Json> {
    serde_json::from_str(text).map_err(|_| Fault::Damaged("a guard whose state is no JSON"))
}

fn parse_detail(text: &str) -> Tried<Map<String, Json>> {
    match serde_json::from_str(text) {
        Ok(Json::Object(detail)) => Ok(detail),
        _ => Err(Fault::Damaged("an event whose detail is no JSON object")),
    }
}

fn read_event(row: &Row<'_>) -> Tried<Event> {
    let attempt: Option<i32> = row.get(6)?;
    Ok(Event {
        id: row.get(0)?,
        at: UnixMs(row.get(1)?),
        name: rows::name(row.get(2)?, row.get(3)?)?,
        generation: Generation(row.get(4)?),
        kind: EventKind::from_word(row.get(5)?).ok_or(Fault::Damaged("an unknown event"))?,
        attempt: attempt.and_then(|number| u32::try_from(number).ok()),
        detail: parse_detail(row.get(7)?)?,
    })
}
