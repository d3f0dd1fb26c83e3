//! What is counted.

use crate::env::TestEnv;

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
