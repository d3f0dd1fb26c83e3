//! A model of what `idem` promises, and random scripts against it: calls, ends of commands, kills, time
//! that passes, what people decide, housekeeping. A script that shows a difference shrinks to a short
//! one, which is printed as shell commands.
//!
//! The scripts have fixed seeds. `IDEM_SOAK_SECONDS` goes on with new ones for so long.

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

mod actor;
mod core;
mod real;
mod reference;
mod script;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestError, TestRunner};
use std::time::{Duration, Instant};

use reference::{Model, Seen, Shown};
use script::{Step, World, scripts, shown};

/// What is otherwise than the model says.
fn compare(
    model: &Model,
    seen: &[Seen],
    states: [Shown; 2],
    effects: [u32; 2],
    verb: Option<i32>,
) -> Option<String> {
    let wanted = (model.seen(), model.shown(), model.effects(), model.verb());
    let is = (seen.to_vec(), states, effects, verb);
    (is != wanted).then(|| format!("\n  is {is:?}\n  not {wanted:?}"))
}

/// Tries random scripts, and shrinks the first that fails.
fn search(
    seed: u64,
    cases: u32,
    world: World,
    most: usize,
    run: &dyn Fn(&[Step]) -> Result<(), String>,
) {
    let config = Config {
        cases,
        failure_persistence: None,
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed: RngSeed::Fixed(seed),
        max_shrink_time: 60_000,
        ..Config::default()
    };
    let strategy = scripts(world, most).prop_map(|script| script);
    let tried = TestRunner::new(config).run(&strategy, |script| {
        run(&script).map_err(proptest::test_runner::TestCaseError::fail)
    });
    match tried {
        Ok(()) => {}
        Err(TestError::Fail(why, script)) => {
            panic!("seed {seed}: {why}\n\nthe script:\n{}\n", shown(&script))
        }
        Err(error) => panic!("{error}"),
    }
}

/// For how long new scripts are tried after the fixed ones.
fn soak() -> Option<Duration> {
    let seconds = std::env::var("IDEM_SOAK_SECONDS").ok()?;
    Some(Duration::from_secs(seconds.parse().expect("seconds")))
}

/// The fixed seed, and then others for as long as the soak lasts.
fn search_long(cases: u32, world: World, most: usize, run: &dyn Fn(&[Step]) -> Result<(), String>) {
    search(1, cases, world, most, run);
    let (started, mut rounds) = (Instant::now(), 0);
    while soak().is_some_and(|length| started.elapsed() < length) {
        rounds += 1;
        let seed = rand::random();
        search(seed, cases, world, most, run);
    }
    println!("{} scripts", (rounds + 1) * u64::from(cases));
}

#[test]
fn the_engine_does_what_the_model_says() {
    let ground = core::Ground::new();
    search_long(1_000, World::Core, 24, &|script| core::run(&ground, script));
}

#[test]
fn processes_do_what_the_model_says() {
    search_long(40, World::Processes, 14, &real::run);
}
