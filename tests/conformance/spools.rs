//! Spool files of a store that keeps outputs in them.

use crate::Place;
use crate::outputs::{opened, settle_with, spooled};
use crate::sample::*;
use idem::domain::outcome::State;
use idem::engine::store::OutputBody;
use std::fs;

pub fn a_missing_spool_file_is_nothing(place: &dyn Place) {
    let mut store = place.open();
    let claim = claim(&mut *store, "k", 1);
    let path = spooled(place, &nonce(1), 1, b"x");
    let output = settle_with(&mut *store, &claim, OutputBody::Spooled(path.clone()));
    fs::remove_file(&path).unwrap();
    assert_eq!(opened(&mut *store, &output), None);
    // Whatever else stands at its name is not read.
    std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
    assert!(store.open_output(&output).is_err());
}

pub fn another_claims_spool_file_is_refused(place: &dyn Place) {
    let mut store = place.open();
    let claim = claim(&mut *store, "k", 1);
    let path = spooled(place, &nonce(2), 1, b"x");
    let mut end = settlement(State::Succeeded);
    end.output = Some(output(1, OutputBody::Spooled(path)));
    assert!(store.settle(&claim, &end, &mut |_| Ok(())).is_err());
    assert_eq!(found(&mut *store, "k").state, State::Running);
}
