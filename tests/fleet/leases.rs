//! Keepers that are stopped, slow or killed, seen from where only their lease tells.

use std::thread;
use std::time::Duration;

use crate::env::upto;
use crate::procs;
use crate::world::{Host, World, at_once, can_hide, gate, shared};

/// Short for the test, and long enough for a machine that is busy with others.
const LEASE: &str = "--lease 3s";

/// A host whose command runs, one that sees nothing of it, and the keeper.
struct Stage {
    world: World,
    here: Host,
    there: Host,
}

impl Stage {
    fn new() -> Option<Stage> {
        let cluster = shared()?;
        if !can_hide() {
            return None;
        }
        let world = World::new(cluster);
        let url = cluster.url(&world.database);
        Some(Stage {
            here: world.host(&url),
            there: world.hidden_host(&url),
            world,
        })
    }

    /// Stops the keeper until the other host takes it for gone.
    fn stop_keeper(&self) -> i32 {
        upto("the command runs", || self.world.runs("k") == 1);
        let keeper = self.here.keeper("k");
        self.there
            .ran("k", "--if-running refuse", "echo other")
            .code(120);
        procs::signal(keeper, libc::SIGSTOP);
        // The kernel of its own machine knows that it is there.
        self.here.ran("k", "--if-running refuse", "").code(120);
        upto("its lease runs out", || {
            self.there.ran("k", "--if-running refuse", "").code == 122
        });
        keeper
    }
}

fn gated(then: &str) -> String {
    format!("{}; {then}", gate("go"))
}

#[test]
fn a_keeper_that_was_stopped_is_unknown_elsewhere_until_its_result_comes() {
    let Some(stage) = Stage::new() else { return };
    let run = stage.here.run("k", LEASE, &gated("echo out")).start();
    let keeper = stage.stop_keeper();
    procs::signal(keeper, libc::SIGCONT);
    stage.world.touch("go");
    run.end().code(0).out("out\n");
    stage.there.ran("k", "", "").code(0).out("out\n");
    assert_eq!(stage.world.runs("k"), 1);
}

#[test]
fn a_keeper_that_was_taken_over_changes_nothing_and_starts_nothing() {
    let Some(stage) = Stage::new() else { return };
    let options = format!("{LEASE} --retries 5 --retry-on any --backoff const:10ms");
    let run = stage.here.run("k", &options, &gated("exit 7")).start();
    let keeper = stage.stop_keeper();
    stage
        .there
        .ran("k", "--if-unknown rerun", "echo other")
        .code(0)
        .out("other\n");
    procs::signal(keeper, libc::SIGCONT);
    stage.world.touch("go");
    let done = run.end();
    assert_ne!(done.code, 0, "{done}");
    done.says("resolved or forgotten while it ran");
    assert_eq!(stage.world.runs("k"), 2, "{done}");
    for host in [&stage.here, &stage.there] {
        host.ran("k", "", "").code(0).out("other\n");
    }
}

#[test]
fn a_killed_keeper_is_unknown_at_home_at_once_and_elsewhere_after_its_lease() {
    let Some(stage) = Stage::new() else { return };
    let run = stage.here.run("k", "--lease 5s", "exec sleep 300").start();
    upto("the command runs", || stage.world.runs("k") == 1);
    procs::signal(stage.here.keeper("k"), libc::SIGKILL);
    run.end().code(122);
    stage.there.ran("k", "--if-running refuse", "").code(120);
    stage.there.ran("k", "", "").code(122);
    assert_eq!(stage.world.runs("k"), 1);
}

/// A command, and then a pause before its retry, are both longer than the lease; who waits elsewhere waits
/// through all of it.
#[test]
fn a_lease_is_kept_up_as_long_as_the_call_lasts() {
    let Some(stage) = Stage::new() else { return };
    let options = format!("{LEASE} --retries 1 --retry-on any --backoff const:4s --jitter none");
    let script =
        "sleep 4; test -e \"$LOG/first\" && echo out && exit; touch \"$LOG/first\"; exit 7";
    let run = stage.here.run("k", &options, script).start();
    upto("the command runs", || stage.world.runs("k") == 1);
    let waiters = at_once(vec![(); 3], |()| {
        thread::sleep(Duration::from_millis(200));
        stage.there.ran("k", "--if-unknown rerun", "echo other")
    });
    for waiter in waiters {
        waiter.code(0).out("out\n");
    }
    run.end().code(0).out("out\n");
    assert_eq!(stage.world.runs("k"), 2, "one retry");
}
