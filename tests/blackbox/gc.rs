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
