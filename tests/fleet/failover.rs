//! Standbys: what a claim is worth when its server is replaced by another.

use std::time::Instant;

use idem::store::postgres::Client;

use crate::env::upto;
use crate::servers::cluster::Cluster;
use crate::servers::cluster::Setup;
use crate::servers::supervised::LIMIT;
use crate::servers::tools;
use crate::world::World;

/// A server whose standbys can be as they are.
fn primary() -> Option<Cluster> {
    tools::present().then(|| Cluster::start(&Setup::default()))
}

fn rows(client: &mut Client, sql: &str) -> i64 {
    let rows = client.query(sql, &[], Instant::now() + LIMIT);
    rows.expect("rows")
        .only()
        .expect("one row")
        .get(0)
        .expect("a number")
}

/// Makes it wait for the standby of that name, or for none.
fn wait_for(cluster: &Cluster, name: &str) {
    let sql = format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'");
    cluster.batch("postgres", &sql);
    cluster.batch("postgres", "SELECT pg_reload_conf()");
    let mut client = cluster.client("postgres");
    upto("the setting is in force", || {
        let sql = format!(
            "SELECT count(*) FROM pg_settings WHERE name = 'synchronous_standby_names' AND setting = '{name}'"
        );
        rows(&mut client, &sql) == 1
    });
}

/// How many sessions wait for a standby.
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";

#[test]
fn a_claim_that_the_synchronous_standby_has_not_confirmed_is_none() {
    let Some(primary) = primary() else { return };
    let standby = primary.start_standby("second");
    let world = World::new(&primary);
    let host = world.host(&primary.url(&world.database));
    wait_for(&primary, "second");
    host.ran("before", "", "echo out").code(0).out("out\n");
    standby.stop();
    let waits = host.run("waits", "", "echo out").start();
    let cancelled = host.run("cancelled", "", "echo out").start();
    let mut client = primary.client("postgres");
    upto("both claims wait", || rows(&mut client, WAITING) == 2);
    // Somebody tires of it: the server calls that a success, with a warning.
    let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity \
        WHERE wait_event = 'SyncRep' AND query LIKE '%operation%'";
    assert_eq!(rows(&mut client, cancel), 2);
    cancelled.end().code(125).says("standby");
    waits.end().code(125).says("standby");
    // Nobody does: the call's own limit ends it, and leaves nothing waiting on the server.
    host.ran("limit", "", "echo out").code(125);
    upto("nothing waits", || rows(&mut client, WAITING) == 0);
    for key in ["waits", "cancelled", "limit"] {
        assert_eq!(world.runs(key), 0, "{key}");
        let state = host.state(key);
        assert!(
            ["failed", "none"].contains(&state.as_str()),
            "{key}: {state}"
        );
    }
    wait_for(&primary, "");
    for key in ["waits", "cancelled", "limit"] {
        host.ran(key, "", "echo out").code(0).out("out\n");
        assert_eq!(world.runs(key), 1, "{key}");
    }
}

/// The documented limit: a server that is replaced by one that was behind forgets its latest claims.
#[test]
fn an_asynchronous_standby_that_is_promoted_may_repeat_what_it_had_not_heard_of() {
    let Some(primary) = primary() else { return };
    let world = World::new(&primary);
    let standby = primary.start_standby("second");
    let host = world.host(&primary.url(&world.database));
    host.ran("heard", "", "echo out").code(0);
    let mut client = primary.client("postgres");
    upto("the standby has it", || {
        let sql =
            "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()";
        rows(&mut client, sql) == 1
    });
    // The link is cut: the standby hears of nothing that follows.
    standby.batch("postgres", "ALTER SYSTEM SET primary_conninfo = ''");
    standby.batch("postgres", "SELECT pg_reload_conf()");
    upto("the link is cut", || {
        rows(&mut client, "SELECT count(*) FROM pg_stat_replication") == 0
    });
    host.ran("late", "", "echo out").code(0);
    primary.stop();
    standby.promote();
    let after = world.host(&standby.url(&world.database));
    upto("it is the primary", || {
        after.idem("status x").end().code == 1
    });
    for key in ["heard", "late"] {
        let mut done = after.ran(key, "", "echo out");
        upto("it accepts writes", || {
            done = match done.code {
                125 => after.ran(key, "", "echo out"),
                _ => return true,
            };
            done.code != 125
        });
        done.code(0).out("out\n");
    }
    assert_eq!(world.runs("heard"), 1);
    assert_eq!(world.runs("late"), 2, "this is the limit");
}
