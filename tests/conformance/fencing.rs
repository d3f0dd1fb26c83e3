//! Who may still change a record, and who comes too late.

use crate::Place;
use crate::sample::*;
use idem::domain::name::Generation;
use idem::domain::outcome::State;
use idem::domain::owner::ProcessRef;
use idem::engine::event::EventKind;
use idem::engine::store::{ClaimId, Fenced, GuardKind, Step, Store, StoreError};
use serde_json::json;

pub fn only_the_present_claim_settles(place: &dyn Place) {
    let mut store = place.open();
    let claim = claim(&mut *store, "k", 1);
    let before = found(&mut *store, "k");
    let wrong = [
        ClaimId {
            nonce: nonce(2),
            ..claim.clone()
        },
        ClaimId {
            generation: Generation(claim.generation.0 + 1),
            ..claim.clone()
        },
        ClaimId {
            name: name("other"),
            ..claim.clone()
        },
    ];
    for id in wrong {
        assert_eq!(
            settle(&mut *store, &id, State::Succeeded),
            Fenced::Superseded
        );
        assert_eq!(store.step(&id, &step(None)).unwrap(), Fenced::Superseded);
        assert_eq!(found(&mut *store, "k"), before);
        assert_eq!(find(&mut *store, "other"), None);
    }
    assert_eq!(settle(&mut *store, &claim, State::Succeeded), Fenced::Done);
    assert_eq!(found(&mut *store, "k").state, State::Succeeded);
}

pub fn repeating_ones_own_settle_is_done(place: &dyn Place) {
    let mut store = place.open();
    for state in [State::Succeeded, State::Failed, State::Unknown] {
        let claim = claim(&mut *store, state.word(), 1);
        assert_eq!(settle(&mut *store, &claim, state), Fenced::Done);
        let record = found(&mut *store, state.word());
        let kinds_before = kinds(&mut *store, state.word());
        let mut touched = false;
        let again = settlement(state);
        let fenced = store
            .settle(&claim, &again, &mut |_| {
                touched = true;
                Ok(())
            })
            .unwrap();
        assert_eq!((fenced, touched), (Fenced::Done, false));
        assert_eq!(found(&mut *store, state.word()), record);
        assert_eq!(kinds(&mut *store, state.word()), kinds_before);
    }
}

pub fn a_late_result_beats_unknown(place: &dyn Place) {
    let mut store = place.open();
    for (key, state) in [
        ("a", State::Succeeded),
        ("b", State::Failed),
        ("c", State::Unknown),
    ] {
        let claim = claim(&mut *store, key, 1);
        change(&mut *store, key, owner_lost());
        assert_eq!(found(&mut *store, key).state, State::Unknown);
        assert_eq!(settle(&mut *store, &claim, state), Fenced::Done);
        let record = found(&mut *store, key);
        assert_eq!(record.state, state);
        assert_eq!(record.exit_code, Some(7));
    }
    // Its own unknown, and then the truth.
    let claim = claim(&mut *store, "d", 1);
    assert_eq!(settle(&mut *store, &claim, State::Unknown), Fenced::Done);
    assert_eq!(settle(&mut *store, &claim, State::Succeeded), Fenced::Done);
    assert_eq!(found(&mut *store, "d").state, State::Succeeded);
}

pub fn a_persons_word_beats_a_late_keeper(place: &dyn Place) {
    let mut store = place.open();
    let claim = claim(&mut *store, "k", 1);
    change(&mut *store, "k", owner_lost());
    let before = change(&mut *store, "k", resolution(2, State::Failed)).unwrap();
    assert_eq!(before.state, State::Unknown);
    let resolved = found(&mut *store, "k");
    assert!(resolved.generation > claim.generation);
    assert_eq!((resolved.state, resolved.nonce), (State::Failed, nonce(2)));
    assert_eq!(resolved.decided_by.as_deref(), Some("ann@host"));
    assert_eq!(
        (&resolved.token, resolved.attempts),
        (&before.token, before.attempts)
    );
    assert!(
        resolved.dirty,
        "a person who says no does not say that nothing is half done"
    );
    assert_eq!(
        settle(&mut *store, &claim, State::Succeeded),
        Fenced::Superseded
    );
    assert_eq!(found(&mut *store, "k"), resolved);
}

pub fn a_forgotten_claim_settles_nothing(place: &dyn Place) {
    let mut store = place.open();
    let old = claim(&mut *store, "k", 1);
    change(&mut *store, "k", forget());
    assert_eq!(
        settle(&mut *store, &old, State::Succeeded),
        Fenced::Superseded
    );
    assert_eq!(find(&mut *store, "k"), None);
    // Forgotten and claimed again, even under the same nonce.
    let new = claim(&mut *store, "k", 1);
    let running = found(&mut *store, "k");
    assert_eq!(settle(&mut *store, &old, State::Failed), Fenced::Superseded);
    assert_eq!(found(&mut *store, "k"), running);
    assert_eq!(settle(&mut *store, &new, State::Succeeded), Fenced::Done);
}

pub fn a_settle_that_took_place_has_not_come_too_late(place: &dyn Place) {
    let mut store = place.open();
    let old = claim(&mut *store, "k", 1);
    assert_eq!(settle(&mut *store, &old, State::Failed), Fenced::Done);
    // Its reply was lost, and before it is repeated the record moves on.
    change(&mut *store, "k", forget());
    let new = claim(&mut *store, "k", 2);
    let (running, told) = (found(&mut *store, "k"), kinds(&mut *store, "k"));
    assert_eq!(settle(&mut *store, &old, State::Failed), Fenced::Done);
    assert_eq!(found(&mut *store, "k"), running);
    assert_eq!(kinds(&mut *store, "k"), told);
    assert_eq!(settle(&mut *store, &new, State::Succeeded), Fenced::Done);
}

fn counted(store: &mut dyn Store) -> usize {
    store.list_guards(GuardKind::Counter).unwrap().len()
}

pub fn guards_are_touched_only_inside_the_fence(place: &dyn Place) {
    let mut store = place.open();
    let old = claim(&mut *store, "k", 1);
    let new = claim(&mut *store, "k", 2);
    let end = settlement(State::Succeeded);
    for (claim, wanted) in [(&old, 0), (&new, 1)] {
        store
            .settle(claim, &end, &mut |guards| {
                guards.set_guard(GuardKind::Counter, "runs", Some(json!(1)))
            })
            .unwrap();
        assert_eq!(counted(&mut *store), wanted);
    }
}

pub fn a_failing_guard_undoes_the_settle(place: &dyn Place) {
    let mut store = place.open();
    let claim = claim(&mut *store, "k", 1);
    let before = found(&mut *store, "k");
    let result = store.settle(&claim, &settlement(State::Succeeded), &mut |guards| {
        guards.set_guard(GuardKind::Counter, "runs", Some(json!(1)))?;
        Err(StoreError::Other("no".to_owned()))
    });
    assert!(result.is_err());
    assert_eq!(found(&mut *store, "k"), before);
    assert_eq!(counted(&mut *store), 0);
    assert_eq!(settle(&mut *store, &claim, State::Succeeded), Fenced::Done);
}

pub fn steps_are_fenced(place: &dyn Place) {
    let mut store = place.open();
    let (claim, mut wanted) = claim_as(&mut *store, "k", new_claim(1, mint("t")));
    let child = ProcessRef {
        pid: 77,
        start_ticks: 78,
    };
    let start = Step {
        starts_attempt: true,
        child: Some(child),
        dirty: Some(false),
        events: vec![attempt_event(EventKind::AttemptStarted, 2)],
        durable: true,
        ..step(None)
    };
    assert_eq!(store.step(&claim, &start).unwrap(), Fenced::Done);
    wanted.attempts = 2;
    wanted.dirty = false;
    wanted.owner.as_mut().unwrap().child = Some(child);
    assert_eq!(found(&mut *store, "k"), wanted);
    assert_eq!(
        kinds(&mut *store, "k"),
        [EventKind::Claimed, EventKind::AttemptStarted]
    );
    // Observers gave it up: nothing new starts, but what happened is noted.
    change(&mut *store, "k", owner_lost());
    assert_eq!(store.step(&claim, &start).unwrap(), Fenced::Superseded);
    let note = step(Some(inline(2, b"late")));
    assert_eq!(store.step(&claim, &note).unwrap(), Fenced::Done);
    settle(&mut *store, &claim, State::Failed);
    assert_eq!(store.step(&claim, &note).unwrap(), Fenced::Superseded);
    assert_eq!(found(&mut *store, "k").attempts, 2);
}

pub fn an_owner_is_lost_once(place: &dyn Place) {
    let mut store = place.open();
    claim(&mut *store, "k", 1);
    let before = change(&mut *store, "k", owner_lost()).unwrap();
    assert_eq!(before.state, State::Running);
    let record = found(&mut *store, "k");
    assert_eq!(record.state, State::Unknown);
    assert_eq!(record.generation, before.generation);
    assert_eq!(record.owner, before.owner);
    assert_eq!(record.reason.as_deref(), Some("nobody is left"));
    assert_eq!(record.since, stamp(2_500));
    change(&mut *store, "k", owner_lost());
    assert_eq!(
        kinds(&mut *store, "k"),
        [EventKind::Claimed, EventKind::OwnerLost]
    );
    assert_eq!(change(&mut *store, "none", owner_lost()), None);
    assert_eq!(kinds(&mut *store, "none"), []);
}
