//! A result that waits on this machine for its server.

use super::place::direct;
use crate::outputs::{opened, spooled};
use crate::sample::*;
use idem::domain::outcome::State;
use idem::engine::store::{Fenced, OutputBody, Store};
use idem::store::location::Delivered;

#[test]
fn an_output_waits_with_its_result_until_the_server_has_both() {
    let Some(place) = direct() else { return };
    let mut store = place.connect();
    let id = claim(&mut store, "k", 1);
    let path = spooled(&place, &nonce(1), 1, b"said");
    let mut end = settlement(State::Succeeded);
    end.output = Some(output(1, OutputBody::Spooled(path.clone())));
    // The server takes the output, and then not what names it.
    place.ask(
        "ALTER TABLE @event ADD CONSTRAINT shut CHECK (kind <> 'settled')",
        &[],
    );
    let settled = store.settle(&id, &end, &mut |_| Ok(())).unwrap();
    assert!(matches!(settled, Fenced::Deferred { .. }), "{settled:?}");
    let mut next = place.connect();
    for _ in 0..2 {
        let delivered = next.deliver().unwrap();
        assert!(
            matches!(&delivered[..], [one] if matches!(one.fate, Delivered::NotYet(_))),
            "{delivered:?}"
        );
        assert!(path.exists());
    }
    place.ask("ALTER TABLE @event DROP CONSTRAINT shut", &[]);
    let delivered = next.deliver().unwrap();
    assert!(
        matches!(&delivered[..], [one] if matches!(one.fate, Delivered::Now)),
        "{delivered:?}"
    );
    let record = found(&mut next, "k");
    assert_eq!(record.state, State::Succeeded);
    let output = record.output.unwrap();
    assert_eq!(opened(&mut next, &output), Some(b"said".to_vec()));
    assert!(!output.lost && !path.exists());
}
