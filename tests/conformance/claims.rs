//! Claims: tokens, generations, approvals, and what a decision leaves alone.

use crate::Place;
use crate::sample::*;
use idem::domain::name::Generation;
use idem::domain::outcome::State;
use idem::domain::record::{Record, Verdict};
use idem::domain::time::UnixMs;
use idem::engine::event::EventKind;
use idem::engine::store::{
    Change, Claimed, Claiming, Fenced, GuardKind, Step, Store, StoreError, TokenChoice,
};
use serde_json::json;

fn guard(store: &mut dyn Store) -> Option<serde_json::Value> {
    let all = store.list_guards(GuardKind::Breaker).unwrap();
    all.into_iter().next().map(|(_, state)| state)
}

pub fn a_claim_that_is_left_changes_nothing(place: &dyn Place) {
    let mut store = place.open();
    claim(&mut *store, "k", 1);
    for key in ["k", "none"] {
        let was = find(&mut *store, key);
        let (claimed, record) = store
            .claim(&name(key), &mut |found| {
                found
                    .guards
                    .set_guard(GuardKind::Breaker, "b", Some(json!(1)))?;
                Ok(Claiming::Leave)
            })
            .unwrap();
        assert_eq!((claimed, record.map(plain)), (Claimed::Left, was.clone()));
        assert_eq!(find(&mut *store, key), was);
        assert_eq!(guard(&mut *store), None);
    }
    assert_eq!(kinds(&mut *store, "none"), []);
}

pub fn a_refusal_keeps_the_guards_and_says_why(place: &dyn Place) {
    let mut store = place.open();
    let refuse = |store: &mut dyn Store| {
        store
            .claim(&name("k"), &mut |found| {
                found
                    .guards
                    .set_guard(GuardKind::Breaker, "b", Some(json!("open")))?;
                Ok(Claiming::Refuse {
                    events: vec![event(EventKind::Guarded, 1)],
                })
            })
            .unwrap()
    };
    assert_eq!(refuse(&mut *store), (Claimed::Left, None));
    assert_eq!(guard(&mut *store), Some(json!("open")));
    assert_eq!(find(&mut *store, "k"), None);
    let claim = claim(&mut *store, "k", 1);
    let record = found(&mut *store, "k");
    let (claimed, left) = refuse(&mut *store);
    assert_eq!((claimed, left.map(plain)), (Claimed::Left, Some(record)));
    let events = store.events(Some(&name("k")), 0, 9).unwrap();
    let told: Vec<_> = events.iter().map(|e| (e.kind, e.generation)).collect();
    assert_eq!(
        told,
        [
            (EventKind::Guarded, Generation(0)),
            (EventKind::Claimed, claim.generation),
            (EventKind::Guarded, claim.generation),
        ]
    );
}

pub fn a_failing_decision_changes_nothing(place: &dyn Place) {
    let mut store = place.open();
    let result = store.claim(&name("k"), &mut |found| {
        found
            .guards
            .set_guard(GuardKind::Breaker, "b", Some(json!(1)))?;
        Err(StoreError::Other("no".to_owned()))
    });
    assert_eq!(result.unwrap_err().to_string(), "no");
    assert_eq!(guard(&mut *store), None);
    claim(&mut *store, "k", 1);
}

pub fn a_kept_token_continues_the_record(place: &dyn Place) {
    let mut store = place.open();
    let (first, record) = claim_as(&mut *store, "k", new_claim(1, mint("first")));
    settle(&mut *store, &first, State::Failed);
    let mut again = new_claim(2, TokenChoice::Keep);
    again.record.at = stamp(9_000);
    let (_, second) = claim_as(&mut *store, "k", again.clone());
    let wanted = Record {
        generation: second.generation,
        nonce: nonce(2),
        fingerprint: again.record.fingerprint,
        since: again.record.at.clone(),
        owner: Some(again.owner.clone()),
        attempts: 2,
        ..record
    };
    assert_eq!(second, wanted);
    assert!(second.generation > first.generation);
    assert_eq!(found(&mut *store, "k"), second);
    // Without an attempt: counted by the step that starts one.
    settle(&mut *store, &id_of(&second), State::Failed);
    let mut probing = new_claim(3, TokenChoice::Keep);
    probing.starts_attempt = false;
    let (third, record) = claim_as(&mut *store, "k", probing);
    assert_eq!((record.attempts, record.dirty), (2, true));
    let start = Step {
        starts_attempt: true,
        ..step(None)
    };
    assert_eq!(store.step(&third, &start).unwrap(), Fenced::Done);
    assert_eq!(found(&mut *store, "k").attempts, 3);
}

pub fn a_minted_token_starts_a_record(place: &dyn Place) {
    let mut store = place.open();
    let first = claim(&mut *store, "k", 1);
    settle(&mut *store, &first, State::Failed);
    let mut new = new_claim(2, mint("second"));
    (new.starts_attempt, new.record.dirty) = (false, false);
    new.record.at = stamp(9_000);
    let (_, record) = claim_as(&mut *store, "k", new);
    assert_eq!(record.token, "second");
    assert_eq!(record.minted_by, record.generation);
    assert_eq!(record.created_at, UnixMs(9_000));
    assert_eq!((record.attempts, record.dirty), (0, false));
    assert_eq!((record.class, record.exit_code), (None, None));
    assert_eq!((&record.reason, record.output), (&None, None));
}

pub fn a_token_cannot_be_kept_without_a_record(place: &dyn Place) {
    let mut store = place.open();
    let new = new_claim(1, TokenChoice::Keep);
    let result = store.claim(&name("k"), &mut |_| {
        Ok(Claiming::Claim(Box::new(new.clone())))
    });
    assert!(result.is_err());
    assert_eq!(find(&mut *store, "k"), None);
}

pub fn generations_are_never_used_twice(place: &dyn Place) {
    let mut store = place.open();
    let mut last = Generation(0);
    let mut next = |generation: Generation| {
        assert!(generation > last, "{generation} after {last}");
        last = generation;
    };
    for round in 0..3 {
        let id = claim(&mut *store, "k", 1);
        next(id.generation);
        settle(&mut *store, &id, State::Succeeded);
        change(&mut *store, "k", resolution(2, State::Succeeded));
        next(found(&mut *store, "k").generation);
        if round == 0 {
            change(&mut *store, "k", forget());
        } else {
            let purged = store.purge(&stamp(i64::MAX / 2), 100, DAY).unwrap().records;
            assert_eq!(purged, 1);
        }
        assert_eq!(find(&mut *store, "k"), None);
        next(propose(&mut *store, "p", new_proposal(3, mint("t"))).generation);
        drop(store);
        store = place.open();
    }
}

pub fn the_decision_learns_its_generation(place: &dyn Place) {
    let mut store = place.open();
    for n in 1..4 {
        let mut told = None;
        let (_, record) = store
            .claim(&name("k"), &mut |found| {
                told = Some(found.generation);
                let new = new_claim(n, mint("t"));
                Ok(Claiming::Claim(Box::new(new)))
            })
            .unwrap();
        assert_eq!(told, Some(record.unwrap().generation));
    }
}

pub fn an_approval_is_consumed_and_still_shown(place: &dyn Place) {
    let mut store = place.open();
    for token in [TokenChoice::Keep, mint("other")] {
        propose(&mut *store, "k", new_proposal(1, mint("t")));
        let mut approved = proposal();
        approved.verdict = Verdict::Approved;
        approved.decided_by = Some("ann@host".to_owned());
        let events = vec![event(EventKind::Approved, 5)];
        let decide = Change::Decide {
            proposal: Box::new(approved.clone()),
            events,
        };
        change(&mut *store, "k", decide);
        let (claim, record) = claim_as(&mut *store, "k", new_claim(2, token));
        assert_eq!(record.state, State::Running);
        assert_eq!(record.proposal, Some(approved.clone()));
        assert_eq!(record.decided_by.as_deref(), Some("ann@host"));
        settle(&mut *store, &claim, State::Succeeded);
        assert_eq!(found(&mut *store, "k").proposal, Some(approved));
        // Too late: nothing is held any more.
        let decide = Change::Decide {
            proposal: Box::new(proposal()),
            events: vec![event(EventKind::Rejected, 6)],
        };
        change(&mut *store, "k", decide);
        assert_eq!(found(&mut *store, "k").state, State::Succeeded);
        assert!(!kinds(&mut *store, "k").contains(&EventKind::Rejected));
        // A record of its own shows nothing of it.
        let (claim, record) = claim_as(&mut *store, "k", new_claim(3, mint("new")));
        assert_eq!((record.proposal, record.decided_by), (None, None));
        settle(&mut *store, &claim, State::Failed);
    }
}

pub fn a_proposal_takes_the_place_of_a_failure(place: &dyn Place) {
    let mut store = place.open();
    let (first, before) = claim_as(&mut *store, "k", new_claim(1, mint("t")));
    settle(&mut *store, &first, State::Failed);
    let dirty = |n, token| {
        let mut new = new_proposal(n, token);
        new.record.dirty = true;
        new
    };
    let held = propose(&mut *store, "k", dirty(2, TokenChoice::Keep));
    assert_eq!(held.state, State::Held);
    assert_eq!(
        (&held.token, held.minted_by),
        (&before.token, before.minted_by)
    );
    assert_eq!((held.attempts, held.dirty), (1, true));
    assert_eq!((held.class, held.owner), (None, None));
    // Another command's attempts are not counted, but what they left is there.
    let other = propose(&mut *store, "k", dirty(3, mint("other")));
    assert_eq!((other.attempts, other.dirty), (0, true));
    assert_eq!(find(&mut *store, "k"), Some(other));
    let clean = propose(&mut *store, "k", new_proposal(4, TokenChoice::Keep));
    assert_eq!((clean.attempts, clean.dirty), (0, false));
    assert_eq!(find(&mut *store, "k"), Some(clean));
}
