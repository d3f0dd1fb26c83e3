//! What is known about a tool.

use crate::env::{TestEnv, text};

#[test]
fn a_known_tool_is_explained_and_not_run() {
    let t = TestEnv::new();
    let explain = |args: &str| t.idem(&format!("explain {args}")).end();
    let page = explain("-- npm publish");
    let page = page.code(0).err("").out_text();
    for part in [
        "tool        npm\n",
        "ECONNREFUSED",
        "--fetch-retries=0",
        "npm view",
        "not all are believed",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let page = explain("env npm_config_fetch_retries=0 npm publish");
    assert!(page.code(0).out_text().contains("believed: "), "{page}");
    let page = explain("helm upgrade app ./chart").code(0).out_text();
    assert!(page.contains("[unverified]"), "{page}");
    assert!(!t.store().exists(), "looking makes no store");
}

#[test]
fn the_environment_shows_that_retries_are_off() {
    let t = TestEnv::new();
    let believed = |attempts: &str| {
        let explain = t.idem("explain --json -- aws sqs send-message");
        let done = explain.env("AWS_MAX_ATTEMPTS", attempts).end();
        done.code(0).json()["refusals_believed"].clone()
    };
    assert_eq!(believed("1"), true);
    assert_eq!(believed("3"), false);
}

#[test]
fn an_unknown_tool_gets_a_timeout_from_what_it_took() {
    let t = TestEnv::new();
    t.script("job", "#!/bin/sh\necho x >>n\n");
    let explain = || t.idem("explain --json -- ./job 1").end().code(0).json();
    let before = explain();
    assert_eq!(before["tool"], serde_json::Value::Null);
    assert_eq!(before["durations"], serde_json::Value::Null);
    t.idem("run --key k -- ./job 1").end().code(0);
    let after = explain();
    assert_eq!(after["durations"]["samples"], 1, "{after}");
    let suggested = after["durations"]["suggested_timeout_ms"].as_u64();
    assert!(suggested.is_some_and(|ms| ms >= 1000), "{after}");
    let page = t.idem("explain -- ./job 1").end();
    let timeout = text(&after["durations"]["suggested_timeout"]);
    let line = format!("--timeout '{timeout}'");
    assert!(page.code(0).out_text().contains(&line), "{page}");
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn explain_needs_a_command() {
    let t = TestEnv::new();
    t.idem("explain").end().code(125).one_line();
    t.idem("explain --").end().code(125).one_line();
}
