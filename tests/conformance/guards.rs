//! Named guards.

use crate::Place;
use crate::sample::*;
use idem::engine::store::{Claiming, GuardKind, Guards, Store, StoreError};
use serde_json::{Value, json};

fn set(store: &mut dyn Store, kind: GuardKind, name: &str, state: Option<Value>) {
    store
        .with_guards(&mut |guards| guards.set_guard(kind, name, state.clone()))
        .unwrap();
}

pub fn guards_are_kept_by_kind_and_name(place: &dyn Place) {
    let mut store = place.open();
    let kinds = [
        GuardKind::Breaker,
        GuardKind::Budget,
        GuardKind::Task,
        GuardKind::Batch,
        GuardKind::Counter,
    ];
    for kind in kinds {
        set(&mut *store, kind, "b", Some(json!({"kind": kind.word()})));
        set(&mut *store, kind, "a", Some(json!([1, 2.5, null, "é"])));
        set(&mut *store, kind, "c", Some(json!(0)));
    }
    for kind in kinds {
        set(&mut *store, kind, "a", Some(json!(7)));
        set(&mut *store, kind, "c", None);
        set(&mut *store, kind, "never there", None);
        let wanted = [
            ("a".to_owned(), json!(7)),
            ("b".to_owned(), json!({"kind": kind.word()})),
        ];
        assert_eq!(place.open().list_guards(kind).unwrap(), wanted);
    }
    // A store's own counters are not among them.
    claim(&mut *store, "k", 1);
    assert_eq!(store.list_guards(GuardKind::Counter).unwrap().len(), 2);
}

fn count(guards: &mut dyn Guards) -> Result<i64, StoreError> {
    let found = guards.guard(GuardKind::Counter, "n")?;
    let n = found.and_then(|n| n.as_i64()).unwrap_or(0) + 1;
    guards.set_guard(GuardKind::Counter, "n", Some(json!(n)))?;
    Ok(n)
}

pub fn a_failing_body_undoes_its_guards(place: &dyn Place) {
    let mut store = place.open();
    for wanted in 1..4 {
        let failed = store.with_guards(&mut |guards| {
            count(guards)?;
            // What this transaction wrote, it sees.
            assert_eq!(guards.guard(GuardKind::Counter, "n")?, Some(json!(wanted)));
            Err(StoreError::Other("no".to_owned()))
        });
        assert!(failed.is_err());
        let mut n = 0;
        store
            .with_guards(&mut |guards| {
                n = count(guards)?;
                Ok(())
            })
            .unwrap();
        assert_eq!(n, wanted);
    }
}

pub fn guards_and_claim_are_one_transaction(place: &dyn Place) {
    let mut store = place.open();
    for n in 1..4 {
        store
            .claim(&name("k"), &mut |found| {
                count(found.guards)?;
                Ok(Claiming::Claim(Box::new(new_claim(n, mint("t")))))
            })
            .unwrap();
    }
    let counters = store.list_guards(GuardKind::Counter).unwrap();
    assert_eq!(counters, [("n".to_owned(), json!(3))]);
}
