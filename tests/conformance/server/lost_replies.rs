//! A reply is lost, so that the client cannot know whether its statement took place.

use super::place::{PostgresPlace, direct, server_place, shared};
use super::proxy::{Lost, Proxy};
use crate::sample::*;
use idem::domain::outcome::{Class, State};
use idem::engine::event::EventKind;
use idem::engine::store::{
    Change, Claimed, Claiming, Fenced, GuardKind, Store, StoreError, StoreResult, TokenChoice,
};
use idem::store::server::{ServerPlace, ServerStore};
use serde_json::json;
use std::time::Duration;

/// A store behind a proxy of its own, and the place without it.
struct Behind {
    place: PostgresPlace,
    proxy: Proxy,
    way: ServerPlace,
}

fn behind() -> Option<Behind> {
    let cluster = shared()?;
    let place = direct()?;
    place.server_place();
    let proxy = Proxy::start(cluster.port());
    let url = format!(
        "postgres://idem@127.0.0.1:{}/postgres?schema={}",
        proxy.port(),
        place.schema()
    );
    let way = server_place(&url, &place.paths().db);
    Some(Behind { place, proxy, way })
}

impl Behind {
    fn connect(&self) -> ServerStore {
        ServerStore::open(&self.way).unwrap()
    }

    /// Loses something of the next statement that writes a transaction.
    fn lose(&self, lost: Lost) {
        let marker = format!("INTO \"{}\".event(at", self.place.schema());
        self.proxy.lose(&marker, lost);
    }
}

fn try_claim(store: &mut dyn Store, n: u8) -> (StoreResult<Claimed>, u32) {
    let mut looks = 0;
    let new = new_claim(n, mint("t"));
    let done = store.claim(&name("k"), &mut |found| {
        looks += 1;
        Ok(match found.record {
            Some(_) => Claiming::Leave,
            None => Claiming::Claim(Box::new(new.clone())),
        })
    });
    (done.map(|(claimed, _)| claimed), looks)
}

#[test]
fn a_claim_is_won_once() {
    for (lost, wanted_looks) in [(Lost::Reply, 1), (Lost::Request, 2)] {
        let Some(behind) = behind() else { return };
        let mut store = behind.connect();
        behind.lose(lost);
        let (claimed, looks) = try_claim(&mut store, 1);
        assert_eq!((claimed.unwrap(), looks), (Claimed::Won, wanted_looks));
        assert_eq!(behind.proxy.cuts(), 1);
        let mut other = behind.place.connect();
        assert_eq!(try_claim(&mut other, 2).0.unwrap(), Claimed::Left);
        assert_eq!(found(&mut other, "k").nonce, nonce(1));
        assert_eq!(kinds(&mut other, "k"), [EventKind::Claimed]);
        let id = id_of(&found(&mut other, "k"));
        assert_eq!(settle(&mut store, &id, State::Succeeded), Fenced::Done);
    }
}

#[test]
fn a_claim_that_nobody_confirms_is_none() {
    let Some(behind) = behind() else { return };
    let mut store = behind.connect();
    behind.lose(Lost::ReplyAndServer);
    let error = try_claim(&mut store, 1).0.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
    // It took place all the same: others take it for running until its lease has run out.
    let mut other = behind.place.connect();
    assert_eq!(try_claim(&mut other, 2).0.unwrap(), Claimed::Left);
    let lease = other
        .find(&name("k"))
        .unwrap()
        .unwrap()
        .owner
        .unwrap()
        .lease;
    assert!(lease.unwrap().left > Duration::ZERO);
}

#[test]
fn a_claim_that_was_decided_anew_and_then_took_place_is_taken_back() {
    let Some(behind) = behind() else { return };
    let mut store = behind.connect();
    behind.lose(Lost::ReplyUntilNext);
    // What the second decision has prepared knows another generation and token.
    let (claimed, looks) = try_claim(&mut store, 1);
    let error = claimed.unwrap_err();
    assert!(matches!(error, StoreError::Busy(_)), "{error}");
    assert!(error.to_string().contains("nothing was run"), "{error}");
    assert_eq!((looks, behind.proxy.cuts()), (2, 1));
    let record = found(&mut behind.place.connect(), "k");
    assert_eq!((record.state, record.nonce), (State::Failed, nonce(1)));
    assert_eq!(record.class, Some(Class::Safe));
}

#[test]
fn a_settle_takes_place_once() {
    for lost in [Lost::Reply, Lost::Request] {
        let Some(behind) = behind() else { return };
        let mut store = behind.connect();
        let id = claim(&mut store, "k", 1);
        let mut end = settlement(State::Succeeded);
        end.output = Some(inline(1, b"said"));
        behind.lose(lost);
        let count = &mut |guards: &mut dyn idem::engine::store::Guards| {
            let n = guards.guard(GuardKind::Counter, "n")?;
            let n = n.and_then(|n| n.as_i64()).unwrap_or(0) + 1;
            guards.set_guard(GuardKind::Counter, "n", Some(json!(n)))
        };
        assert_eq!(store.settle(&id, &end, count).unwrap(), Fenced::Done);
        assert_eq!(behind.proxy.cuts(), 1);
        let mut other = behind.place.connect();
        let record = found(&mut other, "k");
        assert_eq!(record.state, State::Succeeded);
        let output = other.open_output(&record.output.unwrap()).unwrap();
        assert_eq!(content(output), Some(b"said".to_vec()));
        assert_eq!(
            kinds(&mut other, "k"),
            [EventKind::Claimed, EventKind::Settled]
        );
        let counters = other.list_guards(GuardKind::Counter).unwrap();
        assert_eq!(counters, [("n".to_owned(), json!(1))]);
    }
}

#[test]
fn a_step_is_noted_once_though_the_lease_is_renewed_meanwhile() {
    for lost in [Lost::Reply, Lost::Request] {
        let Some(mut behind) = behind() else { return };
        // Renewed all the time.
        behind.way.lease = Duration::from_millis(30);
        let mut store = behind.connect();
        let id = claim(&mut store, "k", 1);
        let mut start = step(None);
        start.starts_attempt = true;
        start.events = vec![attempt_event(EventKind::AttemptStarted, 2)];
        behind.lose(lost);
        assert_eq!(store.step(&id, &start).unwrap(), Fenced::Done);
        // A step of which the record itself learns nothing.
        let mut note = step(None);
        note.events = vec![attempt_event(EventKind::AttemptEnded, 2)];
        behind.lose(lost);
        assert_eq!(store.step(&id, &note).unwrap(), Fenced::Done);
        assert_eq!(behind.proxy.cuts(), 2);
        let mut other = behind.place.connect();
        assert_eq!(found(&mut other, "k").attempts, 2);
        assert_eq!(
            kinds(&mut other, "k"),
            [
                EventKind::Claimed,
                EventKind::AttemptStarted,
                EventKind::AttemptEnded
            ]
        );
    }
}

#[test]
fn a_persons_change_takes_place_once() {
    let changes: [(fn() -> Change, EventKind); 2] = [
        (forget, EventKind::Forgotten),
        (|| resolution(7, State::Failed), EventKind::Resolved),
    ];
    for lost in [Lost::Reply, Lost::Request] {
        for (make, kind) in &changes {
            let Some(behind) = behind() else { return };
            let mut store = behind.connect();
            let (id, _) = claim_as(&mut store, "k", new_claim(1, TokenChoice::Mint("t".into())));
            settle(&mut store, &id, State::Unknown);
            behind.lose(lost);
            assert!(change(&mut store, "k", make()).is_some());
            assert_eq!(behind.proxy.cuts(), 1);
            let told = kinds(&mut behind.place.connect(), "k");
            assert_eq!(told, [EventKind::Claimed, EventKind::Settled, *kind]);
        }
    }
}
