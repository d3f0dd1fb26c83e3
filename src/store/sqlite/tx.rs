//! What a transaction can do: the statements that several changes share.

use super::fault::{Fault, Tried};
use super::rows::{self, READ, WRITTEN};
use crate::domain::name::{Generation, Nonce, OpName};
use crate::domain::record::{OutputRef, Place};
use crate::engine::event::{EventKind, NewEvent};
use crate::engine::store::{GuardKind, Guards, NewOutput, OutputBody, StoreError, StoreResult};
use crate::store::paths::Paths;
use crate::store::transitions::{self, Stored};
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};
use serde_json::Value as Json;
use std::path::PathBuf;

/// An open write transaction.
pub struct Tx<'c> {
    /// The connection that it is open on.
    pub conn: &'c Connection,
    /// The store's files.
    pub paths: &'c Paths,
    /// Spool files to delete once it is committed.
    pub doomed: Vec<PathBuf>,
}

/// Reads one record.
pub fn find(conn: &Connection, name: &OpName) -> Tried<Option<Stored>> {
    let sql = format!("SELECT {READ} FROM operation WHERE scope = ?1 AND key = ?2");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([name.scope.as_str(), name.key.as_str()])?;
    match rows.next()? {
        Some(row) => rows::read(row).map(Some),
        None => Ok(None),
    }
}

impl transitions::Tx for Tx<'_> {
    type Fault = Fault;

    fn find(&mut self, name: &OpName) -> Tried<Option<Stored>> {
        find(self.conn, name)
    }

    fn next_generation(&mut self) -> Tried<Generation> {
        let sql = "INSERT INTO guard(kind, name, state) VALUES('store', 'generation', '1') \
            ON CONFLICT DO UPDATE SET state = CAST(state AS INTEGER) + 1 \
            RETURNING CAST(state AS INTEGER)";
        let mut statement = self.conn.prepare(sql)?;
        Ok(Generation(statement.query_row([], |row| row.get(0))?))
    }

    fn insert(&mut self, stored: &Stored) -> Tried<()> {
        let sql =
            format!("INSERT INTO operation({WRITTEN}) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
        self.conn
            .prepare(&sql)?
            .execute(params_from_iter(rows::values(stored)))?;
        Ok(())
    }

    fn update(&mut self, stored: &Stored) -> Tried<()> {
        let sql = "UPDATE operation SET state = ?3, generation = ?4, nonce = ?5, minted_by = ?6, \
            since_at = ?7, body = ?8, expires_at = ?9 WHERE scope = ?1 AND key = ?2";
        self.conn
            .prepare(sql)?
            .execute(params_from_iter(rows::values(stored)))?;
        Ok(())
    }

    fn delete(&mut self, stored: &Stored) -> Tried<()> {
        let name = &stored.record.name;
        self.conn
            .prepare_cached("DELETE FROM operation WHERE scope = ?1 AND key = ?2")?
            .execute([name.scope.as_str(), name.key.as_str()])?;
        self.drop_outputs(stored)
    }

    fn drop_outputs_of(&mut self, nonce: &Nonce) -> Tried<()> {
        let mut statement = self.conn.prepare_cached(
            "DELETE FROM output WHERE nonce = ?1 RETURNING number, bytes IS NULL",
        )?;
        let mut rows = statement.query([&nonce.0])?;
        while let Some(row) = rows.next()? {
            if row.get(1)? {
                self.doomed.push(self.paths.spool(nonce, row.get(0)?));
            }
        }
        Ok(())
    }

    fn has_outputs(&mut self, nonce: &Nonce) -> Tried<bool> {
        let sql = "SELECT 1 FROM output WHERE nonce = ?1 LIMIT 1";
        Ok(self.conn.prepare(sql)?.exists([&nonce.0])?)
    }

    fn put_output(&mut self, nonce: Nonce, output: &NewOutput) -> Tried<OutputRef> {
        let (place, bytes) = match &output.body {
            OutputBody::Nothing => (Place::Nowhere, None),
            OutputBody::Inline(bytes) => (Place::Inline, Some(bytes)),
            OutputBody::Spooled(path) => {
                let wanted = self.paths.spool(&nonce, output.number);
                if path.file_name() != wanted.file_name() {
                    return Err(StoreError::Other(format!(
                        "the spool file {} is not named after its claim; report this",
                        path.display()
                    ))
                    .into());
                }
                (Place::Spool, None)
            }
        };
        if place != Place::Nowhere {
            self.conn
                .prepare("INSERT OR REPLACE INTO output(nonce, number, bytes) VALUES(?1, ?2, ?3)")?
                .execute(params![nonce.0, output.number, bytes])?;
        }
        Ok(output.stored(nonce, place))
    }

    fn append(&mut self, name: &OpName, generation: Generation, events: &[NewEvent]) -> Tried<()> {
        for event in events {
            self.conn
                .prepare_cached(
                    "INSERT INTO event(at, scope, key, generation, kind, attempt, detail) \
                     VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                )?
                .execute(params![
                    event.at.0,
                    name.scope.as_str(),
                    name.key.as_str(),
                    generation.0,
                    event.kind.word(),
                    event.attempt,
                    Json::Object(event.detail.clone()).to_string(),
                ])?;
        }
        Ok(())
    }

    fn has_event(&mut self, name: &OpName, generation: Generation, kind: EventKind) -> Tried<bool> {
        let sql = "SELECT 1 FROM event \
            WHERE scope = ?1 AND key = ?2 AND generation = ?3 AND kind = ?4 LIMIT 1";
        Ok(self.conn.prepare(sql)?.exists(params![
            name.scope.as_str(),
            name.key.as_str(),
            generation.0,
            kind.word()
        ])?)
    }

    fn guards(&mut self) -> &mut dyn Guards {
        self
    }
}

impl Guards for Tx<'_> {
    fn guard(&mut self, kind: GuardKind, name: &str) -> StoreResult<Option<Json>> {
        read_guard(self.conn, kind, name).map_err(|fault| fault.tell(self.paths))
    }

    fn set_guard(&mut self, kind: GuardKind, name: &str, state: Option<Json>) -> StoreResult<()> {
        write_guard(self.conn, kind, name, state).map_err(|fault| fault.tell(self.paths))
    }
}

fn read_guard(conn: &Connection, kind: GuardKind, name: &str) -> Tried<Option<Json>> {
    let state: Option<String> = conn
        .prepare("SELECT state FROM guard WHERE kind = ?1 AND name = ?2")?
        .query_row([kind.word(), name], |row| row.get(0))
        .optional()?;
    state.as_deref().map(parse_guard).transpose()
}

/// A guard's stored state.
pub fn parse_guard(text: &str) -> Tried<Json> {
    serde_json::from_str(text).map_err(|_| Fault::Damaged("a guard's state is no JSON"))
}

fn write_guard(conn: &Connection, kind: GuardKind, name: &str, state: Option<Json>) -> Tried<()> {
    match state {
        Some(state) => conn
            .prepare("INSERT OR REPLACE INTO guard(kind, name, state) VALUES(?1, ?2, ?3)")?
            .execute([kind.word(), name, &state.to_string()])?,
        None => conn
            .prepare("DELETE FROM guard WHERE kind = ?1 AND name = ?2")?
            .execute([kind.word(), name])?,
    };
    Ok(())
}
