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

#[test]
fn tokens_and_times_are_kept_and_nothing_is_overwritten() {
    let t = TestEnv::new();
    t.run("--key a --scope s --ttl 5m", "echo one; echo two >&2")
        .end()
        .code(0);
    t.run("--key b", "true").end().code(0);
    let lines = t.idem("export --scope s a").end().code(0).stdout.clone();
    assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), 4);
    let other = t.path("other.db");
    let there = |args: &str| {
        let command = t.idem(args).env("IDEM_STORE", &other);
        command.input(lines.clone()).end().code(0).json()
    };
    let before = t.idem("status a --scope s --json").end().code(0).json();
    assert_eq!(there("import --json")["added"], 1);
    let after = there("status a --scope s --json");
    for field in [
        "expires_at",
        "fingerprint",
        "argv",
        "stdout_bytes",
        "stderr_bytes",
    ] {
        assert_eq!(before[field], after[field], "{field}");
    }
    let again = there("import --json");
    assert_eq!(
        (again["added"].as_u64(), again["kept"].as_u64()),
        (Some(0), Some(1))
    );
    assert_eq!(there("import --json --overwrite")["replaced"], 1);
}

#[test]
fn an_import_that_breaks_off_can_be_repeated() {
    let t = TestEnv::new();
    for key in ["a", "b"] {
        t.run(&format!("--key {key}"), "yes | head -c 100000")
            .end()
            .code(0);
    }
    let lines = t.idem("export").end().code(0).stdout.clone();
    let other = t.path("other.db");
    let import = |input: &[u8]| {
        let command = t.idem("import --json").env("IDEM_STORE", &other);
        command.input(input.to_vec()).end()
    };
    import(&lines[..lines.len() - 100]).code(125).one_line();
    let done = import(&lines).code(0).json();
    assert_eq!(
        (done["added"].as_u64(), done["kept"].as_u64()),
        (Some(1), Some(1))
    );
    let output = t.idem("output b").env("IDEM_STORE", &other).end();
    assert_eq!(output.code(0).stdout.len(), 100_000);
}

#[test]
fn what_runs_is_unknown_elsewhere() {
    let t = TestEnv::new();
    let script = "while [ ! -e go ]; do sleep 0.02; done";
    let running = t.run("--key a", script).start();
    t.upto_state("a", "running");
    let lines = t.idem("export").end().code(0).stdout.clone();
    t.write("go", b"");
    running.end().code(0);
    let other = t.path("other.db");
    let import = t.idem("import").env("IDEM_STORE", &other).input(lines);
    import.end().code(0);
    t.run("--key a", script)
        .env("IDEM_STORE", &other)
        .end()
        .code(122);
}

#[test]
fn a_doctor_names_what_a_person_must_do() {
    let t = TestEnv::new();
    let healthy = t.idem("doctor --json").end().code(0).json();
    assert_eq!(healthy["healthy"], true, "no store yet");
    t.run("--key big", "yes | head -c 100000").end().code(0);
    t.idem("doctor").end().code(0).err("");
    t.make_unknown("lost", "kill -9 $$");
    let page = t.idem("doctor").end().code(1).out_text();
    assert!(page.contains("idem status lost"), "{page}");
    t.idem("resolve lost --succeeded").end().code(0);
    t.idem("doctor").end().code(0);
    let spool = std::fs::read_dir(t.store_dir()).expect("the store");
    let is_spool = |path: &std::path::PathBuf| path.to_string_lossy().contains("-out-");
    let spool = spool
        .map(|entry| entry.expect("an entry").path())
        .find(is_spool);
    std::fs::remove_file(spool.expect("a spool file")).expect("removed");
    let found = t.idem("doctor --json").end().code(1).json();
    let problems: Vec<&serde_json::Value> = found["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter(|finding| finding["level"] == "problem")
        .collect();
    assert_eq!(problems.len(), 1, "{found}");
    assert_eq!(problems[0]["check"], "files", "{found}");
}
