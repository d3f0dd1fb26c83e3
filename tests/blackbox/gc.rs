//! Housekeeping.

use crate::env::{IDEM, TestEnv, upto};

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

#[test]
fn leftovers_go_and_what_is_needed_stays() {
    let t = TestEnv::new();
    let big = "yes | head -c 50000";
    t.run("--key big", big).end().code(0);
    let running = t
        .run(
            "--key now",
            &format!("{big}; : >up; while [ ! -e go ]; do sleep 0.02; done"),
        )
        .start();
    upto("it runs", || t.path("up").exists());
    let nonce = "0123456789abcdef0123456789abcdef";
    let beside = |name: String| t.store_dir().join(name);
    let old = beside(format!("idem.db-out-{nonce}-1"));
    let young = beside(format!("idem.db-out-{nonce}-2"));
    let part = beside(format!("idem.db-out-{nonce}-3.part"));
    let control = beside(format!("idem.db-control-{nonce}-1"));
    for path in [&old, &young, &part, &control] {
        std::fs::write(path, b"x").expect("a file");
    }
    let hours_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    let file = std::fs::File::options()
        .write(true)
        .open(&old)
        .expect("a file");
    file.set_modified(hours_ago).expect("a time");
    drop(file);
    let done = t.idem("gc --json").end().code(0).json();
    assert_eq!(done["orphan_outputs"], 1, "{done}");
    assert_eq!(done["unfinished_outputs"], 1, "{done}");
    assert_eq!(done["control_files"], 1, "{done}");
    assert!(young.exists() && !old.exists() && !part.exists() && !control.exists());
    t.write("go", b"");
    let out = running.end().code(0).stdout.clone();
    assert_eq!(out.len(), 50_000);
    for key in ["big", "now"] {
        let output = t.idem(&format!("output {key}")).end().code(0).stdout.len();
        assert_eq!(output, 50_000, "{key}");
    }
    let again = t.idem("gc").end().code(0).out_text();
    assert!(again.starts_with("nothing to delete"), "{again}");
}

#[test]
fn there_is_nothing_to_collect_without_a_store() {
    let t = TestEnv::new();
    t.idem("gc").end().code(0).err("");
    assert!(!t.store().exists());
}
