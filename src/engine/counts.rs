//! The counters: by scope and hour, in the store's guards.
//!
//! What a claim's keeper does is in the ledger already, in the keeper's own transactions; it is counted
//! from there, up to a mark that moves in the same transaction as the counters. What calls do that write
//! nothing comes in files, each with a name that is never used twice; a file's name is noted in the
//! transaction that counts it. So a crash at any point neither loses a count nor doubles one.

use super::event::{Event, EventKind};
use super::store::{GuardKind, Guards, Store, StoreResult};
use crate::domain::name::Scope;
use crate::domain::outcome::State;
use crate::domain::tally::{Count, Tally};
use crate::domain::time::UnixMs;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// For how long counts are kept by the hour; older ones are one sum.
pub const HOURS_KEPT: u32 = 31 * 24;

/// The hour under which everything is summed that is older.
const LONG_AGO: u32 = 0;

/// How many events are counted in one transaction.
const EVENTS_A_PAGE: u32 = 1000;

/// From how many uncounted events on a passer-by counts them.
const MANY_EVENTS: i64 = 1000;

/// Names of counted files that are kept at most, the latest: a machine of a shared store that is thrown
/// away leaves its last one behind.
const MARKED_FILES: usize = 1000;

/// The name of the mark among the counters; those begin with a number.
const MARK: &str = "mark";

/// An hour since 1970, UTC.
pub fn hour_of(at: UnixMs) -> u32 {
    u32::try_from(at.0 / 3_600_000).unwrap_or(0)
}

/// Counts by scope and hour.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums(pub BTreeMap<(Scope, u32), Tally>);

impl Sums {
    /// Counts some more.
    pub fn add(&mut self, scope: &Scope, hour: u32, count: Count, times: u64) {
        let tally = self.0.entry((scope.clone(), hour)).or_default();
        tally.add(count, times);
    }

    /// Adds other sums.
    pub fn add_all(&mut self, other: &Sums) {
        for (at, tally) in &other.0 {
            self.0.entry(at.clone()).or_default().add_all(tally);
        }
    }

    /// By scope, from an hour on; all that was ever counted where none is given.
    pub fn by_scope(&self, since: Option<u32>) -> BTreeMap<Scope, Tally> {
        let mut scopes: BTreeMap<Scope, Tally> = BTreeMap::new();
        let asked = |hour: &u32| since.is_none_or(|since| *hour >= since);
        for ((scope, _), tally) in self.0.iter().filter(|((_, hour), _)| asked(hour)) {
            scopes.entry(scope.clone()).or_default().add_all(tally);
        }
        scopes
    }

    fn add_event(&mut self, event: &Event) {
        let detail = |name: &str| event.detail.get(name).and_then(Value::as_str);
        let state = || detail("state").and_then(State::from_word);
        let count = match event.kind {
            EventKind::Claimed => Count::Execution,
            EventKind::AttemptStarted if event.attempt > Some(1) => Count::Retry,
            EventKind::AttemptEnded if matches!(detail("cut"), Some("timeout" | "deadline")) => {
                Count::Timeout
            }
            EventKind::Settled | EventKind::OwnerLost if state() == Some(State::Unknown) => {
                Count::Unknown
            }
            _ => return,
        };
        self.add(&event.name.scope, hour_of(event.at), count, 1);
    }
}

/// How far everything is counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mark {
    /// The last event that is counted.
    pub event: i64,
    /// Files that are counted and may still be there.
    pub files: Vec<String>,
}

impl Mark {
    fn from_json(value: Option<&Value>) -> Mark {
        let part = |name: &str| value.and_then(|value| value.get(name));
        let files = part("files").and_then(Value::as_array);
        let names = files.into_iter().flatten().filter_map(Value::as_str);
        Mark {
            event: part("event").and_then(Value::as_i64).unwrap_or(0),
            files: names.map(str::to_owned).collect(),
        }
    }

    fn to_json(&self) -> Value {
        json!({"event": self.event, "files": self.files})
    }
}

/// Everything that is counted so far, and how far that is.
pub fn read(store: &mut dyn Store) -> StoreResult<(Sums, Mark)> {
    let mut sums = Sums::default();
    let mut mark = Mark::default();
    for (name, value) in store.list_guards(GuardKind::Counter)? {
        if name == MARK {
            mark = Mark::from_json(Some(&value));
        } else if let Some(at) = parse_name(&name) {
            let tally = sums.0.entry(at).or_default();
            tally.add_all(&Tally::from_json(&value));
        }
    }
    Ok((sums, mark))
}

/// Adds what the ledger has after a mark, for a store that can only be read.
pub fn add_uncounted(store: &mut dyn Store, mark: &Mark, sums: &mut Sums) -> StoreResult<()> {
    let mut after_id = mark.event;
    loop {
        let page = store.events(None, after_id, EVENTS_A_PAGE)?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after_id = last.id;
        page.iter().for_each(|event| sums.add_event(event));
    }
}

/// Whether the ledger has so much to count that a passer-by should do it: many events, or one from so
/// long ago that the ledger may soon drop it.
pub fn events_are_due(store: &mut dyn Store, mark: &Mark, now: UnixMs) -> StoreResult<bool> {
    const DAY_MS: i64 = 86_400_000;
    let first = store.events(None, mark.event, 1)?;
    let Some(first) = first.first() else {
        return Ok(false);
    };
    if now.0.saturating_sub(first.at.0) > DAY_MS {
        return Ok(true);
    }
    let far = mark.event.saturating_add(MANY_EVENTS);
    Ok(!store.events(None, far, 1)?.is_empty())
}

/// Counts the ledger up to its end.
pub fn fold_events(store: &mut dyn Store, now: UnixMs) -> StoreResult<()> {
    let mut mark = read_mark(store)?;
    loop {
        let page = store.events(None, mark.event, EVENTS_A_PAGE)?;
        let Some(last) = page.last().map(|last| last.id) else {
            return Ok(());
        };
        let mut sums = Sums::default();
        page.iter().for_each(|event| sums.add_event(event));
        let before = mark.event;
        store.with_guards(&mut |guards| {
            mark = Mark::from_json(guards.guard(GuardKind::Counter, MARK)?.as_ref());
            // Someone else may have counted the same meanwhile.
            if mark.event == before {
                mark.event = last;
                write(guards, &sums, &mark)?;
            }
            Ok(())
        })?;
        if page.len() < EVENTS_A_PAGE as usize {
            return join_old_hours(store, now);
        }
    }
}

/// How far everything is counted.
pub fn read_mark(store: &mut dyn Store) -> StoreResult<Mark> {
    Ok(read(store)?.1)
}

/// Counts a file that nobody writes any more. `exists` tells of a file that was counted before whether
/// it may still be there, on this machine or another; the names of those that are not are forgotten.
/// Afterwards the file can be deleted.
pub fn fold_file(
    store: &mut dyn Store,
    name: &str,
    sums: &Sums,
    exists: &dyn Fn(&str) -> bool,
) -> StoreResult<()> {
    store.with_guards(&mut |guards| {
        let mut mark = Mark::from_json(guards.guard(GuardKind::Counter, MARK)?.as_ref());
        if mark.files.iter().any(|counted| counted == name) {
            return Ok(());
        }
        mark.files.retain(|counted| exists(counted));
        mark.files.push(name.to_owned());
        let too_many = mark.files.len().saturating_sub(MARKED_FILES);
        mark.files.drain(..too_many);
        write(guards, sums, &mark)
    })
}

fn write(guards: &mut dyn Guards, sums: &Sums, mark: &Mark) -> StoreResult<()> {
    for ((scope, hour), tally) in &sums.0 {
        let name = name_of(scope, *hour);
        let found = guards.guard(GuardKind::Counter, &name)?;
        let mut sum = found.as_ref().map(Tally::from_json).unwrap_or_default();
        sum.add_all(tally);
        guards.set_guard(GuardKind::Counter, &name, Some(sum.to_json()))?;
    }
    guards.set_guard(GuardKind::Counter, MARK, Some(mark.to_json()))
}

/// Joins the hours that are too old to be told apart.
fn join_old_hours(store: &mut dyn Store, now: UnixMs) -> StoreResult<()> {
    let oldest = hour_of(now).saturating_sub(HOURS_KEPT);
    let is_old = |hour: u32| hour != LONG_AGO && hour < oldest;
    let (sums, _) = read(store)?;
    let old: Vec<(Scope, u32)> = sums
        .0
        .into_keys()
        .filter(|(_, hour)| is_old(*hour))
        .collect();
    if old.is_empty() {
        return Ok(());
    }
    store.with_guards(&mut |guards| {
        let mut joined = Sums::default();
        for (scope, hour) in &old {
            let name = name_of(scope, *hour);
            let Some(found) = guards.guard(GuardKind::Counter, &name)? else {
                continue;
            };
            let sum = joined.0.entry((scope.clone(), LONG_AGO)).or_default();
            sum.add_all(&Tally::from_json(&found));
            guards.set_guard(GuardKind::Counter, &name, None)?;
        }
        let mark = Mark::from_json(guards.guard(GuardKind::Counter, MARK)?.as_ref());
        write(guards, &joined, &mark)
    })
}

fn name_of(scope: &Scope, hour: u32) -> String {
    format!("{hour}/{}", scope.as_str())
}

fn parse_name(name: &str) -> Option<(Scope, u32)> {
    let (hour, scope) = name.split_once('/')?;
    Some((Scope::new(scope).ok()?, hour.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for scope in ["", "prod", "a/b"] {
            let scope = Scope::new(scope).unwrap();
            assert_eq!(parse_name(&name_of(&scope, 7)), Some((scope, 7)));
        }
        assert_eq!(parse_name(MARK), None);
    }

    #[test]
    fn a_mark_is_read_back() {
        let mark = Mark {
            event: 7,
            files: vec!["x".to_owned()],
        };
        assert_eq!(Mark::from_json(Some(&mark.to_json())), mark);
        assert_eq!(Mark::from_json(None), Mark::default());
    }

    #[test]
    fn hours_are_left_out_before_a_moment() {
        let scope = Scope::default();
        let mut sums = Sums::default();
        for hour in [LONG_AGO, 5, 6, 7] {
            sums.add(&scope, hour, Count::Replay, 1);
        }
        let replays = |since| sums.by_scope(since)[&scope].of(Count::Replay);
        assert_eq!((replays(None), replays(Some(6))), (4, 2));
        assert_eq!(hour_of(UnixMs(3_600_000 * 9 + 1)), 9);
        assert_eq!(hour_of(UnixMs(-1)), 0);
    }
}
