//! `idem doctor` on real servers.

use crate::command::Done;
use crate::env::{TestEnv, gate, text};
use crate::host::{Fleet, STRANGER};
use crate::servers::cluster::{Cluster, Setup};
use crate::servers::pooler::Pooler;
use crate::servers::tools;

fn doctor(host: &TestEnv, store: &str) -> Done {
    host.idem("doctor --json").env("IDEM_STORE", store).end()
}

/// What was found about one thing: level and text of each.
fn found(done: &Done, check: &str) -> Vec<(String, String)> {
    let json = done.json();
    let findings = json["findings"].as_array().expect("findings");
    let mut of_check = Vec::new();
    for finding in findings {
        if finding["check"] == check {
            let level = text(&finding["level"]);
            assert!(level == "ok" || finding["remedy"].is_string(), "{finding}");
            of_check.push((level, text(&finding["finding"])));
        }
    }
    of_check
}

#[track_caller]
fn tells(done: &Done, check: &str, level: &str, part: &str) {
    let found = found(done, check);
    let fits = |(of, what): &(String, String)| of == level && what.contains(part);
    assert!(found.iter().any(fits), "no {level} {part:?} in {found:?}");
}

#[test]
fn a_sound_server_is_healthy_with_and_without_a_pooler() {
    let Some(fleet) = Fleet::new() else { return };
    let host = fleet.host();
    host.run("--key k", "true").end().code(0);
    let done = doctor(&host, &fleet.url());
    done.code(0);
    assert_eq!(done.json()["healthy"], true);
    tells(&done, "server", "ok", "round trip");
    tells(&done, "protection", "ok", "stays on this machine");
    tells(&done, "schema", "ok", "schema 1");
    tells(&done, "durability", "ok", "survives");
    tells(&done, "lease", "ok", "1m");
    tells(&done, "waiting", "ok", "no result waits");
    tells(&done, "operations", "ok", "none is stuck");
    assert!(!found(&done, "server")[0].1.contains("pooler"));
    let pooler = Pooler::start(fleet.cluster, 2);
    let done = doctor(&host, &pooler.url(&fleet.database));
    done.code(0);
    tells(&done, "server", "ok", "through a pooler");
    tells(&done, "protection", "note", "not protected");
    let told = host.idem("doctor").end().code(0).out_text();
    assert!(told.contains("ok       server       PostgreSQL"), "{told}");
}

#[test]
fn what_is_missing_or_away_is_a_problem() {
    let Some(fleet) = Fleet::bare() else { return };
    let host = fleet.host();
    let done = doctor(&host, &fleet.url());
    done.code(1);
    tells(&done, "schema", "problem", "no tables");
    let nowhere = "postgres://idem@127.0.0.1:1/nothing";
    let done = doctor(&host, nowhere);
    done.code(1);
    tells(&done, "server", "problem", "cannot be reached");
    tells(&done, "waiting", "ok", "");
    // A newer schema.
    host.idem("init").end().code(0);
    fleet
        .cluster
        .batch(&fleet.database, "UPDATE idem.meta SET version = 99");
    let done = doctor(&host, &fleet.url());
    done.code(1);
    tells(&done, "store", "problem", "newer idem");
}

#[test]
fn what_the_caller_can_correct_is_not_told_as_a_server_that_is_away() {
    let Some(fleet) = Fleet::bare() else { return };
    let host = fleet.host();
    let stranger = fleet.cluster.url_as(STRANGER, &fleet.database);
    let cases = [
        (fleet.cluster.url("no_such_database"), "`idem init`"),
        (fleet.cluster.url_as("nobody", "postgres"), "CREATE ROLE"),
        (stranger, "PGPASSWORD or the passfile"),
    ];
    for (url, advice) in cases {
        for verb in ["run --key k -- touch ran", "status k", "init"] {
            let cmd = host.idem(verb).env("IDEM_STORE", &url);
            let done = cmd.env("PGPASSWORD", "wr0ng").end();
            done.code(125).one_line().says(advice);
            done.never_says("cannot be reached").never_says("wr0ng");
        }
        let doctor = host.idem("doctor --json").env("IDEM_STORE", &url);
        let done = doctor.env("PGPASSWORD", "wr0ng").end();
        done.code(1);
        tells(&done, "server", "problem", "SQLSTATE");
    }
    assert!(!host.path("ran").exists());
}

#[test]
fn a_result_that_waits_for_its_server_is_a_problem_until_it_is_delivered() {
    if !tools::present() {
        return;
    }
    let cluster = Cluster::start(&Setup::default());
    let url = cluster.url("postgres");
    let mut host = TestEnv::new();
    host.set("IDEM_STORE", url.as_str());
    host.set("IDEM_SCOPE", "s");
    host.idem("init").end().code(0);
    let script = format!("echo x >> n; {}; echo out", gate("go"));
    let running = host.run("--key k --deadline 25s", &script).start();
    host.upto_lines("n", 1);
    cluster.stop();
    host.touch("go");
    // The command's own end is told, and what is missing is said.
    running.end().out("out\n").says("idem sync");
    let done = doctor(&host, &url);
    done.code(1);
    tells(&done, "server", "problem", "cannot be reached");
    tells(&done, "waiting", "problem", "1 result waits");
    cluster.start_again();
    let synced = host.idem("sync").end();
    assert!(synced.code(0).out_text().contains("delivered"), "{synced}");
    let done = doctor(&host, &url);
    done.code(0);
    tells(&done, "waiting", "ok", "no result");
    host.run("--key k", &script).end().code(0).out("out\n");
    assert_eq!(host.lines("n"), 1);
}

#[test]
fn settings_that_break_a_promise_are_found() {
    if !tools::present() {
        return;
    }
    let cluster = Cluster::start(&Setup {
        conf: &["fsync = off", "full_page_writes = off"],
        ..Setup::default()
    });
    let url = cluster.url("postgres");
    let mut host = TestEnv::new();
    host.set("IDEM_STORE", &url);
    host.idem("init").end().code(0);
    let done = doctor(&host, &url);
    done.code(1);
    tells(&done, "durability", "problem", "fsync is off");
    tells(&done, "durability", "problem", "full_page_writes is off");
    cluster.batch("postgres", "ALTER ROLE idem SET synchronous_commit = local");
    tells(
        &doctor(&host, &url),
        "durability",
        "note",
        "synchronous_commit is local",
    );
    let read_only = "CREATE ROLE reader LOGIN SUPERUSER; \
        ALTER ROLE reader SET default_transaction_read_only = on; \
        CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0";
    for statement in read_only.split("; ") {
        cluster.batch("postgres", statement);
    }
    let done = doctor(&host, &cluster.url_as("reader", "postgres"));
    done.code(1);
    tells(&done, "writes", "problem", "read-only");
    let done = doctor(&host, &cluster.url("latin"));
    tells(&done, "encoding", "problem", "LATIN1");
}
