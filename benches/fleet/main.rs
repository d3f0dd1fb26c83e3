//! What a store on a server costs, in one interleaved run on this machine: processes as users start them.
//!
//! ```text
//! cargo bench --bench fleet               a few minutes
//! cargo bench --bench fleet -- --short    a quick look
//! ```
//!
//! Needs what the tests of the shared store need: PostgreSQL's and pgbouncer's programs. Ratios are those
//! of the medians to the embedded store's; only they can be compared.

#[path = "../../tests/servers/mod.rs"]
mod servers;

use servers::cluster::{Cluster, Setup};
use servers::pooler::Pooler;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const IDEM: &str = env!("CARGO_BIN_EXE_idem");

/// Different in every call.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A store, and how to get there.
struct Way {
    name: &'static str,
    store: String,
    first: Vec<Duration>,
    replay: Vec<Duration>,
}

impl Way {
    fn new(name: &'static str, store: String) -> Way {
        Way {
            name,
            store,
            first: Vec::new(),
            replay: Vec::new(),
        }
    }

    fn command(&self, home: &Path, key: &str) -> Command {
        let mut command = Command::new(IDEM);
        command.env_clear().env("PATH", "/usr/bin:/bin");
        command.env("HOME", home).env("IDEM_STORE", &self.store);
        command.args(["run", "--scope", "bench", "--key", key, "--", "/bin/true"]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn call(&self, home: &Path, key: &str) -> Duration {
        let started = Instant::now();
        let status = self.command(home, key).status().expect("idem");
        assert!(status.success(), "{}: {status}", self.name);
        started.elapsed()
    }

    fn round(&mut self, home: &Path) {
        let first = self.call(home, &new_key());
        let replay = self.call(home, "replayed");
        self.first.push(first);
        self.replay.push(replay);
    }
}

fn new_key() -> String {
    format!("key-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    let at = sorted.len().saturating_sub(1) * percent / 100;
    sorted.get(at).copied().unwrap_or_default()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn init(store: &str, home: &Path) {
    let mut command = Command::new(IDEM);
    command.env("HOME", home).args(["init", "--store", store]);
    assert!(
        command
            .stdout(Stdio::null())
            .status()
            .expect("idem")
            .success()
    );
}

/// Replay and first run over every way, side by side.
fn ways(cluster: &Cluster, pooler: &Pooler, home: &Path, rounds: usize) {
    let database = cluster.new_database();
    let plain = cluster.url(&database);
    init(&plain, home);
    let join = |url: &str| if url.contains('?') { '&' } else { '?' };
    let certificate = cluster.certificate("authority.crt");
    let tls = format!(
        "{plain}{}sslmode=verify-ca&sslrootcert={}",
        join(&plain),
        certificate.display()
    );
    let mut ways = [
        Way::new("embedded", home.join("idem.db").display().to_string()),
        Way::new("server", format!("{plain}{}sslmode=disable", join(&plain))),
        Way::new("server, TLS", tls),
        Way::new("server, pgbouncer", pooler.url(&database)),
    ];
    for way in &ways {
        way.call(home, "replayed");
    }
    for _ in 0..rounds {
        for way in &mut ways {
            way.round(home);
        }
    }
    println!("store              first run p50   p99      x      replay p50   p99      x");
    let base = ways.first().map(|way| {
        (
            ms(percentile(&way.first, 50)),
            ms(percentile(&way.replay, 50)),
        )
    });
    let (base_first, base_replay) = base.expect("a way");
    for way in &ways {
        let [first, slow_first] = [50, 99].map(|p| ms(percentile(&way.first, p)));
        let [replay, slow_replay] = [50, 99].map(|p| ms(percentile(&way.replay, p)));
        println!(
            "{:<18} {first:>9.1} ms {slow_first:>6.1}  {:>4.1}  {replay:>10.1} ms {slow_replay:>6.1}  {:>4.1}",
            way.name,
            first / base_first,
            replay / base_replay
        );
    }
}

/// So many hosts that work through so many keys each, one after the other.
fn fleet(cluster: &Cluster, home: &Path, hosts: usize, keys: usize) {
    let database = cluster.new_database();
    let way = Way::new("server", cluster.url(&database));
    init(&way.store, home);
    let started = Instant::now();
    let times: Vec<Duration> = std::thread::scope(|scope| {
        let host = |n: usize| {
            let (way, home) = (&way, home.join(format!("host-{n}")));
            scope.spawn(move || {
                let work = (0..keys).map(|_| way.call(&home, &new_key()));
                work.collect::<Vec<_>>()
            })
        };
        let hosts: Vec<_> = (0..hosts).map(host).collect();
        let times = hosts.into_iter().map(|host| host.join().expect("a host"));
        times.flatten().collect()
    });
    let took = started.elapsed();
    println!(
        "\n{hosts} hosts x {keys} keys: {:.0} first runs a second, latency p50 {:.1} ms, p99 {:.1} ms",
        times.len() as f64 / took.as_secs_f64(),
        ms(percentile(&times, 50)),
        ms(percentile(&times, 99))
    );
}

/// Claim and replay among few and among many stored operations, side by side.
fn sizes(cluster: &Cluster, home: &Path, rounds: usize, many: u64) {
    let filled = |operations: u64| {
        let database = cluster.new_database();
        let mut way = Way::new("server", cluster.url(&database));
        init(&way.store, home);
        way.call(home, "replayed");
        cluster.batch(
            &database,
            &format!(
                "INSERT INTO idem.operation SELECT (jsonb_populate_record(o, jsonb_build_object( \
                   'key', 'filled-' || n, 'generation', n + 1000000))).* \
                 FROM idem.operation AS o, generate_series(1, {operations}) AS n; \
                 INSERT INTO idem.event(at, scope, key, generation, kind, detail) \
                 SELECT e.at, e.scope, 'filled-' || n, n, e.kind, e.detail \
                 FROM idem.event AS e, generate_series(1, {operations}) AS n \
                 WHERE e.kind = 'settled'; ANALYZE"
            ),
        );
        way.first.clear();
        way
    };
    let mut ways = [filled(1_000), filled(many)];
    for _ in 0..rounds {
        for way in &mut ways {
            way.round(home);
        }
    }
    let [few, lots] = &ways;
    for (what, few, lots) in [
        ("first run", &few.first, &lots.first),
        ("replay", &few.replay, &lots.replay),
    ] {
        let [p50, p99] = [50, 99].map(|p| ms(percentile(lots, p)) / ms(percentile(few, p)));
        println!(
            "{what} among {many} operations: {p50:.2} x that among 1000 at p50, {p99:.2} x at p99"
        );
    }
}

fn main() {
    let short = std::env::args().any(|argument| argument == "--short");
    if !servers::tools::present() {
        println!("PostgreSQL's programs are not installed: nothing is measured");
        return;
    }
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let cluster = Cluster::start(&Setup {
        tls: true,
        ..Setup::default()
    });
    let pooler = Pooler::start(&cluster, 4);
    let (rounds, hosts, keys, many) = match short {
        true => (40, 4, 25, 20_000),
        false => (300, 8, 1_000, 1_000_000),
    };
    ways(&cluster, &pooler, home.path(), rounds);
    fleet(&cluster, home.path(), hosts, keys);
    println!();
    sizes(&cluster, home.path(), rounds, many);
}
