//! What a run would do.

use crate::env::TestEnv;

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
