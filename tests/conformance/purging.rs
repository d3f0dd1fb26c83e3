//! What expires, and what never does.

use crate::Place;
use crate::sample::*;
use idem::domain::outcome::State;
use idem::domain::time::{BootId, Stamp, Ttl, UnixMs};
use idem::engine::event::EventKind;
use idem::engine::store::{Fenced, Store};
use std::time::Duration;

const HOUR_MS: i64 = 3_600_000;

/// Claims and settles at this moment with a time to live of an hour.
fn settled(store: &mut dyn Store, key: &str, state: State, at: i64) {
    let mut new = new_claim(1, mint("t"));
    new.record.ttl = Ttl::For(Duration::from_secs(3_600));
    new.record.failed_ttl = new.record.ttl;
    new.record.at = stamp(at);
    new.record.events = vec![event(EventKind::Claimed, at)];
    let (claim, _) = claim_as(store, key, new);
    let mut end = settlement(state);
    end.at = stamp(at);
    end.events = vec![event(EventKind::Settled, at)];
    assert_eq!(settle_as(store, &claim, &end), Fenced::Done);
}

fn present(store: &mut dyn Store, keys: &[&str]) -> Vec<bool> {
    keys.iter().map(|key| find(store, key).is_some()).collect()
}

pub fn only_expired_settled_records_go(place: &dyn Place) {
    let mut store = place.open();
    settled(&mut *store, "succeeded", State::Succeeded, 0);
    settled(&mut *store, "failed", State::Failed, 0);
    settled(&mut *store, "unknown", State::Unknown, 0);
    settled(&mut *store, "fresh", State::Succeeded, 1);
    claim(&mut *store, "running", 2);
    propose(&mut *store, "held", new_proposal(3, mint("t")));
    let mut forever = new_claim(4, mint("t"));
    forever.record.ttl = Ttl::Forever;
    let (id, _) = claim_as(&mut *store, "forever", forever);
    settle(&mut *store, &id, State::Succeeded);
    let keys = [
        "succeeded",
        "failed",
        "fresh",
        "unknown",
        "running",
        "held",
        "forever",
    ];
    assert_eq!(
        store.purge(&stamp(HOUR_MS - 1), 100, DAY).unwrap().records,
        0
    );
    assert_eq!(store.purge(&stamp(HOUR_MS), 100, DAY).unwrap().records, 2);
    let wanted = [false, false, true, true, true, true, true];
    assert_eq!(present(&mut *store, &keys), wanted);
    assert_eq!(
        store.purge(&stamp(i64::MAX / 2), 100, DAY).unwrap().records,
        1
    );
    let wanted = [false, false, false, true, true, true, true];
    assert_eq!(present(&mut *store, &keys), wanted);
}

pub fn a_moved_wall_clock_purges_nothing_early(place: &dyn Place) {
    let mut store = place.open();
    settled(&mut *store, "a", State::Succeeded, 0);
    settled(&mut *store, "b", State::Succeeded, 0);
    let moved = |boot_ms| Stamp {
        wall: UnixMs(1_000 * HOUR_MS + boot_ms),
        ..stamp(boot_ms)
    };
    // More in the way than a batch takes, and it still comes through.
    for _ in 0..3 {
        assert_eq!(store.purge(&moved(HOUR_MS - 5), 1, DAY).unwrap().records, 0);
    }
    assert_eq!(present(&mut *store, &["a", "b"]), [true, true]);
    assert_eq!(store.purge(&moved(HOUR_MS), 1, DAY).unwrap().records, 1);
    assert_eq!(store.purge(&moved(HOUR_MS), 1, DAY).unwrap().records, 1);
    // After another boot the wall clock is all there is.
    settled(&mut *store, "c", State::Succeeded, 0);
    let rebooted = Stamp {
        boot: BootId("later".to_owned()),
        ..stamp(HOUR_MS)
    };
    assert_eq!(store.purge(&rebooted, 9, DAY).unwrap().records, 1);
}

pub fn batches_are_bounded(place: &dyn Place) {
    let mut store = place.open();
    for n in 0..10 {
        settled(&mut *store, &format!("k{n}"), State::Succeeded, n);
    }
    for wanted in [4, 4, 2, 0] {
        assert_eq!(
            store.purge(&stamp(2 * HOUR_MS), 4, DAY).unwrap().records,
            wanted
        );
    }
}

fn lines(store: &mut dyn Store) -> Vec<i64> {
    let events = store.events(None, 0, 10_000).unwrap();
    events.into_iter().map(|event| event.id).collect()
}

/// Purges until there is nothing more to do at this moment.
fn purge_all(store: &mut dyn Store, now: i64) {
    for _ in 0..100 {
        store.purge(&stamp(now), 2, DAY).unwrap();
    }
}

pub fn old_lines_go_and_positions_are_not_reused(place: &dyn Place) {
    let mut store = place.open();
    for n in 0..20 {
        settled(&mut *store, &format!("k{n}"), State::Succeeded, 0);
    }
    let last = *lines(&mut *store).last().unwrap();
    purge_all(&mut *store, 2 * HOUR_MS);
    let after_purge = *lines(&mut *store).last().unwrap();
    assert!(after_purge > last, "the deletions are told");
    purge_all(&mut *store, 1_000 * HOUR_MS);
    let left = lines(&mut *store);
    assert!(left.len() <= 1, "{left:?}");
    settled(&mut *store, "new", State::Succeeded, 0);
    let events = store.events(Some(&name("new")), 0, 10).unwrap();
    assert!(events.iter().all(|event| event.id > after_purge));
}

pub fn lines_outlive_their_record(place: &dyn Place) {
    let mut store = place.open();
    // One that lives on, one that is purged long after its lines were written.
    let mut forever = new_claim(1, mint("t"));
    forever.record.ttl = Ttl::Forever;
    let (id, _) = claim_as(&mut *store, "lives", forever);
    settle(&mut *store, &id, State::Succeeded);
    settled(&mut *store, "purged", State::Succeeded, 0);
    let late = 500 * HOUR_MS;
    purge_all(&mut *store, late);
    assert_eq!(find(&mut *store, "purged"), None);
    let purged = [EventKind::Claimed, EventKind::Settled, EventKind::Forgotten];
    assert_eq!(kinds(&mut *store, "purged"), purged);
    let day_ms = 24 * HOUR_MS;
    purge_all(&mut *store, late + day_ms - 1);
    assert_eq!(kinds(&mut *store, "purged"), purged);
    claim(&mut *store, "other", 3);
    purge_all(&mut *store, late + 2 * day_ms);
    assert_eq!(kinds(&mut *store, "purged"), []);
    assert_eq!(
        kinds(&mut *store, "lives"),
        [EventKind::Claimed, EventKind::Settled]
    );
    // A record of its own under the same name does not need the lines of the one before.
    claim(&mut *store, "lives", 4);
    purge_all(&mut *store, late + 4 * day_ms);
    let events = store.events(Some(&name("lives")), 0, 10).unwrap();
    assert!(events.iter().all(|event| event.generation > id.generation));
}
