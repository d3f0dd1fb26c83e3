//! Claims by clients that see nothing of each other but their leases.

use super::place::{LEASE, PostgresPlace, direct, server_place};
use crate::sample::*;
use crate::servers::cluster::{Cluster, Setup};
use crate::servers::supervised::until;
use crate::servers::tools;
use idem::domain::name::Nonce;
use idem::domain::outcome::State;
use idem::domain::record::Record;
use idem::domain::time::{Stamp, Ttl};
use idem::engine::event::EventKind;
use idem::engine::store::{
    Claimed, Claiming, Fenced, Filter, GuardKind, NewClaim, PermitWish, Store,
};
use idem::store::server::ServerStore;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

const CLIENTS: usize = 16;
const KEYS: usize = 300;

fn fresh_claim() -> NewClaim {
    let nonce = Nonce(rand::random());
    let mut new = new_claim(1, mint("t"));
    new.record.nonce = nonce;
    new.owner.nonce = nonce;
    new
}

fn lease_left(record: &Record) -> Option<Duration> {
    record.owner.as_ref()?.lease.map(|lease| lease.left)
}

/// Lets the lease of every claim run out.
fn expire_leases(place: &PostgresPlace) {
    let sql = "WITH u AS (UPDATE @operation SET lease_until = clock_timestamp() - interval '1 s' \
        WHERE state = 'running' RETURNING 1) SELECT count(*) FROM u";
    place.ask(sql, &[]);
}

/// A third of the keys has expired, a third is held by a lease that has run out, a third is new.
fn prepare(place: &PostgresPlace) {
    let mut store = place.connect();
    for n in 0..KEYS {
        let key = format!("k{n}");
        let mut new = fresh_claim();
        new.record.ttl = Ttl::For(Duration::ZERO);
        match n % 3 {
            0 => {
                let (id, _) = claim_as(&mut store, &key, new);
                settle(&mut store, &id, State::Succeeded);
            }
            1 => drop(claim_as(&mut store, &key, new)),
            _ => {}
        }
    }
    drop(store);
    expire_leases(place);
}

/// What a caller may do that declared every repetition safe.
fn take_what_is_free(store: &mut dyn Store, key: &str, now: &Stamp) -> Option<Nonce> {
    let new = fresh_claim();
    let (claimed, record) = store
        .claim(&name(key), &mut |found| {
            let free = found.record.is_none_or(|record| match record.state {
                State::Running => lease_left(record) == Some(Duration::ZERO),
                _ => record.expired(now),
            });
            Ok(match free {
                true => Claiming::Claim(Box::new(new.clone())),
                false => Claiming::Leave,
            })
        })
        .unwrap();
    let won = claimed == Claimed::Won;
    assert_eq!(won, record.unwrap().nonce == new.record.nonce);
    won.then_some(new.record.nonce)
}

#[test]
fn one_of_sixteen_clients_wins_each_of_300_keys() {
    let Some(place) = direct() else { return };
    prepare(&place);
    let now = stamp(i64::MAX / 2);
    let start = Barrier::new(CLIENTS);
    let client = || {
        let mut store = place.connect();
        start.wait();
        let take = |n| {
            let key = format!("k{n}");
            take_what_is_free(&mut store, &key, &now).map(|nonce| (key, nonce))
        };
        (0..KEYS).filter_map(take).collect::<Vec<_>>()
    };
    let won: Vec<(String, Nonce)> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        let ended = clients.into_iter().map(|client| client.join().unwrap());
        ended.flatten().collect()
    });
    assert_eq!(won.len(), KEYS);
    let winners: BTreeMap<String, Nonce> = won.into_iter().collect();
    assert_eq!(winners.len(), KEYS);
    let mut store = place.connect();
    for (key, nonce) in winners {
        assert_eq!(found(&mut store, &key).nonce, nonce, "{key}");
    }
}

#[test]
fn a_role_with_the_strictest_isolation_gets_no_errors() {
    let Some(place) = direct() else { return };
    place.server_place();
    let url = format!(
        "{}&options=-c%20default_transaction_isolation%3Dserializable",
        place.url()
    );
    let strict = server_place(&url, &place.paths().db);
    let now = stamp(5_000);
    let client = |n: usize| {
        let mut store = ServerStore::open(&strict).unwrap();
        let mut won = 0;
        for key in 0..20 {
            won += usize::from(take_what_is_free(&mut store, &format!("k{key}"), &now).is_some());
            store
                .with_guards(&mut |guards| {
                    let count = guards.guard(GuardKind::Counter, "n")?;
                    let next = count.and_then(|n| n.as_i64()).unwrap_or(0) + 1;
                    guards.set_guard(GuardKind::Counter, "n", Some(json!(next)))
                })
                .unwrap();
            store.names(&Filter::default()).unwrap();
            store.events(None, 0, 50).unwrap();
            let bulkhead = PermitWish {
                bulkhead: "b",
                permits: 2,
                auxiliary: false,
                nonce: nonce(u8::try_from(n).unwrap()),
            };
            store.permit(&bulkhead).unwrap();
        }
        won
    };
    let won: usize = thread::scope(|scope| {
        let client = &client;
        let clients: Vec<_> = (0..8).map(|n| scope.spawn(move || client(n))).collect();
        clients.into_iter().map(|c| c.join().unwrap()).sum()
    });
    assert_eq!(won, 20);
    let counters = place.connect().list_guards(GuardKind::Counter).unwrap();
    assert_eq!(counters, [("n".to_owned(), json!(160))]);
}

#[test]
fn a_lease_is_counted_by_the_server_and_ends_at_nothing() {
    let Some(place) = direct() else { return };
    let mut store = place.connect();
    claim(&mut store, "k", 1);
    let look = |store: &mut ServerStore| lease_left(&store.find(&name("k")).unwrap().unwrap());
    let left = look(&mut store).unwrap();
    assert!(left > Duration::ZERO && left <= LEASE, "{left:?}");
    expire_leases(&place);
    assert_eq!(look(&mut store), Some(Duration::ZERO));
    // And by itself, when nobody renews it any more.
    let mut short = place.server_place();
    short.lease = Duration::from_millis(50);
    let mut other = ServerStore::open(&short).unwrap();
    claim(&mut other, "k", 2);
    drop(other);
    until("the lease runs out", || {
        look(&mut store) == Some(Duration::ZERO)
    });
    // A settled record has none.
    let id = claim(&mut store, "k", 3);
    settle(&mut store, &id, State::Succeeded);
    assert_eq!(look(&mut store), None);
}

#[test]
fn the_old_owner_is_fenced_off_after_a_takeover() {
    let Some(place) = direct() else { return };
    let (mut old, mut new) = (place.connect(), place.connect());
    let first = claim(&mut old, "k", 1);
    expire_leases(&place);
    let now = stamp(5_000);
    assert!(take_what_is_free(&mut new, "k", &now).is_some());
    assert!(
        take_what_is_free(&mut old, "k", &now).is_none(),
        "it is alive again"
    );
    let running = found(&mut new, "k");
    let mut start = step(None);
    start.starts_attempt = true;
    assert_eq!(old.step(&first, &start).unwrap(), Fenced::Superseded);
    assert_eq!(
        settle(&mut old, &first, State::Succeeded),
        Fenced::Superseded
    );
    assert_eq!(found(&mut new, "k"), running);
    assert_eq!(
        kinds(&mut new, "k"),
        [
            EventKind::Claimed,
            EventKind::Claimed,
            EventKind::Superseded
        ]
    );
    let second = id_of(&running);
    assert_eq!(settle(&mut new, &second, State::Succeeded), Fenced::Done);
}

/// A store whose sessions bear a name of their own, with a short lease.
fn beating(place: &PostgresPlace, called: &str) -> ServerStore {
    place.server_place();
    let url = format!("{}&application_name={called}", place.url());
    let mut beating = server_place(&url, &place.paths().db);
    beating.lease = Duration::from_millis(600);
    ServerStore::open(&beating).unwrap()
}

fn sessions(place: &PostgresPlace, called: &str) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    place.ask(sql, &[called.into()])[0]
}

/// The record's version, and when its lease ends, in microseconds.
fn row(place: &PostgresPlace) -> (i64, i64) {
    let until = "SELECT (extract(epoch FROM lease_until) * 1000000)::bigint FROM @operation";
    (
        place.ask("SELECT version FROM @operation", &[])[0],
        place.ask(until, &[])[0],
    )
}

#[test]
fn beats_prolong_a_lease_until_the_claim_is_anothers() {
    let Some(place) = direct() else { return };
    let called = format!("beats_{}", place.schema());
    let mut old = beating(&place, &called);
    claim(&mut old, "k", 1);
    let (_, claimed_until) = row(&place);
    until("two beats", || {
        row(&place).1 > claimed_until + 400_000 && sessions(&place, &called) == 2
    });
    let mut new = place.connect();
    claim(&mut new, "k", 2);
    let taken = row(&place);
    // The thread that beats ends when it learns that the claim is another's, or it has ended already.
    until("the old claim's beats end", || {
        sessions(&place, &called) == 1
    });
    assert_eq!(row(&place), taken);
    drop(old);
    assert_eq!(found(&mut new, "k").nonce, nonce(2));
}

#[test]
fn a_takeover_loses_against_a_beat_that_came_in_between() {
    let Some(place) = direct() else { return };
    let mut alive = beating(&place, "between");
    claim(&mut alive, "k", 1);
    let mut other = place.connect();
    let mut looks = 0;
    let new = fresh_claim();
    let (claimed, record) = other
        .claim(&name("k"), &mut |found| {
            looks += 1;
            if looks == 1 {
                // What was read here is out of date once the keeper has beaten again.
                let read = row(&place);
                until("a beat", || row(&place) != read);
                return Ok(Claiming::Claim(Box::new(new.clone())));
            }
            assert_eq!(found.record.unwrap().nonce, nonce(1));
            Ok(Claiming::Leave)
        })
        .unwrap();
    assert_eq!((claimed, looks), (Claimed::Left, 2));
    assert_eq!(record.unwrap().nonce, nonce(1));
}

#[test]
fn a_replay_writes_nothing() {
    if !tools::present() {
        return;
    }
    // Of its own, so that nobody else writes to its log.
    let cluster = Cluster::start(&Setup {
        conf: &["autovacuum = off"],
        ..Setup::default()
    });
    let place = PostgresPlace::new(&cluster.url("postgres"));
    let mut store = place.connect();
    let id = claim(&mut store, "k", 1);
    let mut end = settlement(State::Succeeded);
    end.output = Some(inline(1, b"said"));
    settle_as(&mut store, &id, &end);
    drop(store);
    let replay = || {
        let mut store = place.connect();
        let record = found(&mut store, "k");
        let output = store.open_output(&record.output.unwrap()).unwrap();
        assert_eq!(content(output), Some(b"said".to_vec()));
    };
    replay();
    let position = || place.ask("SELECT (pg_current_wal_lsn() - '0/0')::bigint", &[])[0];
    // The server itself notes something now and then: what counts is that it goes without a byte.
    until("replays without a byte of the log", || {
        let before = position();
        (0..3).for_each(|_| replay());
        position() == before
    });
}
