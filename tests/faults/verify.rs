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

/// Everything, in order. The effects had happened `before` times when the call began.
pub fn check(
    t: &TestEnv,
    case: &Case,
    traced: &Traced,
    callers: &[Ended],
    before: &[usize],
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
    let parts = parts(case, callers);
    for ((part, callers), before) in parts.iter().zip(before) {
        let happened = t.lines(part.scenario.effects);
        let most = part.scenario.most;
        ensure(happened <= most, || format!("happened {happened} times"))?;
        for caller in *callers {
            check_caller(t, part, caller, happened, *before)?;
        }
    }
    t.touch("ok");
    check_script(t, case.scenario.after)?;
    for (part, callers) in &parts {
        check_next_calls(t, part, callers)?;
    }
    check_other(t)?;
    check_files(t, case)?;
    check_integrity(t)?;
    check_script(t, case.scenario.finally)
}

/// The operations that were called, each with its callers.
fn parts<'a>(case: &Case, callers: &'a [Ended]) -> Vec<(Case, &'a [Ended])> {
    let alone = case.scenario.then.is_none();
    let parts = case.scenario.parts().enumerate().map(|(i, scenario)| {
        let own = if alone {
            Some(callers)
        } else {
            callers.get(i..=i)
        };
        (Case { scenario, ..*case }, own.unwrap_or_default())
    });
    parts.collect()
}

/// What the next two calls do, when nothing disturbs any more.
fn check_next_calls(t: &TestEnv, case: &Case, callers: &[Ended]) -> Checked {
    let told = callers.iter().any(|caller| knows(case, caller));
    let happened = next_call(t, case, told, t.lines(case.scenario.effects))?;
    let done = again(t, case);
    check_result(case, &done)?;
    let now = t.lines(case.scenario.effects);
    ensure(now == happened, || {
        format!("a replay made {now} of {happened}\n{done}")
    })
}

/// What the scripts can use: `whole KEY EFFECTS` ends with 0 if the ledger knows of each time that the
/// effect happened, and of one success.
const TOOLS: &str = r#"
whole() { idem log "$1" --json | jq -se --argjson effects "$2" '
    def count(f): map(select(f)) | length;
    count(.event == "attempt_started") >= $effects
    and count(.event == "settled" and .state == "succeeded") == 1'; }
"#;

/// A scenario's own checks.
fn check_script(t: &TestEnv, script: &str) -> Checked {
    if script.is_empty() {
        return Ok(());
    }
    let script = format!("{TOOLS}{script}");
    let done = t.bash(&script).limit(Duration::from_secs(30)).end();
    ensure(done.code == 0, || format!("{done}"))
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
        return fail(&format!(
            "nothing has happened: {:?}",
            t.read(case.scenario.effects)
        ));
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
    let mut now = t.lines(scenario.effects);
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
        unhold(t, scenario.key, &done)?;
        done = again(t, case);
        now = t.lines(scenario.effects);
        // Retries that were left over may run as well.
        if now <= happened || now > happened + scenario.most {
            return wrong("the person said that it did not happen", &done);
        }
    } else if now != happened {
        if told {
            return wrong("a caller was told the result, and it ran again", &done);
        }
        if scenario.settled_before && !scenario.forgets {
            return wrong("the result was there, and it ran again", &done);
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
fn unhold(t: &TestEnv, key: &str, refused: &Done) -> Checked {
    let printed = call(t, &["key", "--key", key]).out_text();
    let key = printed.trim_end();
    let state = t.state(key);
    let args: &[&str] = match state.as_str() {
        "unknown" => &["resolve", key, "--not-done"],
        "held" => &["approve", key, "--yes"],
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
