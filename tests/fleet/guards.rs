//! What several machines count and limit together, and what one machine cannot do.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::env::{IDEM, root_or_leave, upto};
use crate::procs;
use crate::world::{Host, World, can_hide, gate, kept, shared};

#[test]
fn a_breaker_is_tried_out_by_one_machine_at_a_time() {
    let Some(cluster) = shared() else { return };
    if !can_hide() {
        return;
    }
    let world = World::new(cluster);
    let url = cluster.url(&world.database);
    let (here, there) = (world.host(&url), world.hidden_host(&url));
    let options = "--breaker api:failures=1,cooldown=1ms --retry-on any --lease 3s";
    here.ran("fails", options, "exit 9").code(9);
    let probe = here.run("probe", options, &gate("go")).start();
    upto("the probe of the breaker runs", || world.runs("probe") == 1);
    // Longer than the lease: that of the breaker lives as long as the claim's.
    let end = Instant::now() + Duration::from_secs(4);
    while Instant::now() < end {
        there.ran("other", options, "").code(123);
    }
    for (pid, _) in here.t.running() {
        procs::signal(pid, libc::SIGKILL);
    }
    drop(probe);
    upto("the lease runs out", || {
        there.ran("other", options, "").code == 0
    });
    assert_eq!((world.runs("probe"), world.runs("other")), (1, 1));
}

/// A lease that nobody could renew would run out while the command runs.
#[test]
fn nothing_runs_where_no_thread_can_be_made() {
    let Some(cluster) = shared() else { return };
    if !root_or_leave("a user who has no other processes") {
        return;
    }
    let world = World::new(cluster);
    let host = world.host(&cluster.url(&world.database));
    let user = (40_000 + std::process::id() % 20_000).to_string();
    for place in [host.t.root().to_owned(), world.file("")] {
        let given = Command::new("chown")
            .arg("-R")
            .arg(&user)
            .arg(place)
            .status();
        assert!(given.expect("chown").success());
    }
    let with_processes = |number: &str| {
        let limited = host
            .t
            .command("setpriv")
            .arg(format!("--reuid={user}"))
            .arg(format!("--regid={user}"))
            .args([
                "--clear-groups",
                "prlimit",
                number,
                IDEM,
                "run",
                "--key",
                "k",
                "--",
            ]);
        let script = "echo x >>\"$LOG/k\"";
        host.with_store(limited).args(["sh", "-c", script]).end()
    };
    // The front, the keeper and the child are three.
    with_processes("--nproc=3")
        .code(125)
        .says("no thread could be made");
    assert_eq!(world.runs("k"), 0);
    assert_eq!(host.state("k"), "failed");
    with_processes("--nproc=9").code(0);
    assert_eq!(world.runs("k"), 1);
}

fn replays(host: &Host) -> u64 {
    let stats = host.idem("stats --json").end();
    let stats: Value = stats.code(0).json();
    find(&stats, "replays").unwrap_or_else(|| panic!("{stats}"))
}

fn find(value: &Value, name: &str) -> Option<u64> {
    match value {
        Value::Object(fields) => match fields.get(name).and_then(Value::as_u64) {
            Some(number) => Some(number),
            None => fields.values().find_map(|value| find(value, name)),
        },
        Value::Array(values) => values.iter().find_map(|value| find(value, name)),
        _ => None,
    }
}

/// A machine that died between counting its file and deleting it finds it again after others have counted.
#[test]
fn a_file_is_counted_once_whoever_counts_in_between() {
    let Some(cluster) = shared() else { return };
    let world = World::new(cluster);
    let url = cluster.url(&world.database);
    let (one, two) = (world.host(&url), world.host(&url));
    for _ in 0..4 {
        one.ran("k", "", "").code(0);
    }
    let ends = |end: &'static str| {
        move |path: &std::path::PathBuf| path.display().to_string().ends_with(end)
    };
    let file = kept(&one)
        .into_iter()
        .find(ends("-counts"))
        .expect("counts");
    let bytes = fs::read(&file).expect("counts");
    assert_eq!(replays(&one), 3);
    let mut client = cluster.client(&world.database);
    let sql = "SELECT state FROM idem.guard WHERE kind = 'counter' AND name = 'mark'";
    let rows = client.query(sql, &[], Instant::now() + Duration::from_secs(60));
    let rows = rows.expect("the mark");
    let mark: &str = rows.only().expect("one mark").get(0).expect("a text");
    let mark: Value = serde_json::from_str(mark).expect("JSON");
    let marked = mark["files"][0].as_str().expect("a name");
    let name = marked.rsplit('/').next().expect("a name");
    fs::write(file.with_file_name(name), bytes).expect("the file again");
    two.ran("k", "", "").code(0);
    assert_eq!(replays(&two), 4);
    assert_eq!(replays(&one), 4);
    assert!(!file.with_file_name(name).exists());
}
