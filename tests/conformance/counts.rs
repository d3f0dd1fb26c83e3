//! The counters, added up from the ledger and from files.

use crate::Place;
use crate::sample::*;
use idem::domain::name::Scope;
use idem::domain::outcome::State;
use idem::domain::tally::{Count, Tally};
use idem::domain::time::UnixMs;
use idem::engine::counts::{
    HOURS_KEPT, Sums, add_uncounted, fold_events, fold_file, read, read_mark,
};
use idem::engine::event::EventKind;
use idem::engine::store::Store;
use serde_json::json;

const NOW: UnixMs = UnixMs(5_000);

fn total(store: &mut dyn Store) -> Tally {
    let (mut sums, mark) = read(store).unwrap();
    add_uncounted(store, &mark, &mut sums).unwrap();
    sums.by_scope(None)
        .remove(&Scope::default())
        .unwrap_or_default()
}

pub fn what_keepers_do_is_counted_once(place: &dyn Place) {
    let mut store = place.open();
    let first = claim(&mut *store, "k", 1);
    let mut again = step(None);
    let mut cut = attempt_event(EventKind::AttemptEnded, 1);
    cut.detail.insert("cut".to_owned(), json!("timeout"));
    again.events = vec![cut, attempt_event(EventKind::AttemptStarted, 2)];
    store.step(&first, &again).unwrap();
    settle(&mut *store, &first, State::Unknown);
    claim(&mut *store, "l", 2);
    let wanted = |tally: &Tally| {
        let of = |count| tally.of(count);
        assert_eq!(
            (of(Count::Execution), of(Count::Retry), of(Count::Timeout)),
            (2, 1, 1)
        );
        assert_eq!(of(Count::Unknown), 1);
    };
    wanted(&total(&mut *store));
    fold_events(&mut *store, NOW).unwrap();
    wanted(&total(&mut *store));
    fold_events(&mut *place.open(), NOW).unwrap();
    wanted(&total(&mut *store));
    claim(&mut *store, "m", 3);
    assert_eq!(total(&mut *store).of(Count::Execution), 3);
}

pub fn a_file_is_counted_once(place: &dyn Place) {
    let mut store = place.open();
    let mut sums = Sums::default();
    sums.add(&Scope::default(), 7, Count::Replay, 3);
    let gone = |_: &str| false;
    fold_file(&mut *store, "one", &sums, &gone).unwrap();
    // Whoever counted it died before deleting it.
    fold_file(&mut *place.open(), "one", &sums, &gone).unwrap();
    assert_eq!(total(&mut *store).of(Count::Replay), 3);
    let there = |name: &str| name == "one";
    fold_file(&mut *store, "two", &sums, &there).unwrap();
    assert_eq!(read_mark(&mut *store).unwrap().files, ["one", "two"]);
    fold_file(&mut *store, "three", &sums, &gone).unwrap();
    assert_eq!(read_mark(&mut *store).unwrap().files, ["three"]);
    assert_eq!(total(&mut *store).of(Count::Replay), 9);
}

pub fn old_hours_are_joined(place: &dyn Place) {
    let mut store = place.open();
    let mut sums = Sums::default();
    for hour in [10, 11, 12] {
        sums.add(&Scope::default(), hour, Count::Replay, 1);
    }
    fold_file(&mut *store, "one", &sums, &|_| true).unwrap();
    claim(&mut *store, "k", 1);
    let now = UnixMs(i64::from(HOURS_KEPT + 12) * 3_600_000);
    fold_events(&mut *store, now).unwrap();
    let (sums, mark) = read(&mut *store).unwrap();
    let hours: Vec<u32> = sums.0.keys().map(|(_, hour)| *hour).collect();
    assert_eq!(hours, [0, 12]);
    assert_eq!(mark.files, ["one"]);
    let tally = total(&mut *store);
    assert_eq!(
        (tally.of(Count::Replay), tally.of(Count::Execution)),
        (3, 1)
    );
}

pub fn states_are_counted_by_scope(place: &dyn Place) {
    let mut store = place.open();
    for (key, n) in [("a", 1), ("b", 2), ("c", 3)] {
        let id = claim(&mut *store, key, n);
        if n > 1 {
            settle(&mut *store, &id, State::Succeeded);
        }
    }
    let mut counts = store.count_states().unwrap();
    counts.sort_by_key(|(_, state, _)| state.word());
    let wanted = [(State::Running, 1), (State::Succeeded, 2)];
    assert_eq!(
        counts,
        wanted.map(|(state, n)| (Scope::default(), state, n))
    );
}
