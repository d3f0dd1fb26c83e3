//! The guards: their order, who pays, and what a breaker is told.

use super::super::claim::NotClaimed;
use super::super::event::EventKind;
use super::super::guards::Guarded;
use super::super::store::GuardKind;
use super::memory::details;
use super::*;
use crate::policy::breaker::{Breaker, Phase, Told};
use crate::policy::budget::Budget;
use crate::policy::task::Task;

fn guarded(kept: Kept) -> Guarded {
    match kept {
        Kept::NotClaimed(NotClaimed::Guarded(refused)) => refused,
        other => panic!("no guard said no: {other:?}"),
    }
}

fn with_breaker(mut plan: Plan, spec: &str) -> Plan {
    plan.guards.breaker = Some(spec.parse().unwrap());
    plan
}

fn breaker(world: &World) -> Breaker {
    Breaker::from_json(&world.store.guards[&(GuardKind::Breaker, "api".to_owned())]).unwrap()
}

/// Half open, with nobody testing it.
const NO_LEASE: Phase = Phase::HalfOpen {
    successes: 0,
    leases: 0,
};

fn phase(world: &World) -> Phase {
    breaker(world).phase(&stamp(world.hands.clock.checked_sub(1000 * S).unwrap()))
}

fn set(world: &mut World, kind: GuardKind, name: &str, state: serde_json::Value) {
    world.store.guards.insert((kind, name.to_owned()), state);
}

fn open_breaker(world: &mut World) {
    let state = Breaker::tripped(&at(0), 30 * S).to_json();
    set(world, GuardKind::Breaker, "api", state);
}

/// A breaker whose time of rest is over.
fn half_open(world: &mut World) {
    open_breaker(world);
    world.hands.clock += 30 * S;
}

fn open_task(world: &mut World, retries: Option<u32>, deadline: Option<Duration>) {
    let state = Task::open(&at(0), retries, deadline).to_json();
    set(world, GuardKind::Task, "t", state);
}

fn task(world: &World) -> Task {
    Task::from_json(&world.store.guards[&(GuardKind::Task, "t".to_owned())]).unwrap()
}

#[test]
fn a_permit_comes_before_the_claim() {
    let mut plan = plan();
    plan.guards.bulkhead = Some("db=2".parse().unwrap());
    let mut world = World::new(&["0"]);
    world.executed(&plan);
    assert!(
        world
            .happened()
            .starts_with("permit db None, abandon, prepare 1 with new token, claim 1")
    );
    world.hands.permits = false;
    plan.limits.wait = Some(3 * S);
    plan.guards.auxiliary = true;
    plan.request.fingerprint = OTHER;
    let refused = guarded(world.keep(&plan));
    assert_eq!(refused.guard, "bulkhead");
    assert_eq!(world.happened(), "permit db Some(3s) auxiliary");
    plan.limits.deadline = Some(world.hands.clock + S);
    guarded(world.keep(&plan));
    assert_eq!(
        world.happened(),
        "permit db Some(1s) auxiliary",
        "a deadline ends the wait as well"
    );
}

#[test]
fn an_open_breaker_refuses_and_says_until_when() {
    let mut world = World::new(&[]);
    open_breaker(&mut world);
    let refused = guarded(world.keep(&with_breaker(plan(), "api")));
    assert_eq!(
        (refused.guard, refused.retry_at),
        ("breaker", Some(at(30).wall))
    );
    assert_eq!(world.happened(), "abandon", "nothing was prepared");
    assert!(world.store.record.is_none());
    assert_eq!(world.kinds(), ["guarded"]);
}

#[test]
fn a_deadline_that_has_passed_takes_no_lease() {
    let mut world = World::new(&[]);
    half_open(&mut world);
    let mut plan = with_breaker(plan(), "api");
    plan.limits.deadline = Some(world.hands.clock);
    assert_eq!(guarded(world.keep(&plan)).guard, "deadline");
    assert_eq!(phase(&world), NO_LEASE);
}

#[test]
fn a_claim_that_is_not_made_takes_no_lease() {
    let mut world = World::new(&[]);
    half_open(&mut world);
    world.hands.cannot_fork = Some("too many processes".into());
    let kept = world.keep(&with_breaker(plan(), "api"));
    assert!(matches!(kept, Kept::NotClaimed(NotClaimed::CannotFork(_))));
    assert_eq!(phase(&world), NO_LEASE);
}

#[test]
fn the_lease_is_part_of_the_claim_and_the_settle_gives_it_back() {
    for (attempt, wanted) in [
        ("0", Phase::Closed { failures: 0 }),
        ("uncertain", Phase::Open(30 * S)),
        ("1", NO_LEASE),
        ("nostart", NO_LEASE),
    ] {
        let mut world = World::new(&[attempt]);
        half_open(&mut world);
        world.executed(&with_breaker(plan(), "api"));
        assert_eq!(phase(&world), wanted, "{attempt}");
    }
}

#[test]
fn a_lease_is_refused_while_its_holder_lives_and_free_once_it_is_dead() {
    let spec = "api".parse().unwrap();
    let mut world = World::new(&["0"]);
    half_open(&mut world);
    let mut state = breaker(&world);
    world.hands.living.insert("other".into());
    state.admit(&spec, &at(30), "other", false, &|_| true);
    set(&mut world, GuardKind::Breaker, "api", state.to_json());
    assert_eq!(
        guarded(world.keep(&with_breaker(plan(), "api"))).guard,
        "breaker"
    );
    world.hands.living.clear();
    world.executed(&with_breaker(plan(), "api"));
    assert_eq!(phase(&world), Phase::Closed { failures: 0 });
}

#[test]
fn an_auxiliary_call_is_no_test_of_a_breaker() {
    let mut world = World::new(&[]);
    half_open(&mut world);
    let mut plan = with_breaker(plan(), "api");
    plan.guards.auxiliary = true;
    assert_eq!(guarded(world.keep(&plan)).guard, "breaker");
}

#[test]
fn every_attempt_is_told_to_the_breaker_exactly_once() {
    for (attempts, failures) in [
        (&["9", "9", "9"][..], 3),
        (&["9", "9", "0"][..], 0),
        (&["9", "permanent"][..], 1),
        (&["9", "nostart"][..], 1),
        (&["timeout"][..], 1),
    ] {
        let mut world = World::new(attempts);
        world.executed(&with_breaker(retries(2), "api:failures=9"));
        assert_eq!(phase(&world), Phase::Closed { failures }, "{attempts:?}");
    }
}

#[test]
fn a_settle_that_is_tried_again_tells_once() {
    let mut world = World::new(&["9"]);
    world.store.settle_errors = [Some(busy()), Some(full()), Some(busy())].into();
    world.executed(&with_breaker(plan(), "api:failures=9"));
    assert_eq!(
        phase(&world),
        Phase::Closed { failures: 0 },
        "permanent failures do not count"
    );
    let mut world = World::new(&["retryable"]);
    world.store.settle_errors = [Some(busy()), Some(full()), Some(busy())].into();
    world.executed(&with_breaker(plan(), "api:failures=9"));
    assert_eq!(phase(&world), Phase::Closed { failures: 1 });
}

#[test]
fn a_breaker_that_opens_ends_the_retries() {
    let mut world = World::new(&["9", "9"]);
    let executed = world.executed(&with_breaker(retries(9), "api:failures=2,cooldown=30s"));
    assert_eq!((executed.attempts, executed.state), (2, State::Failed));
    assert!(
        executed.reason.contains("breaker api is open"),
        "{}",
        executed.reason
    );
    assert_eq!(executed.retry_at, Some(UnixMs(at(3).wall.0 + 30_000)));
    assert_eq!(world.record().output.unwrap().number, 2);
    let told = details(&world.store.events, EventKind::Guarded);
    assert!(told[0].contains("breaker"), "{told:?}");
}

#[test]
fn a_retry_of_a_half_open_breaker_takes_a_new_lease() {
    let mut world = World::new(&["permanent"]);
    half_open(&mut world);
    let mut plan = with_breaker(retries(9), "api:failures=1");
    plan.retry.idempotent = true;
    world.executed(&plan);
    assert_eq!(phase(&world), NO_LEASE);
}

#[test]
fn retries_are_paid_for_and_first_attempts_are_not() {
    let mut plan = retries(9);
    plan.guards.budget = Some("b=2/1h".parse().unwrap());
    let mut world = World::new(&["9", "9", "9"]);
    let executed = world.executed(&plan);
    assert_eq!(executed.attempts, 3);
    assert!(executed.reason.contains("budget b"), "{}", executed.reason);
    assert!(executed.retry_at.is_some());
    let spec = plan.guards.budget.clone().unwrap();
    let state = &world.store.guards[&(GuardKind::Budget, "b".to_owned())];
    assert_eq!(Budget::from_json(state).unwrap().left(&spec, &at(3)), 0);
    world.hands.more(&["9"]);
    let executed = world.executed(&plan);
    assert_eq!(executed.attempts, 4, "the first attempt of a call is free");
    let mut rich = World::new(&["0"]);
    rich.executed(&plan);
    assert!(
        rich.store.guards.is_empty(),
        "who needs no retry pays nothing"
    );
}

#[test]
fn nothing_is_paid_for_a_retry_that_another_guard_refuses() {
    let mut plan = retries(9);
    plan.guards.budget = Some("b=1/1h".parse().unwrap());
    plan.guards.task = Some("t".into());
    let mut world = World::new(&["9", "9"]);
    open_task(&mut world, Some(5), None);
    let executed = world.executed(&plan);
    assert!(executed.reason.contains("budget b"), "{}", executed.reason);
    assert_eq!(
        task(&world).retries_used,
        1,
        "only the retry that took place"
    );
}

#[test]
fn who_cannot_be_asked_has_not_agreed() {
    let mut plan = with_breaker(retries(9), "api:failures=9");
    plan.guards.budget = Some("b=5/1h".parse().unwrap());
    let mut world = World::new(&["9"]);
    world.store.guard_errors = [Some(busy())].into();
    let executed = world.executed(&plan);
    assert_eq!(executed.attempts, 1);
    assert!(
        executed.reason.contains("another writes"),
        "{}",
        executed.reason
    );
    assert_eq!(
        phase(&world),
        Phase::Closed { failures: 1 },
        "told by the settle instead"
    );
}

#[test]
fn the_steps_of_a_task_share_its_retries_and_its_time() {
    let mut plan = retries(9);
    plan.guards.task = Some("t".into());
    let mut world = World::new(&["9", "9", "9"]);
    open_task(&mut world, Some(2), Some(600 * S));
    let executed = world.executed(&plan);
    assert_eq!((executed.attempts, task(&world).retries_used), (3, 2));
    assert!(executed.reason.contains("task t"), "{}", executed.reason);
    assert!(world.happened().contains("attempt 1 for 600s"));
    world.hands.clock += 600 * S;
    assert_eq!(guarded(world.keep(&plan)).guard, "deadline");
}

#[test]
fn a_task_that_ended_takes_no_more_steps_and_one_never_opened_is_a_name() {
    let mut plan = plan();
    plan.guards.task = Some("t".into());
    let mut world = World::new(&["0"]);
    world.executed(&plan);
    assert!(world.store.guards.is_empty());
    let mut ended = Task::open(&at(0), None, None);
    ended.ended = Some(at(0));
    let mut world = World::new(&[]);
    set(&mut world, GuardKind::Task, "t", ended.to_json());
    let refused = guarded(world.keep(&plan));
    assert!(
        refused.guard == "task" && refused.why.contains("idem task open t"),
        "{}",
        refused.why
    );
}

#[test]
fn a_state_that_cannot_be_read_is_no_fresh_start() {
    for (kind, name) in [(GuardKind::Breaker, "api"), (GuardKind::Task, "t")] {
        let mut plan = with_breaker(plan(), "api");
        plan.guards.task = Some("t".into());
        let mut world = World::new(&[]);
        set(
            &mut world,
            kind,
            name,
            serde_json::json!({"phase": "newer"}),
        );
        let error = keep(&mut world.store, &mut world.hands, &plan, &looked(None)).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert!(world.store.record.is_none());
    }
}

#[test]
fn what_never_ran_tells_nothing() {
    let ended = crate::policy::outcome::Ending::NotStarted("not found".into());
    assert_eq!(Told::by(&ended, Class::Safe), Told::Nothing);
    let mut world =
        World::new(&[]).with_record(dirty(record(State::Unknown, Some(Class::Uncertain))));
    half_open(&mut world);
    let world_with_probe = with_probe(with_breaker(plan(), "api"));
    let mut world = world.with_helpers(&[(0, "")]);
    world.executed(&world_with_probe);
    assert_eq!(
        phase(&world),
        NO_LEASE,
        "a probe of ours is no test of the breaker, and its lease is given back"
    );
}
