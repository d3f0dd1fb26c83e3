//! Records from elsewhere.

use crate::Place;
use crate::sample::*;
use idem::domain::name::Generation;
use idem::domain::outcome::State;
use idem::domain::record::Record;
use idem::domain::time::UnixMs;
use idem::engine::event::EventKind;
use idem::engine::store::{Filter, Import, Imported};

/// A settled record as another store would have it.
fn elsewhere(place: &dyn Place, key: &str) -> Record {
    let mut store = place.open();
    let id = claim(&mut *store, key, 8);
    settle(&mut *store, &id, State::Succeeded);
    let record = found(&mut *store, key);
    change(&mut *store, key, forget());
    record
}

fn import_of(record: &Record, overwrite: bool) -> Import {
    Import {
        record: Record {
            nonce: nonce(0x42),
            ..record.clone()
        },
        output: Some(inline(0, b"said")),
        overwrite,
        at: UnixMs(4_000),
        events: Vec::new(),
    }
}

pub fn an_import_gets_a_generation_and_its_output(place: &dyn Place) {
    let record = elsewhere(place, "k");
    let mut store = place.open();
    let import = import_of(&record, false);
    assert_eq!(store.import(&import).unwrap(), Imported::Added);
    let written = found(&mut *store, "k");
    assert!(written.generation > record.generation);
    assert_eq!(written.owner, None);
    let wanted = Record {
        generation: written.generation,
        minted_by: written.generation,
        nonce: nonce(0x42),
        output: written.output,
        owner: None,
        ..record
    };
    assert_eq!(written, wanted);
    let opened = store.open_output(&written.output.unwrap()).unwrap();
    assert_eq!(content(opened), Some(b"said".to_vec()));
    assert_eq!(kinds(&mut *store, "k").last(), Some(&EventKind::Imported));
}

pub fn a_record_that_is_there_stays(place: &dyn Place) {
    let record = elsewhere(place, "k");
    let mut store = place.open();
    let id = claim(&mut *store, "k", 1);
    for overwrite in [false, true] {
        let imported = store.import(&import_of(&record, overwrite)).unwrap();
        assert_eq!(imported, Imported::Kept, "it is running");
    }
    settle(&mut *store, &id, State::Failed);
    let before = found(&mut *store, "k");
    let kept = store.import(&import_of(&record, false)).unwrap();
    assert_eq!((kept, found(&mut *store, "k")), (Imported::Kept, before));
    let replaced = store.import(&import_of(&record, true)).unwrap();
    assert_eq!(replaced, Imported::Replaced);
    let written = found(&mut *store, "k");
    assert_eq!(written.state, State::Succeeded);
    assert!(written.generation > Generation(id.generation.0));
}

pub fn names_are_listed_as_records_are(place: &dyn Place) {
    let mut store = place.open();
    for (key, n) in [("a1", 1), ("b", 2), ("a2", 3)] {
        claim(&mut *store, key, n);
    }
    let filter = Filter {
        glob: Some("a*".to_owned()),
        ..Filter::default()
    };
    let names = store.names(&filter).unwrap();
    let records = store.list(&filter).unwrap();
    let listed: Vec<_> = records.into_iter().map(|record| record.name).collect();
    assert_eq!((names.len(), names), (2, listed));
}
