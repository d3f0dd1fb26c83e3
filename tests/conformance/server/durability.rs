//! What a crash of the server leaves.

use super::place::PostgresPlace;
use crate::sample::*;
use crate::servers::cluster::{Cluster, Setup};
use crate::servers::tools;
use idem::domain::outcome::State;

const CLAIMS: usize = 50;

#[test]
fn a_crash_takes_no_claim_though_the_role_does_not_wait_for_the_disk() {
    if !tools::present() {
        return;
    }
    let setup = Setup {
        // What is not waited for stays in memory for long.
        conf: &["wal_writer_delay = 10s"],
        ..Setup::default()
    };
    let cluster = Cluster::start(&setup);
    let place = PostgresPlace::new(&cluster.url("postgres"));
    place.server_place();
    cluster.batch("postgres", "ALTER ROLE idem SET synchronous_commit = off");
    let sql = "SELECT (current_setting('synchronous_commit') = 'off')::int::bigint";
    assert_eq!(place.ask(sql, &[]), [1]);
    let mut store = place.connect();
    let key = |n: usize| format!("k{n}");
    let settled = claim(&mut store, "settled", 1);
    settle(&mut store, &settled, State::Succeeded);
    for n in 0..CLAIMS {
        claim(&mut store, &key(n), 1);
    }
    cluster.kill9();
    cluster.start_again();
    // The same store goes on: its connection is made anew.
    let kept = |n: &usize| find(&mut store, &key(*n)).is_some();
    assert_eq!((0..CLAIMS).filter(kept).count(), CLAIMS);
    assert_eq!(found(&mut store, "settled").state, State::Succeeded);
}
