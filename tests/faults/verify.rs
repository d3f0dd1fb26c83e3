//! What must hold after a disturbed call, and in the calls that follow it.

use std::fs::{self, File};
use std::time::{Duration, Instant, SystemTime};

use crate::cases::Case;
use crate::command::Done;
use crate::env::{IDEM, TestEnv};
use crate::scenarios::ANYTHING;
use crate::trace::{Act, Traced};

/// How one caller of the disturbed call ended.
pub struct Ended {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

/// Short for a broken promise.
pub type Checked = Result<(), String>;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}

/// Everything, in order. The effect had happened `before` times when the call began.
pub fn check(
    t: &TestEnv,
    case: &Case,
    traced: &Traced,
    callers: &[Ended],
    before: usize,
) -> Checked {
    ensure(!traced.stuck, || "something of it did not end".into())?;
    // Others may have been at work, and end by themselves.
    let end = Instant::now() + Duration::from_secs(10);
    while !t.running().is_empty() {
        let running = t.running();
        ensure(Instant::now() < end, || {
            format!("still running: {running:?}")
        })?;
        std::thread::sleep(Duration::from_millis(5));
    }
    let happened = t.lines("n");
    let most = case.scenario.most;
    ensure(happened <= most, || format!("happened {happened} times"))?;
    for caller in callers {
        check_caller(t, case, caller, happened, before)?;
    }
    t.touch("ok");
    let told = callers.iter().any(|caller| knows(case, caller));
    let happened = next_call(t, case, told, happened)?;
    let done = again(t, case);
    check_result(case, &done)?;
    let now = t.lines("n");
    ensure(now == happened, || {
        format!("a replay made {now} of {happened}\n{done}")
    })?;
    check_other(t)?;
    check_files(t, case)?;
    check_integrity(t)
}

/// Whether a caller was told that it is done and recorded.
fn knows(case: &Case, caller: &Ended) -> bool {
    let unrecorded = caller.stderr.contains("could not be recorded");
    case.scenario.runs()
        && case.scenario.prints.is_none()
        && case.scenario.code == caller.code
        && ![122, 124].contains(&caller.code)
        && !unrecorded
}

fn check_caller(
    t: &TestEnv,
    case: &Case,
    caller: &Ended,
    happened: usize,
    before: usize,
) -> Checked {
    let shown = || format!("\ncode {}\nstderr: {}", caller.code, caller.stderr);
    let fail = |what: &str| Err(format!("{what}{}", shown()));
    let err = &caller.stderr;
    if err.contains("panicked") || err.contains("internal error") {
        return fail("it panicked");
    }
    let crashes = [libc::SIGABRT, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL];
    if crashes.iter().any(|signal| caller.code == 128 + signal) {
        return fail("it crashed");
    }
    if err.contains("nothing was run")
        && happened > before
        && case.scenario.callers == 1
        && case.scenario.most == 1
    {
        return fail("it said that nothing was run");
    }
    if [126, 127].contains(&caller.code) && happened > before && case.scenario.most == 1 {
        return fail("it could not start what happened");
    }
    if let Act::Fail(errno) = case.act
        && case.point.step.hides(errno)
        && caller.code != case.scenario.code
    {
        return fail("it noticed an interrupted call");
    }
    if caller.code != case.scenario.code || !case.scenario.runs() {
        return Ok(());
    }
    let wanted = match case.scenario.prints {
        Some(ANYTHING) => caller.stdout.clone(),
        Some(text) => text.as_bytes().to_vec(),
        None if caller.code == 122 => Vec::new(),
        None => case.scenario.result(),
    };
    // Where nothing can be written any more nothing can be told.
    let mute = matches!(case.act, Act::FailOn(_)) && case.point.step.name() == "write";
    let cut = caller.code == 124;
    if caller.stdout != wanted && !mute && !cut && !err.contains("could not be written") {
        let text: String = String::from_utf8_lossy(&caller.stdout)
            .chars()
            .take(200)
            .collect();
        return fail(&format!("it printed {text:?}"));
    }
    let done = case.scenario.settled_before || case.scenario.prints.is_some() || caller.code == 122;
    if happened == 0 && !done {
        return fail(&format!("nothing has happened: {:?}", t.read("n")));
    }
    Ok(())
}

fn call(t: &TestEnv, args: &[&str]) -> Done {
    t.command(IDEM)
        .args(args)
        .limit(Duration::from_secs(30))
        .end()
}

fn again(t: &TestEnv, case: &Case) -> Done {
    call(t, &case.scenario.arguments_again())
}

/// The code of a call that hands out the result or makes it.
fn settled_code(case: &Case) -> i32 {
    match case.scenario.code {
        122 | 124 => 0,
        code => code,
    }
}

fn check_result(case: &Case, done: &Done) -> Checked {
    // A disk that failed once took the record and not the output, and every replay says so.
    let dropped = matches!(case.act, Act::Fail(_) | Act::FailOn(_))
        && done.stdout.is_empty()
        && done.err_text().contains("could not be stored");
    let good =
        done.code == settled_code(case) && (done.stdout == case.scenario.result() || dropped);
    ensure(good, || format!("no result\n{done}"))
}

/// The same call once more: the right replay, refusal or execution. Returns how often it has happened.
fn next_call(t: &TestEnv, case: &Case, told: bool, happened: usize) -> Result<usize, String> {
    let scenario = case.scenario;
    let mut done = again(t, case);
    let mut now = t.lines("n");
    let wrong = |what: &str, done: &Done| Err(format!("{what}: {happened} before\n{done}"));
    if done.code == 122 {
        if told {
            return wrong("a caller was told the result, and it is unknown", &done);
        }
        if scenario.certain {
            return wrong("it has a way to find out", &done);
        }
        if now != happened {
            return wrong("it happened in a call that refuses", &done);
        }
        unhold(t, &done)?;
        done = again(t, case);
        now = t.lines("n");
        // Retries that were left over may run as well.
        if now <= happened || now > happened + scenario.most {
            return wrong("the person said that it did not happen", &done);
        }
    } else if now != happened {
        if told {
            return wrong("a caller was told the result, and it ran again", &done);
        }
        // What is known to have failed in a way that may be repeated runs again.
        if (happened > 0 && scenario.most == 1 && !scenario.repeatable)
            || now > happened + scenario.most
        {
            return wrong("it happened again", &done);
        }
    } else if happened == 0 && !scenario.settled_before {
        return wrong("nothing has happened", &done);
    }
    check_result(case, &done)?;
    Ok(now)
}

/// Settles what nobody knows, or what waits for a person.
fn unhold(t: &TestEnv, refused: &Done) -> Checked {
    let state = t.state("k");
    let args: &[&str] = match state.as_str() {
        "unknown" => &["resolve", "k", "--not-done"],
        "held" => &["approve", "k", "--yes"],
        state => return Err(format!("refused, and it is {state}\n{refused}")),
    };
    let done = call(t, args);
    ensure(done.code == 0, || {
        format!("a person cannot settle it\n{done}")
    })
}

/// Nothing keeps a call of another operation from working.
fn check_other(t: &TestEnv) -> Checked {
    let done = call(
        t,
        &[
            "run",
            "-kafter",
            "--bulkhead=p=1",
            "--wait=5s",
            "--",
            "true",
        ],
    );
    ensure(done.code == 0, || {
        format!("the store does not work any more\n{done}")
    })
}

/// After the housekeeping only what is needed is left.
fn check_files(t: &TestEnv, case: &Case) -> Checked {
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    for name in files(t) {
        if name.contains("-out-") {
            let path = t.store_dir().join(&name);
            let aged = File::options()
                .write(true)
                .open(path)
                .and_then(|file| file.set_modified(long_ago));
            aged.map_err(|error| format!("{name}: {error}"))?;
        }
    }
    let done = call(t, &["gc"]);
    ensure(done.code == 0, || format!("gc\n{done}"))?;
    let known = |name: &String| {
        [
            "idem.db",
            "idem.db-wal",
            "idem.db-shm",
            "idem.db-locks",
            "idem.db-counts",
        ]
        .contains(&name.as_str())
    };
    let left: Vec<String> = files(t).into_iter().filter(|name| !known(name)).collect();
    let spools = left.iter().filter(|name| name.contains("-out-")).count();
    // What earlier attempts said is kept as long as their operation.
    let needed = case.scenario.spools * t.lines("n").max(1);
    let fine = spools == left.len() && spools <= needed;
    ensure(fine, || format!("files are left: {left:?}"))?;
    let temporary = fs::read_dir(t.root().join("tmp")).map_or(0, Iterator::count);
    ensure(temporary == 0, || "temporary files are left".into())
}

fn files(t: &TestEnv) -> Vec<String> {
    let entries = fs::read_dir(t.store_dir()).expect("the store's directory");
    entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect()
}

fn check_integrity(t: &TestEnv) -> Checked {
    let check = || -> rusqlite::Result<String> {
        let conn = rusqlite::Connection::open(t.store())?;
        conn.query_row("PRAGMA integrity_check", [], |row| row.get(0))
    };
    let found = check().map_err(|error| format!("integrity check: {error}"))?;
    ensure(found == "ok", || format!("integrity check: {found}"))
}
