//! Every crash point: a call is killed, or one of its system calls fails, at each step that it takes,
//! and what follows must still be right. The points are generated: a run under ptrace(2) is counted
//! first, and then repeated once for each call that it made and each thing that can go wrong with it.
//!
//! `cargo test --test faults` tries a choice with a fixed seed. `IDEM_FAULTS=all` tries everything,
//! `IDEM_FAULTS=500` so many of each scenario, and `IDEM_FAULTS=SCENARIO/ROLE/STEP/N/ACT` (or the
//! beginning of that) what fits it; `IDEM_FAULT_SEED` makes another choice.
#![cfg(target_arch = "x86_64")] // the injector changes registers

// The tools of the black-box tests; each binary uses what it needs of them.
#[allow(dead_code)]
#[path = "../blackbox/command.rs"]
mod command;
#[allow(dead_code)]
#[path = "../blackbox/env.rs"]
mod env;
#[allow(dead_code)]
#[path = "../blackbox/procs.rs"]
mod procs;

mod cases;
mod scenarios;
mod steps;
mod trace;
mod verify;

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cases::Case;
use env::{IDEM, TestEnv, may_leave};
use scenarios::Scenario;
use trace::{Act, Point, Traced, trace};
use verify::{Checked, Ended};

/// Disturbed runs of each scenario in the bounded test.
const CHOSEN: usize = 20;

/// Runs at once: most of a run is waiting for the disk and for the tracer.
const WORKERS: usize = 3;

/// Starts several callers and notes how each ends.
const LAUNCHER: &str = r#"n=$1; shift
for i in $(seq $n); do ("$@" >out.$i 2>err.$i; echo $? >code.$i) & done; wait"#;

fn world(scenario: &Scenario) -> TestEnv {
    let t = TestEnv::new();
    if !scenario.before.is_empty() {
        let done = t.bash(scenario.before).end();
        assert!(done.code != 99, "{}: {done}", scenario.name);
    }
    t
}

/// A shell script that calls one after the other, as long as each ends as it does when undisturbed.
fn sequence(scenario: &'static Scenario) -> String {
    let quoted = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
    let calls = scenario.parts().zip(1..).map(|(part, i)| {
        let arguments: Vec<String> = part.arguments().into_iter().map(quoted).collect();
        let (idem, arguments, code) = (quoted(IDEM), arguments.join(" "), part.code);
        format!(
            "{idem} {arguments} >out.{i} 2>err.{i}; c=$?; echo $c >code.{i}; [ $c = {code} ] || exit 0\n"
        )
    });
    calls.collect()
}

/// The call of a scenario, or a shell that makes several.
fn command_of(scenario: &'static Scenario) -> Command {
    if scenario.then.is_some() {
        let mut command = Command::new("sh");
        command.args(["-c", &sequence(scenario)]);
        return command;
    }
    let mut command = Command::new(if scenario.callers == 1 { IDEM } else { "sh" });
    if scenario.callers > 1 {
        command.args(["-c", LAUNCHER, "sh", &scenario.callers.to_string(), IDEM]);
    }
    command.args(scenario.arguments());
    command
}

/// Makes the scenario's call under the tracer.
fn disturb(
    t: &TestEnv,
    scenario: &'static Scenario,
    plan: Option<(Point, Act)>,
) -> (Traced, Vec<Ended>) {
    let mut command = command_of(scenario);
    let file = |name: &str| File::create(t.path(name)).expect("a file for the output");
    t.dress(&mut command);
    let input = match scenario.input {
        "" => Stdio::null(),
        name => File::open(t.path(name)).expect("the input").into(),
    };
    command.stdin(input).stdout(file("out")).stderr(file("err"));
    let traced = trace(command, plan, &t.home()).expect("ptrace");
    let ended = |out: &str, err: &str, code: i32| Ended {
        code,
        stdout: fs::read(t.path(out)).unwrap_or_default(),
        stderr: t.read(err),
    };
    if scenario.callers == 1 && scenario.then.is_none() {
        t.write("code", traced.code().to_string());
        let callers = vec![ended("out", "err", traced.code())];
        return (traced, callers);
    }
    let called = (1..).take_while(|i| t.path(format!("code.{i}")).exists());
    let callers = called.map(|i| {
        let code = t.read(&format!("code.{i}")).trim().parse().expect("a code");
        ended(&format!("out.{i}"), &format!("err.{i}"), code)
    });
    let callers = callers.collect();
    (traced, callers)
}

fn attempt(case: &Case) -> (bool, Checked) {
    let t = world(case.scenario);
    let before: Vec<usize> = case.scenario.parts().map(|p| t.lines(p.effects)).collect();
    let (traced, callers) = disturb(&t, case.scenario, Some((case.point, case.act)));
    let checked = verify::check(&t, case, &traced, &callers, &before);
    let explained = checked.map_err(|why| {
        let told: Vec<String> = callers
            .iter()
            .map(|c| format!("{} {:?}", c.code, c.stderr))
            .collect();
        format!("{case}\n{why}\ncallers: {}", told.join("; "))
    });
    (traced.reached, explained)
}

/// Tries all cases, several at once, and tells at once what goes wrong. Returns which were reached, and
/// how many went wrong.
fn attempt_all(cases: &[Case]) -> (Vec<(Case, bool)>, usize) {
    let next = AtomicUsize::new(0);
    let broken = AtomicUsize::new(0);
    let tried = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (reached, checked) = attempt(case);
                    if let Err(why) = checked {
                        eprintln!("{why}\n");
                        broken.fetch_add(1, Ordering::Relaxed);
                    }
                    tried.lock().expect("the list").push((*case, reached));
                }
            });
        }
    });
    (tried.into_inner().expect("the list"), broken.into_inner())
}

/// The undisturbed run, which must be as the scenario says, and all that can be done to it.
fn cases_of(scenario: &'static Scenario) -> Vec<Case> {
    let t = world(scenario);
    let (traced, callers) = disturb(&t, scenario, None);
    for (i, caller) in callers.iter().enumerate() {
        let part = scenario.parts().nth(i).unwrap_or(scenario);
        let Ended { code, stderr, .. } = caller;
        assert_eq!(*code, part.code, "{}: {stderr}", scenario.name);
    }
    let calls = scenario.callers.max(scenario.parts().count());
    assert_eq!(callers.len(), calls, "{}", scenario.name);
    assert!(
        !traced.stuck && !traced.seen.is_empty(),
        "{}",
        scenario.name
    );
    cases::all(scenario, &traced)
}

fn chosen() -> Vec<Case> {
    let wanted = std::env::var("IDEM_FAULTS").unwrap_or_default();
    let seed = std::env::var("IDEM_FAULT_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let mut chosen = Vec::new();
    for scenario in scenarios::ALL {
        let count = match wanted.as_str() {
            "" => Some(CHOSEN),
            "all" => Some(usize::MAX),
            other => other.parse().ok(),
        };
        if count.is_none() && wanted.split('/').next() != Some(scenario.name) {
            continue;
        }
        let all = cases_of(scenario);
        match count {
            Some(count) => chosen.extend(cases::sample(all, count, seed)),
            None => chosen.extend(
                all.into_iter()
                    .filter(|case| case.to_string().starts_with(&wanted)),
            ),
        }
    }
    chosen
}

#[test]
fn nothing_happens_twice_whatever_dies_or_fails() {
    if !may_leave(trace::allowed(), "needs ptrace") {
        return;
    }
    let cases = chosen();
    assert!(!cases.is_empty(), "no point fits");
    let (tried, broken) = attempt_all(&cases);
    println!("{}", cases::summary(&tried));
    assert!(broken == 0, "{broken} of {} went wrong", cases.len());
}
