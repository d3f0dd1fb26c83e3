//! Keys made of parts: templates, hashed parts, periods and batches.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::command::Cmd;
use crate::env::{IDEM, TestEnv, gate, tool_or_leave};

/// Two zones that are exactly 24 hours apart: the second one's date is always the day after the first's.
const YESTERDAY: &str = "AAA+11";
const TODAY: &str = "BBB-13";

/// `idem key OPTIONS -- echo one two`.
fn key_command(t: &TestEnv, options: &[&str]) -> Cmd {
    t.command(IDEM)
        .arg("key")
        .args(options)
        .args(["--", "echo", "one", "two"])
}

/// The key that `idem key` prints on its first line.
#[track_caller]
fn key_of(command: Cmd) -> String {
    let done = command.end();
    done.code(0).err("");
    done.out_text().lines().next().expect("a key").to_owned()
}

#[track_caller]
fn key(t: &TestEnv, template: &str) -> String {
    key_of(key_command(t, &["--key", template]))
}

#[track_caller]
fn from(t: &TestEnv, parts: &str) -> String {
    key_of(key_command(t, &["--key-from", parts]))
}

/// The key made of a template that names a moment, and `date`'s view of it; both are asked twice so
/// that a change of day between them does not fail the test.
#[track_caller]
fn same_as_date(t: &TestEnv, template: &str, format: &str) {
    for _ in 0..2 {
        let before = t.says(&format!("date -u +{format}"));
        let ours = key(t, &format!("k-{template}"));
        let after = t.says(&format!("date -u +{format}"));
        if before == after {
            assert!(
                ours.starts_with("k-") && ours.contains(&after),
                "{ours} has no {after}"
            );
            return;
        }
    }
}

#[test]
fn a_moment_fills_a_template() {
    let t = TestEnv::new();
    same_as_date(&t, "{day}", "%Y-%m-%d");
    same_as_date(&t, "{month}", "%Y-%m");
    same_as_date(&t, "{week}", "%V");
    same_as_date(&t, "{hour}", "%Y-%m-%dT%H");
    same_as_date(&t, "{window:1m}", "%Y-%m-%dT%H:%M");
}

#[test]
fn a_day_is_utc_unless_it_is_local() {
    let t = TestEnv::new();
    let at =
        |zone: &str, template: &str| key_of(key_command(&t, &["--key", template]).env("TZ", zone));
    assert_eq!(at(YESTERDAY, "{day}"), at(TODAY, "{day}"));
    let local = [at(YESTERDAY, "{day:local}"), at(TODAY, "{day:local}")];
    assert!(local[0] < local[1], "{local:?}");
    assert_eq!(local[1], t.says(&format!("TZ={TODAY} date +%F")));
}

#[test]
fn the_machine_and_the_caller_fill_a_template() {
    let t = TestEnv::new();
    assert_eq!(key(&t, "{host}"), t.says("uname -n"));
    assert_eq!(key(&t, "{user}"), t.says("id -un"));
    assert_eq!(key(&t, "{cwd}"), t.says("pwd -P"));
    let staged = key_command(&t, &["--key", "b-{env:STAGE}-c"]).env("STAGE", "prod");
    assert_eq!(key_of(staged), "b-prod-c");
    let empty = key_command(&t, &["--key", "b-{env:STAGE}"]).env("STAGE", "");
    assert_eq!(key_of(empty), "b-");
}

#[test]
fn arguments_fill_a_template() {
    let t = TestEnv::new();
    let (a, b) = (key(&t, "{arg:1}"), key(&t, "{arg:2}"));
    assert!(
        [("echo", "one"), ("one", "two")].contains(&(a.as_str(), b.as_str())),
        "{a} {b}"
    );
    key_command(&t, &["--key", "{arg:9}"])
        .end()
        .code(125)
        .one_line();
}

#[test]
fn files_and_input_fill_a_template_with_a_whole_hash() {
    let t = TestEnv::new();
    t.write("f", "content");
    let hash = t.says("sha256sum <f | cut -d' ' -f1");
    assert_eq!(hash.len(), 64);
    assert_eq!(key(&t, "f-{sha256:f}"), format!("f-{hash}"));
    key_command(&t, &["--key", "{sha256:nosuch}"])
        .end()
        .code(125)
        .one_line();
    let input = |text: &str| key_of(key_command(&t, &["--key", "s-{stdin}"]).input(text));
    assert_eq!(input("a"), input("a"));
    assert_ne!(input("a"), input("b"));
    assert!(input("a").len() >= 66, "a short hash: {}", input("a"));
}

#[test]
fn input_that_made_the_key_still_reaches_the_child() {
    let t = TestEnv::new();
    let big = "0123456789\n".repeat(100_000);
    for (options, out) in [("--key s-{stdin}", "n"), ("--key-from argv,stdin", "m")] {
        let script = format!("echo x >> {out}; cat");
        for input in ["one\n", "two\n", "one\n", &big, ""] {
            t.run(options, &script)
                .input(input)
                .end()
                .code(0)
                .out(input);
        }
        assert_eq!(t.lines(out), 4);
    }
}

#[test]
fn a_commit_fills_a_template() {
    if !tool_or_leave("git") {
        return;
    }
    let t = TestEnv::new();
    key_command(&t, &["--key", "{git:head}"])
        .end()
        .code(125)
        .one_line();
    let commit = "git -c user.name=n -c user.email=e commit -q --allow-empty -m";
    let head = t.says(&format!(
        "git init -q . && {commit} one && git rev-parse HEAD"
    ));
    assert_eq!(key(&t, "g-{git:head}"), format!("g-{head}"));
    let first = from(&t, "git:head");
    t.says(&format!("{commit} two"));
    assert_ne!(from(&t, "git:head"), first);
}

#[test]
fn doubled_braces_are_braces_and_percent_is_nothing_special() {
    let t = TestEnv::new();
    assert_eq!(key(&t, "a{{x}}"), "a{x}");
    assert_eq!(key(&t, "{{{{}}"), "{{}");
    assert_eq!(key(&t, "{{day}}%d%%"), "{day}%d%%");
}

#[test]
fn a_template_that_cannot_be_filled_is_refused() {
    let t = TestEnv::new();
    for odd in [
        "{",
        "}",
        "a{",
        "a}",
        "{}",
        "{nosuch}",
        "{day",
        "{day:utc:x}",
        "{env:}",
        "{env:NOT_SET}",
        "{arg:}",
        "{arg:-1}",
        "{arg:x}",
        "{arg:99999999999999999999}",
        "{window:}",
        "{window:0s}",
        "{window:1s}",
        "{window:-1m}",
        "{window:x}",
        "{window}",
        "{sha256:}",
        "{batch:}",
        "{day:}",
        "{host:x}",
        "{ day }",
        "{DAY}",
    ] {
        key_command(&t, &["--key", odd])
            .end()
            .code(125)
            .out("")
            .one_line();
        let run = t
            .command(IDEM)
            .args(["run", "--key", odd, "--", "sh", "-c", "echo x >> n"]);
        run.end().code(125).out("").one_line();
    }
    assert_eq!(t.lines("n"), 0);
}

#[test]
fn a_filled_template_must_still_be_a_key() {
    let t = TestEnv::new();
    let with = |value: &str| key_command(&t, &["--key", "{env:X}"]).env("X", value).end();
    with("a\nb").code(125).one_line();
    with(&"x".repeat(256)).code(125).one_line();
    assert_eq!(
        key_of(key_command(&t, &["--key", "{env:X}"]).env("X", "{day}")),
        "{day}"
    );
}

#[test]
fn parts_are_hashed_with_their_lengths() {
    let t = TestEnv::new();
    let of = |args: &[&str]| key_of(t.idem("key --key-from argv --").args(args));
    assert_eq!(of(&["printf", "ab", "c"]), of(&["printf", "ab", "c"]));
    assert_ne!(of(&["printf", "ab", "c"]), of(&["printf", "a", "bc"]));
    assert_ne!(of(&["printf", "a", ""]), of(&["printf", "a"]));
    let raw = |byte: &[u8]| {
        key_of(
            t.idem("key --key-from argv -- printf")
                .arg(OsStr::from_bytes(byte)),
        )
    };
    assert_ne!(raw(b"\xff"), raw(b"\xfe"));
    assert_ne!(raw(b"\xff"), raw("\u{fffd}".as_bytes()));
    let env = |value: &[u8]| {
        key_of(key_command(&t, &["--key-from", "env:X"]).env("X", OsStr::from_bytes(value)))
    };
    assert_ne!(env(b"\xff"), env(b"\xfe"));
    assert!(of(&["a"]).len() >= 64, "a short hash: {}", of(&["a"]));
}

#[test]
fn every_part_counts_and_their_order_does_not_mix_them_up() {
    let t = TestEnv::new();
    let here = from(&t, "argv,cwd");
    std::fs::create_dir(t.path("sub")).expect("a directory");
    let there = key_of(key_command(&t, &["--key-from", "argv,cwd"]).cwd(t.path("sub")));
    assert_ne!(here, there);
    assert_ne!(from(&t, "argv"), from(&t, "cwd"));
    let pair = |x: &str, y: &str| {
        key_of(
            key_command(&t, &["--key-from", "env:X,env:Y"])
                .env("X", x)
                .env("Y", y),
        )
    };
    assert_ne!(pair("ab", "c"), pair("a", "bc"));
    assert_ne!(pair("a", "b"), pair("b", "a"));
    t.write("f", "one");
    let first = from(&t, "file:f");
    t.write("f", "two");
    assert_ne!(from(&t, "file:f"), first);
    assert_eq!(from(&t, "window:30d,host"), from(&t, "window:30d,host"));
}

#[test]
fn parts_that_do_not_exist_are_refused() {
    let t = TestEnv::new();
    for odd in [
        "",
        ",",
        "argv,",
        "bogus",
        "argv bogus",
        "env:",
        "file:",
        "file:nosuch",
        "file:.",
        "window:",
        "window:0s",
        "window:-1d",
        "window:NaN",
        "git:",
        "git:tail",
        "ARGV",
    ] {
        key_command(&t, &["--key-from", odd])
            .end()
            .code(125)
            .out("")
            .one_line();
    }
}

#[test]
fn a_fingerprint_of_chosen_parts_decides_what_is_another_command() {
    let t = TestEnv::new();
    let run = |x: &str, script: &str| {
        t.run("--key k --fingerprint env:X", script)
            .env("X", x)
            .end()
    };
    run("1", "echo a").code(0);
    run("1", "echo b").code(0).out("a\n");
    run("2", "echo a").code(121);
    for odd in ["", "bogus", "none,argv", "argv,none", "argv,"] {
        let done = t
            .idem("run --key q --fingerprint")
            .args([odd, "--", "sh", "-c", "echo x >> n"])
            .end();
        done.code(125).one_line();
    }
    assert_eq!(t.lines("n"), 0);
}

#[test]
fn once_per_period() {
    let t = TestEnv::new();
    for _ in 0..2 {
        t.run("--key job --per day", "echo x >> n").end().code(0);
    }
    assert_eq!(t.lines("n"), 1);
    for period in ["hour", "week", "month", "15m"] {
        let options = format!("--key job --per {period}");
        t.run(&options, "echo x >> n").end().code(0);
        t.run(&options, "echo x >> n").end().code(0);
    }
    assert_eq!(t.lines("n"), 5, "each length of a period is one of its own");
}

#[test]
fn a_period_is_local_time_and_shows_its_ends() {
    let t = TestEnv::new();
    let at = |zone: &str| {
        t.idem("key --key job --per day -- true")
            .env("TZ", zone)
            .end()
            .code(0)
            .out_text()
    };
    assert_ne!(at(YESTERDAY).lines().next(), at(TODAY).lines().next());
    let today = t.says(&format!("TZ={TODAY} date +%F"));
    let shown = at(TODAY);
    assert!(
        shown.lines().count() >= 2 && shown.matches(&today).count() >= 1,
        "{shown}"
    );
    for zone in [YESTERDAY, TODAY, TODAY] {
        t.run("--key job --per day", "echo x >> n")
            .env("TZ", zone)
            .end()
            .code(0);
    }
    assert_eq!(t.lines("n"), 2);
}

#[test]
fn the_previous_periods_execution_comes_first() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; echo out", gate("go"));
    let options = "--key job --per day";
    let yesterday = t.run(options, &script).env("TZ", YESTERDAY).start();
    t.upto_lines("n", 1);
    let today = |more: &str| {
        t.run(&format!("{options} {more}"), &script)
            .env("TZ", TODAY)
    };
    today("--if-running refuse").end().code(120).one_line();
    today("--if-running skip").end().code(0).out("").err("");
    today("--wait 300ms").end().code(120);
    assert_eq!(t.lines("n"), 1);
    let waiter = today("").start();
    waiter.upto_waiting();
    assert_eq!(
        t.lines("n"),
        1,
        "it started beside the previous period's execution"
    );
    t.touch("go");
    yesterday.end().code(0);
    waiter.end().code(0).out("out\n");
    assert_eq!(t.lines("n"), 2, "today's own execution");
}

#[test]
fn a_failed_previous_period_does_not_stop_this_one() {
    let t = TestEnv::new();
    let run = |zone: &str, script: &str| t.run("--key job --per day", script).env("TZ", zone).end();
    run(YESTERDAY, "echo x >> n; kill -9 $$").code(137);
    run(TODAY, "echo x >> n; exit 0").code(0);
    assert_eq!(t.lines("n"), 2);
}

#[test]
fn periods_that_make_no_sense_are_refused() {
    let t = TestEnv::new();
    for odd in [
        "",
        "fortnight",
        "0m",
        "0",
        "-15m",
        "15",
        "NaN",
        "999999999999999d",
        "day,hour",
        "DAY ",
    ] {
        let done = t
            .idem("run --key k --per")
            .args([odd, "--", "sh", "-c", "echo x >> n"])
            .end();
        done.code(125).out("").one_line();
    }
    assert_eq!(t.lines("n"), 0);
}

#[test]
fn a_batch_keeps_its_name_until_it_is_rotated() {
    let t = TestEnv::new();
    let batch = |args: &str| {
        t.idem(args)
            .end()
            .code(0)
            .err("")
            .out_text()
            .trim_end()
            .to_owned()
    };
    let first = batch("batch nightly");
    assert!(first.len() >= 8, "{first}");
    assert_eq!(batch("batch nightly"), first);
    assert_ne!(batch("batch weekly"), first);
    assert_eq!(key(&t, "r-{batch:nightly}"), format!("r-{first}"));
    t.run("--key r-{batch:nightly}", "echo x >> n")
        .end()
        .code(0);
    let second = batch("batch nightly --rotate");
    assert_ne!(second, first);
    assert_eq!(batch("batch nightly"), second);
    for _ in 0..2 {
        t.run("--key r-{batch:nightly}", "echo x >> n")
            .end()
            .code(0);
    }
    assert_eq!(t.lines("n"), 2);
    t.idem("batch").arg("").end().code(125).one_line();
}

#[test]
fn racers_mint_one_batch() {
    let t = TestEnv::new();
    let running: Vec<_> = (0..12).map(|_| t.idem("batch nightly").start()).collect();
    let mut names: Vec<_> = running
        .into_iter()
        .map(|r| r.end().code(0).out_text())
        .collect();
    names.dedup();
    assert_eq!(names.len(), 1, "{names:?}");
}
