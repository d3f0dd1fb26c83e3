//! What the child inherits: everything, as if idem were not there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::command::Cmd;
use crate::env::{IDEM, TestEnv, text};

/// The same program with and without idem in front of it.
fn both(t: &TestEnv, args: &[&str]) -> (Cmd, Cmd) {
    let direct = t.command(args[0]).args(&args[1..]);
    let through = t.idem("run --fingerprint none --key k --").args(args);
    (direct, through)
}

#[track_caller]
fn same(t: &TestEnv, args: &[&str], prepare: impl Fn(Cmd) -> Cmd) {
    let (direct, through) = both(t, args);
    let (wanted, got) = (prepare(direct).end(), prepare(through).end());
    assert_eq!(got.out_text(), wanted.out_text(), "{got}");
    assert_eq!(got.code, wanted.code, "{got}");
    assert!(!wanted.stdout.is_empty(), "{wanted}");
}

const SIGNALS: [&str; 3] = ["grep", "-E", "^Sig(Blk|Ign):"];

#[test]
fn ignored_signals_stay_ignored() {
    for signal in [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGPIPE,
        libc::SIGTERM,
        libc::SIGCHLD,
        libc::SIGTTOU,
        libc::SIGTTIN,
        libc::SIGTSTP,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGXFSZ,
        libc::SIGWINCH,
        libc::SIGALRM,
    ] {
        let t = TestEnv::new();
        same(
            &t,
            &[&SIGNALS[..], &["/proc/self/status"]].concat(),
            |command| {
                command.before(move || {
                    // SAFETY: a plain system call in the new process.
                    unsafe { libc::signal(signal, libc::SIG_IGN) };
                    Ok(())
                })
            },
        );
    }
}

#[test]
fn nothing_is_ignored_or_blocked_that_was_not() {
    let t = TestEnv::new();
    same(
        &t,
        &[&SIGNALS[..], &["/proc/self/status"]].concat(),
        |command| command,
    );
}

#[test]
fn the_signal_mask_is_kept() {
    let t = TestEnv::new();
    same(
        &t,
        &[&SIGNALS[..], &["/proc/self/status"]].concat(),
        |command| {
            command.before(|| {
                // SAFETY: plain calls on a local set in the new process.
                unsafe {
                    let mut set: libc::sigset_t = std::mem::zeroed();
                    libc::sigemptyset(&raw mut set);
                    libc::sigaddset(&raw mut set, libc::SIGUSR2);
                    libc::sigaddset(&raw mut set, libc::SIGWINCH);
                    libc::sigaddset(&raw mut set, libc::SIGRTMIN());
                    libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
                }
                Ok(())
            })
        },
    );
}

#[test]
fn umask_niceness_and_limits_are_kept() {
    let t = TestEnv::new();
    let show = "umask; nice; ulimit -a | grep -v 'pipe size'; cat /proc/self/oom_score_adj; cut -d' ' -f6 /proc/self/stat";
    t.script("show", format!("#!/bin/bash\n{show}\n"));
    let script = r#"umask 027; ulimit -n 300; ulimit -c 0; ulimit -S -s 4096; ulimit -t 5000; ulimit -u 20000 2>/dev/null
        nice -n 3 ./show > direct; nice -n 3 "$IDEM" run --key k -- ./show > through; cmp direct through; touch f; stat -c %a f"#;
    assert_eq!(t.says(script), "640");
    assert!(
        t.read("through").starts_with("0027\n3\n"),
        "{}",
        t.read("through")
    );
}

#[test]
fn the_session_is_kept_and_the_process_group_is_not() {
    let t = TestEnv::new();
    let script = r#"set -- $(cat /proc/$$/stat); sid=$6 pgrp=$5
        idem run --key k -- sh -c 'cat /proc/$$/stat' > child; set -- $(cat child)
        [ $6 = $sid ] && echo "same session"; [ $5 != $pgrp ] && [ $5 = $1 ] && echo "own group""#;
    assert_eq!(t.says(script), "same session\nown group");
}

#[test]
fn a_file_size_limit_does_not_kill_idem() {
    let t = TestEnv::new();
    t.run("--key warm", "true").end().code(0);
    let script = r#"ulimit -f 1000
        idem run --key k -- sh -c 'echo x >> n; yes | head -c 4000000; exit 3' 2>e | wc -c >o; echo ${PIPESTATUS[0]}
        idem run --key k -- sh -c 'echo x >> n; yes | head -c 4000000; exit 3' >/dev/null 2>e2; echo $?; lines n
        ulimit -f 1; idem run --key j -- sh -c 'echo x >> m; exit 3' >/dev/null 2>e3; echo $?; lines m"#;
    let said = t.says(script);
    let codes: Vec<&str> = said.split_whitespace().collect();
    assert_eq!(codes[0], "3", "{said}: {}", t.read("e"));
    assert!(
        ["3", "122"].contains(&codes[1]) && codes[2] == "1",
        "{said}: {}",
        t.read("e2")
    );
    assert!(
        codes[3..] == ["3", "1"] || codes[3..] == ["125", "0"],
        "{said}: {}",
        t.read("e3")
    );
    assert_eq!(t.read("e").matches("idem: ").count(), 1, "{}", t.read("e"));
}

#[test]
fn a_file_size_limit_still_kills_a_child_that_breaks_it() {
    let t = TestEnv::new();
    let script =
        "ulimit -f 2000; idem run --key k -- sh -c 'head -c 9000000 /dev/zero > f'; echo $?
        sh -c 'head -c 9000000 /dev/zero > f'; echo $?";
    let said = t.says(script);
    let codes: Vec<&str> = said.split_whitespace().collect();
    assert_eq!(codes[0], codes[1]);
    assert_eq!(codes[1], "153");
}

#[test]
fn a_limit_of_descriptors_is_survived() {
    let t = TestEnv::new();
    let script = "ulimit -n 64; idem run --key k -- sh -c 'echo x >> n; ulimit -n'; idem run --key k -- sh -c 'echo x >> n; ulimit -n'";
    let done = t.bash(script).end();
    assert!(
        done.code == 0 && done.out_text() == "64\n64\n" || done.code == 125,
        "{done}"
    );
    assert!(t.lines("n") <= 1);
}

#[test]
fn extra_descriptors_reach_the_child_and_idems_own_do_not() {
    let t = TestEnv::new();
    t.script(
        "fds",
        "#!/bin/bash\nfor f in /proc/$$/fd/*; do [ -e $f ] && echo ${f##*/}; done\ncat <&7\n",
    );
    let script = "echo seven > s; exec 7<s 9>nine; ./fds > direct; exec 7<s; idem run --key k -- ./fds > through";
    t.bash(script).end().code(0).err("");
    let of = |name: &str| t.read(name).lines().map(str::to_owned).collect::<Vec<_>>();
    let (direct, through) = (of("direct"), of("through"));
    assert!(through.contains(&"seven".to_owned()), "{through:?}");
    let more: Vec<&String> = through.iter().filter(|fd| !direct.contains(fd)).collect();
    assert!(more.len() <= 1, "own descriptors leak: {more:?}");
    assert!(
        more.iter()
            .all(|fd| fd.parse::<i32>().is_ok_and(|n| n >= 200)),
        "{more:?}"
    );
}

#[test]
fn closed_descriptors_stay_closed_and_hurt_nothing() {
    let t = TestEnv::new();
    let script = r#"
        idem run --key in -- sh -c 'test -e /proc/$$/fd/0 && echo open || echo closed' <&-
        idem run --key out -- sh -c 'echo x >> n; echo text' >&- 2>err; echo $?
        idem run --key err -- sh -c 'echo x >> n; echo text >&2; exit 3' 2>&-; echo $?
        idem run --key all -- sh -c 'echo x >> n; echo text; exit 4' <&- >&- 2>&-; echo $?
        for k in out err all; do idem output $k --both 2>&1; done; exit 0"#;
    let said = t.says(script);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines,
        ["closed", "125", "3", "4", "text", "text", "text"],
        "{}",
        t.read("err")
    );
    assert!(t.read("err").starts_with("idem: "), "{}", t.read("err"));
    assert_eq!(t.lines("n"), 3);
    t.upto_quiet();
    let db = rusqlite::Connection::open(t.store()).expect("the store");
    let check: String = db
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("a check");
    assert_eq!(check, "ok");
}

#[test]
fn a_child_that_says_nothing_needs_no_stdout() {
    let t = TestEnv::new();
    assert_eq!(
        t.says("idem run --key k -- true >&-; echo $?; idem run --key k -- true >&- 2>&-; echo $?"),
        "0\n0"
    );
}

#[test]
fn a_deleted_working_directory_is_fine() {
    let t = TestEnv::new();
    let script = r#"mkdir d; cd d; rmdir ../d; for i in 1 2; do
        idem run --key k -- sh -c "echo x >> $HOME/n; echo out" || echo "code $?"; done; wc -l < "$HOME/n""#;
    assert_eq!(t.says(script), "out\nout\n1");
}

#[test]
fn the_environment_is_kept() {
    let t = TestEnv::new();
    let prepare = |command: Cmd| {
        let odd = OsStr::from_bytes(b"x\xff\ny");
        command
            .env("ODD", odd)
            .env("EMPTY", "")
            .env(OsStr::from_bytes(b"N\xfcME"), "v")
            .env("CI", "1")
    };
    let (direct, through) = both(&t, &["env", "-0"]);
    let list = |command: Cmd| {
        let bytes = prepare(command).end().stdout;
        let mut vars: Vec<Vec<u8>> = bytes.split(|b| *b == 0).map(<[u8]>::to_vec).collect();
        vars.retain(|var| !var.starts_with(b"IDEM_"));
        vars.sort();
        vars
    };
    assert_eq!(list(direct), list(through));
}

#[test]
fn a_script_without_an_interpreter_line_runs_under_sh() {
    let t = TestEnv::new();
    t.script("plain", "echo \"plain $0 $1\"; exit 3\n");
    for _ in 0..2 {
        t.idem("run --key k -- ./plain arg")
            .end()
            .code(3)
            .out("plain ./plain arg\n");
    }
    t.script("empty", "");
    t.idem("run --key e -- ./empty").end().code(0).out("");
}

#[test]
fn what_cannot_be_found_is_127_and_what_cannot_be_invoked_126() {
    let t = TestEnv::new();
    std::fs::create_dir_all(t.path("bin/tool")).expect("a directory");
    t.write("data", "echo no\n");
    t.script("interp", "#!/no/such/interpreter\n");
    let cases: [(&str, &[i32]); 7] = [
        ("./nosuch", &[127]),
        ("nosuch-command", &[127]),
        ("./data/x", &[127, 126]),
        ("./bin", &[126]),
        ("./data", &[126]),
        ("/", &[126]),
        ("./interp", &[126, 127]),
    ];
    for (i, (command, codes)) in cases.iter().enumerate() {
        let done = t.idem(&format!("run --key k{i} -- {command}")).end();
        assert!(codes.contains(&done.code), "{done}");
        done.out("").one_line();
        assert!(done.err_text().contains(command), "which command?\n{done}");
        assert_eq!(t.state(&format!("k{i}")), "failed");
        let attempts = &t.status(&format!("k{i}"))["attempts"];
        assert_eq!(text(&attempts[0]["class"]), "safe", "{attempts}");
    }
    t.idem("run --key empty --")
        .arg("")
        .end()
        .code(127)
        .one_line();
    t.idem("run --key odd --")
        .arg(OsStr::from_bytes(b"no\xff"))
        .end()
        .code(127)
        .one_line();
    t.idem("run --key long --")
        .arg("x".repeat(5000))
        .end()
        .one_line();
}

#[test]
fn the_path_is_searched_as_a_shell_does() {
    let t = TestEnv::new();
    for dir in ["a", "b", "c"] {
        std::fs::create_dir(t.path(dir)).expect("a directory");
    }
    std::fs::create_dir(t.path("a/tool")).expect("a directory");
    t.write("b/tool", "not executable");
    t.script("c/tool", "#!/bin/sh\necho found\n");
    let run = |key: &str, path: &str| {
        t.idem(&format!("run --key {key} -- tool"))
            .env("PATH", path)
            .end()
    };
    run("all", "/nosuch:a:b:c:/usr/bin:/bin")
        .code(0)
        .out("found\n");
    run("none", "/nosuch:a:b:/usr/bin:/bin").code(126);
    run("gone", "/nosuch:/usr/bin:/bin").code(127);
    let here = t
        .idem("run --key here -- tool")
        .env("PATH", ":/usr/bin:/bin")
        .cwd(t.path("c"));
    here.end().code(0).out("found\n");
    t.idem("run --key unset -- ls -d /")
        .unset("PATH")
        .end()
        .code(0)
        .out("/\n");
    let slash = t
        .idem("run --key slash -- c/tool")
        .env("PATH", "/nosuch")
        .end();
    slash.code(0).out("found\n");
}

#[test]
fn arguments_that_are_too_long_for_the_child_are_126() {
    let t = TestEnv::new();
    let attempt = |last: usize| {
        let many = std::iter::repeat_n("x".repeat(100_000), 20);
        let run = t
            .idem("run --key k -- true")
            .args(many)
            .arg("y".repeat(last));
        run.try_start()
    };
    let (mut fits, mut too_long) = (0, 131_000);
    while too_long - fits > 1 {
        let middle = usize::midpoint(fits, too_long);
        match attempt(middle) {
            Ok(running) => {
                fits = middle;
                drop(running);
            }
            Err(e) => {
                assert_eq!(e.raw_os_error(), Some(libc::E2BIG), "{e}");
                too_long = middle;
            }
        }
    }
    assert!(
        fits > 0,
        "this system takes more arguments than the test has"
    );
    t.upto_quiet();
    t.command(IDEM).args(["forget", "--force", "k"]).end();
    let done = attempt(fits).expect("it fits").end();
    done.code(126).out("").one_line();
    assert_eq!(t.state("k"), "failed");
}
