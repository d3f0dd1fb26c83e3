//! Making the tables, and moving records between stores.

use crate::env::{IDEM, TestEnv};
use crate::host::Fleet;

#[test]
fn the_tables_are_made_once_and_by_whoever_may() {
    let Some(fleet) = Fleet::bare() else { return };
    let host = fleet.host();
    let run = || host.run("--key k", "echo x >> n; echo out").end();
    run().code(125).one_line().says("`idem init`");
    assert_eq!(host.lines("n"), 0, "nothing runs without a claim");
    host.idem("doctor").end().code(1);
    let sql = host.idem("init --print-sql --role somebody").end();
    let sql = sql.code(0).out_text();
    assert!(
        sql.contains("CREATE TABLE") && sql.contains("GRANT"),
        "{sql}"
    );
    run().code(125);
    let made = host.idem("init").end().code(0).out_text();
    assert!(made.contains("made the tables"), "{made}");
    let again = host.idem("init").end().code(0).out_text();
    assert!(again.contains("are there"), "{again}");
    run().code(0).out("out\n");
    host.idem("sync").end().code(0).out("nothing waits\n");
    assert_eq!(
        host.idem("sync --json").end().code(0).json().to_string(),
        "[]"
    );
}

/// The records of an export, without what every store has of its own.
fn records(host: &TestEnv, store: &str) -> Vec<String> {
    let done = host.command(IDEM).args(["export", "--store", store]).end();
    let text = done.code(0).out_text();
    let lines = text.lines().map(|line| {
        let mut record: serde_json::Value = serde_json::from_str(line).unwrap();
        if let Some(record) = record.as_object_mut() {
            for own in ["generation", "exported_at", "at"] {
                record.shift_remove(own);
            }
        }
        record.to_string()
    });
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}

#[test]
fn records_move_from_a_file_to_a_server_and_back() {
    let Some(fleet) = Fleet::new() else { return };
    let host = fleet.host();
    let file = host.path("first.db").display().to_string();
    let back = host.path("second.db").display().to_string();
    let scripts = [
        ("good", "echo x >> n; echo out; echo err >&2"),
        ("bad", "echo x >> n; exit 2"),
        ("big", "echo x >> n; seq 1 200000"),
        ("odd", "echo x >> n; printf '\\377\\000\\n'"),
    ];
    for (key, script) in scripts {
        host.run(&format!("--key {key} --store {file}"), script)
            .end();
    }
    host.run(&format!("--key lost --store {file}"), "kill -9 $$")
        .end();
    let hand_over = |from: &str, to: &str| {
        let exported = host.command(IDEM).args(["export", "--store", from]).end();
        let import = host.command(IDEM).args(["import", "--store", to]);
        import.input(exported.stdout).end().code(0);
    };
    hand_over(&file, &fleet.url());
    let other = fleet.host();
    for (key, script) in scripts {
        let wanted = host
            .run(&format!("--key {key} --store {file}"), script)
            .end();
        let got = other.run(&format!("--key {key}"), script).end();
        assert_eq!(
            (got.code, &got.stdout),
            (wanted.code, &wanted.stdout),
            "{key}"
        );
    }
    other.run("--key lost", "kill -9 $$").end().code(122);
    // Repeating it changes nothing.
    hand_over(&file, &fleet.url());
    hand_over(&fleet.url(), &back);
    assert_eq!(records(&host, &file), records(&host, &back));
    assert_eq!(host.lines("n"), scripts.len());
}
