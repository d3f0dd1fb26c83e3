//! Counting, moving, checking and explaining.

use crate::env::{IDEM, TestEnv, upto};

#[test]
fn replays_executions_and_mismatches_are_counted() {
    let t = TestEnv::new();
    t.run("--key k", "echo hi").end().code(0);
    let callers: Vec<_> = (0..40)
        .map(|_| t.run("--key k", "echo hi").start())
        .collect();
    for caller in callers {
        caller.end().code(0);
    }
    t.run("--key k", "echo no").end().code(121);
    let stats = t.idem("stats --json").end().code(0).json();
    assert_eq!(stats["replays"], 40, "{stats}");
    assert_eq!(stats["executions"], 1, "{stats}");
    assert_eq!(stats["mismatches"], 1, "{stats}");
    let metrics = t.idem("stats --prometheus").end().code(0).out_text();
    assert!(metrics.contains("idem_replays_total 40"), "{metrics}");
}

#[test]
fn an_export_is_read_back_elsewhere() {
    let t = TestEnv::new();
    t.run("--key a", "printf 'new\\377'; exit 3").end().code(3);
    t.run("--key big", "yes | head -c 100000").end().code(0);
    let lines = t.idem("export").end().code(0).stdout.clone();
    let other = t.path("other.db");
    t.idem("import")
        .env("IDEM_STORE", &other)
        .input(lines.clone())
        .end()
        .code(0);
    let there =
        |options: &str, script: &str| t.run(options, script).env("IDEM_STORE", &other).end();
    there("--key a", "printf 'new\\377'; exit 3")
        .code(3)
        .out(b"new\xff");
    assert_eq!(
        there("--key big", "yes | head -c 100000")
            .code(0)
            .stdout
            .len(),
        100_000
    );
    t.idem("import")
        .env("IDEM_STORE", &other)
        .input(lines)
        .end()
        .code(0);
    t.idem("import")
        .env("IDEM_STORE", &other)
        .input("{broken\n")
        .end()
        .code(125)
        .one_line();
    t.idem("doctor").end().code(0);
}

#[test]
fn a_dry_run_explains_and_does_nothing() {
    let t = TestEnv::new();
    let done = t.run("--key d --dry-run --retries 2", "echo x >> n").end();
    let said = format!("{}{}", done.out_text(), done.err_text());
    assert!(done.code == 0 && said.contains("execute"), "{done}");
    assert_eq!((t.lines("n"), t.state("d").as_str()), (0, "none"));
    t.run("--key d", "echo x >> n").end().code(0);
    let done = t.run("--key d --dry-run", "echo x >> n").end();
    assert!(
        format!("{}{}", done.out_text(), done.err_text()).contains("replay"),
        "{done}"
    );
}

#[test]
fn housekeeping_never_touches_what_is_not_settled() {
    let t = TestEnv::new();
    let script = "echo x >> n; kill -9 $$";
    t.run("--key k --ttl 1s", script).end().code(137);
    t.run("--key old --ttl 1s", "yes | head -c 50000")
        .end()
        .code(0);
    upto("the old one goes", || {
        t.idem("gc").end().code(0);
        t.state("old") == "none"
    });
    t.run("--key k --ttl 1s", script).end().code(122);
    assert_eq!(t.lines("n"), 1);
    t.command(IDEM)
        .args(["resolve", "k", "--not-done"])
        .end()
        .code(0);
    t.run("--key k --ttl 1s", script).end().code(137);
    assert_eq!(t.lines("n"), 2);
    t.idem("forget k").end().one_line();
    assert_eq!(t.state("k"), "unknown");
}
