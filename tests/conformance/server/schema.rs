//! How the tables come into a database, and who may use them.

use super::place::{PostgresPlace, direct, server_place, shared};
use crate::sample::*;
use crate::servers::cluster::Cluster;
use crate::servers::tools;
use idem::domain::outcome::State;
use idem::engine::store::{Fenced, Filter, PermitWish, Store, StoreError};
use idem::store::server::{ServerPlace, ServerStore, grants, newest, script};
use std::process::Command;
use std::thread;

/// A place whose tables are not there yet.
fn bare() -> Option<(&'static Cluster, PostgresPlace, ServerPlace)> {
    let place = direct()?;
    let bare = server_place(place.url(), &place.paths().db);
    Some((shared()?, place, bare))
}

/// Runs one of the server's client programs.
fn run(program: &str, cluster: &Cluster, arguments: &[&str]) -> String {
    let path = tools::path("initdb").with_file_name(program);
    let ran = Command::new(path)
        .args(["-h", "127.0.0.1", "-U", "idem", "-d", "postgres", "-p"])
        .arg(cluster.port().to_string())
        .args(arguments)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{errors}");
    String::from_utf8(ran.stdout).unwrap()
}

/// A schema as its dump has it, under the name `x`.
fn dumped(cluster: &Cluster, schema: &str) -> String {
    let dump = run(
        "pg_dump",
        cluster,
        &["--schema-only", "--no-owner", "-n", schema],
    );
    let lines = dump.lines();
    // Newer versions guard a dump with a random word.
    let lines = lines.filter(|line| !line.starts_with('\\'));
    let text: Vec<&str> = lines.collect();
    text.join("\n")
        .replace(&format!("{schema}."), "x.")
        .replace(&format!("SCHEMA {schema};"), "SCHEMA x;")
        .replace(&format!("Schema: {schema};"), "Schema: x;")
        .replace(&format!("Name: {schema};"), "Name: x;")
}

#[test]
fn a_store_without_tables_says_what_to_do() {
    let Some((_, _, bare)) = bare() else { return };
    let error = ServerStore::open(&bare).unwrap_err();
    assert!(error.to_string().contains("`idem init`"), "{error}");
    assert_eq!(ServerStore::init(&bare).unwrap(), None);
    assert_eq!(ServerStore::init(&bare).unwrap(), Some(newest()));
    assert!(ServerStore::open(&bare).is_ok());
}

#[test]
fn eight_make_the_tables_at_once() {
    for _ in 0..5 {
        let Some((_, place, bare)) = bare() else {
            return;
        };
        let found: Vec<Option<i64>> = thread::scope(|scope| {
            let makers: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| ServerStore::init(&bare).unwrap()))
                .collect();
            makers.into_iter().map(|m| m.join().unwrap()).collect()
        });
        assert_eq!(found.iter().filter(|found| found.is_none()).count(), 1);
        assert_eq!(place.ask("SELECT version FROM @meta", &[]), [newest()]);
    }
}

#[test]
fn the_printed_script_makes_the_same_tables() {
    let Some((cluster, printed, bare)) = bare() else {
        return;
    };
    let Some(made) = direct() else { return };
    made.server_place();
    let sql = script(printed.schema(), 0);
    run("psql", cluster, &["-v", "ON_ERROR_STOP=1", "-qc", &sql]);
    let (printed_dump, made_dump) = (
        dumped(cluster, printed.schema()),
        dumped(cluster, made.schema()),
    );
    assert!(printed_dump.contains("CREATE TABLE x.operation"));
    assert_eq!(printed_dump, made_dump);
    assert_eq!(ServerStore::init(&bare).unwrap(), Some(newest()));
    let mut store = ServerStore::open(&bare).unwrap();
    claim(&mut store, "k", 1);
}

#[test]
fn a_newer_schema_is_left_alone() {
    let Some((_, place, _)) = bare() else { return };
    place.server_place();
    let newer = newest() + 1;
    let sql = "WITH u AS (UPDATE @meta SET version = $1 RETURNING version) SELECT version FROM u";
    place.ask(sql, &[newer.into()]);
    let refusals = [
        ServerStore::open(&place.server_place()).map(drop),
        ServerStore::init(&place.server_place()).map(drop),
    ];
    for refusal in refusals {
        let error = refusal.unwrap_err();
        assert!(
            matches!(error, StoreError::Newer { found, .. } if found == newer),
            "{error}"
        );
        assert!(error.to_string().contains("upgrade idem"), "{error}");
    }
}

#[test]
fn a_role_that_may_only_use_the_tables_is_enough() {
    let Some((cluster, place, _)) = bare() else {
        return;
    };
    place.server_place();
    let role = format!("user of {}", place.schema());
    cluster.batch("postgres", &format!("CREATE ROLE \"{role}\" LOGIN"));
    let encoded = role.replace(' ', "%20");
    let url = format!(
        "{}?schema={}",
        cluster.url_as(&encoded, "postgres"),
        place.schema()
    );
    let used = server_place(&url, &place.paths().db);
    let error = ServerStore::open(&used).unwrap_err();
    assert!(error.to_string().contains("may not"), "{error}");
    cluster.batch("postgres", &grants(place.schema(), &role));
    assert_eq!(ServerStore::init(&used).unwrap(), Some(newest()));
    let mut store = ServerStore::open(&used).unwrap();
    let wish = PermitWish {
        bulkhead: "b",
        permits: 1,
        auxiliary: false,
        nonce: nonce(1),
    };
    store.permit(&wish).unwrap();
    let id = claim(&mut store, "k", 1);
    let mut end = settlement(State::Succeeded);
    end.output = Some(inline(1, b"said"));
    assert_eq!(settle_as(&mut store, &id, &end), Fenced::Done);
    assert_eq!(store.list(&Filter::default()).unwrap().len(), 1);
    assert!(store.taken_bytes().unwrap() > 0);
    store.drop_orphans().unwrap();
    store.litter().unwrap();
    let purged = store.purge(&stamp(i64::MAX / 2), 10, DAY).unwrap();
    assert_eq!(purged.records, 1);
    // It can make no tables of its own, and is told who can.
    let other = server_place(&url.replace("schema=", "schema=other_"), &place.paths().db);
    let error = ServerStore::init(&other).unwrap_err();
    assert!(error.to_string().contains("--print-sql"), "{error}");
}
