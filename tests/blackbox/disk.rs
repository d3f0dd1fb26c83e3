//! Full disks and read-only mounts, on file systems that only the test's own mount namespace has.

use crate::command::Cmd;
use crate::env::{TestEnv, root_or_leave};

/// A bash script in a mount namespace of its own; whatever it mounts is gone when it ends.
fn mounting(t: &TestEnv, script: &str) -> Option<Cmd> {
    if !root_or_leave("a mount namespace") {
        return None;
    }
    t.write(
        "inner",
        format!("set -e\nidem() {{ \"$IDEM\" \"$@\"; }}\n{READ_ONLY}\n{script}"),
    );
    Some(
        t.command("unshare")
            .args(["--mount", "--propagation", "private", "bash", "inner"]),
    )
}

/// A small file system at `fs` with a store in it, its first operation done.
const SMALL: &str = "mkdir fs; mount -t tmpfs -o size=2m,mode=700 tmpfs fs
    export IDEM_STORE=$PWD/fs/s.db; idem run --key warm -- echo warm >/dev/null
    ";

/// Makes it read-only, once nobody has a file open for writing there.
const READ_ONLY: &str = "read_only() { local end=$((SECONDS + 40))
    until mount -o remount,ro fs 2>/dev/null; do [ $SECONDS -lt $end ] || exit 99; sleep 0.05; done; }";

/// Fills the rest of the small file system.
const FILL: &str = "dd if=/dev/zero of=fs/fill bs=4k 2>/dev/null || true
    ";

#[test]
fn a_result_that_does_not_fit_is_delivered_said_and_not_forgotten() {
    let t = TestEnv::new();
    let script = r#"c='echo x >> n; head -c 4000000 /dev/urandom; exit 3'
        set +e; idem run --key k -- sh -c "$c" >o 2>e; echo $? > code1
        idem run --key k -- sh -c "$c" >o2 2>e2; echo $? > code2
        idem run --key warm -- echo warm > warm; idem status k --json > status"#;
    let Some(run) = mounting(&t, &format!("{SMALL}{script}")) else {
        return;
    };
    run.end().code(0);
    assert_eq!(t.words("code1"), "3");
    assert_eq!(
        std::fs::metadata(t.path("o")).expect("the output").len(),
        4_000_000
    );
    assert!(t.read("e").contains("idem: "), "{}", t.read("e"));
    assert!(
        ["3", "122"].contains(&t.words("code2").as_str()),
        "{}",
        t.words("code2")
    );
    assert!(t.read("e2").contains("idem: "), "{}", t.read("e2"));
    assert_eq!((t.lines("n"), t.read("warm").as_str()), (1, "warm\n"));
    let state: serde_json::Value = serde_json::from_str(&t.read("status")).expect("a status");
    assert!(
        ["failed", "unknown"].contains(&state["state"].as_str().unwrap_or("")),
        "{state}"
    );
}

#[test]
fn a_full_disk_before_the_claim_runs_nothing() {
    let t = TestEnv::new();
    let script = r#"set +e; for i in 1 2 3; do
        idem run --key new$i -- sh -c 'echo x >> n' >/dev/null 2>>e; echo $? >> codes; done
        rm fs/fill; idem run --key new1 -- sh -c 'echo x >> n'; echo $? >> codes"#;
    let Some(run) = mounting(&t, &format!("{SMALL}{FILL}{script}")) else {
        return;
    };
    run.end().code(0);
    let codes = t.words("codes");
    let runs = codes.split(' ').filter(|c| *c == "0").count();
    assert!(
        codes.split(' ').all(|c| c == "0" || c == "125"),
        "{codes}: {}",
        t.read("e")
    );
    assert!(codes.ends_with('0'), "{codes}");
    assert_eq!(t.lines("n"), runs, "{codes}");
}

#[test]
fn a_disk_that_fills_while_the_command_runs_forgets_nothing() {
    let t = TestEnv::new();
    let script = r#"c='echo x >> n; dd if=/dev/zero of=fs/fill bs=4k 2>/dev/null; echo out; exit 4'
        set +e; for i in 1 2; do idem run --key k -- sh -c "$c" >o$i 2>e$i; echo $? >> codes; done
        rm fs/fill; idem run --key k -- sh -c "$c" >o3 2>e3; echo $? >> codes"#;
    let Some(run) = mounting(&t, &format!("{SMALL}{script}")) else {
        return;
    };
    run.end().code(0);
    assert_eq!(t.lines("n"), 1, "{}", t.words("codes"));
    assert_eq!(t.read("o1"), "out\n");
    let codes = t.words("codes");
    assert!(codes.starts_with("4 "), "{codes}");
    assert!(
        codes
            .split(' ')
            .skip(1)
            .all(|c| ["4", "122", "125"].contains(&c)),
        "{codes}"
    );
    if codes.contains("122") {
        assert!(t.read("e1").contains("idem: "), "{}", t.read("e1"));
    }
}

#[test]
fn replays_work_on_a_full_disk() {
    let t = TestEnv::new();
    let script = "for i in 1 2 3; do idem run --key warm -- echo warm; done > o; idem status warm > s; idem output warm >> o";
    let Some(run) = mounting(&t, &format!("{SMALL}{FILL}{script}")) else {
        return;
    };
    run.end().code(0);
    assert_eq!(t.read("o"), "warm\n".repeat(4));
}

#[test]
fn replays_work_on_a_read_only_mount() {
    let t = TestEnv::new();
    let script = r#"idem run --key big -- sh -c 'yes | head -c 100000' > big1
        read_only; set +e
        idem run --key warm -- echo warm > o; echo $? >> codes
        idem run --key big -- sh -c 'yes | head -c 100000' > big2; echo $? >> codes
        idem output warm >> o; echo $? >> codes; idem status > s; echo $? >> codes
        idem log warm > l; echo $? >> codes; idem wait warm >> o; echo $? >> codes
        idem run --key new -- sh -c 'echo x >> n' 2> e; echo $? >> codes
        idem forget warm 2>> e; echo $? >> codes"#;
    let Some(run) = mounting(&t, &format!("{SMALL}{script}")) else {
        return;
    };
    run.end().code(0);
    assert_eq!(t.words("codes"), "0 0 0 0 0 0 125 125", "{}", t.read("e"));
    assert_eq!(t.read("o"), "warm\n".repeat(3));
    assert!(t.read("big2") == t.read("big1") && t.read("big1").len() == 100_000);
    assert_eq!(t.lines("n"), 0);
    assert_eq!(t.lines("e"), 2, "{}", t.read("e"));
}

#[test]
fn an_unknown_on_a_read_only_mount_is_still_unknown() {
    let t = TestEnv::new();
    let script = r#"set +e; c='echo x >> n; kill -9 $$'; idem run --key k -- sh -c "$c" 2>/dev/null
        read_only; for o in --idempotent ''; do
        idem run --key k $o -- sh -c "$c" 2>> e; echo $? >> codes; done"#;
    let Some(run) = mounting(&t, &format!("{SMALL}{script}")) else {
        return;
    };
    run.end().code(0);
    assert_eq!(t.words("codes"), "125 122", "{}", t.read("e"));
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn a_read_only_store_that_does_not_exist_yet_is_refused() {
    let t = TestEnv::new();
    let script = r#"mkdir ro; mount -t tmpfs -o ro,mode=700 tmpfs ro; set +e
        IDEM_STORE=$PWD/ro/s.db "$IDEM" run --key k -- sh -c 'echo x >> n' 2> e; echo $? > code"#;
    let Some(run) = mounting(&t, script) else {
        return;
    };
    run.end().code(0);
    assert_eq!(
        (t.words("code").as_str(), t.lines("n"), t.lines("e")),
        ("125", 0, 1),
        "{}",
        t.read("e")
    );
}
