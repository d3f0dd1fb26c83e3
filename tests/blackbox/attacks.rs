//! Attempts to make a command run twice, to lose a result, to jam something for good, or to run what
//! nobody approved. Each was made in earnest; what is kept here is what must go on failing.

use std::path::Path;

use crate::command::{Cmd, Running};
use crate::env::{TestEnv, gate, text, tool_or_leave, upto};
use crate::procs;

/// A small generator, so that a storm can be repeated: a linear congruence (Knuth's MMIX constants).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % sides
    }
}

/// Runs `callers` of the same call at once, and gives their exit codes.
fn at_once(callers: usize, call: impl Fn() -> Cmd) -> Vec<i32> {
    let started: Vec<Running> = (0..callers).map(|_| call().start()).collect();
    started
        .into_iter()
        .map(|caller| caller.end().code)
        .collect()
}

fn kill_all(t: &TestEnv) {
    procs::kill_home(&t.home());
    t.upto_quiet();
}

/// Kills some of what runs after a number of looks that the dice tell, and lets others call meanwhile.
fn storm(t: &TestEnv, dice: &mut Dice, round: usize, meanwhile: impl Fn(usize)) {
    let (key, count, done) = (
        format!("k{round}"),
        format!("n{round}"),
        format!("d{round}"),
    );
    let script = format!(
        "echo x >> {count}; sleep 0.0{}; echo out; echo y >> {done}",
        dice.roll(5)
    );
    let call = || t.run(&format!("--key {key}"), &script);
    let first: Vec<Running> = (0..1 + dice.roll(2)).map(|_| call().start()).collect();
    for _ in 0..dice.roll(6) {
        drop(t.running());
    }
    let which = dice.roll(3);
    for (pid, line) in t.running() {
        let chosen = match which {
            0 => true,
            1 => line.contains(" run "),
            _ => dice.roll(2) == 0,
        };
        if chosen {
            procs::signal(pid, libc::SIGKILL);
        }
    }
    meanwhile(dice.roll(4));
    let codes = at_once(2, call);
    drop(first);
    let last = call().end();
    assert!(t.lines(&count) <= 1, "{key} ran twice: {codes:?}, {last}");
    assert!([0, 122].contains(&last.code), "{last}");
    if last.code == 0 {
        last.out("out\n");
        assert_eq!(t.lines(&done), 1, "{last}");
    }
}

#[test]
fn kills_at_any_moment_never_make_it_run_twice() {
    let t = TestEnv::new();
    let mut dice = Dice(1);
    for round in 0..14 {
        storm(&t, &mut dice, round, |_| {});
    }
}

#[test]
fn kills_while_the_lock_file_vanishes_never_make_it_run_twice() {
    let t = TestEnv::new();
    let mut dice = Dice(2);
    let locks = t.store_dir().join("idem.db-locks");
    for round in 0..14 {
        storm(&t, &mut dice, round, |chance| match chance {
            0 => drop(std::fs::remove_file(&locks)),
            1 => {
                let copy = t.store_dir().join("copy");
                let copied = std::fs::copy(&locks, &copy);
                drop(copied.and_then(|_| std::fs::rename(&copy, &locks)));
            }
            2 => drop(t.idem("gc").end()),
            _ => {}
        });
    }
}

#[test]
fn many_callers_at_an_unknown_operation_run_nothing() {
    let t = TestEnv::new();
    let script = "echo x >> n; kill -9 $$";
    t.make_unknown("k", script);
    let codes = at_once(25, || t.run("--key k", script));
    assert!(codes.iter().all(|code| *code == 122), "{codes:?}");
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn many_callers_after_an_expiry_or_a_no_are_one_run() {
    let t = TestEnv::new();
    let script = "echo x >> n; sleep 0.2";
    t.run("--key k --ttl 1ms", script).end().code(0);
    let codes = at_once(25, || t.run("--key k --ttl 1h", script));
    assert!(codes.iter().all(|code| *code == 0), "{codes:?}");
    assert_eq!(t.lines("n"), 2);
    let script = "echo x >> m; test -e fixed || kill -9 $$; sleep 0.2";
    t.make_unknown("u", script);
    t.idem("resolve u --not-done").end().code(0);
    t.touch("fixed");
    let codes = at_once(25, || t.run("--key u", script));
    assert!(codes.iter().all(|code| *code == 0), "{codes:?}");
    assert_eq!(t.lines("m"), 2);
}

/// A program that does nothing but execute itself, for as long as it may.
const EXECUTES_ITSELF: &str = r#"
    #include <fcntl.h>
    #include <unistd.h>
    #include <sys/syscall.h>
    int main(int count, char **args) {
        if (count < 2) {
            int fd = open("restless", O_CREAT | O_WRONLY, 0600);
            if (fd < 0 || setsid() < 0 || write(fd, "x\n", 2) != 2) return 1;
            syscall(SYS_close_range, 3, ~0U, 0);
        }
        if (access("stop", F_OK) == 0) return 0;
        return execl(args[0], args[0], "again", (char *)0);
    }
"#;

#[test]
fn a_descendant_that_executes_without_end_is_still_at_work() {
    if !tool_or_leave("cc") {
        return;
    }
    let t = TestEnv::new();
    t.write("restless.c", EXECUTES_ITSELF);
    t.command("cc")
        .args(["-O1", "-o", "spin", "restless.c"])
        .end()
        .code(0);
    let spin = t.path("spin");
    let script = format!(
        "{} </dev/null >/dev/null 2>&1 & echo x >> n; exec sleep 300",
        spin.display()
    );
    let front = t.run("--key k", &script).start();
    t.upto_lines("restless", 1);
    t.upto_lines("n", 1);
    let (keeper, child) = (t.keeper("k"), t.child("k"));
    front.kill();
    for pid in [keeper, child] {
        procs::signal(pid, libc::SIGKILL);
        upto("a killed process ends", || !procs::alive(pid));
    }
    let refuse = || t.run("--key k --if-running refuse", &script).end().code;
    let codes: Vec<i32> = (0..40).map(|_| refuse()).collect();
    t.touch("stop");
    assert!(codes.iter().all(|code| *code == 120), "{codes:?}");
    upto("it is gone", || refuse() == 122);
    assert_eq!(t.lines("n"), 1);
}

/// The call in a store elsewhere, without waiting.
fn elsewhere(t: &TestEnv, state: &Path, script: &str) -> Cmd {
    t.run("--key k --if-running refuse", script)
        .env("XDG_STATE_HOME", state)
}

#[test]
fn a_copied_and_a_moved_store_know_what_is_running() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}; echo out", gate("go"));
    let front = t.run("--key k", &script).start();
    t.upto_lines("n", 1);
    let (copy, moved) = (t.path("copy"), t.path("moved"));
    t.says("cp -a \"$XDG_STATE_HOME\" copy; mv \"$XDG_STATE_HOME\" moved");
    elsewhere(&t, &copy, &script).end().code(120);
    elsewhere(&t, &moved, &script).end().code(120);
    t.touch("go");
    front.end().code(0).out("out\n");
    elsewhere(&t, &moved, &script).end().code(0).out("out\n");
    elsewhere(&t, &copy, &script).end().code(122);
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn a_store_with_two_names_is_refused() {
    let t = TestEnv::new();
    let script = format!("echo x >> n; {}", gate("go"));
    let front = t.run("--key k", &script).start();
    t.upto_lines("n", 1);
    t.says("mkdir -m 700 other");
    let other = t.path("other/idem.db");
    std::fs::hard_link(t.store(), &other).expect("a second name");
    let call = t.run("--key k", &script).env("IDEM_STORE", &other);
    call.end().code(125).one_line().says("hard links");
    t.run("--key k", &script).end().code(125).one_line();
    std::fs::remove_file(&other).expect("the second name");
    t.touch("go");
    front.end().code(0);
    t.run("--key k", &script).end().code(0);
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn a_command_that_forgets_itself_is_no_loop() {
    let t = TestEnv::new();
    let script =
        "echo x >> n; \"$IDEM\" forget --force k; \"$IDEM\" run --key k -- sh -c 'echo y >> n'";
    t.run("--key k", script).end().code(0).says("idem log k");
    assert_eq!(t.words("n"), "x y");
    t.run("--key k", script).end().code(121);
    let script = "\"$IDEM\" resolve r --not-done; \"$IDEM\" run --key r -- true; echo x >> m";
    t.run("--key r", script).end().code(0);
    t.run("--key r", script).end().code(0);
    assert_eq!(t.lines("m"), 1);
}

#[test]
fn one_approval_is_one_run_for_many_callers_and_many_retries() {
    let t = TestEnv::new();
    let script = "echo x >> n; sleep 0.2; exit 5";
    let call = || t.run("--key k --hold --retry-on any", script);
    call().end().code(122);
    t.idem("approve k --yes").end().code(0);
    let codes = at_once(20, call);
    assert!(
        codes.iter().all(|code| [5, 122].contains(code)),
        "{codes:?}"
    );
    assert_eq!(t.lines("n"), 1);
    for more in [
        "",
        "--if-unknown rerun",
        "--idempotent",
        "--if-failed rerun",
    ] {
        t.run(&format!("--key k --hold --retry-on any {more}"), script)
            .end()
            .code(122);
    }
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn nothing_else_runs_under_an_approval() {
    let t = TestEnv::new();
    t.says("mkdir sub one two; for d in one two; do printf '#!/bin/sh\\necho '$d' >> n\\n' > $d/cmd; chmod +x $d/cmd; done");
    t.write("script", "echo good >> n");
    let approved = |key: &str, call: &dyn Fn() -> Cmd| {
        call().end().code(122);
        t.idem(&format!("approve {key} --yes")).end().code(0);
    };
    let shell = || t.idem("run --key a --hold -- sh ./script");
    approved("a", &shell);
    t.write("script", "echo changed >> n");
    shell().end().code(121);
    let found_in = |dir: &str| {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", t.path(dir).display());
        t.idem("run --key b --hold -- cmd").env("PATH", path)
    };
    approved("b", &|| found_in("one"));
    found_in("two").end().code(121);
    let plain = || t.run("--key c --hold", "echo c >> n");
    approved("c", &plain);
    plain().cwd(t.path("sub")).end().code(121);
    t.run("--key c --fingerprint none", "echo other >> n")
        .end()
        .code(121);
    approved("d", &|| t.run("--key d --hold --ttl 300ms", "echo d >> n"));
    upto("the approval expires", || {
        text(&t.status("d")["reason"]).contains("expired")
            || t.idem("status d").end().out_text().contains("expired")
    });
    t.run("--key d --hold --ttl 300ms", "echo d >> n")
        .end()
        .code(122);
    t.run("--key d", "echo d >> n").end().code(122);
    assert_eq!(t.lines("n"), 0);
}

#[test]
fn an_approved_run_that_was_killed_needs_another_approval() {
    let t = TestEnv::new();
    let script = "echo x >> n; exec sleep 300";
    t.run("--key k --hold", script).end().code(122);
    t.idem("approve k --yes").end().code(0);
    let front = t.run("--key k --hold", script).start();
    t.upto_lines("n", 1);
    kill_all(&t);
    drop(front);
    t.run("--key k --hold", script).end().code(122);
    t.run("--key k --hold --if-unknown rerun", script)
        .end()
        .code(122)
        .says("approv");
    t.run("--key k --idempotent", script).end().code(122);
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn kills_jam_no_guard() {
    let t = TestEnv::new();
    let guards = "--bulkhead db=1 --breaker api:failures=2,cooldown=1s,probes=1 --budget b=4/1h --task T --wait 20s";
    t.idem("task open T --retries 5").end().code(0);
    let mut dice = Dice(3);
    for round in 0..6 {
        let calls: Vec<Running> = (0..3)
            .map(|i| {
                let options = format!(
                    "{guards} --step s{round}.{i} --retries 2 --backoff const:5ms --retry-on any"
                );
                t.run(&options, "echo x >> n; sleep 0.02; exit 9").start()
            })
            .collect();
        for _ in 0..dice.roll(8) {
            drop(t.running());
        }
        kill_all(&t);
        drop(calls);
    }
    t.run("--key permit --bulkhead db=1 --wait 20s", "true")
        .end()
        .code(0);
    let options = "--breaker api:failures=2,cooldown=1s,probes=1";
    upto("the breaker lets one in", || {
        t.run(&format!("--key probe {options}"), "true").end().code == 0
    });
    t.run(&format!("--key closed {options}"), "true")
        .end()
        .code(0);
    t.idem("task show T").end().code(0);
    t.idem("task end T").end().code(0);
    t.idem("task open T --retries 5").end().code(0);
}

#[test]
fn an_odd_environment_changes_nothing() {
    let t = TestEnv::new();
    let odd = [
        ("IDEM_ANCESTRY", "garbage:::%"),
        ("IDEM_DEADLINE", "-5"),
        ("IDEM_DEADLINE", "99999999999999999999999"),
        ("IDEM_CONTROL", "/etc/passwd"),
        ("IDEM_GENERATION", "zz"),
        ("IDEM_ATTEMPT", "-1"),
        ("IDEM_TOKEN", ""),
        ("IDEM_OPERATION", "\u{1}"),
    ];
    for (i, (name, value)) in odd.into_iter().enumerate() {
        for _ in 0..2 {
            t.run(&format!("--key k{i}"), "echo x >> n; echo ok")
                .env(name, value)
                .end()
                .code(0)
                .out("ok\n")
                .err("");
        }
        assert_eq!(t.lines("n"), i + 1, "{name}={value}");
    }
}

#[test]
fn few_descriptors_run_it_once_or_not_at_all() {
    let t = TestEnv::new();
    for limit in [5, 8, 10, 12, 14, 16, 18, 20, 22, 24, 30] {
        let file = format!("n{limit}");
        let call = || {
            t.bash(&format!(
                "ulimit -n {limit}; exec \"$IDEM\" run --key k{limit} -- sh -c 'echo x >> {file}'"
            ))
        };
        let code = call().end().code;
        assert!([0, 125, 126].contains(&code), "{limit}: {code}");
        assert_eq!(t.lines(&file), usize::from(code == 0), "{limit}: {code}");
        let script = format!("echo x >> {file}");
        t.run(&format!("--key k{limit}"), &script).end().code(0);
        assert_eq!(t.lines(&file), 1, "{limit}");
    }
}

#[test]
fn without_standard_descriptors_or_a_directory_it_runs_once() {
    let t = TestEnv::new();
    for _ in 0..2 {
        t.bash("exec \"$IDEM\" run --key k -- sh -c 'echo x >> n' <&- >&- 2>&-")
            .end()
            .code(0);
        t.bash("d=$PWD; mkdir gone; cd gone; rmdir ../gone; exec \"$IDEM\" run --key d -- sh -c \"echo x >> $d/m\"")
            .end()
            .code(0);
    }
    assert_eq!((t.lines("n"), t.lines("m")), (1, 1));
}
