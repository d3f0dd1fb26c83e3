//! What is only read.

use super::fault::{Fault, Tried};
use super::rows::{self, READ};
use super::tx::parse_guard;
use crate::domain::name::{Generation, OpName, Scope};
use crate::domain::outcome::State;
use crate::domain::record::{OutputRef, Place, Record};
use crate::domain::time::UnixMs;
use crate::engine::detail::past_from_detail;
use crate::engine::event::{Event, EventKind};
use crate::engine::store::{Filter, GuardKind, OpenOutput, PastResult, StoreError, StoreResult};
use crate::store::glob;
use crate::store::paths::Paths;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use serde_json::{Map, Value as Json};
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;

/// The records that a filter lets through, newest first. Keys are looked at before whole rows are
/// read, all in one snapshot.
pub fn list(conn: &Connection, filter: &Filter) -> Tried<Vec<Record>> {
    let snapshot = conn.unchecked_transaction()?;
    let mut records = Vec::new();
    let sql = format!("SELECT {READ} FROM operation WHERE id = ?1");
    let mut statement = snapshot.prepare(&sql)?;
    for (id, _) in chosen(&snapshot, filter)? {
        let mut rows = statement.query([id])?;
        if let Some(row) = rows.next()? {
            records.push(rows::read(row)?.record);
        }
    }
    Ok(records)
}

/// The names of what a filter lets through.
pub fn names(conn: &Connection, filter: &Filter) -> Tried<Vec<OpName>> {
    let chosen = chosen(conn, filter)?;
    Ok(chosen.into_iter().map(|(_, name)| name).collect())
}

/// The row numbers and names of what a filter lets through.
fn chosen(conn: &Connection, filter: &Filter) -> Tried<Vec<(i64, OpName)>> {
    let (condition, values) = condition(filter);
    let sql = format!(
        "SELECT id, key, scope FROM operation WHERE {condition} ORDER BY since_at DESC, id DESC"
    );
    let limit = filter
        .limit
        .map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let mut statement = conn.prepare(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut ids = Vec::new();
    while ids.len() < limit
        && let Some(row) = rows.next()?
    {
        let key: String = row.get(1)?;
        if filter
            .glob
            .as_ref()
            .is_none_or(|glob| glob::matches(glob, &key))
        {
            ids.push((row.get(0)?, rows::name(row.get(2)?, key)?));
        }
    }
    Ok(ids)
}

/// What SQL can decide of a filter.
fn condition(filter: &Filter) -> (String, Vec<Value>) {
    let mut terms = vec!["1".to_owned()];
    let mut values: Vec<Value> = Vec::new();
    if let Some(scope) = &filter.scope {
        terms.push("scope = ?".to_owned());
        values.push(scope.as_str().to_owned().into());
    }
    if let Some(task) = &filter.task {
        let prefix = format!("{task}/");
        // Lengths in characters on both sides.
        terms.push("substr(key, 1, length(?)) = ?".to_owned());
        values.push(prefix.clone().into());
        values.push(prefix.into());
    }
    if !filter.states.is_empty() {
        let marks = vec!["?"; filter.states.len()].join(", ");
        terms.push(format!("state IN ({marks})"));
        values.extend(
            filter
                .states
                .iter()
                .map(|s| Value::from(s.word().to_owned())),
        );
    }
    if let Some(since) = filter.since {
        terms.push("since_at >= ?".to_owned());
        values.push(since.0.into());
    }
    (terms.join(" AND "), values)
}

/// Records by scope and state.
pub fn count_states(conn: &Connection) -> Tried<Vec<(Scope, State, u64)>> {
    let sql = "SELECT scope, state, count(*) FROM operation GROUP BY scope, state";
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut counts = Vec::new();
    while let Some(row) = rows.next()? {
        let scope: String = row.get(0)?;
        let state: String = row.get(1)?;
        let count: i64 = row.get(2)?;
        counts.push((
            Scope::new(scope).map_err(|_| Fault::Damaged("an impossible scope"))?,
            State::from_word(&state).ok_or(Fault::Damaged("an unknown state"))?,
            count.cast_unsigned(),
        ));
    }
    Ok(counts)
}

/// All guards of a kind, by name.
pub fn list_guards(conn: &Connection, kind: GuardKind) -> Tried<Vec<(String, Json)>> {
    let sql = "SELECT name, state FROM guard WHERE kind = ?1 ORDER BY name";
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([kind.word()])?;
    let mut guards = Vec::new();
    while let Some(row) = rows.next()? {
        let state: String = row.get(1)?;
        guards.push((row.get(0)?, parse_guard(&state)?));
    }
    Ok(guards)
}

/// A part of the ledger, oldest first.
pub fn events(
    conn: &Connection,
    name: Option<&OpName>,
    after_id: i64,
    limit: u32,
) -> Tried<Vec<Event>> {
    let of_one = if name.is_some() {
        "AND scope = ?3 AND key = ?4"
    } else {
        ""
    };
    let sql = format!(
        "SELECT id, at, scope, key, generation, kind, attempt, detail FROM event \
         WHERE id > ?1 {of_one} ORDER BY id LIMIT ?2"
    );
    let mut values: Vec<Value> = vec![after_id.into(), limit.into()];
    if let Some(name) = name {
        values.push(name.scope.as_str().to_owned().into());
        values.push(name.key.as_str().to_owned().into());
    }
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        events.push(read_event(row)?);
    }
    Ok(events)
}

fn read_event(row: &Row<'_>) -> Tried<Event> {
    let kind: String = row.get(5)?;
    let detail: String = row.get(7)?;
    Ok(Event {
        id: row.get(0)?,
        at: UnixMs(row.get(1)?),
        name: rows::name(row.get(2)?, row.get(3)?)?,
        generation: Generation(row.get(4)?),
        kind: EventKind::from_word(&kind).ok_or(Fault::Damaged("an unknown event"))?,
        attempt: row.get(6)?,
        detail: parse_detail(&detail)?,
    })
}

fn parse_detail(text: &str) -> Tried<Map<String, Json>> {
    match serde_json::from_str(text) {
        Ok(Json::Object(detail)) => Ok(detail),
        _ => Err(Fault::Damaged("an event's detail is no JSON object")),
    }
}

/// How a generation ended, by the ledger: a late result comes after the loss of its owner, so the
/// last line counts.
pub fn past_result(
    conn: &Connection,
    name: &OpName,
    generation: Generation,
) -> Tried<Option<PastResult>> {
    let sql = "SELECT at, detail FROM event \
        WHERE scope = ?1 AND key = ?2 AND generation = ?3 \
        AND kind IN ('settled', 'resolved', 'owner_lost') ORDER BY id DESC LIMIT 1";
    let found: Option<(i64, String)> = conn
        .prepare(sql)?
        .query_row(
            params![name.scope.as_str(), name.key.as_str(), generation.0],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let Some((at, detail)) = found else {
        return Ok(None);
    };
    let detail = parse_detail(&detail)?;
    let past = past_from_detail(generation, UnixMs(at), &detail);
    past.map(Some)
        .ok_or(Fault::Damaged("an ended generation without a state"))
}

/// Opens an output for reading.
pub fn open_output(
    conn: &Connection,
    paths: &Paths,
    output: &OutputRef,
) -> StoreResult<OpenOutput> {
    match output.place {
        Place::Nowhere => Ok(OpenOutput::Nothing),
        Place::Inline => open_inline(conn, output).map_err(|fault| fault.tell(paths)),
        Place::Spool => open_spool(paths, output),
    }
}

fn open_inline(conn: &Connection, output: &OutputRef) -> Tried<OpenOutput> {
    let bytes: Option<Option<Vec<u8>>> = conn
        .prepare("SELECT bytes FROM output WHERE nonce = ?1 AND number = ?2")?
        .query_row(params![output.nonce.0, output.number], |row| row.get(0))
        .optional()?;
    Ok(match bytes.flatten() {
        Some(bytes) => OpenOutput::Inline(bytes),
        None => OpenOutput::Nothing,
    })
}

fn open_spool(paths: &Paths, output: &OutputRef) -> StoreResult<OpenOutput> {
    let path = paths.spool(&output.nonce, output.number);
    // NONBLOCK: whatever else stands at that name must not block.
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(&path);
    match opened {
        Ok(file) => Ok(OpenOutput::File(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(OpenOutput::Nothing),
        Err(error) => Err(StoreError::Place(format!(
            "the stored output {} cannot be read ({error}); look at its permissions",
            path.display()
        ))),
    }
}
