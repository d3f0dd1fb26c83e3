//! The server goes away while a command runs.

use std::time::{Duration, Instant};

use crate::env::upto;
use crate::servers::cluster::Cluster;
use crate::servers::supervised;
use crate::world::{World, gate, kept, own_cluster, shared};

/// Ends all sessions of a database but its own.
fn end_sessions(cluster: &Cluster, database: &str) {
    cluster.batch(
        "postgres",
        &format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'"
        ),
    );
}

#[test]
fn a_result_is_recorded_over_a_new_connection() {
    let Some(cluster) = shared() else { return };
    let world = World::new(cluster);
    let url = cluster.url(&world.database);
    let host = world.host(&url);
    let run = host
        .run("k", "", &format!("{}; echo out", gate("go")))
        .start();
    upto("the command runs", || world.runs("k") == 1);
    end_sessions(cluster, &world.database);
    world.touch("go");
    run.end().code(0).out("out\n");
    world.host(&url).ran("k", "", "").code(0).out("out\n");
    assert_eq!(world.runs("k"), 1);
}

/// More than fits into the record.
const LONG: &str = "head -c 300000 /dev/zero | tr '\\0' x";

#[test]
fn results_wait_on_the_machine_while_the_server_is_away() {
    let Some(cluster) = own_cluster() else { return };
    let world = World::new(&cluster);
    let url = cluster.url(&world.database);
    let hosts = ["synced", "called", "long", "taken"].map(|key| (key, world.host(&url)));
    let runs = hosts.each_ref().map(|(key, host)| {
        let output = if *key == "long" { LONG } else { "echo out" };
        let script = format!("{}; {output}", gate("go"));
        host.run(key, "--deadline 20s --lease 1s", &script).start()
    });
    for (key, _) in &hosts {
        upto("the command runs", || world.runs(key) == 1);
    }
    cluster.kill9();
    world.touch("go");
    for (run, (key, host)) in runs.into_iter().zip(&hosts) {
        let done = run.end();
        done.code(0).says("only on this machine");
        assert_eq!(
            done.stdout.len(),
            if *key == "long" { 300_000 } else { 4 },
            "{key}"
        );
        let name = |path: &std::path::PathBuf| path.display().to_string().contains("-pending-");
        assert_eq!(kept(host).iter().filter(|path| name(path)).count(), 1);
        // While it is away nothing is guessed, and nothing runs.
        host.ran(key, "", "echo again").code(125);
    }
    cluster.start_again();
    let [(_, synced), (_, called), (_, long), (_, taken)] = &hosts;
    let elsewhere = world.host(&url);
    elsewhere
        .ran("synced", "--if-running refuse", "echo again")
        .code(122);
    synced.idem("sync").end().code(0);
    called.ran("called", "", "").code(0).out("out\n");
    long.idem("sync").end().code(0);
    elsewhere
        .ran("taken", "--if-unknown rerun", "echo other")
        .code(0)
        .out("other\n");
    let told = taken.idem("sync").end();
    told.code(0);
    assert!(told.out_text().contains("moved on"), "{told}");
    for (key, out) in [
        ("synced", "out\n"),
        ("called", "out\n"),
        ("taken", "other\n"),
    ] {
        elsewhere.ran(key, "", "").code(0).out(out);
    }
    assert_eq!(elsewhere.ran("long", "", "").code(0).stdout.len(), 300_000);
    let runs = ["synced", "called", "long", "taken"].map(|key| world.runs(key));
    assert_eq!(
        runs,
        [1, 1, 1, 2],
        "only what was said to be repeatable ran twice"
    );
    for (_, host) in &hosts {
        host.idem("sync").end().code(0).out("nothing waits\n");
        let files = kept(host);
        let left = |path: &&std::path::PathBuf| {
            let name = path.display().to_string();
            name.contains("-pending-") || name.contains("-out-")
        };
        assert_eq!(files.iter().find(left), None);
    }
}

/// The database is made anew while a command runs: nothing is there any more, and still nothing of that
/// call runs twice.
#[test]
fn a_server_that_comes_back_empty_takes_no_late_result() {
    let Some(cluster) = shared() else { return };
    let world = World::new(cluster);
    let url = cluster.url(&world.database);
    let host = world.host(&url);
    let script = format!("{}; exit 7", gate("go"));
    let options = "--retries 3 --retry-on any --backoff const:10ms";
    let run = host.run("k", options, &script).start();
    upto("the command runs", || world.runs("k") == 1);
    let database = &world.database;
    cluster.batch(
        "postgres",
        &format!("DROP DATABASE {database} WITH (FORCE)"),
    );
    cluster.batch("postgres", &format!("CREATE DATABASE {database}"));
    world.init(cluster);
    world.touch("go");
    let done = run.end();
    assert_ne!(done.code, 0, "{done}");
    assert_eq!(world.runs("k"), 1, "{done}");
    assert_eq!(host.state("k"), "none");
}

/// The way out of a call whose server is away is not blocked by the renewal of its lease.
#[test]
fn a_renewal_that_hangs_holds_nobody_up() {
    let Some(cluster) = shared() else { return };
    let world = World::new(cluster);
    let proxy = crate::proxy::Proxy::start(cluster.port());
    let host = world.host(&proxy.url(&world.database));
    let script = format!("{}; echo out", gate("go"));
    let run = host.run("k", "--lease 1s", &script).start();
    upto("the command runs", || world.runs("k") == 1);
    // The keeper's own connection says nothing while the command runs: the next message is a renewal's.
    proxy.arm(0, crate::proxy::At::Request, crate::proxy::Act::Hang);
    upto("a renewal hangs", || proxy.has_acted());
    let keeper = host_keeper(cluster, &world);
    world.touch("go");
    let asked = Instant::now();
    run.end().code(0).out("out\n");
    upto("the keeper has left", || !crate::procs::alive(keeper));
    assert!(
        asked.elapsed() < supervised::LIMIT / 4,
        "{:?}",
        asked.elapsed()
    );
    proxy.release();
    assert_eq!(world.runs("k"), 1);
}

fn host_keeper(cluster: &Cluster, world: &World) -> i32 {
    world.host(&cluster.url(&world.database)).keeper("k")
}

#[test]
fn nothing_runs_while_the_server_cannot_be_reached() {
    let Some(cluster) = shared() else { return };
    let world = World::new(cluster);
    let nobody = supervised::free_port();
    let host = world.host(&format!(
        "postgres://idem@127.0.0.1:{nobody}/x?sslmode=disable"
    ));
    host.ran("k", "", "")
        .code(125)
        .within(Duration::from_secs(9));
    assert_eq!(world.runs("k"), 0);
}
