//! Those who follow the ledger, while lines become visible in another order than their positions have.

use super::place::{PostgresPlace, direct, soon};
use crate::sample::*;
use idem::domain::outcome::State;
use idem::engine::event::Event;
use idem::engine::store::{Claiming, GuardKind, Store};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const WRITERS: u8 = 6;
const EACH: usize = 30;

/// One line for the claim and one for its end. Every second claim also counts, so that some transactions
/// fail after they have drawn positions.
fn write(place: &PostgresPlace, writer: u8) {
    let mut store = place.connect();
    for n in 0..EACH {
        let new = new_claim(writer, mint("t"));
        let (_, record) = store
            .claim(&name(&format!("{writer}/{n}")), &mut |found| {
                if n % 2 == 0 {
                    let count = found.guards.guard(GuardKind::Counter, "n")?;
                    let next = count.and_then(|n| n.as_i64()).unwrap_or(0) + 1;
                    found
                        .guards
                        .set_guard(GuardKind::Counter, "n", Some(json!(next)))?;
                }
                Ok(Claiming::Claim(Box::new(new.clone())))
            })
            .unwrap();
        settle(&mut store, &id_of(&record.unwrap()), State::Succeeded);
    }
}

fn follow(store: &mut dyn Store, seen: &mut Vec<Event>) -> bool {
    let after = seen.last().map_or(0, |event| event.id);
    let page = store.events(None, after, 7).unwrap();
    let any = !page.is_empty();
    seen.extend(page);
    any
}

#[test]
fn a_follower_sees_every_line_once() {
    let Some(place) = direct() else { return };
    place.server_place();
    let ended = AtomicUsize::new(0);
    let mut seen = Vec::new();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (place, ended) = (&place, &ended);
            scope.spawn(move || {
                write(place, writer);
                ended.fetch_add(1, Ordering::Release);
            });
        }
        let mut store = place.connect();
        while ended.load(Ordering::Acquire) < usize::from(WRITERS) {
            follow(&mut store, &mut seen);
        }
        while follow(&mut store, &mut seen) {}
    });
    assert!(seen.is_sorted_by(|a, b| a.id < b.id));
    let mut lines: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for event in &seen {
        let line = (event.name.key.as_str().to_owned(), event.kind.word());
        *lines.entry(line).or_default() += 1;
    }
    assert_eq!(lines.len(), usize::from(WRITERS) * EACH * 2);
    assert!(lines.values().all(|times| *times == 1), "{lines:?}");
}

const LINE: &str = "INSERT INTO @event(at, scope, key, generation, kind, detail) \
    VALUES (1, '', 'open', 1, 'claimed', '{}')";

#[test]
fn a_line_waits_for_an_earlier_one_that_is_on_its_way() {
    let Some(place) = direct() else { return };
    let mut store = place.connect();
    let mut open = place.client();
    let line = LINE.replace('@', &format!("{}.", place.schema()));
    open.batch(&format!("BEGIN; {line}"), soon()).unwrap();
    claim(&mut store, "k", 1);
    let ids = |store: &mut dyn Store| {
        let events = store.events(None, 0, 100).unwrap();
        events.iter().map(|event| event.id).collect::<Vec<_>>()
    };
    assert!(ids(&mut store).is_empty());
    // Who asks for one operation's lines has them at once.
    assert_eq!(kinds(&mut store, "k").len(), 1);
    open.batch("COMMIT", soon()).unwrap();
    assert_eq!(ids(&mut store), [1, 2]);
    // A position that is never filled holds nothing up, nor does a transaction about something else.
    open.batch(&format!("BEGIN; {line}; ROLLBACK"), soon())
        .unwrap();
    let other = format!("CREATE TABLE other_{}(n integer)", place.schema());
    open.batch(&format!("BEGIN; {other}"), soon()).unwrap();
    claim(&mut store, "l", 2);
    assert_eq!(ids(&mut store), [1, 2, 4]);
    open.batch("ROLLBACK", soon()).unwrap();
}
