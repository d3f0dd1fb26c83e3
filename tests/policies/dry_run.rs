//! `--dry-run` looks at everything and changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::env::{TestEnv, gate, text};

/// Every file below a directory with its bytes, but the shared-memory index, which readers map.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_none_or(|ext| ext != "db-shm") {
            found.insert(path.clone(), fs::read(&path).expect("a file"));
        }
    }
    found
}

fn would(t: &TestEnv, options: &str, script: &str) -> String {
    let before = files(t.root());
    let done = t.run(&format!("--dry-run --json {options}"), script).end();
    let object = done.code(0).err("").json();
    assert_eq!(files(t.root()), before, "something was changed");
    text(&object["decision"]["would"])
}

#[test]
fn without_a_store_none_is_made() {
    let t = TestEnv::new();
    let all = "--key b-{batch:x}-{day} --per day --retries 3 --breaker api --bulkhead db=2 --budget b=3/1h";
    assert_eq!(would(&t, all, "echo x >> n"), "execute");
    let page = t.run(&format!("--dry-run {all}"), "echo x >> n").end();
    page.code(0).err("");
    let page = page.out_text();
    for part in [
        "(not there yet)",
        "would       execute",
        "what happens after a timeout?",
    ] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
    assert!(files(t.root()).is_empty() && t.lines("n") == 0);
}

#[test]
fn every_state_is_explained_and_left_alone() {
    let t = TestEnv::new();
    let (ok, fails, dies) = (
        "echo x >> n",
        "echo x >> n; exit 4",
        "echo x >> n; kill -9 $$",
    );
    t.run("--key good", ok).end().code(0);
    t.run("--key bad", fails).end().code(4);
    t.make_unknown("lost", dies);
    let slow = format!("echo x >> n; {}", gate("go"));
    let runs = t.run("--key slow", &slow).start();
    t.upto_lines("n", 4);
    for (options, script, wanted) in [
        ("--key new", ok, "execute"),
        ("--key good", ok, "replay"),
        ("--key good", "other", "refuse"),
        ("--key bad", fails, "replay"),
        ("--key bad --if-failed rerun", fails, "execute"),
        ("--key bad", "corrected", "execute"),
        ("--key lost", dies, "refuse"),
        ("--key lost --probe true", dies, "ask_probe"),
        ("--key lost --idempotent", dies, "execute"),
        ("--key slow", slow.as_str(), "wait"),
        ("--key slow --if-running refuse", slow.as_str(), "refuse"),
        ("--key slow --if-running skip", slow.as_str(), "skip"),
        ("--key new --hold", ok, "propose"),
    ] {
        assert_eq!(would(&t, options, script), wanted, "{options} {script}");
    }
    t.touch("go");
    runs.end().code(0);
    assert_eq!(t.lines("n"), 4);
}

#[test]
fn guards_are_looked_at_and_not_taken() {
    let t = TestEnv::new();
    t.idem("breaker api --trip --cooldown 1h").end().code(0);
    t.idem("task open r --retries 2 --deadline 1h")
        .end()
        .code(0);
    let held = t
        .run(
            "--key h --bulkhead db=2",
            &format!("echo x >> in; {}", gate("go")),
        )
        .start();
    t.upto_lines("in", 1);
    let options = "--task r --step s --retries 5 --breaker api --bulkhead db=2 --budget b=4/1h";
    let object = t
        .run(&format!("--dry-run --json {options}"), "true")
        .end()
        .code(0)
        .json();
    let stands = |kind: &str| {
        let guards = object["guards"].as_array().expect("guards");
        let guard = guards.iter().find(|guard| guard["kind"] == kind);
        text(&guard.expect(kind)["stands"])
    };
    assert_eq!(stands("bulkhead"), "has 1 of 2 permits free");
    assert!(stands("breaker").starts_with("is open for another 59m"));
    assert!(stands("task").starts_with("is open: 2 of 2 retries left"));
    assert_eq!(stands("budget"), "has 4 of 4 retries left");
    assert_eq!(object["decision"]["refused_by"][0], "breaker");
    assert_eq!(
        object["most_executions"], 3,
        "the task pays for two retries"
    );
    t.touch("go");
    held.end().code(0);
}

#[test]
fn wrong_options_are_still_wrong() {
    let t = TestEnv::new();
    let done = t.run("--dry-run --key k --retries many", "true").end();
    done.code(125).one_line();
    assert!(files(t.root()).is_empty());
}
