//! Lists and their filters.

use crate::Place;
use crate::sample::*;
use idem::domain::name::{Key, OpName, Scope};
use idem::domain::outcome::State;
use idem::domain::time::UnixMs;
use idem::engine::store::{Claiming, Filter, Store};

fn add(store: &mut dyn Store, scope: &str, key: &str, at: i64) {
    let name = OpName {
        scope: Scope::new(scope).unwrap(),
        key: Key::new(key).unwrap(),
    };
    let mut new = new_claim(1, mint("t"));
    new.record.at = stamp(at);
    store
        .claim(&name, &mut |_| Ok(Claiming::Claim(Box::new(new.clone()))))
        .unwrap();
}

fn keys(store: &mut dyn Store, filter: Filter) -> Vec<String> {
    let records = store.list(&filter).unwrap();
    let key = |name: OpName| name.key.as_str().to_owned();
    records.into_iter().map(|record| key(record.name)).collect()
}

pub fn newest_first_and_bounded(place: &dyn Place) {
    let mut store = place.open();
    assert_eq!(keys(&mut *store, Filter::default()), Vec::<String>::new());
    for (key, at) in [("b", 20), ("a", 10), ("d", 40), ("c", 30)] {
        add(&mut *store, "", key, at);
    }
    assert_eq!(keys(&mut *store, Filter::default()), ["d", "c", "b", "a"]);
    // Settling is a new state, and the order is by its beginning.
    let claim = id_of(&found(&mut *store, "a"));
    settle(&mut *store, &claim, State::Succeeded);
    let two = Filter {
        limit: Some(2),
        ..Filter::default()
    };
    assert_eq!(keys(&mut *store, two), ["a", "d"]);
    let all = store.list(&Filter::default()).unwrap();
    assert_eq!(all[0], found(&mut *store, "a"));
}

pub fn every_filter_filters(place: &dyn Place) {
    let mut store = place.open();
    for (at, (scope, key)) in [
        ("", "T/s1"),
        ("", "T/s2"),
        ("", "Tx/s1"),
        ("", "t/s1"),
        ("", "%"),
        ("", "T_s"),
        ("prod", "T/s1"),
        ("", "*"),
    ]
    .into_iter()
    .enumerate()
    {
        add(&mut *store, scope, key, i64::try_from(at).unwrap());
    }
    let claim = id_of(&found(&mut *store, "T/s2"));
    settle(&mut *store, &claim, State::Failed);
    let globbed = |glob: &str| Filter {
        glob: Some(glob.to_owned()),
        ..Filter::default()
    };
    let mut check = |filter: Filter, mut wanted: Vec<&str>| {
        let mut got = keys(&mut *store, filter.clone());
        got.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(got, wanted, "{filter:?}");
    };
    check(globbed("T/*"), vec!["T/s1", "T/s2", "T/s1"]);
    check(globbed("[Tt]/s1"), vec!["T/s1", "t/s1", "T/s1"]);
    check(globbed("[!T]*"), vec!["t/s1", "%", "*"]);
    check(globbed("%"), vec!["%"]);
    check(globbed("T_s"), vec!["T_s"]);
    check(globbed("[*]"), vec!["*"]);
    check(globbed("?"), vec!["%", "*"]);
    let task = |task: &str| Filter {
        task: Some(task.to_owned()),
        ..Filter::default()
    };
    check(task("T"), vec!["T/s1", "T/s2", "T/s1"]);
    check(task("%"), vec![]);
    let scoped = Filter {
        scope: Some(Scope::new("prod").unwrap()),
        ..Filter::default()
    };
    check(scoped, vec!["T/s1"]);
    let unscoped = Filter {
        scope: Some(Scope::default()),
        ..task("T")
    };
    check(unscoped, vec!["T/s1", "T/s2"]);
    let states = |states: &[State]| Filter {
        states: states.to_vec(),
        ..Filter::default()
    };
    check(states(&[State::Failed]), vec!["T/s2"]);
    check(states(&[State::Failed, State::Held]), vec!["T/s2"]);
    check(states(&[State::Held]), vec![]);
    let since = Filter {
        since: Some(UnixMs(6)),
        ..Filter::default()
    };
    check(since, vec!["T/s2", "T/s1", "*"]);
    let bounded = Filter {
        limit: Some(1),
        ..globbed("T/*")
    };
    check(bounded, vec!["T/s2"]);
}
