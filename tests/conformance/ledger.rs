//! The ledger, and what it tells about generations that are history.

use crate::Place;
use crate::sample::*;
use idem::domain::name::Generation;
use idem::domain::outcome::{Class, State};
use idem::domain::record::Place as Where;
use idem::domain::time::UnixMs;
use idem::engine::detail::output_from_detail;
use idem::engine::event::{Event, EventKind};
use idem::engine::store::{PastResult, Store, TokenChoice};
use serde_json::json;

pub fn events_are_paged_in_order(place: &dyn Place) {
    let mut store = place.open();
    for n in 0..4 {
        for key in ["a", "b"] {
            let mut new = new_claim(n, mint("t"));
            let mut told = attempt_event(EventKind::Paused, 3);
            told.detail.insert("delay_ms".to_owned(), json!(n));
            new.record.events.push(told);
            claim_as(&mut *store, key, new);
        }
    }
    let all = store.events(None, 0, 1_000).unwrap();
    assert_eq!(all.len(), 16);
    assert!(all.is_sorted_by(|a, b| a.id < b.id));
    for key in [None, Some(name("a"))] {
        let wanted: Vec<Event> = all
            .iter()
            .filter(|event| key.as_ref().is_none_or(|key| *key == event.name))
            .cloned()
            .collect();
        let mut paged: Vec<Event> = Vec::new();
        loop {
            let after = paged.last().map_or(0, |event| event.id);
            let page = store.events(key.as_ref(), after, 3).unwrap();
            assert!(page.len() <= 3);
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        assert_eq!(paged, wanted);
    }
    let told = &all[3];
    assert_eq!((told.kind, told.attempt), (EventKind::Paused, Some(3)));
    assert_eq!((told.at, &told.name), (UnixMs(1), &name("b")));
    assert_eq!(told.detail.get("delay_ms"), Some(&json!(0)));
}

fn past(store: &mut dyn Store, generation: Generation) -> Option<PastResult> {
    store.past_result(&name("k"), generation).unwrap()
}

pub fn the_end_of_an_earlier_generation_is_known(place: &dyn Place) {
    let mut store = place.open();
    let first = claim(&mut *store, "k", 1);
    assert_eq!(past(&mut *store, first.generation), None);
    let mut end = settlement(State::Failed);
    end.output = Some(inline(1, b"said"));
    // The event need not be given, nor be complete.
    end.events.clear();
    settle_as(&mut *store, &first, &end);
    let output = found(&mut *store, "k").output;
    let wanted = PastResult {
        generation: first.generation,
        state: State::Failed,
        class: Some(Class::Permanent),
        reason: Some("because".to_owned()),
        exit_code: Some(7),
        output,
        settled_at: UnixMs(2_000),
    };
    assert_eq!(past(&mut *store, first.generation), Some(wanted.clone()));
    claim_as(&mut *store, "k", new_claim(2, TokenChoice::Keep));
    let known = past(&mut *store, first.generation).unwrap();
    assert_eq!(known, wanted);
    let opened = store.open_output(&known.output.unwrap()).unwrap();
    assert_eq!(content(opened), Some(b"said".to_vec()));
    // Under a new token the end is still known, and its output is gone.
    claim(&mut *store, "k", 3);
    let known = past(&mut *store, first.generation).unwrap();
    assert_eq!(known.state, State::Failed);
    let opened = store.open_output(&known.output.unwrap()).unwrap();
    assert_eq!(content(opened), None);
    assert_eq!(past(&mut *store, Generation(999)), None);
}

pub fn a_lost_owner_is_an_end_until_the_result_comes(place: &dyn Place) {
    let mut store = place.open();
    let claim = claim(&mut *store, "k", 1);
    change(&mut *store, "k", owner_lost());
    let known = past(&mut *store, claim.generation).unwrap();
    assert_eq!((known.state, known.exit_code), (State::Unknown, None));
    assert_eq!(known.reason.as_deref(), Some("nobody is left"));
    assert_eq!(known.settled_at, UnixMs(2_500));
    settle(&mut *store, &claim, State::Succeeded);
    let known = past(&mut *store, claim.generation).unwrap();
    assert_eq!((known.state, known.exit_code), (State::Succeeded, Some(7)));
}

pub fn a_resolution_is_an_end_of_its_own(place: &dyn Place) {
    let mut store = place.open();
    let first = claim(&mut *store, "k", 1);
    settle(&mut *store, &first, State::Unknown);
    change(&mut *store, "k", resolution(2, State::Succeeded));
    let resolved = found(&mut *store, "k").generation;
    let known = past(&mut *store, resolved).unwrap();
    assert_eq!((known.state, known.exit_code), (State::Succeeded, Some(0)));
    let known = past(&mut *store, first.generation).unwrap();
    assert_eq!(known.state, State::Unknown);
}

pub fn attempts_name_their_outputs(place: &dyn Place) {
    let mut store = place.open();
    let claim = claim(&mut *store, "k", 1);
    let mut note = step(Some(inline(1, b"one")));
    note.events.push(attempt_event(EventKind::AttemptEnded, 1));
    store.step(&claim, &note).unwrap();
    let mut end = settlement(State::Succeeded);
    end.output = Some(inline(2, b"two"));
    end.events
        .insert(0, attempt_event(EventKind::AttemptEnded, 2));
    settle_as(&mut *store, &claim, &end);
    let events = store.events(Some(&name("k")), 0, 100).unwrap();
    let ends: Vec<_> = events
        .iter()
        .filter(|event| event.kind == EventKind::AttemptEnded)
        .collect();
    assert_eq!(ends.len(), 2);
    for (event, said) in ends.into_iter().zip([b"one", b"two"]) {
        let output = output_from_detail(event.detail.get("output").unwrap()).unwrap();
        assert_eq!((output.place, output.nonce), (Where::Inline, nonce(1)));
        let opened = store.open_output(&output).unwrap();
        assert_eq!(content(opened), Some(said.to_vec()));
    }
}

pub fn a_late_settle_is_kept_once(place: &dyn Place) {
    let mut store = place.open();
    let old = claim(&mut *store, "k", 1);
    change(&mut *store, "k", forget());
    let mut end = settlement(State::Succeeded);
    end.events
        .insert(0, attempt_event(EventKind::AttemptEnded, 1));
    settle_as(&mut *store, &old, &end);
    settle_as(&mut *store, &old, &end);
    let wanted = [
        EventKind::Claimed,
        EventKind::Forgotten,
        EventKind::AttemptEnded,
        EventKind::Superseded,
    ];
    assert_eq!(kinds(&mut *store, "k"), wanted);
    let events = store.events(Some(&name("k")), 0, 100).unwrap();
    let last = events.last().unwrap();
    assert_eq!(last.generation, old.generation);
    assert_eq!(last.detail.get("state"), Some(&json!("succeeded")));
    assert_eq!(last.detail.get("exit_code"), Some(&json!(7)));
    assert_eq!(
        past(&mut *store, old.generation),
        None,
        "it is no end that counts"
    );
}
