//! A record as the columns of a row, and a row as a record.

use super::body;
use super::fault::{Fault, Tried};
use crate::domain::name::{Key, Nonce, OpName, Scope};
use crate::domain::owner::Lease;
use crate::store::postgres::Row;
use crate::store::transitions::Stored;
use std::time::Duration;

/// The columns that [`read`] reads, of a row of `operation` named `o`.
pub const COLUMNS: &str = "o.scope, o.key, o.version, o.kept, o.body, \
    (extract(epoch FROM o.lease_until - clock_timestamp()) * 1000)::bigint, \
    EXISTS (SELECT FROM @output AS u WHERE u.nonce = o.nonce), o.written";

/// How many columns these are.
pub const COLUMN_COUNT: usize = 8;

/// What is written beside a record's name and version.
#[derive(Debug)]
pub struct Columns {
    /// The state's word.
    pub state: &'static str,
    /// The fencing token.
    pub generation: i64,
    /// The latest claim's nonce.
    pub nonce: Nonce,
    /// The generation that minted the token.
    pub minted_by: i64,
    /// When the state was entered, in milliseconds since 1970.
    pub since_at: i64,
    /// When it may be purged; settled records only.
    pub expires_at: Option<i64>,
    /// Nonces of earlier claims that have outputs.
    pub kept: Vec<Nonce>,
    /// The record as one text.
    pub body: String,
}

/// A record's columns.
pub fn columns(stored: &Stored) -> Columns {
    let record = &stored.record;
    let settled = record.state.settled();
    Columns {
        state: record.state.word(),
        generation: record.generation.0,
        nonce: record.nonce,
        minted_by: record.minted_by.0,
        since_at: record.since.wall.0,
        expires_at: settled
            .then(|| record.expires_at())
            .flatten()
            .map(|at| at.0),
        kept: stored.kept.clone(),
        body: body::write(record),
    }
}

/// A record with what its row says about it.
#[derive(Debug)]
pub struct FoundRow {
    /// The record.
    pub stored: Stored,
    /// Its version.
    pub version: i64,
    /// The version that the latest write gave it: renewals of the lease leave this.
    pub written: i64,
    /// Its latest claim has outputs.
    pub has_outputs: bool,
}

/// Reads [`COLUMNS`] of a row, where the first of them has this number; none where all are null.
pub fn read(row: &Row<'_>, first: usize) -> Tried<Option<FoundRow>> {
    let Some(scope) = row.get::<Option<&str>>(first)? else {
        return Ok(None);
    };
    let name = name(scope, row.get(first + 1)?)?;
    let kept: Vec<&[u8]> = row.get(first + 3)?;
    let kept: Option<Vec<Nonce>> = kept
        .into_iter()
        .map(|nonce| nonce.try_into().ok().map(Nonce))
        .collect();
    let left: Option<i64> = row.get(first + 5)?;
    let lease = left.map(|ms| Lease {
        left: Duration::from_millis(u64::try_from(ms).unwrap_or(0)),
    });
    let record = body::read(name, row.get(first + 4)?, lease);
    let (Some(record), Some(kept)) = (record, kept) else {
        return Err(Fault::Damaged("a record that cannot be read"));
    };
    Ok(Some(FoundRow {
        stored: Stored { record, kept },
        version: row.get(first + 2)?,
        written: row.get(first + 7)?,
        has_outputs: row.get(first + 6)?,
    }))
}

/// A stored scope and key.
pub fn name(scope: &str, key: &str) -> Tried<OpName> {
    Ok(OpName {
        scope: Scope::new(scope).map_err(|_| Fault::Damaged("an impossible scope"))?,
        key: Key::new(key).map_err(|_| Fault::Damaged("an impossible key"))?,
    })
}
