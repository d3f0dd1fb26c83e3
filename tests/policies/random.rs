//! Random choices that a failure can be repeated from, and the store from outside.

use idem::engine::store::{GuardKind, Store};
use idem::store::sqlite::SqliteStore;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::Value;

use crate::env::TestEnv;

/// A generator, whose seed is printed for a failing test. `IDEM_TEST_SEED` repeats one.
pub fn seeded() -> StdRng {
    let given = std::env::var("IDEM_TEST_SEED").ok();
    let seed = given.map_or_else(rand::random, |text| text.parse().expect("a number"));
    eprintln!("IDEM_TEST_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

/// Changes the stored state of a guard.
pub fn edit(t: &TestEnv, kind: GuardKind, name: &str, change: impl Fn(&mut Value)) {
    let mut store = SqliteStore::open_write(&t.store()).expect("the store");
    store
        .with_guards(&mut |guards| {
            let mut state = guards.guard(kind, name)?.expect("the guard");
            change(&mut state);
            guards.set_guard(kind, name, Some(state))
        })
        .expect("the change");
}
