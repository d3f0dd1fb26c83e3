//! Permits of a bulkhead that machines share.

use super::place::{PostgresPlace, direct};
use crate::sample::*;
use crate::servers::supervised::until;
use idem::domain::name::Nonce;
use idem::domain::outcome::State;
use idem::engine::store::{Permit, PermitWish, Store};
use idem::store::server::ServerStore;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

const PERMITS: u32 = 4;

fn wish(nonce: Nonce) -> PermitWish<'static> {
    PermitWish {
        bulkhead: "it's \"odd\" @",
        permits: PERMITS,
        auxiliary: false,
        nonce,
    }
}

fn takes(store: &mut dyn Store, wish: &PermitWish<'_>) -> bool {
    match store.permit(wish).unwrap() {
        Permit::Taken => true,
        Permit::NoneFree => false,
        Permit::OfThisMachine => panic!("it is no machine's"),
    }
}

fn short(place: &PostgresPlace, lease: u64) -> ServerStore {
    let mut short = place.server_place();
    short.lease = Duration::from_millis(lease);
    ServerStore::open(&short).unwrap()
}

#[test]
fn so_many_are_taken_at_once_and_no_more() {
    let Some(place) = direct() else { return };
    place.server_place();
    let clients = 12;
    let start = Barrier::new(usize::from(clients));
    let taken: Vec<u8> = thread::scope(|scope| {
        let clients: Vec<_> = (0..clients)
            .map(|n| {
                let (place, start) = (&place, &start);
                scope.spawn(move || {
                    let mut store = place.connect();
                    start.wait();
                    takes(&mut store, &wish(nonce(n))).then_some(n)
                })
            })
            .collect();
        let ended = clients.into_iter().map(|client| client.join().unwrap());
        ended.flatten().collect()
    });
    assert_eq!(taken.len(), 4, "{taken:?}");
    let mut store = place.connect();
    assert!(!takes(&mut store, &wish(nonce(99))));
    store.give_back_permit(&nonce(taken[0])).unwrap();
    assert_eq!(
        store
            .free_permits(wish(nonce(0)).bulkhead, PERMITS)
            .unwrap(),
        1
    );
    assert!(takes(&mut store, &wish(nonce(99))));
    assert!(!takes(&mut store, &wish(nonce(98))));
    // Another bulkhead is another matter.
    let other = PermitWish {
        bulkhead: "other",
        ..wish(nonce(98))
    };
    assert!(takes(&mut store, &other));
}

#[test]
fn a_permit_whose_holder_is_gone_runs_out() {
    let Some(place) = direct() else { return };
    let mut gone = short(&place, 50);
    let one = PermitWish {
        permits: 1,
        ..wish(nonce(1))
    };
    assert!(takes(&mut gone, &one));
    drop(gone);
    let mut store = place.connect();
    let next = PermitWish {
        nonce: nonce(2),
        ..one
    };
    until("it runs out", || takes(&mut store, &next));
    let third = PermitWish {
        nonce: nonce(3),
        ..one
    };
    assert!(!takes(&mut store, &third));
}

#[test]
fn the_end_of_a_claim_gives_its_permit_back() {
    let Some(place) = direct() else { return };
    let one = |n| PermitWish {
        permits: 1,
        ..wish(nonce(n))
    };
    let ends: [fn(&mut dyn Store); 5] = [
        |store| {
            let id = id_of(&found(store, "k"));
            settle(store, &id, State::Succeeded);
        },
        |store| drop(change(store, "k", owner_lost())),
        |store| drop(change(store, "k", resolution(7, State::Failed))),
        |store| drop(change(store, "k", forget())),
        |store| drop(claim(store, "k", 8)),
    ];
    for end in ends {
        let (mut store, mut other) = (place.connect(), place.connect());
        assert!(takes(&mut store, &one(1)));
        let id = claim(&mut store, "k", 1);
        store.step(&id, &step(None)).unwrap();
        assert!(!takes(&mut other, &one(2)));
        end(&mut store);
        assert!(takes(&mut other, &one(2)));
        other.give_back_permit(&nonce(2)).unwrap();
        change(&mut store, "k", forget());
    }
}

#[test]
fn auxiliary_calls_leave_room_for_others() {
    let Some(place) = direct() else { return };
    let mut store = place.connect();
    let auxiliary = |n| PermitWish {
        auxiliary: true,
        ..wish(nonce(n))
    };
    let taken = (0..8).filter(|n| takes(&mut store, &auxiliary(*n))).count();
    assert_eq!(taken, 2, "more than half must be free");
    assert!(takes(&mut store, &wish(nonce(9))));
}
