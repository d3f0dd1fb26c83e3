//! The tables, and how they come into a database.
//!
//! A migration that was ever released is never changed, and each one only adds. `meta.version` counts how
//! many are applied.

use super::fault::{Fault, Tried};
use crate::store::postgres::{Client, PgError};
use std::time::Instant;

/// Every migration, oldest first. `@` stands for the schema.
pub const MIGRATIONS: &[&str] = &[VERSION_1];

/// What keeps two runs of `init` apart: "idem" in ASCII, a number of this program's own.
const INIT_LOCK: i64 = 0x6964_656d;

/// - `operation`: one record each. `body` is the record as one JSON text; what statements look for has
///   columns beside it. `version` is a random number that every write and every renewal of the lease
///   renews: a write names the one that it has read. `written` is the version that the latest write gave
///   it. `lease_until` is set while it runs, by the server's clock.
/// - `output`: recorded output in parts of at most a mebibyte.
/// - `event`: the ledger. It outlives the operation. `at` is when it happened, `put_at` when it was put
///   here, which can be much later.
/// - `guard`: named states of guards, each with a version like a record's.
/// - `permit`: the permits of bulkheads, each held until a moment of the server's clock.
const VERSION_1: &str = "
CREATE TABLE @operation(
  scope text NOT NULL, key text NOT NULL,
  state text NOT NULL, generation bigint NOT NULL, nonce bytea NOT NULL, minted_by bigint NOT NULL,
  version bigint NOT NULL, written bigint NOT NULL, since_at bigint NOT NULL, expires_at bigint, lease_until timestamptz,
  kept bytea[] NOT NULL, body text NOT NULL,
  PRIMARY KEY (scope, key)
);
CREATE INDEX operation_expiry ON @operation(expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX operation_since ON @operation(since_at, generation);
CREATE TABLE @output(
  nonce bytea NOT NULL, number integer NOT NULL, part integer NOT NULL, bytes bytea NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (nonce, number, part)
);
CREATE TABLE @event(
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at bigint NOT NULL, scope text NOT NULL, key text NOT NULL, generation bigint NOT NULL,
  kind text NOT NULL, attempt integer, detail text NOT NULL,
  put_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX event_name ON @event(scope, key, id);
CREATE TABLE @guard(
  kind text NOT NULL, name text NOT NULL, state text NOT NULL, version bigint NOT NULL,
  PRIMARY KEY (kind, name)
);
CREATE TABLE @permit(
  name text NOT NULL, slot integer NOT NULL, nonce bytea NOT NULL, until timestamptz NOT NULL,
  PRIMARY KEY (name, slot)
);
CREATE SEQUENCE @generation;
";

/// How many migrations this version knows.
pub fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// A statement with the schema in place of `@`.
pub fn within(schema: &str, sql: &str) -> String {
    sql.replace('@', &format!("{}.", quoted(schema)))
}

fn quoted(schema: &str) -> String {
    format!("\"{}\"", schema.replace('"', "\"\""))
}

/// What `init` executes on a database where `applied` migrations are there already; for a person whose
/// role may not do that as well.
pub fn script(schema: &str, applied: i64) -> String {
    let applied = usize::try_from(applied).unwrap_or(0);
    let mut sql = String::new();
    if applied == 0 {
        sql.push_str(&format!(
            "CREATE SCHEMA IF NOT EXISTS {};\nCREATE TABLE @meta(version bigint NOT NULL);\nINSERT INTO @meta VALUES (0);\n",
            quoted(schema)
        ));
    }
    for migration in MIGRATIONS.iter().skip(applied) {
        sql.push_str(migration.trim_start());
    }
    sql.push_str(&format!("UPDATE @meta SET version = {};\n", known()));
    within(schema, &sql)
}

/// What lets another role use the store without creating anything.
pub fn grants(schema: &str, role: &str) -> String {
    let (schema, role) = (quoted(schema), quoted(role));
    format!(
        "GRANT USAGE ON SCHEMA {schema} TO {role};\n\
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};\n\
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role};\n"
    )
}

/// How many migrations are applied; none where idem's tables are not there.
pub fn applied(client: &mut Client, schema: &str, until: Instant) -> Tried<Option<i64>> {
    let sql = within(schema, "SELECT version FROM @meta");
    match client.query(&sql, &[], until) {
        Ok(rows) => Ok(Some(rows.only()?.get(0)?)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether a statement failed because a schema or a table is not there.
pub fn is_missing(error: &PgError) -> bool {
    matches!(error.sqlstate(), Some("42P01" | "3F000"))
}

/// Brings the database to this version, in one transaction. Returns how many migrations were applied
/// before, none where there was nothing. Tables of a newer version are refused: `place` is their name.
pub fn init(client: &mut Client, schema: &str, place: &str, until: Instant) -> Tried<Option<i64>> {
    // A table that is not there ends a transaction, so this look comes first; under the lock it is
    // repeated in a way that does not.
    let before = applied(client, schema, until)?;
    if let Some(version) = before.filter(|version| *version >= known()) {
        return check(version, place).map(|()| before);
    }
    client.batch(
        &format!("BEGIN; SELECT pg_advisory_xact_lock({INIT_LOCK})"),
        until,
    )?;
    let done = migrate(client, schema, until);
    let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = client.batch(end, until);
    let before = done?;
    ended?;
    Ok(before)
}

fn migrate(client: &mut Client, schema: &str, until: Instant) -> Tried<Option<i64>> {
    // The tables of the catalogue, which are locked for it, and not `to_regclass`: the session may still
    // remember that there was no such schema before it waited for its turn.
    let there = client.query(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_class AS c \
         JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace \
         WHERE n.nspname = $1 AND c.relname = 'meta')",
        &[schema.into()],
        until,
    )?;
    let before = match there.only()?.get(0)? {
        true => applied(client, schema, until)?,
        false => None,
    };
    if before.is_none_or(|version| version < known()) {
        client.batch(&script(schema, before.unwrap_or(0)), until)?;
    }
    Ok(before)
}

/// Refuses a database that another version has written.
pub fn check(version: i64, place: &str) -> Tried<()> {
    use crate::engine::store::StoreError;
    if version == known() {
        return Ok(());
    }
    Err(Fault::Told(if version > known() {
        StoreError::Newer {
            found: version,
            known: known(),
            store: place.to_owned(),
        }
    } else {
        StoreError::Foreign(format!(
            "{place} is of an earlier version (schema {version}, this idem needs {}); bring it up to date with `idem init`",
            known()
        ))
    }))
}
