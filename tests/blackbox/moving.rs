//! Export, import and a look at the health of a store.

use crate::env::TestEnv;

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
