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

/// What is run, and how often its command runs until it has succeeded.
#[derive(Clone, Copy)]
struct Scenario {
    options: &'static str,
    script: &'static str,
    runs: usize,
}

const PLAIN: Scenario = Scenario {
    options: "",
    script: "echo out",
    runs: 1,
};

/// Its first attempt fails, in a way that was said to be repeatable.
const RETRIED: Scenario = Scenario {
    options: "--retries 1 --retry-on any --backoff const:10ms",
    script: "test $(wc -l <\"$LOG/$KEY\") -ge 2 || exit 7; echo out",
    runs: 2,
};

/// One disturbed run.
struct Case {
    key: String,
    host: Host,
    proxy: Proxy,
    scenario: Scenario,
}

impl Case {
    fn start(&self) -> Running {
        let Scenario {
            options, script, ..
        } = self.scenario;
        self.host.run(&self.key, options, script).start()
    }

    fn run(&self) -> Done {
        self.start().end()
    }
}

/// Before a message reaches the server, and before its answer reaches the client.
const SIDES: &[At] = &[At::Request, At::Reply];

/// A case for each message and each side of it.
fn cases(
    cluster: &Cluster,
    world: &World,
    act: Act,
    sides: &[At],
    scenario: Scenario,
) -> Vec<Case> {
    let case = |key: String| {
        let proxy = Proxy::start(cluster.port());
        let host = world.host(&proxy.url(&world.database));
        Case {
            key,
            host,
            proxy,
            scenario,
        }
    };
    let counted = case("counted".to_owned());
    counted.run().code(0);
    let messages = counted.proxy.seen();
    assert!(messages >= 8, "{messages} messages");
    let points = (0..messages).flat_map(|message| sides.iter().map(move |at| (message, *at)));
    let armed = |(message, at)| {
        let case = case(format!("{act:?}-{message}-{at:?}"));
        case.proxy.arm(message, at, act);
        case
    };
    points.map(armed).collect()
}

/// A run that was disturbed, and the same once more: what was told is true, and the command has run as often
/// as it should.
fn check(world: &World, case: &Case, first: &Done) {
    let (key, wanted) = (&case.key, case.scenario.runs);
    let ran = world.runs(key);
    match first.code {
        0 => assert_eq!(ran, wanted, "{key}: {first}"),
        // 123 where the machine was so busy that the deadline had passed.
        123 | 125 => assert_eq!(ran, 0, "{key}: {first}"),
        // The retry did not start.
        7 | 126 if wanted == 2 => assert_eq!(ran, 1, "{key}: {first}"),
        _ => panic!("{key}: {first}"),
    }
    case.proxy.release();
    // The keeper's housekeeping, which may hang as well, is nobody's business.
    let limit = Duration::from_secs(25);
    assert!(first.elapsed < limit, "{key}: {first}");
    let again = case.run();
    assert_eq!(again.code, 0, "{key}: {first}\nthen {again}");
    again.out("out\n");
    assert_eq!(world.runs(key), wanted, "{key}: {first}\nthen {again}");
}

fn disturb(act: Act, scenario: Scenario, at_a_time: usize) {
    let Some(cluster) = shared() else { return };
    let world = World::new(cluster);
    disturb_in(cluster, &world, act, SIDES, scenario, at_a_time);
}

fn disturb_in(
    cluster: &Cluster,
    world: &World,
    act: Act,
    sides: &[At],
    scenario: Scenario,
    at_a_time: usize,
) {
    let mut cases = cases(cluster, world, act, sides, scenario);
    while !cases.is_empty() {
        let some = cases.split_off(cases.len().saturating_sub(at_a_time));
        at_once(some, |case| {
            let first = case.run();
            check(world, &case, &first);
        });
    }
}

#[test]
fn a_connection_is_cut_at_every_message() {
    disturb(Act::Cut, PLAIN, WORKERS);
    disturb(Act::Cut, RETRIED, WORKERS);
}

/// The server is still at it when it is asked whether it was done.
#[test]
fn a_connection_is_cut_while_the_server_commits() {
    let Some(cluster) = shared() else { return };
    let world = World::new(cluster);
    let database = &world.database;
    for slow in ["commit_delay = 100000", "commit_siblings = 0"] {
        let sql = format!("ALTER DATABASE {database} SET {slow}");
        cluster.batch("postgres", &sql);
    }
    disturb_in(cluster, &world, Act::Cut, &[At::Sent], RETRIED, WORKERS);
}

/// Nothing tells of it: idem's own limits must. All hang at once, since each takes that long.
#[test]
fn a_connection_goes_dead_at_every_message() {
    disturb(Act::Hang, RETRIED, usize::MAX);
}

/// The postmaster and all its children, while a run waits at each of its messages.
#[test]
fn the_server_is_killed_at_every_message() {
    kill_server(false, PLAIN);
}

/// The same, and it comes back only when all have given it up.
#[test]
fn the_server_is_killed_at_every_message_and_stays_away() {
    let scenario = Scenario {
        options: "--deadline 15s",
        ..PLAIN
    };
    kill_server(true, scenario);
}

fn kill_server(stays_away: bool, scenario: Scenario) {
    let Some(cluster) = own_cluster() else { return };
    let world = World::new(&cluster);
    let cases = cases(&cluster, &world, Act::Hang, SIDES, scenario);
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
    let first: Vec<Running> = cases.iter().map(Case::start).collect();
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
        check(&world, case, &first);
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
    let scenario = Scenario {
        options: "--lease 1s",
        ..PLAIN
    };
    let cases = cases(cluster, &world, Act::Hold, SIDES, scenario);
    at_once(cases, |case| {
        let other = world.hidden_host(&cluster.url(&world.database));
        let run = case.start();
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
