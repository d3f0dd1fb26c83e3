//! The machine-readable shapes.

use serde_json::Value;

use crate::env::{TestEnv, gate, keys, text, tool_or_leave};

/// The members of `run --json`, in their order.
const RUN: [&str; 18] = [
    "decision",
    "scope",
    "key",
    "state",
    "reason",
    "next",
    "retry_at",
    "exit_code",
    "generation",
    "attempts",
    "stdout",
    "stderr",
    "stdout_encoding",
    "stderr_encoding",
    "truncated",
    "degraded",
    "settled_at",
    "duration_ms",
];

/// The members of an operation.
const OPERATION: [&str; 23] = [
    "scope",
    "key",
    "state",
    "reason",
    "next",
    "retry_at",
    "generation",
    "fingerprint",
    "argv",
    "cwd",
    "created_at",
    "settled_at",
    "expires_at",
    "exit_code",
    "stdout_bytes",
    "stderr_bytes",
    "truncated",
    "owner",
    "source",
    "preview",
    "decided_by",
    "attempts",
    "",
];

#[track_caller]
fn has_members(value: &Value, members: &[&str]) {
    let object = value.as_object().expect("an object");
    for member in members.iter().filter(|m| !m.is_empty()) {
        assert!(object.contains_key(*member), "no {member} in {value}");
    }
    for member in object.keys() {
        assert!(
            members.contains(&member.as_str()),
            "unexpected {member} in {value}"
        );
    }
}

/// The named members as one line.
fn line(value: &Value, members: &[&str]) -> String {
    members
        .iter()
        .map(|m| text(&value[*m]))
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn run_prints_one_object_instead_of_the_streams() {
    let t = TestEnv::new();
    let script = "printf out; printf err >&2; exit 5";
    let first = t.run("--key k --json", script).end();
    let json = first.code(5).err("").json();
    has_members(&json, &RUN);
    let members = [
        "decision",
        "state",
        "exit_code",
        "stdout",
        "stderr",
        "attempts",
        "truncated",
    ];
    assert_eq!(line(&json, &members), "executed failed 5 out err 1 false");
    assert_eq!(
        line(
            &json,
            &["stdout_encoding", "stderr_encoding", "key", "scope"]
        ),
        "utf-8 utf-8 k "
    );
    assert!(
        json["duration_ms"].as_u64().is_some() && json["generation"].as_u64().is_some(),
        "{json}"
    );
    let again = t.run("--key k --json", script).end().code(5).json();
    has_members(&again, &RUN);
    assert_eq!(line(&again, &members), "replayed failed 5 out err 1 false");
    assert_eq!(again["generation"], json["generation"]);
    assert_eq!(again["settled_at"], json["settled_at"]);
}

#[test]
fn every_decision_has_its_word() {
    let t = TestEnv::new();
    let run = |options: &str, script: &str| t.run(&format!("--json {options}"), script).end();
    let members = ["decision", "state", "exit_code", "next"];
    let done = run("--key k", "exit 0");
    assert!(
        line(&done.code(0).json(), &members).starts_with("executed succeeded 0 "),
        "{done}"
    );
    let done = run("--key k", "exit 1");
    assert_eq!(
        line(&done.code(121).json(), &["decision", "next"]),
        "refused fix_request"
    );
    t.make_unknown("u", "kill -9 $$");
    let done = run("--key u", "kill -9 $$");
    assert_eq!(
        line(&done.code(122).json(), &["decision", "state", "next"]),
        "refused unknown ask_human"
    );
    let script = format!("echo x >> n; {}", gate("go"));
    let owner = t.run("--key r", &script).start();
    t.upto_lines("n", 1);
    let done = run("--key r --if-running refuse", &script);
    assert_eq!(
        line(&done.code(120).json(), &["decision", "state", "next"]),
        "refused running wait"
    );
    let done = run("--key r --if-running skip", &script);
    assert_eq!(
        line(&done.code(0).json(), &["decision", "state"]),
        "skipped running"
    );
    t.touch("go");
    owner.end().code(0);
    let done = run("--key d --detach", "exit 0");
    assert_eq!(
        line(&done.code(0).json(), &["decision", "key"]),
        "detached d"
    );
    t.upto_state("d", "succeeded");
}

#[test]
fn an_unknown_end_says_who_spoke() {
    let t = TestEnv::new();
    let json = t
        .run("--key k --json", "echo half; kill -9 $$")
        .end()
        .code(137)
        .json();
    assert_eq!(
        line(&json, &["decision", "state", "next", "stdout"]),
        "executed unknown ask_human half\n"
    );
    let json = t
        .idem("run --key n --json -- ./nosuch")
        .end()
        .code(127)
        .json();
    assert_eq!(
        line(&json, &["decision", "state", "next"]),
        "executed failed fix_request"
    );
}

#[test]
fn nothing_mixes_with_the_object() {
    let t = TestEnv::new();
    for (key, script) in [
        ("late", "(sleep 0.3; echo late) & echo out"),
        ("big", "yes | head -c 2000000"),
        ("json", r#"echo '{"a":1}'; echo '"' >&2"#),
        ("control", r"printf '\001\033[31m\b\t\\\r\n'"),
    ] {
        for _ in 0..2 {
            let done = t.run(&format!("--key {key} --json"), script).end();
            has_members(&done.code(0).json(), &RUN);
            assert!(done.stdout.ends_with(b"}\n"), "{done}");
        }
    }
    for bad in [
        "run --json --key",
        "run --json --ttl x --key k -- true",
        "run --json --key k",
    ] {
        let done = t.idem(bad).end();
        done.code(125).says("idem: ");
        assert!(done.stdout.is_empty() || done.json().is_object(), "{done}");
    }
}

#[test]
fn bytes_that_are_no_text_come_as_base64() {
    let t = TestEnv::new();
    for decision in ["executed", "replayed"] {
        let json = t
            .run("--key k --json", r"printf '\377'; printf 'plain' >&2")
            .end()
            .code(0)
            .json();
        let members = [
            "decision",
            "stdout",
            "stdout_encoding",
            "stderr",
            "stderr_encoding",
        ];
        assert_eq!(
            line(&json, &members),
            format!("{decision} /w== base64 plain utf-8")
        );
    }
}

#[test]
fn the_report_is_the_object_without_the_streams() {
    let t = TestEnv::new();
    let read = || serde_json::from_str::<Value>(&t.read("rep")).expect("one object");
    t.run("--key r --report rep", "echo hi; exit 4")
        .end()
        .code(4)
        .out("hi\n")
        .err("");
    let report = read();
    assert_eq!(
        line(&report, &["decision", "state", "exit_code"]),
        "executed failed 4"
    );
    assert!(
        report.get("stdout").is_none() && report.get("stderr").is_none(),
        "{report}"
    );
    t.run("--key r --report rep", "echo hi; exit 4")
        .end()
        .code(4)
        .out("hi\n");
    assert_eq!(text(&read()["decision"]), "replayed");
    t.run("--key r --report rep", "echo other").end().code(0);
    t.run("--key r --report rep", "echo third").end().code(121);
    assert_eq!(text(&read()["decision"]), "refused");
}

#[test]
fn a_report_that_cannot_be_written_loses_no_result() {
    let t = TestEnv::new();
    let done = t
        .run("--key r --report no/such/dir/rep", "echo x >> n; echo hi")
        .end();
    done.says("idem: ");
    assert!(t.lines("n") <= 1);
    let again = t.run("--key r", "echo x >> n; echo hi").end();
    again.code(0).out("hi\n");
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn an_operation_has_one_shape() {
    let t = TestEnv::new();
    let script = "echo out; echo error >&2; exit 3";
    t.run("--key k", script)
        .env("IDEM_SOURCE", "nightly job")
        .end()
        .code(3);
    let status = t.status("k");
    has_members(&status, &OPERATION);
    assert_eq!(
        line(
            &status,
            &[
                "scope",
                "key",
                "state",
                "exit_code",
                "stdout_bytes",
                "stderr_bytes"
            ]
        ),
        " k failed 3 4 6"
    );
    assert_eq!(status["argv"], serde_json::json!(["sh", "-c", script]));
    assert_eq!(text(&status["cwd"]), t.says("pwd -P"));
    assert_eq!(text(&status["fingerprint"]).len(), 64);
    assert_eq!(text(&status["source"]["label"]), "nightly job");
    has_members(
        &status["source"],
        &["host", "user", "pid", "parent", "label"],
    );
    has_members(&status["owner"], &["host", "user", "pid", "alive"]);
    assert_eq!(status["owner"]["alive"], false);
    let attempt = &status["attempts"][0];
    has_members(
        attempt,
        &[
            "number",
            "generation",
            "pid",
            "started_at",
            "ended_at",
            "duration_ms",
            "exit_code",
            "signal",
            "class",
            "reason",
        ],
    );
    assert_eq!(
        line(attempt, &["number", "exit_code", "signal", "class"]),
        "1 3 null permanent"
    );
    assert_eq!(attempt["generation"], status["generation"]);
    for at in [
        &status["created_at"],
        &status["settled_at"],
        &attempt["started_at"],
        &attempt["ended_at"],
    ] {
        assert!(
            text(at).ends_with('Z') && text(at).parse::<humantime::Timestamp>().is_ok(),
            "{at}"
        );
    }
}

#[test]
fn a_running_operation_shows_its_owner_and_child() {
    let t = TestEnv::new();
    let run = t
        .run("--key k", &format!("echo $$ >> n; {}", gate("go")))
        .start();
    t.upto_lines("n", 1);
    let status = t.status("k");
    assert_eq!(
        line(&status, &["state", "exit_code", "settled_at", "next"]),
        "running null null wait"
    );
    assert_eq!(status["owner"]["alive"], true);
    assert_eq!(t.child("k").to_string(), t.words("n"));
    assert_ne!(
        t.keeper("k"),
        run.pid(),
        "the keeper is a process of its own"
    );
    t.touch("go");
    run.end().code(0);
}

#[test]
fn a_list_is_an_array_of_the_same_shape_without_attempts() {
    let t = TestEnv::new();
    assert_eq!(
        t.idem("status --json").end().code(0).json(),
        serde_json::json!([])
    );
    for key in ["a", "b", "c"] {
        t.run(&format!("--key {key}"), "true").end().code(0);
    }
    let list = t.idem("status --json").end().code(0).json();
    assert_eq!(keys(&list), ["c", "b", "a"], "the newest first");
    let members: Vec<&str> = OPERATION
        .iter()
        .copied()
        .filter(|m| *m != "attempts")
        .collect();
    has_members(&list[0], &members);
}

#[test]
fn arguments_that_are_no_text_come_as_base64() {
    use std::os::unix::ffi::OsStrExt;
    let t = TestEnv::new();
    let odd = std::ffi::OsStr::from_bytes(b"x\xff");
    t.idem("run --key k -- printf %s").arg(odd).end().code(0);
    assert_eq!(
        t.status("k")["argv"],
        serde_json::json!(["printf", "%s", {"base64": "eP8="}])
    );
}

#[test]
fn the_log_is_one_event_a_line() {
    let t = TestEnv::new();
    t.run("--key k", "exit 3").end().code(3);
    t.run("--key k", "exit 3").end().code(3);
    let log = t.idem("log k --json").end();
    let events: Vec<Value> = log
        .code(0)
        .out_text()
        .lines()
        .map(|line| serde_json::from_str(line).expect("an event"))
        .collect();
    assert!(events.len() >= 2, "{log}");
    for event in &events {
        for member in ["at", "scope", "key", "generation", "event"] {
            assert!(event.get(member).is_some(), "no {member} in {event}");
        }
        assert_eq!(text(&event["key"]), "k");
    }
}

#[test]
fn jq_reads_it() {
    if !tool_or_leave("jq") {
        return;
    }
    let t = TestEnv::new();
    t.run("--key k", "echo hi").end().code(0);
    let script = r#"idem run --key k --json -- sh -c 'echo hi' | jq -r .stdout
        idem status k --json | jq -r '.attempts|length'
        idem status --json | jq -r '.[]|select(.key=="k").state'"#;
    assert_eq!(t.says(script), "hi\n\n1\nsucceeded");
}

#[test]
fn attempts_of_all_generations_are_kept_together() {
    let t = TestEnv::new();
    let script = "echo x >> n; kill -9 $$";
    t.make_unknown("k", script);
    t.run("--key k --if-unknown rerun", script).end().code(137);
    let status = t.status("k");
    let attempts = status["attempts"].as_array().expect("attempts");
    let of = |member: &str| {
        attempts
            .iter()
            .filter_map(|a| a[member].as_i64())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("number"), [1, 1], "numbers restart with each generation");
    let generations = of("generation");
    assert!(
        generations.len() == 2 && generations[0] < generations[1],
        "{status}"
    );
    t.idem("forget --force k").end().code(0);
    t.run("--key k", script).end().code(137);
    assert_eq!(
        t.status("k")["attempts"].as_array().map(Vec::len),
        Some(1),
        "a new token, a new count"
    );
}

#[test]
fn a_persons_answer_is_a_new_generation() {
    let t = TestEnv::new();
    t.make_unknown("k", "kill -9 $$");
    let before = t.status("k")["generation"].as_i64();
    t.idem("resolve k --succeeded").end().code(0);
    let status = t.status("k");
    assert!(status["generation"].as_i64() > before, "{status}");
    assert!(
        !status["settled_at"].is_null() && !status["decided_by"].is_null(),
        "{status}"
    );
}

#[test]
fn what_idem_itself_refuses_is_told_in_json_and_in_the_report() {
    let t = TestEnv::new();
    let refused = |args: &str, key: Value| {
        let done = t.idem(args).end();
        done.code(125);
        let told = done.json();
        has_members(&told, &RUN);
        assert_eq!(told["decision"], "refused", "{args}");
        assert_eq!(told["next"], "fix_request", "{args}");
        assert_eq!(told["key"], key, "{args}");
        let reason = text(&told["reason"]);
        assert!(done.err_text().contains(&reason), "{args}: {done}");
    };
    refused("run --json --key= -- true", Value::Null);
    refused("run --json --key a --timeout abc -- true", Value::Null);
    refused("run --json --retires 3 --key a -- true", Value::Null);
    refused(
        "run --json --store /dev/null/x --key a -- true",
        Value::Null,
    );
    t.idem("run --report told.json --key= -- true")
        .end()
        .code(125);
    let report: Value = serde_json::from_str(&t.read("told.json")).unwrap();
    assert_eq!(report["next"], "fix_request");
    assert_eq!(t.lines("n"), 0);
}

#[test]
fn an_object_that_nobody_can_read_is_no_success() {
    let t = TestEnv::new();
    for _ in ["executed", "replayed"] {
        let done = t
            .bash("idem run --json --key k -- sh -c 'echo x >>n; echo out' >&-")
            .end();
        done.code(125);
        assert!(done.err_text().contains("stdout"), "{done}");
    }
    assert_eq!(t.lines("n"), 1);
}
