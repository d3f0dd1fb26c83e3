//! The main promise: the first call runs, every later one gets its result back.

use crate::env::{TestEnv, text, upto};

#[test]
fn the_first_call_runs_and_the_second_replays() {
    let t = TestEnv::new();
    let script = "echo ran >> n; echo out; echo err >&2; exit 0";
    for _ in 0..3 {
        t.run("--key k --ttl 24h", script)
            .end()
            .code(0)
            .out("out\n")
            .err("err\n");
    }
    assert_eq!(t.lines("n"), 1);
    assert_eq!(t.state("k"), "succeeded");
}

#[test]
fn bytes_come_back_as_they_were() {
    let t = TestEnv::new();
    for _ in 0..2 {
        t.run("--key k", r"printf '\377\0a\r\n\nb'; printf '\0\n\376' >&2")
            .end()
            .code(0)
            .out(b"\xff\0a\r\n\nb")
            .err(b"\0\n\xfe");
    }
}

#[test]
fn nothing_at_all_comes_back_as_nothing() {
    let t = TestEnv::new();
    for _ in 0..2 {
        t.run("--key k", "echo x >> n")
            .end()
            .code(0)
            .out("")
            .err("");
    }
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn every_size_around_the_buffers_comes_back_whole() {
    let t = TestEnv::new();
    for size in [
        1, 4095, 4096, 16383, 16384, 16385, 65535, 65536, 65537, 1_048_577,
    ] {
        let script =
            format!("echo x >> n; yes abcdefg | head -c {size}; yes err | head -c {size} >&2");
        let options = format!("--key size-{size}");
        let first = t.run(&options, &script).end();
        assert_eq!((first.stdout.len(), first.stderr.len()), (size, size));
        let again = t.run(&options, &script).end();
        again.code(0).out(&first.stdout).err(&first.stderr);
    }
    assert_eq!(t.lines("n"), 10);
}

#[test]
fn a_failure_replays_with_its_code_and_says_that_it_is_old() {
    let t = TestEnv::new();
    let script = "echo x >> n; echo no; echo why >&2; exit 7";
    t.run("--key k", script)
        .end()
        .code(7)
        .out("no\n")
        .err("why\n");
    let again = t.run("--key k", script).end();
    again
        .code(7)
        .out("no\n")
        .says("why\n")
        .says("idem: ")
        .says("failed")
        .says("--if-failed rerun");
    assert_eq!(t.lines("n"), 1);
    assert_eq!(t.state("k"), "failed");
}

#[test]
fn a_failure_runs_again_when_asked() {
    let t = TestEnv::new();
    let script = "echo x >> n; test $(wc -l < n) -ge 2 && exit 0; exit 7";
    t.run("--key k", script).end().code(7);
    t.run("--key k --if-failed rerun", script).end().code(0);
    assert_eq!(t.lines("n"), 2);
    t.run("--key k --if-failed rerun", script).end().code(0);
    assert_eq!(t.lines("n"), 2, "a success is not run again");
}

#[test]
fn a_corrected_command_runs_after_a_failure() {
    let t = TestEnv::new();
    t.run("--key k", "exit 7").end().code(7);
    t.run("--key k", "echo fixed")
        .end()
        .code(0)
        .out("fixed\n")
        .err("");
    t.run("--key k", "echo fixed").end().code(0).out("fixed\n");
    t.run("--key k", "exit 7").end().code(121);
}

#[test]
fn another_command_under_a_used_key_is_refused_and_changes_nothing() {
    let t = TestEnv::new();
    t.run("--key k", "echo a").end().code(0);
    let before = t.status("k");
    t.run("--key k", "echo x >> n")
        .end()
        .code(121)
        .out("")
        .one_line();
    assert_eq!(t.status("k"), before);
    assert_eq!(t.lines("n"), 0);
    t.run("--key k", "echo a").end().code(0).out("a\n");
}

#[test]
fn the_boundaries_of_arguments_count() {
    let t = TestEnv::new();
    t.idem("run --key k -- printf %s ab c")
        .end()
        .code(0)
        .out("abc");
    t.idem("run --key k -- printf %s a bc").end().code(121);
    t.idem("run --key k -- printf %s ab c")
        .arg("")
        .end()
        .code(121);
    t.idem("run --key k -- printf %s ab c")
        .end()
        .code(0)
        .out("abc");
}

#[test]
fn without_a_fingerprint_any_command_replays() {
    let t = TestEnv::new();
    let options = "--key k --fingerprint none";
    t.run(options, "echo a").end().code(0);
    t.run(options, "echo b").end().code(0).out("a\n");
}

#[test]
fn the_childs_code_passes_through_even_where_it_looks_like_idems_own() {
    let t = TestEnv::new();
    for code in [
        1, 2, 120, 121, 122, 123, 124, 125, 126, 127, 128, 137, 143, 255,
    ] {
        let options = format!("--key code-{code} --json");
        let script = format!("echo x >> n-{code}; exit {code}");
        for decision in ["executed", "replayed"] {
            let done = t.run(&options, &script).end();
            let json = done.code(code).json();
            assert_eq!(text(&json["decision"]), decision, "{done}");
            assert_eq!(json["exit_code"], code, "{done}");
            assert_eq!(text(&json["state"]), "failed", "{done}");
        }
        assert_eq!(t.lines(&format!("n-{code}")), 1);
    }
}

#[test]
fn a_silent_replay_has_only_its_code() {
    let t = TestEnv::new();
    let script = "echo out; echo err >&2";
    t.run("--key k", script).end().code(0).out("out\n");
    t.run("--key k --on-replay silent", script)
        .end()
        .code(0)
        .out("")
        .err("");
    t.run("--key k --on-replay print", script)
        .end()
        .code(0)
        .out("out\n")
        .err("err\n");
    t.run("--key f", "echo out; exit 9").end().code(9);
    t.run("--key f --on-replay silent", "echo out; exit 9")
        .end()
        .code(9)
        .out("");
}

#[test]
fn quiet_silences_all_but_refusals() {
    let t = TestEnv::new();
    t.run("--key k -q", "echo out; exit 9").end().code(9);
    t.run("--key k -q", "echo out; exit 9")
        .end()
        .code(9)
        .out("out\n")
        .err("");
    t.run("--key s", "true").end().code(0);
    t.run("--key s -q", "echo other").end().code(121).one_line();
}

#[test]
fn verbose_says_more_on_stderr_and_nothing_on_stdout() {
    let t = TestEnv::new();
    t.run("--key k", "echo out").end().code(0).err("");
    t.run("--key k -v", "echo out")
        .end()
        .code(0)
        .out("out\n")
        .says("idem: ");
}

#[test]
fn an_argument_that_is_no_utf8_replays() {
    use std::os::unix::ffi::OsStrExt;
    let t = TestEnv::new();
    let odd = std::ffi::OsStr::from_bytes(b"x\xfcy");
    for _ in 0..2 {
        let done = t.idem("run --key k -- printf %s").arg(odd).end();
        done.code(0).out(b"x\xfcy").err("");
    }
    t.idem("run --key k -- printf %s")
        .arg("x\u{fffd}y")
        .end()
        .code(121);
}

#[test]
fn an_expired_result_runs_again_whatever_the_command() {
    let t = TestEnv::new();
    let script = "echo x >> n";
    t.run("--key k --ttl 1h", script).end().code(0);
    t.run("--key k --ttl 1h", script).end().code(0);
    assert_eq!(t.lines("n"), 1);
    t.run("--key e --ttl 1s", "echo x >> m").end().code(0);
    upto("the result expires", || {
        t.run("--key e --ttl 1s", "echo x >> m; : other").end();
        t.lines("m") == 2
    });
}

#[test]
fn a_failure_expires_too() {
    let t = TestEnv::new();
    let script = "echo x >> n; exit 3";
    t.run("--key k --failed-ttl 1s", script).end().code(3);
    upto("the failure expires", || {
        t.run("--key k --failed-ttl 1s", script).end().code(3);
        t.lines("n") == 2
    });
}

#[test]
fn the_time_to_live_counts_from_completion() {
    let t = TestEnv::new();
    t.run("--key k --ttl 90s", "sleep 1.5").end().code(0);
    let status = t.status("k");
    let at = |field: &str| text(&status[field]).parse::<humantime::Timestamp>();
    let settled = at("settled_at").expect("RFC 3339");
    let expires = at("expires_at").expect("RFC 3339");
    let created = at("created_at").expect("RFC 3339");
    let ttl = expires.duration_since(*settled).expect("later").as_millis();
    assert!((89_999..=90_001).contains(&ttl), "{status}");
    assert!(
        settled.duration_since(*created).expect("later").as_millis() >= 1400,
        "{status}"
    );
}

#[test]
fn forever_does_not_expire() {
    let t = TestEnv::new();
    t.run("--key k --ttl forever", "true").end().code(0);
    assert!(t.status("k")["expires_at"].is_null());
    t.run("--key f --ttl 1h --failed-ttl 60s", "exit 3")
        .end()
        .code(3);
    let status = t.status("f");
    let at = |field: &str| {
        text(&status[field])
            .parse::<humantime::Timestamp>()
            .expect("RFC 3339")
    };
    let ttl = at("expires_at")
        .duration_since(*at("settled_at"))
        .expect("later");
    assert!(ttl.as_millis() <= 60_001, "{status}");
}

#[test]
fn a_replay_late_in_its_life_says_how_old_it_is() {
    let t = TestEnv::new();
    let options = "--key k --ttl 12s";
    t.run(options, "echo x >> n; echo out").end().code(0);
    t.run(options, "echo x >> n; echo out")
        .end()
        .code(0)
        .err("");
    upto("a late replay speaks", || {
        let done = t.run(options, "echo x >> n; echo out").end();
        assert_eq!(t.lines("n"), 1, "expired before it spoke\n{done}");
        done.code(0).out("out\n");
        done.err_text().contains("--per")
    });
}

#[test]
fn redacted_arguments_are_nowhere_in_the_store() {
    let t = TestEnv::new();
    let secret = "hunter2-secret-word";
    let script = format!(": {secret}; echo x >> n; echo out");
    for _ in 0..2 {
        t.run("--key k --redact-args", &script)
            .end()
            .code(0)
            .out("out\n");
    }
    t.run("--key k --redact-args", "echo other").end().code(121);
    assert_eq!(t.lines("n"), 1);
    let status = t.idem("status k --json").end();
    assert!(!status.out_text().contains(secret), "{status}");
    let found = t
        .bash(&format!("grep -rlaF {secret} \"$XDG_STATE_HOME\""))
        .end();
    found.code(1).out("");
}

#[test]
fn output_that_is_not_stored_is_not_invented() {
    let t = TestEnv::new();
    let script = "echo x >> n; printf private-; echo output; exit 4";
    let options = "--key k --no-store-output";
    t.run(options, script).end().code(4).out("private-output\n");
    t.run(options, script).end().code(4).out("").says("idem: ");
    assert_eq!(t.lines("n"), 1);
    let found = t
        .bash("grep -rlaF private-output \"$XDG_STATE_HOME\"")
        .end();
    found.code(1).out("");
}

#[test]
fn a_command_without_the_double_dash_keeps_its_own_options() {
    let t = TestEnv::new();
    t.idem("run --key o ls -d /").end().code(0).out("/\n");
    t.idem("run --key v sh -c")
        .arg("echo $0")
        .arg("--key")
        .end()
        .code(0)
        .out("--key\n");
}

#[test]
fn on_a_ci_runner_the_default_store_says_that_it_stays_there() {
    let t = TestEnv::new();
    let run = |options: &str| t.run(options, "echo out").env("CI", "true").end();
    run("--key k")
        .code(0)
        .out("out\n")
        .says("idem: ")
        .says("runner");
    run("--key k -q").code(0).out("out\n").err("");
    run("--key k --store own.db").code(0).out("out\n").err("");
    t.run("--key k", "echo out").end().code(0).err("");
}

#[test]
fn an_output_that_cannot_be_read_is_no_empty_output() {
    let t = TestEnv::new();
    let run = |script| t.run("--key k", script).end();
    let script = "echo x >> n; printf %20000s out";
    run(script).code(0);
    let entries = std::fs::read_dir(t.store_dir()).unwrap();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    let spool = paths
        .find(|path| path.to_string_lossy().contains("-out-"))
        .unwrap();
    // What is behind a symbolic link is not read, as if the system refused.
    let kept = t.path("kept");
    std::fs::rename(&spool, &kept).unwrap();
    std::os::unix::fs::symlink(&kept, &spool).unwrap();
    run(script).code(125).out("").says("cannot be read");
    std::fs::rename(&kept, &spool).unwrap();
    assert_eq!(run(script).code(0).stdout.len(), 20_000);
    assert_eq!(t.lines("n"), 1);
}
