//! Something goes wrong at each message of a run. The messages are counted first, and then each is a case
//! of its own, before it reaches the server and before its answer reaches the client.

use std::time::{Duration, Instant};

use crate::command::{Done, Running};
use crate::env::upto;
use crate::proxy::{Act, At, Proxy};
use crate::servers::cluster::Cluster;
use crate::world::{Host, World, at_once, can_hide, gate, own_cluster, shared};

/// Cases at once that are busy.
const WORKERS: usize = 6;

/// One disturbed run.
struct Case {
    key: String,
    host: Host,
    proxy: Proxy,
}

impl Case {
    fn run(&self, options: &str) -> Done {
        self.host.ran(&self.key, options, "echo out")
    }
}

/// A case for each message and each side of it.
fn cases(cluster: &Cluster, world: &World, act: Act, options: &str) -> Vec<Case> {
    let case = |key: String| {
        let proxy = Proxy::start(cluster.port());
        let host = world.host(&proxy.url(&world.database));
        Case { key, host, proxy }
    };
    let counted = case("counted".to_owned());
    counted.run(options).code(0);
    let messages = counted.proxy.seen();
    assert!(messages >= 8, "{messages} messages");
    let sides = |message| [At::Request, At::Reply].map(|at| (message, at));
    let points = (0..messages).flat_map(sides);
    let armed = |(message, at)| {
        let case = case(format!("{act:?}-{message}-{at:?}"));
        case.proxy.arm(message, at, act);
        case
    };
    points.map(armed).collect()
}

/// A run that was disturbed, and the same once more: one line, whatever was told.
fn check(world: &World, case: &Case, first: &Done, options: &str) {
    let key = &case.key;
    let ran = world.runs(key);
    match first.code {
        0 => assert_eq!(ran, 1, "{key}: {first}"),
        125 => assert_eq!(ran, 0, "{key}: {first}"),
        _ => panic!("{key}: {first}"),
    }
    case.proxy.release();
    let again = case.run(options);
    assert_eq!(again.code, 0, "{key}: {first}\nthen {again}");
    again.out("out\n");
    assert_eq!(world.runs(key), 1, "{key}: {first}\nthen {again}");
}

fn disturb(act: Act, options: &str, at_a_time: usize) {
    let Some(cluster) = shared() else { return };
    let world = World::new(cluster);
    let mut cases = cases(cluster, &world, act, options);
    while !cases.is_empty() {
        let some = cases.split_off(cases.len().saturating_sub(at_a_time));
        at_once(some, |case| {
            let first = case.run(options);
            check(&world, &case, &first, options);
        });
    }
}

#[test]
fn a_connection_is_cut_at_every_message() {
    disturb(Act::Cut, "", WORKERS);
}

/// Nothing tells of it: idem's own limits must. All hang at once, since each takes that long.
#[test]
fn a_connection_goes_dead_at_every_message() {
    disturb(Act::Hang, "", usize::MAX);
}

/// The postmaster and all its children, while a run waits at each of its messages.
#[test]
fn the_server_is_killed_at_every_message() {
    kill_server(false, "");
}

/// The same, and it comes back only when all have given it up.
#[test]
fn the_server_is_killed_at_every_message_and_stays_away() {
    kill_server(true, "--deadline 20s");
}

fn kill_server(stays_away: bool, options: &str) {
    let Some(cluster) = own_cluster() else { return };
    let world = World::new(&cluster);
    let cases = cases(&cluster, &world, Act::Hang, options);
    let inside = world.host(&cluster.url(&world.database));
    let during = |key: &str| {
        inside.run(
            key,
            "",
            &format!("{}; echo out", gate(&format!("{key}.go"))),
        )
    };
    // The command runs when the server dies, and ends before it is back or afterwards.
    let running = ["ends-before", "ends-after"].map(|key| during(key).start());
    let first: Vec<Running> = cases
        .iter()
        .map(|case| case.host.run(&case.key, options, "echo out").start())
        .collect();
    for (case, run) in cases.iter().zip(&first) {
        upto(&format!("{} waits or has ended", case.key), || {
            case.proxy.has_acted() || crate::procs::state(run.pid()).is_none_or(|s| s == 'Z')
        });
    }
    upto("both commands run", || {
        ["ends-before", "ends-after"].map(|key| world.runs(key)) == [1, 1]
    });
    cluster.kill9();
    world.touch("ends-before.go");
    let release = || cases.iter().for_each(|case| case.proxy.release());
    let end = || first.into_iter().map(Running::end).collect::<Vec<_>>();
    let ends = match stays_away {
        true => {
            release();
            let ends = end();
            cluster.start_again();
            ends
        }
        false => {
            cluster.start_again();
            release();
            end()
        }
    };
    world.touch("ends-after.go");
    for (case, first) in cases.iter().zip(ends) {
        check(&world, case, &first, options);
    }
    for (run, key) in running.into_iter().zip(["ends-before", "ends-after"]) {
        run.end().code(0).out("out\n");
        inside.ran(key, "", "echo out").code(0).out("out\n");
        assert_eq!(world.runs(key), 1);
    }
}

/// A run is held at each of its messages for longer than its lease, and another host takes over whatever is
/// unknown by then. Whoever comes second must not start.
#[test]
fn a_run_that_is_held_up_starts_nothing_under_a_claim_that_is_not_its_own_any_more() {
    let Some(cluster) = shared() else { return };
    if !can_hide() {
        return;
    }
    let world = World::new(cluster);
    let cases = cases(cluster, &world, Act::Hold, "--lease 1s");
    at_once(cases, |case| {
        let other = world.hidden_host(&cluster.url(&world.database));
        let run = case.host.run(&case.key, "--lease 1s", "echo out").start();
        upto("it is held", || {
            case.proxy.has_acted() || crate::procs::state(run.pid()).is_none_or(|s| s == 'Z')
        });
        // What has run already is not to be repeated: only its lease, kept up meanwhile, stands before it.
        let options = match world.runs(&case.key) {
            0 => "--if-running refuse --if-unknown rerun",
            _ => "--if-running refuse",
        };
        let taken = || other.ran(&case.key, options, "echo out");
        let end = Instant::now() + Duration::from_secs(3);
        while taken().code == 120 && Instant::now() < end {}
        case.proxy.release();
        let first = run.end();
        let key = &case.key;
        assert_eq!(world.runs(key), 1, "{key}: {first}");
        other.ran(key, "", "echo out").code(0).out("out\n");
        assert_eq!(world.runs(key), 1, "{key}: {first}");
    });
}
