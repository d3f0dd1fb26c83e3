//! What names an operation: explicit keys, files, the environment, scopes, tasks and derived keys.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::command::Done;
use crate::env::{IDEM, TestEnv, text};

/// Runs `echo x >> n` with these identity options.
fn run(t: &TestEnv, options: &[&str]) -> Done {
    t.command(IDEM)
        .arg("run")
        .args(options)
        .args(["--", "sh", "-c", "echo x >> n"])
        .end()
}

/// One refusal, and nothing has run.
#[track_caller]
fn refused(t: &TestEnv, options: &[&str]) {
    run(t, options).code(125).out("").one_line();
    assert_eq!(t.lines("n"), 0, "{options:?} ran");
}

#[test]
fn an_empty_key_is_refused_on_every_path() {
    let t = TestEnv::new();
    refused(&t, &["--key", ""]);
    refused(&t, &["--key="]);
    t.write("empty", "");
    refused(&t, &["--key-file", "empty"]);
    t.write("newline", "\n");
    refused(&t, &["--key-file", "newline"]);
    refused(&t, &["--key", "a-{env:NOT_SET_AT_ALL}"]);
    let run = |name: &str, value: &str, options: &str| {
        t.run(options, "echo x >> n")
            .env(name, value)
            .end()
            .code(125)
            .out("")
            .one_line()
            .clone()
    };
    run("IDEM_KEY", "", "").says("key");
    run("EMPTY", "", "--key {env:EMPTY}").says("key");
    assert_eq!(t.lines("n"), 0);
}

#[test]
fn a_key_is_never_trimmed() {
    let t = TestEnv::new();
    for key in [
        "k",
        " k",
        "k ",
        "K",
        "k/",
        "./k",
        "-k",
        "%k",
        "é",
        "e\u{301}",
        "a b\"c'$d",
    ] {
        run(&t, &[&format!("--key={key}")]).code(0);
    }
    assert_eq!(t.lines("n"), 11, "two of these keys were taken for one");
    for key in ["k", " k", "e\u{301}", "a b\"c'$d"] {
        run(&t, &["--key", key]).code(0);
        assert_eq!(text(&t.status(key)["key"]), key);
    }
    assert_eq!(t.lines("n"), 11);
}

#[test]
fn a_key_has_1_to_255_printable_bytes() {
    let t = TestEnv::new();
    let whole = "x".repeat(255);
    refused(&t, &["--key", &"x".repeat(256)]);
    refused(&t, &["--key", &"é".repeat(128)]);
    for odd in [
        "a\nb",
        "a\tb",
        "a\rb",
        "a\u{1b}b",
        "a\u{7f}b",
        "a\u{85}b",
        "a\u{200b}b",
        "\n",
    ] {
        refused(&t, &["--key", odd]);
    }
    for key in [whole.clone(), format!("{}x", "é".repeat(127))] {
        run(&t, &["--key", &key]).code(0);
        run(&t, &["--key", &key]).code(0);
    }
    assert_eq!(t.lines("n"), 2);
    run(&t, &["--key", &format!("{}y", &whole[1..])]).code(0);
    assert_eq!(t.lines("n"), 3, "the last byte counts");
}

#[test]
fn a_key_that_is_no_utf8_is_refused() {
    let t = TestEnv::new();
    let odd = OsStr::from_bytes(b"a\xffb");
    let script = ["--", "sh", "-c", "echo x >> n"];
    t.idem("run --key")
        .arg(odd)
        .args(script)
        .end()
        .code(125)
        .one_line();
    t.idem("run")
        .env("IDEM_KEY", odd)
        .args(script)
        .end()
        .code(125)
        .one_line();
    t.idem("run --key k --scope")
        .arg(odd)
        .args(script)
        .end()
        .code(125)
        .one_line();
    t.idem("run --key {env:ODD}")
        .env("ODD", odd)
        .args(script)
        .end()
        .code(125)
        .one_line();
    t.write("f", b"a\xffb");
    refused(&t, &["--key-file", "f"]);
}

#[test]
fn a_key_file_loses_one_final_newline_and_nothing_else() {
    let t = TestEnv::new();
    t.write("plain", "from file");
    t.write("line", "from file\n");
    run(&t, &["--key-file", "plain"]).code(0);
    run(&t, &["--key-file", "line"]).code(0);
    run(&t, &["--key", "from file"]).code(0);
    assert_eq!(t.lines("n"), 1);
    t.write("blank", " from file \n");
    run(&t, &["--key-file", "blank"]).code(0);
    assert_eq!(text(&t.status(" from file ")["state"]), "succeeded");
}

#[test]
fn a_key_file_that_cannot_be_a_key_is_refused() {
    let t = TestEnv::new();
    for (name, bytes) in [
        ("two", "a\n\n"),
        ("crlf", "a\r\n"),
        ("nul", "a\0b"),
        ("lines", "a\nb\n"),
    ] {
        t.write(name, bytes);
        refused(&t, &["--key-file", name]);
    }
    t.write("long", "x".repeat(1 << 20));
    refused(&t, &["--key-file", "long"]);
    refused(&t, &["--key-file", "no-such-file"]);
    refused(&t, &["--key-file", "."]);
    refused(&t, &["--key-file", ""]);
}

#[test]
fn the_environment_names_a_key_and_the_option_wins() {
    let t = TestEnv::new();
    let script = "echo ${IDEM_KEY-unset} $IDEM_OPERATION >> n";
    for options in ["", "", "--key b"] {
        t.run(options, script)
            .env("IDEM_KEY", "a")
            .end()
            .code(0)
            .err("");
    }
    assert_eq!(t.lines("n"), 2);
    assert_eq!(t.state("a"), "succeeded");
    assert_eq!(t.state("b"), "succeeded");
    assert!(
        !t.read("n").contains("a a"),
        "the child still had IDEM_KEY: {}",
        t.read("n")
    );
    assert!(t.read("n").starts_with("unset "), "{}", t.read("n"));
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let t = TestEnv::new();
    t.write("f", "a");
    refused(&t, &["--key", "a", "--key-file", "f"]);
    refused(&t, &["--key", "a", "--key-from", "argv"]);
    refused(&t, &["--key-file", "f", "--key-from", "argv"]);
    refused(&t, &["--key", "a", "--task", "t", "--step", "s"]);
    refused(&t, &["--task", "t"]);
    refused(&t, &["--step", "s"]);
    refused(&t, &["--task", "t", "--call", "c"]);
    refused(&t, &["--task", "", "--step", "s"]);
    refused(&t, &["--task", "t", "--step", ""]);
    refused(&t, &["--task", "t", "--step", "s", "--call", ""]);
}

#[test]
fn scopes_keep_equal_keys_apart() {
    let t = TestEnv::new();
    run(&t, &["--key", "k"]).code(0);
    run(&t, &["--key", "k", "--scope", "one"]).code(0);
    run(&t, &["--key", "k", "--scope", "two"]).code(0);
    run(&t, &["--key", "k", "--scope", "one"]).code(0);
    assert_eq!(t.lines("n"), 3);
    let script = "echo x >> n";
    t.run("--key k", script)
        .env("IDEM_SCOPE", "two")
        .end()
        .code(0);
    t.run("--key k --scope one", script)
        .env("IDEM_SCOPE", "two")
        .end()
        .code(0);
    assert_eq!(t.lines("n"), 3);
    let list = t.idem("status --json --scope two").end().code(0).json();
    assert_eq!(list.as_array().expect("a list").len(), 1, "{list}");
    assert_eq!(text(&list[0]["scope"]), "two");
    refused(&TestEnv::new(), &["--key", "k", "--scope", "a\nb"]);
    refused(
        &TestEnv::new(),
        &["--key", "k", "--scope", &"x".repeat(256)],
    );
}

#[test]
fn scope_and_key_do_not_run_together() {
    let t = TestEnv::new();
    run(&t, &["--key", "bc", "--scope", "a"]).code(0);
    run(&t, &["--key", "c", "--scope", "ab"]).code(0);
    run(&t, &["--key", "a/bc"]).code(0);
    assert_eq!(t.lines("n"), 3);
}

#[test]
fn a_task_and_its_step_make_the_key() {
    let t = TestEnv::new();
    run(&t, &["--task", "rel", "--step", "build"]).code(0);
    run(&t, &["--task", "rel", "--step", "push"]).code(0);
    run(&t, &["--task", "rel", "--step", "push", "--call", "eu"]).code(0);
    t.run("--step build", "echo x >> n")
        .env("IDEM_TASK", "rel")
        .end()
        .code(0);
    assert_eq!(t.lines("n"), 3);
    for key in ["rel/build", "rel/push", "rel/push/eu"] {
        assert_eq!(t.state(key), "succeeded");
    }
}

#[test]
fn a_slash_in_a_task_does_not_make_two_steps_one() {
    let t = TestEnv::new();
    let first = run(&t, &["--task", "a/b", "--step", "c"]).code;
    let second = run(&t, &["--task", "a", "--step", "b/c"]).code;
    let third = run(&t, &["--task", "a", "--step", "b", "--call", "c"]).code;
    let ran = [first, second, third].iter().filter(|c| **c == 0).count();
    assert_eq!(t.lines("n"), ran, "two different steps were taken for one");
    assert!(ran >= 1, "the plain form must work");
}

#[test]
fn without_a_key_the_command_and_its_directory_are_the_key() {
    let t = TestEnv::new();
    std::fs::create_dir(t.path("other")).expect("a directory");
    let script = "echo x >> \"$HOME/n\"";
    t.run("", script).end().code(0).err("");
    t.run("", script).end().code(0).says("idem: ");
    t.run("", script).cwd(t.path("other")).end().code(0).err("");
    t.run("", "echo x >> \"$HOME/n\"; :").end().code(0).err("");
    let count = std::fs::read_to_string(t.home().join("n")).expect("runs");
    assert_eq!(count.lines().count(), 3);
}

#[test]
fn a_derived_replay_says_that_its_input_is_not_part_of_the_key() {
    let t = TestEnv::new();
    let script = "cat >> n";
    t.run("", script).input("one\n").end().code(0);
    t.run("", script).input("two\n").end().code(0).says("stdin");
    assert_eq!(t.read("n"), "one\n");
    t.write("file", "three\n");
    let file = std::fs::File::open(t.path("file")).expect("a file");
    t.run("", script).stdin(file).end().code(0).says("stdin");
    t.run("", script).end().code(0).never_says("stdin");
    t.run("--key k", script).input("a\n").end().code(0);
    t.run("--key k", script).input("b\n").end().code(0).err("");
}

#[test]
fn the_operation_and_generation_are_in_the_childs_environment() {
    let t = TestEnv::new();
    let script = r#"echo "$IDEM_OPERATION" >> n; echo "$IDEM_GENERATION" >> n; echo "$IDEM_TOKEN" >> n
        echo "$IDEM_ATTEMPT" >> n"#;
    t.run("--key k", script).end().code(0);
    let status = t.status("k");
    let text = t.read("n");
    let said: Vec<&str> = text.lines().collect();
    assert!(said[0].contains('k'), "{said:?}");
    assert_eq!(said[1], status["generation"].to_string());
    assert!(said[2].len() >= 16, "{said:?}");
    assert_eq!(said[3], "1");
}
