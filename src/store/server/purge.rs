//! Housekeeping in small batches, by whoever comes along. Rows that somebody else looks at are left to
//! them.

use super::ServerStore;
use super::fault::{Fault, Tried};
use super::rows::{self, COLUMNS};
use crate::domain::time::{Stamp, UnixMs};
use crate::engine::store::Purged;
use crate::store::postgres::Param;
use serde_json::json;
use std::time::Duration;

/// Ledger lines that are looked at for each record that a batch may delete.
const LINES_FOR_A_RECORD: u32 = 8;

/// Outputs that no record names are deleted when they are older than this; until then their settle may
/// be on its way.
const ORPHAN_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// How far the walk through the ledger has come: see the embedded store's.
#[derive(Debug, Clone, Copy)]
struct Walk {
    after_id: i64,
    not_before: UnixMs,
}

impl ServerStore {
    pub(super) fn purge_batch(
        &mut self,
        now: &Stamp,
        limit: u32,
        keep_events: Duration,
    ) -> Tried<Purged> {
        let (records, all) = self.purge_records(now, limit)?;
        let lines = limit.saturating_mul(LINES_FOR_A_RECORD);
        let (lines, walks_on) = self.walk_ledger(now, lines, keep_events)?;
        Ok(Purged {
            records,
            lines,
            more: walks_on || !all,
        })
    }

    /// Deletes expired records with their outputs. Returns how many, and whether these were all.
    fn purge_records(&mut self, now: &Stamp, limit: u32) -> Tried<(u32, bool)> {
        let sql = self.within(&format!(
            "SELECT {COLUMNS} FROM @operation AS o WHERE o.expires_at <= $1 \
             ORDER BY o.expires_at LIMIT $2"
        ));
        let params = [now.wall.0.into(), i64::from(limit).into()];
        let found = self.ask(&sql, &params)?;
        let all = u32::try_from(found.len()).unwrap_or(u32::MAX) < limit;
        let mut rows = Vec::new();
        for row in found.iter() {
            rows.push(rows::read(&row, 0)?.ok_or(Fault::Damaged("a record without a name"))?);
        }
        let (gone, early): (Vec<_>, Vec<_>) =
            rows.iter().partition(|row| row.stored.record.expired(now));
        if !early.is_empty() {
            self.postpone(&early, now)?;
        }
        if gone.is_empty() {
            return Ok((0, all));
        }
        let sql = self.within(
            "WITH due AS (SELECT o.scope, o.key FROM @operation AS o \
               JOIN unnest($1, $2, $3) AS d(scope, key, version) USING (scope, key, version) \
               FOR UPDATE OF o SKIP LOCKED), \
             gone AS (DELETE FROM @operation AS o USING due AS d \
               WHERE o.scope = d.scope AND o.key = d.key \
               RETURNING o.scope, o.key, o.generation, o.state, o.nonce, o.kept), \
             outs AS (DELETE FROM @output WHERE nonce IN \
               (SELECT nonce FROM gone UNION ALL SELECT unnest(kept) FROM gone)), \
             told AS (INSERT INTO @event(at, scope, key, generation, kind, detail) \
               SELECT $4, scope, key, generation, 'forgotten', \
                 json_build_object('state', state, 'reason', 'expired')::text FROM gone) \
             SELECT count(*) FROM gone",
        );
        let name = |i: usize| gone.get(i).map(|row| &row.stored.record.name);
        let params = [
            Param::TextArray(
                (0..gone.len())
                    .map(|i| name(i).map(|n| n.scope.as_str()))
                    .collect(),
            ),
            Param::TextArray(
                (0..gone.len())
                    .map(|i| name(i).map(|n| n.key.as_str()))
                    .collect(),
            ),
            Param::Int8Array(gone.iter().map(|row| Some(row.version)).collect()),
            Param::Int8(Some(now.wall.0)),
        ];
        let count: i64 = self.ask(&sql, &params)?.only()?.get(0)?;
        Ok((u32::try_from(count).unwrap_or(u32::MAX), all))
    }

    /// Gives records whose time is not up by the boot clock their true place in the index.
    fn postpone(&mut self, early: &[&rows::FoundRow], now: &Stamp) -> Tried<()> {
        let sql = self.within(
            "UPDATE @operation AS o SET expires_at = w.at \
             FROM unnest($1, $2, $3, $4) AS w(scope, key, version, at) \
             WHERE o.scope = w.scope AND o.key = w.key AND o.version = w.version RETURNING 1",
        );
        let at = |row: &rows::FoundRow| {
            let record = &row.stored.record;
            let limit = record.kept_for().ms().unwrap_or(i64::MAX);
            let age = i64::try_from(record.since.age(now).as_millis()).unwrap_or(i64::MAX);
            now.wall.0.saturating_add(limit.saturating_sub(age).max(1))
        };
        let names = || early.iter().map(|row| &row.stored.record.name);
        let params = [
            Param::TextArray(names().map(|name| Some(name.scope.as_str())).collect()),
            Param::TextArray(names().map(|name| Some(name.key.as_str())).collect()),
            Param::Int8Array(early.iter().map(|row| Some(row.version)).collect()),
            Param::Int8Array(early.iter().map(|row| Some(at(row))).collect()),
        ];
        self.ask(&sql, &params).map(drop)
    }

    fn read_walk(&mut self) -> Tried<Walk> {
        let sql = self.within("SELECT state FROM @guard WHERE kind = 'store' AND name = 'walk'");
        let rows = self.ask(&sql, &[])?;
        let text: Option<&str> = rows.first().map(|row| row.get(0)).transpose()?;
        let Some(text) = text else {
            return Ok(Walk {
                after_id: 0,
                not_before: UnixMs(i64::MIN),
            });
        };
        let (after_id, not_before) = serde_json::from_str(text)
            .map_err(|_| Fault::Damaged("a broken mark of the ledger"))?;
        Ok(Walk {
            after_id,
            not_before: UnixMs(not_before),
        })
    }

    fn write_walk(&mut self, walk: Walk) -> Tried<()> {
        let sql = self.within(
            "INSERT INTO @guard(kind, name, state, version) VALUES ('store', 'walk', $1, 0) \
             ON CONFLICT (kind, name) DO UPDATE SET state = EXCLUDED.state RETURNING 1",
        );
        let state = json!([walk.after_id, walk.not_before.0]).to_string();
        self.ask(&sql, &[state.as_str().into()]).map(drop)
    }

    /// Looks at the next old lines and deletes those that nothing needs any more. At the first line that
    /// is not old the walk ends, and the next begins after a thirtieth of the time that lines are kept.
    fn walk_ledger(
        &mut self,
        now: &Stamp,
        lines: u32,
        keep_events: Duration,
    ) -> Tried<(u32, bool)> {
        let walk = self.read_walk()?;
        if now.wall < walk.not_before {
            return Ok((0, false));
        }
        let keep_ms = i64::try_from(keep_events.as_millis()).unwrap_or(i64::MAX);
        let cutoff = now.wall.0.saturating_sub(keep_ms);
        let sql = self.within("SELECT id, at FROM @event WHERE id > $1 ORDER BY id LIMIT $2");
        let found = self.ask(&sql, &[walk.after_id.into(), i64::from(lines).into()])?;
        let mut upto = walk.after_id;
        for row in found.iter() {
            if row.get::<i64>(1)? >= cutoff {
                break;
            }
            upto = row.get(0)?;
        }
        if upto == walk.after_id {
            let pause = keep_ms / 30;
            // A store in which nothing is old yet is looked at again without a note of it.
            if walk.after_id > 0 || walk.not_before.0 > i64::MIN {
                self.write_walk(Walk {
                    after_id: 0,
                    not_before: UnixMs(now.wall.0.saturating_add(pause)),
                })?;
            }
            return Ok((0, false));
        }
        let deleted = self.delete_lines(walk.after_id, upto, cutoff)?;
        self.write_walk(Walk {
            after_id: upto,
            ..walk
        })?;
        Ok((deleted, true))
    }

    /// A line stays while its record lives, and as long again after the record's deletion.
    fn delete_lines(&mut self, after: i64, upto: i64, cutoff: i64) -> Tried<u32> {
        let sql = self.within(
            "DELETE FROM @event AS line WHERE id > $1 AND id <= $2 AND at < $3 \
             AND NOT EXISTS (SELECT FROM @operation AS o \
               WHERE o.scope = line.scope AND o.key = line.key AND o.minted_by <= line.generation) \
             AND coalesce((SELECT gone.at FROM @event AS gone \
               WHERE gone.scope = line.scope AND gone.key = line.key AND gone.id > line.id \
               AND gone.kind = 'forgotten' ORDER BY gone.id LIMIT 1), $3 - 1) < $3",
        );
        let rows = self.ask(&sql, &[after.into(), upto.into(), cutoff.into()])?;
        Ok(u32::try_from(rows.affected()).unwrap_or(u32::MAX))
    }

    /// Deletes outputs whose settle never came. Returns how many parts went.
    pub fn drop_orphans(&mut self) -> crate::engine::store::StoreResult<u64> {
        self.look(|store| {
            let sql = store.within(
                "DELETE FROM @output AS u WHERE at < clock_timestamp() - make_interval(secs => $1) \
                 AND NOT EXISTS (SELECT FROM @operation AS o WHERE o.nonce = u.nonce) \
                 AND NOT EXISTS (SELECT FROM @operation AS o WHERE u.nonce = ANY(o.kept))",
            );
            let age = ORPHAN_AGE.as_secs_f64();
            Ok(store.ask(&sql, &[age.into()])?.affected())
        })
    }
}
