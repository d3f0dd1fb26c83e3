//! What is counted.

use std::collections::BTreeMap;

use crate::env::TestEnv;
use crate::exposition::{self, Series};

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
    let metrics = metrics(&t);
    assert_eq!(metrics[&series("idem_replays_total", &[])], 40.0);
}

/// What a collector reads.
#[track_caller]
fn metrics(t: &TestEnv) -> BTreeMap<Series, f64> {
    let text = t
        .idem("stats --prometheus")
        .end()
        .code(0)
        .err("")
        .out_text();
    exposition::read(&text).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

fn series(name: &str, labels: &[(&str, &str)]) -> Series {
    let labels = labels
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    (name.to_owned(), labels.collect())
}

#[test]
fn a_collector_reads_the_metrics_whatever_the_names_are() {
    use std::os::unix::ffi::OsStringExt as _;
    let t = TestEnv::new();
    let nothing = metrics(&t);
    assert_eq!(nothing[&series("idem_unknowns_total", &[])], 0.0);
    assert_eq!(nothing[&series("idem_oldest_unknown_seconds", &[])], 0.0);
    let scope = "a\"b\\c{x=\"1\"} 7 \u{e4}";
    let odd = |name: &[u8]| std::ffi::OsString::from_vec(name.to_vec());
    let names: [&[u8]; 4] = [b"a\nb\"c", b"tool\xff", b"tool\xfe", b"back\\slash\r"];
    for (key, name) in ["a", "b", "c", "d"].iter().zip(names) {
        t.script("script", "#!/bin/sh\ntrue\n");
        std::fs::rename(t.path("script"), t.path(odd(name))).expect("renamed");
        let mut program = odd(b"./");
        program.push(odd(name));
        t.idem("run --key")
            .args([key, "--scope", scope, "--"])
            .arg(program)
            .end()
            .code(0);
    }
    t.run("--key u --timeout 100ms", "sleep 60").end().code(124);
    let found = metrics(&t);
    assert_eq!(
        found[&series("idem_executions_total", &[("scope", scope)])],
        4.0
    );
    assert_eq!(found[&series("idem_unknowns_total", &[])], 1.0);
    assert_eq!(
        found[&series("idem_operations", &[("state", "succeeded")])],
        4.0
    );
    let commands = found.keys().filter_map(|(_, labels)| labels.get("command"));
    assert!(
        commands
            .into_iter()
            .any(|command| command.contains("slash"))
    );
    let later = metrics(&t);
    for (series, value) in &found {
        let counts = series.0.ends_with("_total");
        assert!(!counts || later[series] >= *value, "{series:?} went down");
    }
}

#[test]
fn a_counter_from_some_moment_on_is_none() {
    let t = TestEnv::new();
    t.run("--key k", "true").end().code(0);
    t.idem("stats --prometheus --since 1h")
        .end()
        .code(125)
        .out("")
        .one_line();
    t.idem("stats --prometheus --json")
        .end()
        .code(125)
        .out("")
        .one_line();
}

fn count(t: &TestEnv, args: &str, name: &str) -> u64 {
    let stats = t.idem(&format!("stats --json {args}")).end().code(0).json();
    stats[name].as_u64().unwrap_or_else(|| panic!("{stats}"))
}

#[test]
fn everything_a_call_can_end_with_is_counted() {
    let t = TestEnv::new();
    assert_eq!(count(&t, "", "replays"), 0);
    assert!(!t.store().exists(), "looking makes no store");
    t.run(
        "--key r --retries 2 --backoff const:1ms --scope s",
        "exit 3",
    )
    .end()
    .code(3);
    t.run("--key u --timeout 100ms", "sleep 60").end().code(124);
    t.run("--key u --timeout 100ms", "sleep 60").end().code(122);
    let running = t
        .run("--key w", "while [ ! -e go ]; do sleep 0.02; done")
        .start();
    t.upto_state("w", "running");
    let script = "while [ ! -e go ]; do sleep 0.02; done";
    t.run("--key w --if-running refuse", script).end().code(120);
    t.run("--key w --if-running skip", script).end().code(0);
    t.write("go", b"");
    running.end().code(0);
    let stats = t.idem("stats --json").end().code(0).json();
    for (name, wanted) in [
        ("executions", 3),
        ("retries", 2),
        ("timeouts", 1),
        ("unknowns", 1),
        ("conflicts", 2),
        ("replays", 0),
    ] {
        assert_eq!(stats[name], wanted, "{name}: {stats}");
    }
    assert_eq!(stats["refusals"]["unknown"], 1, "{stats}");
    assert_eq!(stats["scopes"]["s"]["retries"], 2, "{stats}");
    assert_eq!(stats["operations"]["unknown"], 1, "{stats}");
    assert_eq!(count(&t, "--scope s", "executions"), 1);
    assert_eq!(count(&t, "--since 1h", "executions"), 3);
    let command = &stats["commands"][0];
    assert!(command["samples"].as_u64() >= Some(1), "{stats}");
    let page = t.idem("stats").end().code(0).out_text();
    assert!(page.contains("--timeout "), "{page}");
}

#[test]
fn counts_never_go_down() {
    let t = TestEnv::new();
    for _ in 0..3 {
        t.run("--key k --ttl 1s", "true").end().code(0);
    }
    let before = count(&t, "", "replays");
    assert_eq!(before + count(&t, "", "executions"), 3);
    t.idem("forget k").end().code(0);
    t.idem("gc").end().code(0);
    assert_eq!(count(&t, "", "replays"), before);
}
