//! The verbs that look at operations and move them.

use crate::command::Done;
use crate::env::{IDEM, TestEnv, gate, text};

/// A small world: one of each state but held.
fn world() -> TestEnv {
    let t = TestEnv::new();
    t.run("--key job/good", "echo out; echo err >&2")
        .end()
        .code(0);
    t.run("--key job/bad", "echo no; exit 7").end().code(7);
    t.make_unknown("job/lost", "kill -9 $$");
    t
}

fn verb(t: &TestEnv, args: &[&str]) -> Done {
    t.command(IDEM).args(args).end()
}

#[test]
fn status_lists_an_aligned_table() {
    let t = world();
    let done = t.idem("status").end();
    done.code(0).err("");
    let table = done.out_text();
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 4, "a head and three rows\n{table}");
    for (key, state) in [
        ("job/good", "succeeded"),
        ("job/bad", "failed"),
        ("job/lost", "unknown"),
    ] {
        assert!(
            rows.iter().any(|r| r.contains(key) && r.contains(state)),
            "{key} {state}\n{table}"
        );
    }
    let starts: Vec<_> = ["succeeded", "failed", "unknown"]
        .iter()
        .map(|s| rows.iter().find_map(|r| r.find(s)).expect("a state"))
        .collect();
    assert!(
        starts.iter().all(|s| *s == starts[0]),
        "not aligned\n{table}"
    );
    assert!(!table.contains('\u{1b}'), "colour on a pipe\n{table}");
    assert!(
        rows.iter().all(|r| !r.ends_with(' ')),
        "blanks at the ends of lines\n{table}"
    );
}

#[test]
fn an_empty_store_is_an_empty_list() {
    let t = TestEnv::new();
    t.idem("status").end().code(0);
    assert_eq!(
        t.idem("status --json").end().code(0).json(),
        serde_json::json!([])
    );
    t.idem("status k").end().code(1).out("").one_line();
    t.idem("log k").end().code(1).out("").one_line();
    assert!(!t.store().exists(), "a look left a store");
}

#[test]
fn status_filters() {
    let t = world();
    let keys = |args: &str| {
        let list = t
            .idem(&format!("status --json {args}"))
            .end()
            .code(0)
            .json();
        list.as_array()
            .expect("a list")
            .iter()
            .map(|op| text(&op["key"]))
            .collect::<Vec<_>>()
    };
    assert_eq!(keys("--state unknown"), ["job/lost"]);
    assert_eq!(keys("--state failed"), ["job/bad"]);
    assert_eq!(keys("--limit 1"), ["job/lost"]);
    assert_eq!(keys("--since 1h").len(), 3);
    assert_eq!(keys("job/*").len(), 3);
    assert_eq!(keys("*good"), ["job/good"]);
    assert_eq!(keys("no*such").len(), 0);
    assert_eq!(keys("--task job").len() + keys("--scope nosuch").len(), 3);
}

#[test]
fn a_detail_page_says_what_to_do_next() {
    let t = world();
    let page = |key: &str| verb(&t, &["status", key]).code(0).err("").out_text();
    let lost = page("job/lost");
    assert!(
        lost.contains("unknown") && lost.contains("idem resolve job/lost"),
        "{lost}"
    );
    assert!(lost.contains("--probe"), "{lost}");
    let bad = page("job/bad");
    assert!(
        bad.contains("failed") && bad.contains('7') && bad.contains("--if-failed rerun"),
        "{bad}"
    );
    let good = page("job/good");
    assert!(
        good.contains("succeeded") && good.contains("sh -c"),
        "{good}"
    );
    for page in [&lost, &bad, &good] {
        assert!(!page.contains('\u{1b}') && page.ends_with('\n'), "{page}");
    }
}

#[test]
fn control_characters_of_a_command_do_not_reach_the_terminal() {
    let t = TestEnv::new();
    let run = t.command(IDEM).args([
        "run",
        "--key",
        "k",
        "--",
        "sh",
        "-c",
        ": '\u{1b}[31m\u{7}'\nexit 3",
    ]);
    run.end().code(3);
    for args in [
        ["status", "k"].as_slice(),
        &["status"],
        &["log", "k"],
        &["log"],
    ] {
        let done = verb(&t, args);
        let odd = done.code(0).stdout.iter().any(|b| *b < 32 && *b != b'\n');
        assert!(!odd, "{done}");
    }
}

#[test]
fn the_log_tells_every_decision() {
    let t = world();
    t.run("--key job/good", "echo out; echo err >&2")
        .end()
        .code(0);
    t.run("--key job/lost", "kill -9 $$").end().code(122);
    t.run("--key job/lost --if-unknown rerun", "kill -9 $$")
        .end()
        .code(137);
    let log = verb(&t, &["log", "job/lost"]).code(0).err("").out_text();
    assert!(log.contains("claim"), "{log}");
    assert!(log.contains("signal") && log.contains("unknown"), "{log}");
    assert!(log.lines().count() >= 4, "{log}");
    let all = t.idem("log").end().code(0).out_text();
    assert!(
        all.contains("job/good") && all.contains("job/lost"),
        "{all}"
    );
    t.idem("log nosuch").end().code(1).out("").one_line();
}

#[test]
fn the_log_outlives_a_forgotten_operation() {
    let t = world();
    t.idem("forget job/good").end().code(0);
    let log = verb(&t, &["log", "job/good"]);
    assert!(log.code(0).out_text().contains("forg"), "{log}");
}

#[test]
fn resolve_has_three_answers() {
    let t = TestEnv::new();
    let script = "echo x >> n; echo half; kill -9 $$";
    for key in ["s", "f", "n"] {
        t.make_unknown(key, script);
    }
    t.write("answer", "found it\n");
    verb(&t, &["resolve", "s", "--succeeded", "--stdout", "answer"]).code(0);
    t.run("--key s", script).end().code(0).out("found it\n");
    verb(&t, &["resolve", "f", "--failed", "--exit-code", "9"]).code(0);
    t.run("--key f", script).end().code(9);
    verb(&t, &["resolve", "n", "--not-done"]).code(0);
    assert_eq!(t.lines("n"), 3);
    t.run("--key n", script).end().code(137);
    assert_eq!(t.lines("n"), 4);
    assert_eq!(t.state("s"), "succeeded");
    assert_eq!(t.state("f"), "failed");
}

#[test]
fn resolve_without_more_has_plain_codes() {
    let t = TestEnv::new();
    let script = "kill -9 $$";
    for key in ["s", "f", "c"] {
        t.make_unknown(key, script);
    }
    t.idem("resolve s --succeeded").end().code(0);
    t.run("--key s", script).end().code(0).out("");
    t.idem("resolve f --failed").end().code(0);
    t.run("--key f", script).end().code(1);
    t.idem("resolve c --succeeded --exit-code 3").end().code(0);
    t.run("--key c", script).end().code(3);
    let status = t.status("s");
    assert!(!status["decided_by"].is_null(), "{status}");
}

#[test]
fn resolve_settles_only_what_is_unknown() {
    let t = world();
    for key in ["job/good", "job/bad"] {
        let before = t.status(key);
        for answer in ["--succeeded", "--failed", "--not-done"] {
            let done = verb(&t, &["resolve", key, answer]);
            assert_ne!(done.code, 0, "{done}");
            done.one_line();
        }
        assert_eq!(t.status(key), before);
    }
    t.idem("resolve nosuch --succeeded")
        .end()
        .code(1)
        .one_line();
    let missing = verb(
        &t,
        &["resolve", "job/lost", "--succeeded", "--stdout", "nosuch"],
    );
    missing.code(125).one_line();
    assert_eq!(t.state("job/lost"), "unknown");
}

#[test]
fn forget_deletes_what_is_settled_and_needs_force_for_the_rest() {
    let t = world();
    t.idem("forget job/good job/bad").end().code(0);
    assert_eq!(
        (t.state("job/good"), t.state("job/bad")),
        ("none".into(), "none".into())
    );
    let done = t.idem("forget job/lost").end();
    assert_ne!(done.code, 0);
    done.one_line().says("--force");
    assert_eq!(t.state("job/lost"), "unknown");
    t.idem("forget --force job/lost").end().code(0);
    assert_eq!(t.state("job/lost"), "none");
    t.idem("forget job/lost").end().code(1).one_line();
}

#[test]
fn forget_takes_globs() {
    let t = world();
    t.run("--key other", "true").end().code(0);
    let done = t.idem("forget job/*").end();
    done.says("--force");
    let left = t.idem("status --json").end().json();
    let keys: Vec<String> = left
        .as_array()
        .expect("a list")
        .iter()
        .map(|op| text(&op["key"]))
        .collect();
    assert_eq!(keys, ["other", "job/lost"]);
    t.idem("forget --force *").end().code(0);
    assert_eq!(t.idem("status --json").end().json(), serde_json::json!([]));
    t.idem("forget no*such").end().code(1).one_line();
}

#[test]
fn an_exact_key_with_glob_characters_is_itself() {
    let t = TestEnv::new();
    for key in ["a[1]", "a1", "b*", "bb", "c?", "cc"] {
        t.command(IDEM)
            .args(["run", "--key", key, "--", "true"])
            .end()
            .code(0);
    }
    for key in ["a[1]", "b*", "c?"] {
        verb(&t, &["forget", key]).code(0);
    }
    for key in ["a1", "bb", "cc"] {
        assert_eq!(t.state(key), "succeeded", "{key} went with another");
    }
}

#[test]
fn forget_then_run_executes_anew() {
    let t = TestEnv::new();
    t.run("--key k", "echo one").end().code(0);
    t.idem("forget k").end().code(0);
    t.run("--key k", "echo two").end().code(0).out("two\n");
}

#[test]
fn scopes_are_respected_by_every_verb() {
    let t = TestEnv::new();
    t.run("--key k --scope a", "echo a").end().code(0);
    t.run("--key k --scope b", "echo b").end().code(0);
    t.idem("output k --scope a").end().code(0).out("a\n");
    t.idem("output k")
        .env("IDEM_SCOPE", "b")
        .end()
        .code(0)
        .out("b\n");
    t.idem("wait k --scope b").end().code(0).out("b\n");
    t.idem("forget k --scope a").end().code(0);
    t.idem("output k --scope a").end().code(1);
    t.idem("output k --scope b").end().code(0);
    t.idem("status k --scope a").end().code(1);
    let log = t.idem("log k --scope b --json").end().code(0).out_text();
    assert!(log.contains("claimed"), "{log}");
    for line in log.lines() {
        let event: serde_json::Value = serde_json::from_str(line).expect("an event");
        assert_eq!(text(&event["scope"]), "b", "{event}");
    }
}

#[test]
fn key_prints_what_run_would_use() {
    let t = TestEnv::new();
    let first = |args: &[&str]| {
        let done = verb(&t, args);
        done.code(0)
            .err("")
            .out_text()
            .lines()
            .next()
            .expect("a key")
            .to_owned()
    };
    assert_eq!(first(&["key", "--key", "a b", "--", "true"]), "a b");
    assert_eq!(
        first(&["key", "--task", "t", "--step", "s", "--", "true"]),
        "t/s"
    );
    let derived = first(&["key", "--", "sh", "-c", "echo x >> n"]);
    t.run("", "echo x >> n").end().code(0);
    assert_eq!(t.state(&derived), "succeeded");
    assert!(!t.path("nosuch").exists() && t.lines("n") == 1);
}

#[test]
fn a_closed_pipe_is_quiet() {
    let t = TestEnv::new();
    t.says("for i in $(seq 30); do idem run --key key-$i -- sh -c 'yes | head -c 200000' >/dev/null; done");
    let script = r#"for v in status 'status --json' 'status key-1' 'output key-1' log 'log --json' 'wait key-1' \
        'run --help' --help man 'completions bash' 'completions zsh' 'run --key key-1 --json -- sh -c true'; do
        $IDEM $v 2>>err | head -c 1 >/dev/null; $IDEM $v 2>>err | true; done; exit 0"#;
    t.bash(script).end().code(0);
    let noise = t.read("err");
    let panics = noise
        .lines()
        .filter(|l| l.contains("panic") || l.contains("roken pipe"))
        .count();
    assert_eq!(panics, 0, "{noise}");
}

#[test]
fn output_that_cannot_be_written_is_no_success() {
    let t = TestEnv::new();
    t.run("--key k", "echo out").end().code(0);
    for args in [
        "status",
        "output k",
        "log",
        "run --help",
        "man",
        "completions bash",
        "key --key a -- true",
    ] {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full");
        let done = t.idem(args).stdout(full).end();
        assert_ne!(done.code, 0, "{done}");
        done.one_line();
    }
}

#[test]
fn colour_only_where_it_is_wanted() {
    let t = world();
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb"), ("CLICOLOR", "1")] {
        let done = t.idem("status").env(name, value).end();
        assert!(!done.code(0).stdout.contains(&0x1b), "{done}");
    }
}

#[test]
fn a_look_at_a_running_operation_does_not_wait() {
    let t = TestEnv::new();
    let run = t
        .run(
            "--key k",
            &format!("echo live; echo x >> n; {}", gate("go")),
        )
        .start();
    t.upto_lines("n", 1);
    let list = t.idem("status").end().code(0).out_text();
    assert!(list.contains("running"), "{list}");
    assert!(
        verb(&t, &["status", "k"])
            .code(0)
            .out_text()
            .contains("running")
    );
    verb(&t, &["log", "k"]).code(0);
    let done = verb(&t, &["output", "k"]);
    assert_ne!(done.code, 0, "{done}");
    t.touch("go");
    run.end().code(0);
}

#[test]
fn what_is_not_there_is_told_with_what_begins_so() {
    let t = TestEnv::new();
    t.run("--key daily --per day --scope s", "true")
        .end()
        .code(0);
    for verb in ["status daily", "output daily", "wait daily", "log daily"] {
        let done = t.idem(&format!("{verb} --scope s")).end();
        done.code(1)
            .says("`idem status --scope s 'daily*'`")
            .one_line();
    }
    let list = t.idem("status --scope s daily*").end().code(0).out_text();
    assert!(list.contains("daily@2"), "{list}");
    let long = "k".repeat(255);
    t.idem(&format!("status {long}"))
        .end()
        .code(1)
        .says("with `idem status`");
}
