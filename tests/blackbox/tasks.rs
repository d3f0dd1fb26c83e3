//! The verbs of tasks and breakers.

use crate::env::TestEnv;

#[test]
fn a_task_pays_for_the_retries_of_its_steps() {
    let t = TestEnv::new();
    t.idem("task open release-7 --retries 2 --deadline 1h")
        .end()
        .code(0);
    for step in ["build", "push"] {
        let options = format!("--task release-7 --step {step} --retries 5 --backoff const:10ms");
        t.run(&options, "echo x >> n; exit 9").end().code(9);
    }
    assert_eq!(t.lines("n"), 4, "the task pays for two retries");
    t.run("--task release-7 --step announce", "echo ok")
        .end()
        .code(0);
    assert_eq!(t.state("release-7/announce"), "succeeded");
    let tree = t.idem("task show release-7").end().code(0).out_text();
    assert!(
        tree.contains("announce") && tree.contains("build") && tree.contains("failed"),
        "{tree}"
    );
    t.idem("task show no-such-task").end().code(1).one_line();
    t.idem("task end release-7").end().code(0);
    t.idem("task end no-such-task").end().code(1).one_line();
}

#[test]
fn a_breaker_can_be_looked_at_and_moved() {
    let t = TestEnv::new();
    let run = |key: &str, script: &str| {
        t.run(
            &format!("--key {key} --breaker api:failures=2,cooldown=50s"),
            script,
        )
        .end()
    };
    run("a", "exit 0").code(0);
    t.idem("breaker api --trip").end().code(0);
    run("b", "exit 0").code(123);
    assert!(
        t.idem("breaker api")
            .end()
            .code(0)
            .out_text()
            .contains("open")
    );
    t.idem("breaker api --reset").end().code(0);
    run("b", "exit 0").code(0);
    assert!(t.idem("breaker").end().code(0).out_text().contains("api"));
    t.idem("breaker nosuch").end().code(1).one_line();
}
