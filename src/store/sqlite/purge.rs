//! Housekeeping in small batches, by whoever comes along.

use super::fault::{Fault, Tried};
use super::rows::{self, READ};
use super::tx::Tx;
use crate::domain::time::{Stamp, UnixMs};
use crate::engine::event::{EventKind, NewEvent};
use crate::engine::store::Purged;
use crate::store::transitions::{End, Stored, Tx as _};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, json};
use std::time::Duration;

/// Ledger lines that are looked at for each record that a batch may delete.
const LINES_FOR_A_RECORD: u32 = 8;

/// Free pages from which some are given back to the file system, if they are also a quarter of all.
const MANY_FREE_PAGES: i64 = 256;

/// Pages given back at a time.
const PAGES_A_BATCH: i64 = 64;

/// How far the walk through the ledger has come. Lines of living records are passed over, and would
/// be looked at again by every batch without this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Walk {
    /// The line that was looked at last; 0 for a walk that has not begun.
    after_id: i64,
    /// No new walk begins before this moment.
    not_before: UnixMs,
}

/// Whether there is anything to do. Only reads, so that most runs pay for no transaction.
pub fn is_due(conn: &Connection, now: &Stamp, keep_events: Duration) -> Tried<bool> {
    let sql = "SELECT 1 FROM operation WHERE expires_at <= ?1 LIMIT 1";
    if conn.prepare(sql)?.exists([now.wall.0])? {
        return Ok(true);
    }
    let walk = read_walk(conn)?;
    Ok(now.wall >= walk.not_before
        && (walk.after_id > 0 || next_is_old(conn, walk, cutoff(now, keep_events))?))
}

/// One batch: expired records with their outputs, then old lines of the ledger.
pub fn purge(
    tx: &mut Tx<'_>,
    now: &Stamp,
    limit: u32,
    keep_events: Duration,
) -> Tried<End<Purged>> {
    let mut records = 0;
    let candidates = candidates(tx.conn, now, limit)?;
    let all = u32::try_from(candidates.len()).unwrap_or(u32::MAX) < limit;
    for stored in candidates {
        if stored.record.expired(now) {
            tx.delete(&stored)?;
            let gone = [deletion(&stored, now)];
            tx.append(&stored.record.name, stored.record.generation, &gone)?;
            records += 1;
        } else {
            postpone(tx.conn, &stored, now)?;
        }
    }
    let (lines, walks_on) = walk_ledger(
        tx.conn,
        now,
        limit.saturating_mul(LINES_FOR_A_RECORD),
        keep_events,
    )?;
    Ok(End::Commit(Purged {
        records,
        lines,
        more: walks_on || !all,
    }))
}

/// Records whose wall-clock time is up.
fn candidates(conn: &Connection, now: &Stamp, limit: u32) -> Tried<Vec<Stored>> {
    let sql =
        format!("SELECT {READ} FROM operation WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2");
    let mut statement = conn.prepare(&sql)?;
    let mut rows = statement.query(params![now.wall.0, limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(rows::read(row)?);
    }
    Ok(found)
}

/// The wall clock was moved and the boot clock knows better: the record gets its true place in the
/// index, so that it does not stand before others that are really expired.
fn postpone(conn: &Connection, stored: &Stored, now: &Stamp) -> Tried<()> {
    let record = &stored.record;
    let limit = record.kept_for().ms().unwrap_or(i64::MAX);
    let age = i64::try_from(record.since.age(now).as_millis()).unwrap_or(i64::MAX);
    let left = limit.saturating_sub(age).max(1);
    conn.prepare_cached("UPDATE operation SET expires_at = ?3 WHERE scope = ?1 AND key = ?2")?
        .execute(params![
            record.name.scope.as_str(),
            record.name.key.as_str(),
            now.wall.0.saturating_add(left)
        ])?;
    Ok(())
}

fn deletion(stored: &Stored, now: &Stamp) -> NewEvent {
    let mut detail = Map::new();
    detail.insert("state".to_owned(), json!(stored.record.state.word()));
    detail.insert("reason".to_owned(), json!("expired"));
    NewEvent {
        at: now.wall,
        kind: EventKind::Forgotten,
        attempt: None,
        detail,
    }
}

fn cutoff(now: &Stamp, keep_events: Duration) -> i64 {
    let keep_ms = i64::try_from(keep_events.as_millis()).unwrap_or(i64::MAX);
    now.wall.0.saturating_sub(keep_ms)
}

fn read_walk(conn: &Connection) -> Tried<Walk> {
    let sql = "SELECT state FROM guard WHERE kind = 'store' AND name = 'walk'";
    let text: Option<String> = conn
        .prepare(sql)?
        .query_row([], |row| row.get(0))
        .optional()?;
    let Some(text) = text else {
        return Ok(Walk {
            after_id: 0,
            not_before: UnixMs(i64::MIN),
        });
    };
    let (after_id, not_before) =
        serde_json::from_str(&text).map_err(|_| Fault::Damaged("a broken mark of the ledger"))?;
    Ok(Walk {
        after_id,
        not_before: UnixMs(not_before),
    })
}

fn write_walk(conn: &Connection, walk: Walk) -> Tried<()> {
    let state = json!([walk.after_id, walk.not_before.0]).to_string();
    conn.prepare("INSERT OR REPLACE INTO guard(kind, name, state) VALUES('store', 'walk', ?1)")?
        .execute([state])?;
    Ok(())
}

fn next_is_old(conn: &Connection, walk: Walk, cutoff: i64) -> Tried<bool> {
    let sql = "SELECT at FROM event WHERE id > ?1 ORDER BY id LIMIT 1";
    let at: Option<i64> = conn
        .prepare(sql)?
        .query_row([walk.after_id], |row| row.get(0))
        .optional()?;
    Ok(at.is_some_and(|at| at < cutoff))
}

/// Looks at the next old lines and deletes those that nothing needs any more. At the first line that
/// is not old the walk ends, and the next begins after a thirtieth of the time that lines are kept.
/// Returns how many went, and whether the walk goes on.
fn walk_ledger(
    conn: &Connection,
    now: &Stamp,
    lines: u32,
    keep_events: Duration,
) -> Tried<(u32, bool)> {
    let mut walk = read_walk(conn)?;
    if now.wall < walk.not_before {
        return Ok((0, false));
    }
    let cutoff = cutoff(now, keep_events);
    let started = walk.after_id;
    for (id, at) in next_lines(conn, walk, lines)? {
        if at >= cutoff {
            break;
        }
        walk.after_id = id;
    }
    if walk.after_id == started {
        let pause_ms = i64::try_from(keep_events.as_millis() / 30).unwrap_or(i64::MAX);
        let ended = Walk {
            after_id: 0,
            not_before: UnixMs(now.wall.0.saturating_add(pause_ms)),
        };
        write_walk(conn, ended)?;
        return Ok((0, false));
    }
    let deleted = delete_lines(conn, started, walk.after_id, cutoff)?;
    write_walk(conn, walk)?;
    Ok((u32::try_from(deleted).unwrap_or(u32::MAX), true))
}

fn next_lines(conn: &Connection, walk: Walk, lines: u32) -> Tried<Vec<(i64, i64)>> {
    let mut statement =
        conn.prepare("SELECT id, at FROM event WHERE id > ?1 ORDER BY id LIMIT ?2")?;
    let rows = statement.query_map(params![walk.after_id, lines], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// A line stays while its record lives, and as long again after the record's deletion as any line is
/// kept. The newest line of all stays, so that its position is never given out a second time.
fn delete_lines(conn: &Connection, after: i64, upto: i64, cutoff: i64) -> Tried<usize> {
    let sql = "DELETE FROM event AS line \
        WHERE id > ?1 AND id <= ?2 AND at < ?3 \
        AND id < (SELECT max(id) FROM event) \
        AND NOT EXISTS (SELECT 1 FROM operation AS o \
            WHERE o.scope = line.scope AND o.key = line.key AND o.minted_by <= line.generation) \
        AND coalesce((SELECT gone.at FROM event AS gone \
            WHERE gone.scope = line.scope AND gone.key = line.key AND gone.id > line.id \
            AND gone.kind = 'forgotten' ORDER BY gone.id LIMIT 1), ?3 - 1) < ?3";
    Ok(conn.prepare(sql)?.execute(params![after, upto, cutoff])?)
}

/// Gives some pages back to the file system where many are free.
pub fn give_back_pages(conn: &Connection) -> Tried<()> {
    let number = |pragma: &str| conn.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let free = number("PRAGMA freelist_count")?;
    if free < MANY_FREE_PAGES || free < number("PRAGMA page_count")? / 4 {
        return Ok(());
    }
    // Each step frees one page, so it must be stepped to its end.
    vacuum(conn, PAGES_A_BATCH)
}

/// Gives so many free pages back to the file system; 0 for all.
pub fn vacuum(conn: &Connection, pages: i64) -> Tried<()> {
    let mut statement = conn.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}
