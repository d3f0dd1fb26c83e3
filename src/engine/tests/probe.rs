//! Asking instead of betting.

use super::super::ending::CallerEnd;
use super::memory::details;
use super::*;

fn unknown() -> Record {
    dirty(record(State::Unknown, Some(Class::Uncertain)))
}

#[test]
fn a_yes_is_the_result() {
    let mut world = World::new(&["timeout"]).with_helpers(&[(0, "a warning")]);
    let executed = world.executed(&with_probe(plan()));
    assert_eq!(
        world.happened(),
        "abandon, prepare 1 with new token, claim 1, claimed 1, attempt 1, step output 1 dirty, \
         end leftovers, ask 60s, settle succeeded, release, tell success 0"
    );
    assert!(executed.by_probe);
    assert_eq!(
        (executed.end, executed.exit_code),
        (CallerEnd::Code(0), Some(0))
    );
    assert_eq!(
        world.record().output.unwrap().number,
        0,
        "the probe's words"
    );
    let told = details(&world.store.events, EventKind::Probed);
    assert!(told[0].contains(r#""answer":"it happened""#), "{told:?}");
    assert!(told[0].contains(r#""stdout":"answer""#), "{told:?}");
}

#[test]
fn a_no_is_a_failure_that_a_later_call_executes() {
    let mut world = World::new(&["timeout"]).with_helpers(&[(1, "")]);
    let executed = world.executed(&with_probe(plan()));
    assert_eq!(
        (executed.state, executed.class),
        (State::Failed, Class::Safe)
    );
    assert_eq!(executed.end, CallerEnd::Code(124));
    assert!(
        world
            .happened()
            .contains("ask 60s, discard 0, settle failed")
    );
    assert_eq!(executed.output.unwrap().number, 1, "the attempt's words");
}

#[test]
fn a_no_lets_retries_go_on() {
    let mut world = World::new(&["timeout", "0"]).with_helpers(&[(1, "")]);
    let executed = world.executed(&with_probe(retries(1)));
    assert_eq!((executed.state, executed.attempts), (State::Succeeded, 2));
}

#[test]
fn who_could_not_ask_has_not_heard_a_no() {
    for end in [(1, "connection refused"), (2, ""), (127, ""), (-1, "")] {
        let mut world = World::new(&["timeout"]).with_helpers(&[end]);
        let executed = world.executed(&with_probe(retries(3)));
        assert_eq!(executed.state, State::Unknown, "{end:?}");
        assert_eq!(executed.attempts, 1);
        assert_eq!(world.record().output.unwrap().number, 1);
        assert!(
            executed.reason.contains("could not tell"),
            "{}",
            executed.reason
        );
    }
}

#[test]
fn what_is_still_under_way_is_asked_again() {
    let mut world = World::new(&["timeout"]).with_helpers(&[(75, ""), (75, ""), (0, "")]);
    let executed = world.executed(&with_probe(plan()));
    assert_eq!(executed.state, State::Succeeded);
    assert_eq!(
        world
            .happened()
            .matches("pause 1s for the probe, end leftovers, ask")
            .count(),
        2
    );
}

#[test]
fn a_no_that_comes_too_soon_is_asked_again() {
    let mut plan = with_probe(plan());
    plan.helpers.settle = Some(3 * S / 2);
    let mut world = World::new(&["timeout"]).with_helpers(&[(1, ""), (1, ""), (1, "")]);
    let executed = world.executed(&plan);
    assert_eq!(executed.class, Class::Safe);
    let happened = world.happened();
    assert!(happened.contains("pause 1s for the probe"), "{happened}");
    assert!(
        happened.contains("pause 500ms for the probe"),
        "not longer than needed: {happened}"
    );
    assert_eq!(happened.matches("ask").count(), 3);
}

#[test]
fn the_probe_has_the_attempts_time_limit_and_the_deadline() {
    let mut plan = with_probe(plan());
    plan.limits.timeout = Some(9 * S);
    let mut world = World::new(&["timeout"]).with_helpers(&[(0, "")]);
    world.executed(&plan);
    assert!(world.happened().contains("ask 9s"));
    let mut world = World::new(&["timeout"]).with_helpers(&[(0, "")]);
    plan.limits.deadline = Some(world.hands.clock + 5 * S);
    world.executed(&plan);
    assert!(world.happened().contains("ask 4s"));
}

#[test]
fn a_later_call_asks_about_what_is_unknown_under_its_own_claim() {
    let asking = with_probe(plan());
    let mut yes = World::new(&[])
        .with_record(unknown())
        .with_helpers(&[(0, "")]);
    let executed = yes.executed(&asking);
    assert_eq!(
        yes.happened(),
        "abandon, claim 2, claimed 2, end leftovers, ask 60s, settle succeeded, release, tell success 0"
    );
    assert_eq!((executed.state, executed.attempts), (State::Succeeded, 1));
    let mut no = World::new(&["0"])
        .with_record(unknown())
        .with_helpers(&[(1, "")]);
    let executed = no.executed(&asking);
    assert_eq!((executed.state, executed.attempts), (State::Succeeded, 2));
    assert!(
        no.happened()
            .contains("prepare 1 with old token, step start dirty durable, attempt 1")
    );
    let mut mute = World::new(&[])
        .with_record(unknown())
        .with_helpers(&[(3, "")]);
    let executed = mute.executed(&asking);
    assert_eq!(
        (executed.state, executed.end),
        (State::Unknown, CallerEnd::Code(122))
    );
    assert_eq!(executed.attempts, 1);
}

#[test]
fn an_abandoned_execution_is_unknown_to_its_finder() {
    let mut world = World::new(&[])
        .with_record(dirty(record(State::Running, None)))
        .with_helpers(&[(0, "")]);
    let executed = world.executed(&with_probe(plan()));
    assert_eq!(executed.state, State::Succeeded);
}

#[test]
fn after_an_interrupt_nobody_is_asked() {
    let mut world = World::new(&["term"]);
    let executed = world.executed(&with_probe(retries(3)));
    assert_eq!(
        (executed.state, executed.end),
        (State::Unknown, CallerEnd::Code(143))
    );
    assert!(!world.happened().contains("ask"));
}
