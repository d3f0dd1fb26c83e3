//! The verb `task`, and what its steps meet.

use crate::env::{TestEnv, text};

#[test]
fn opening_again_changes_nothing_and_anew_only_after_the_end() {
    let t = TestEnv::new();
    let open = "task open r --retries 2 --deadline 1h";
    let first = t.idem(open).end().code(0).out_text();
    assert!(
        first.starts_with("r is open: 2 of 2 retries left; its deadline is in "),
        "{first}"
    );
    t.run(
        "--task r --step s --retries 5 --backoff const:10ms",
        "echo x >> n; test $(wc -l < n) -ge 2",
    )
    .end()
    .code(0);
    let again = t.idem(open).end().code(0).out_text();
    assert!(
        again.starts_with("r is open: 1 of 2 retries left"),
        "{again}"
    );
    for other in [
        "--retries 3 --deadline 1h",
        "--retries 2",
        "--retries 2 --deadline 2h",
        "",
    ] {
        let refused = t.idem(&format!("task open r {other}")).end();
        refused.code(125).one_line().says("idem task end r");
    }
    t.idem("task end r").end().code(0);
    t.idem("task end r").end().code(0);
    let late = t.run("--task r --step late", "echo x >> n").end();
    late.code(123).one_line().says("idem task open r");
    assert_eq!(t.lines("n"), 2);
    let anew = t.idem("task open r --retries 1").end().code(0).out_text();
    assert!(anew.starts_with("r is open: 1 of 1 retries left"), "{anew}");
    t.run("--task r --step late", "echo x >> n").end().code(0);
}

#[test]
fn what_is_not_there_is_not_made() {
    let t = TestEnv::new();
    for args in ["task show nope", "task end nope", "task show nope --json"] {
        t.idem(args).end().code(1).out("").one_line();
    }
    assert!(!t.store().exists());
    t.idem("task open r --deadline 2020-01-01T00:00:00Z")
        .end()
        .code(125)
        .one_line();
    t.idem("task open r --retries x").end().code(125).one_line();
    t.idem("task open a/b").end().code(125).one_line();
    t.idem("task show r --retries 2").end().code(125).one_line();
    t.idem("task shut r").end().code(125).one_line();
    assert!(!t.store().exists());
}

#[test]
fn the_tree_has_steps_and_calls() {
    let t = TestEnv::new();
    t.run("--task r --step build --call b", "true")
        .end()
        .code(0);
    t.run("--task r --step build --call a", "exit 3")
        .end()
        .code(3);
    t.run("--task r --step push", "true").end().code(0);
    t.run("--key r2/push", "true").end().code(0);
    let page = t.idem("task show r").end().code(0).out_text();
    let shape: Vec<&str> = page
        .lines()
        .map(|line| line.split(',').next().unwrap())
        .collect();
    assert_eq!(
        shape,
        [
            "r  was never opened",
            "├─ build",
            "│  ├─ b  succeeded (exit 0)",
            "│  └─ a  failed (exit 3)",
            "└─ push  succeeded (exit 0)",
        ]
    );
    let object = t.idem("task show r --json").end().code(0).json();
    assert_eq!(text(&object["state"]), "not_opened");
    assert_eq!(object["steps"][0]["calls"][1]["operation"]["exit_code"], 3);
    assert_eq!(object["steps"][1]["operations"][0]["key"], "r/push");
}

#[test]
fn the_time_of_a_task_ends_its_steps() {
    let t = TestEnv::new();
    t.idem("task open r --deadline 1s").end().code(0);
    t.run("--task r --step s --kill-after 1s", "sleep 300")
        .end()
        .code(124);
    let late = t.run("--task r --step late", "echo x >> n").end();
    late.code(123).one_line().says("deadline");
    assert_eq!(t.lines("n"), 0);
    let shown = t.idem("task show r --json").end().code(0).json();
    assert_eq!(shown["deadline_left_ms"], 0);
}
