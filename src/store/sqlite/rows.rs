//! A record as a row, and a row as a record.

use super::body::{self, Columns};
use super::fault::{Fault, Tried};
use crate::domain::name::{Generation, Key, Nonce, OpName, Scope};
use crate::domain::outcome::State;
use crate::domain::record::Record;
use crate::domain::time::UnixMs;
use crate::store::transitions::Stored;
use rusqlite::Row;
use rusqlite::types::Value;

/// The columns that are read, in the order of [`read`]. `expires_at` follows from the rest.
pub const READ: &str = "scope, key, state, generation, nonce, minted_by, since_at, body";

/// The columns that are written, in the order of [`values`]: the name first.
pub const WRITTEN: &str =
    "scope, key, state, generation, nonce, minted_by, since_at, body, expires_at";

/// The values of [`WRITTEN`].
pub fn values(stored: &Stored) -> [Value; 9] {
    let record = &stored.record;
    [
        text(record.name.scope.as_str()),
        text(record.name.key.as_str()),
        text(record.state.word()),
        record.generation.0.into(),
        Value::Blob(record.nonce.0.to_vec()),
        record.minted_by.0.into(),
        record.since.wall.0.into(),
        Value::Blob(body::encode(stored)),
        purge_at(record).into(),
    ]
}

/// When the record may be purged, by the wall clock: settled records only.
fn purge_at(record: &Record) -> Option<i64> {
    let settled = record.state.settled();
    settled
        .then(|| record.expires_at())
        .flatten()
        .map(|at| at.0)
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

/// Reads [`READ`].
pub fn read(row: &Row<'_>) -> Tried<Stored> {
    let state: String = row.get(2)?;
    let columns = Columns {
        name: name(row.get(0)?, row.get(1)?)?,
        state: State::from_word(&state).ok_or(Fault::Damaged("an unknown state"))?,
        generation: Generation(row.get(3)?),
        nonce: Nonce(row.get(4)?),
        minted_by: Generation(row.get(5)?),
        since_at: UnixMs(row.get(6)?),
    };
    let body = row.get_ref(7)?.as_blob().map_err(rusqlite::Error::from)?;
    body::decode(columns, body).ok_or(Fault::Damaged("an unreadable record"))
}

/// A stored scope and key.
pub fn name(scope: String, key: String) -> Tried<OpName> {
    Ok(OpName {
        scope: Scope::new(scope).map_err(|_| Fault::Damaged("an impossible scope"))?,
        key: Key::new(key).map_err(|_| Fault::Damaged("an impossible key"))?,
    })
}
