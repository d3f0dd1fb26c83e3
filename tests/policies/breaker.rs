//! A breaker that many processes share.

use idem::engine::store::GuardKind;
use rand::RngExt;
use serde_json::{Value, json};

use crate::command::Running;
use crate::env::{TestEnv, gate};
use crate::procs;
use crate::random::{edit, seeded};

const FAILURES: u32 = 4;
const PROBES: u32 = 2;
const SPEC: &str = "--breaker api:failures=4,cooldown=1h,probes=2";

/// What a round of calls does once all of them have been let in or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Well,
    Badly,
    /// With a no of the other side.
    Permanently,
    /// With everything that belongs to them killed.
    Killed,
}

/// What the breaker is expected to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Model {
    Closed { failures: u32 },
    Open,
    HalfOpen { successes: u32 },
}

impl Model {
    /// How many of so many calls at once are let in.
    fn admits(self, calls: u32) -> u32 {
        match self {
            Model::Closed { .. } => calls,
            Model::Open => 0,
            Model::HalfOpen { successes } => calls.min(PROBES - successes),
        }
    }

    /// After so many that were let in have ended like this.
    fn after(self, admitted: u32, ends: Ends) -> Model {
        match (self, ends) {
            (_, Ends::Permanently | Ends::Killed) | (Model::Open, _) => self,
            (_, _) if admitted == 0 => self,
            (Model::Closed { .. }, Ends::Well) => Model::Closed { failures: 0 },
            (Model::Closed { failures }, Ends::Badly) if failures + admitted < FAILURES => {
                Model::Closed {
                    failures: failures + admitted,
                }
            }
            (_, Ends::Badly) => Model::Open,
            (Model::HalfOpen { successes }, Ends::Well) if successes + admitted < PROBES => {
                Model::HalfOpen {
                    successes: successes + admitted,
                }
            }
            (Model::HalfOpen { .. }, Ends::Well) => Model::Closed { failures: 0 },
        }
    }
}

fn shown(t: &TestEnv) -> Value {
    t.idem("breaker api --json").end().code(0).json()
}

fn check(t: &TestEnv, model: Model, round: usize) {
    let shown = shown(t);
    let seen = match shown["phase"].as_str().expect("a phase") {
        "closed" => Model::Closed {
            failures: u32::try_from(shown["failures"].as_u64().unwrap()).unwrap(),
        },
        "open" => Model::Open,
        _ => Model::HalfOpen {
            successes: u32::try_from(shown["successes"].as_u64().unwrap()).unwrap(),
        },
    };
    assert_eq!(seen, model, "after round {round}: {shown}");
}

/// Lets the rest of an open breaker pass.
fn rest(t: &TestEnv) {
    edit(t, GuardKind::Breaker, "api", |state| {
        if state["phase"] == "open" {
            state["left_ms"] = json!(0);
        }
    });
}

fn script(round: usize, ends: Ends) -> String {
    let code = match ends {
        Ends::Well => "exit 0",
        Ends::Badly => "exit 9",
        Ends::Permanently => "exit 1",
        Ends::Killed => "sleep 300",
    };
    format!(
        "echo $PPID >> in{round}; {}; {code}",
        gate(&format!("go{round}"))
    )
}

/// Kills front, keeper and child of every call that was let in.
fn kill_all(t: &TestEnv, round: usize, calls: &[Running]) {
    for call in calls {
        call.signal(libc::SIGKILL);
    }
    for keeper in t.read(&format!("in{round}")).split_whitespace() {
        procs::signal(keeper.parse().expect("a pid"), libc::SIGKILL);
    }
    procs::kill_home(&t.home());
    t.upto_quiet();
}

fn round(t: &TestEnv, round: usize, model: Model, calls: u32, ends: Ends) -> Model {
    let admitted = model.admits(calls);
    let running: Vec<Running> = (0..calls)
        .map(|call| {
            let options = format!("--key r{round}c{call} {SPEC} --retry-on exit:9");
            t.run(&options, &script(round, ends)).start()
        })
        .collect();
    t.upto_lines(&format!("in{round}"), admitted as usize);
    if ends == Ends::Killed {
        if admitted < calls {
            // Who is refused has to say so before everything is killed.
            crate::env::upto("the refusals", || {
                let refused = running
                    .iter()
                    .filter(|call| call.err_so_far().contains("breaker"));
                refused.count() as u32 == calls - admitted
            });
        }
        kill_all(t, round, &running);
    } else {
        if admitted < calls {
            crate::env::upto("the refusals", || {
                let refused = running
                    .iter()
                    .filter(|call| call.err_so_far().contains("breaker"));
                refused.count() as u32 == calls - admitted
            });
        }
        t.touch(&format!("go{round}"));
        let codes: Vec<i32> = running.into_iter().map(|call| call.end().code).collect();
        let refused = codes.iter().filter(|code| **code == 123).count();
        assert_eq!(refused as u32, calls - admitted, "round {round}: {codes:?}");
    }
    assert_eq!(
        t.lines(&format!("in{round}")),
        admitted as usize,
        "round {round}"
    );
    model.after(admitted, ends)
}

#[test]
fn any_mixture_of_calls_and_kills_follows_the_model() {
    let t = TestEnv::new();
    let mut random = seeded();
    let mut model = Model::Closed { failures: 0 };
    // Its first call makes it known.
    model = round(&t, 0, model, 1, Ends::Well);
    for number in 1..14 {
        if model == Model::Open && random.random_bool(0.7) {
            rest(&t);
            model = Model::HalfOpen { successes: 0 };
        }
        let ends = match random.random_range(0..8) {
            0..=3 => Ends::Badly,
            4..=5 => Ends::Well,
            6 => Ends::Permanently,
            _ => Ends::Killed,
        };
        let calls = random.random_range(1..5);
        model = round(&t, number, model, calls, ends);
        check(&t, model, number);
    }
}

#[test]
fn twenty_racers_are_as_many_probes_as_there_may_be() {
    let t = TestEnv::new();
    t.idem("breaker api --trip").end().code(0);
    rest(&t);
    let open = round(&t, 1, Model::HalfOpen { successes: 0 }, 20, Ends::Badly);
    check(&t, open, 1);
    assert_eq!(open, Model::Open);
}

#[test]
fn it_closes_after_as_many_successes_as_probes() {
    let t = TestEnv::new();
    t.idem("breaker api --trip").end().code(0);
    rest(&t);
    let half = Model::HalfOpen { successes: 0 };
    let half = round(&t, 1, half, 1, Ends::Well);
    assert_eq!(half, Model::HalfOpen { successes: 1 });
    check(&t, half, 1);
    // One that was killed counts for nothing and frees its lease at once.
    let half = round(&t, 2, half, 1, Ends::Killed);
    check(&t, half, 2);
    let closed = round(&t, 3, half, 3, Ends::Well);
    assert_eq!(closed, Model::Closed { failures: 0 });
    check(&t, closed, 3);
}

#[test]
fn results_that_come_while_it_is_open_do_not_extend_it() {
    let t = TestEnv::new();
    let spec = "--breaker api:failures=1,cooldown=1h --retry-on exit:9";
    let late = t
        .run(
            &format!("--key late {spec}"),
            &format!("echo x >> in; {}; exit 9", gate("go")),
        )
        .start();
    t.upto_lines("in", 1);
    t.run(&format!("--key first {spec}"), "exit 9")
        .end()
        .code(9);
    edit(&t, GuardKind::Breaker, "api", |state| {
        state["left_ms"] = json!(1_000_000);
    });
    t.touch("go");
    late.end().code(9);
    let shown = shown(&t);
    assert_eq!(shown["phase"], "open");
    assert!(shown["left_ms"].as_u64().unwrap() <= 1_000_000, "{shown}");
}

#[test]
fn a_breaker_that_cannot_be_read_is_named_and_can_be_closed() {
    let t = TestEnv::new();
    t.idem("breaker api --trip").end().code(0);
    edit(&t, GuardKind::Breaker, "api", |state| {
        state["phase"] = json!("stuck")
    });
    let refused = t.run("--key k --breaker api", "echo x >> n").end();
    refused.code(125).one_line().says("breaker api");
    assert_eq!(t.lines("n"), 0);
    t.idem("breaker api --reset").end().code(0);
    t.run("--key k --breaker api", "echo x >> n").end().code(0);
}

#[test]
fn the_verb_lists_shows_and_moves() {
    let t = TestEnv::new();
    t.idem("breaker").end().code(0).out("");
    t.idem("breaker --json").end().code(0).out("[]\n");
    t.idem("breaker api").end().code(1).out("").one_line();
    t.idem("breaker api --reset").end().code(1).one_line();
    assert!(!t.store().exists(), "looking creates nothing");
    t.idem("breaker --trip").end().code(125).one_line();
    t.idem("breaker api --cooldown 1h")
        .end()
        .code(125)
        .one_line();
    t.idem("breaker api --trip --cooldown 1h").end().code(0);
    t.run("--key k --breaker api", "echo x >> n")
        .end()
        .code(123);
    let shown = shown(&t);
    assert_eq!(shown["phase"], "open");
    assert!(shown["left_ms"].as_i64().unwrap() > 3_000_000, "{shown}");
    assert!(shown["open_until"].is_string());
    let text = t.idem("breaker").end().code(0).out_text();
    assert!(text.starts_with("api is open for another 59m"), "{text}");
    t.idem("breaker api --reset").end().code(0);
    t.idem("breaker api").end().code(0).out("api is closed\n");
    t.run("--key k --breaker api", "echo x >> n").end().code(0);
    assert_eq!(t.lines("n"), 1);
}
