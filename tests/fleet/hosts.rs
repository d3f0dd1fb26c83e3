//! Several hosts and one operation. Effects are lines that the commands append to a file of the first host.

use crate::env::{gate, root_or_leave, upto};
use crate::host::{Fleet, out_of_sight, run_out_of_sight};
use crate::procs;
use crate::servers::pooler::Pooler;
use std::time::Duration;

const ALONE: &str = "a PID namespace of its own";

/// A script that leaves a line at the first host, waits for its gate, and prints.
fn slow(file: &std::path::Path, go: &std::path::Path) -> String {
    format!(
        "echo x >> {}; {}; echo out; echo err >&2; exit 3",
        file.display(),
        gate(&go.display().to_string())
    )
}

#[test]
fn waiters_on_other_hosts_get_the_result() {
    let Some(fleet) = Fleet::new() else { return };
    if !root_or_leave(ALONE) {
        return;
    }
    let (a, b, c) = (fleet.host(), fleet.host(), fleet.host());
    let script = slow(&a.path("n"), &a.path("go"));
    let first = a.run("--key k", &script).start();
    a.upto_lines("n", 1);
    let run = run_out_of_sight(&b, "--key k", &script).start();
    let wait = out_of_sight(&c, &["wait", "k"]).start();
    run_out_of_sight(&b, "--key k --if-running refuse", &script)
        .end()
        .code(120);
    a.touch("go");
    for waiter in [first, run, wait] {
        waiter.end().code(3).out("out\n").says("err\n");
    }
    assert_eq!(a.lines("n"), 1);
    for host in [&a, &b, &c] {
        run_out_of_sight(host, "--key k", &script)
            .end()
            .code(3)
            .out("out\n");
    }
    assert_eq!(a.lines("n"), 1);
}

#[test]
fn many_hosts_at_once_run_it_once() {
    let Some(fleet) = Fleet::new() else { return };
    if !root_or_leave(ALONE) {
        return;
    }
    let hosts: Vec<_> = (0..6).map(|_| fleet.host()).collect();
    let script = format!("echo x >> {}; echo out", hosts[0].path("n").display());
    let calls: Vec<_> = hosts
        .iter()
        .map(|host| run_out_of_sight(host, "--key k", &script).start())
        .collect();
    for call in calls {
        call.end().code(0).out("out\n");
    }
    assert_eq!(hosts[0].lines("n"), 1);
}

#[test]
fn hosts_behind_a_pooler_run_it_once() {
    let Some(fleet) = Fleet::new() else { return };
    let pooler = Pooler::start(fleet.cluster, 2);
    let mut hosts: Vec<_> = (0..8).map(|_| fleet.host()).collect();
    for host in &mut hosts {
        host.set("IDEM_STORE", pooler.url(&fleet.database));
    }
    let script = format!("echo x >> {}; seq 1 20000", hosts[0].path("n").display());
    let calls: Vec<_> = hosts
        .iter()
        .map(|host| host.run("--key k", &script).start())
        .collect();
    let outputs: Vec<_> = calls
        .into_iter()
        .map(|call| call.end().code(0).stdout.clone())
        .collect();
    assert!(outputs[0].len() > 100_000 && outputs.iter().all(|one| *one == outputs[0]));
    assert_eq!(hosts[0].lines("n"), 1);
}

#[test]
fn a_dead_host_is_alive_until_its_lease_ends_and_then_unknown() {
    let Some(fleet) = Fleet::new() else { return };
    if !root_or_leave(ALONE) {
        return;
    }
    let (a, b) = (fleet.host(), fleet.host());
    let script = format!(
        "echo x >> {}; test -e {} || exec sleep 300; echo out",
        a.path("n").display(),
        a.path("again").display()
    );
    let options = "--key k --lease 6s";
    let dying = run_out_of_sight(&a, options, &script).own_group().start();
    a.upto_lines("n", 1);
    // Everything of that host ends at once with the first process of its namespace.
    procs::kill_home(&a.home());
    drop(dying);
    run_out_of_sight(&b, "--key k --if-running refuse", &script)
        .end()
        .code(120);
    upto("its lease ends", || {
        let told = out_of_sight(&b, &["status", "k", "--json"]).end().json();
        told["state"] == "unknown"
    });
    run_out_of_sight(&b, "--key k", &script).end().code(122);
    assert_eq!(a.lines("n"), 1);
    // Whoever says that a repetition is safe takes it over.
    a.touch("again");
    run_out_of_sight(&b, "--key k --idempotent", &script)
        .end()
        .code(0)
        .out("out\n");
    assert_eq!(a.lines("n"), 2);
}

#[test]
fn on_its_own_host_the_kernel_tells_of_a_death_at_once() {
    let Some(fleet) = Fleet::new() else { return };
    let a = fleet.host();
    let script = "echo x >> n; exec sleep 300";
    let dying = a.run("--key k --lease 10m", script).start();
    a.upto_lines("n", 1);
    procs::kill_home(&a.home());
    drop(dying);
    a.run("--key k", script)
        .end()
        .code(122)
        .within(Duration::from_secs(50));
    assert_eq!((a.lines("n"), a.state("k").as_str()), (1, "unknown"));
}

#[test]
fn a_lease_is_renewed_for_as_long_as_the_command_runs() {
    let Some(fleet) = Fleet::new() else { return };
    if !root_or_leave(ALONE) {
        return;
    }
    let (a, b) = (fleet.host(), fleet.host());
    let script = slow(&a.path("n"), &a.path("go"));
    let running = a.run("--key k --lease 3s", &script).start();
    a.upto_lines("n", 1);
    // Longer than its lease, and each look finds it alive.
    let end = std::time::Instant::now() + Duration::from_secs(5);
    upto("more than a lease has passed", || {
        let told = out_of_sight(&b, &["status", "k", "--json"]).end().json();
        assert_eq!(told["state"], "running");
        std::time::Instant::now() > end
    });
    a.touch("go");
    running.end().code(3);
    assert_eq!(a.lines("n"), 1);
}
