//! The order of a claim, and what a keeper does when there is nothing to claim.

use super::super::claim::NotClaimed;
use super::super::ending::CallerEnd;
use super::super::hands::Cancelled;
use super::super::keeper::Kept;
use super::*;
use crate::domain::outcome::Cut;
use crate::domain::owner::Liveness;

fn not_claimed(kept: Kept) -> NotClaimed {
    match kept {
        Kept::NotClaimed(not) => not,
        Kept::Executed(executed) => panic!("executed: {executed:?}"),
    }
}

#[test]
fn nothing_starts_before_the_claim_and_nobody_learns_before_the_settle() {
    let mut world = World::new(&["0"]);
    let executed = world.executed(&plan());
    assert_eq!(
        world.happened(),
        "abandon, prepare 1 with new token, claim 1, claimed 1, attempt 1, settle succeeded, \
         release, tell success 0"
    );
    assert_eq!(executed.end, CallerEnd::Code(0));
    assert_eq!((executed.state, executed.attempts), (State::Succeeded, 1));
    let kinds = ["claimed", "attempt_started", "attempt_ended", "settled"];
    assert_eq!(world.kinds(), kinds);
    assert_eq!(world.record().state, State::Succeeded);
    assert_eq!(world.record().output.unwrap().number, 1);
}

#[test]
fn who_finds_another_generation_becomes_its_waiter() {
    for state in State::ALL {
        let mut world = World::new(&[]).with_record(record(state, None));
        for seen in [None, Some(Generation(9))] {
            let not = not_claimed(world.keep_after(&plan(), seen));
            assert!(matches!(not, NotClaimed::Changed(Generation(1))), "{not:?}");
        }
        assert_eq!(world.happened(), "abandon, abandon");
        assert_eq!(world.record(), &record(state, None));
    }
}

#[test]
fn a_record_that_asks_for_something_else_now_is_looked_at_again() {
    let mut world = World::new(&[]).with_record(record(State::Running, None));
    world.hands.liveness = Liveness::OwnerAlive;
    let not = not_claimed(world.keep(&plan()));
    assert!(matches!(not, NotClaimed::LookAgain), "{not:?}");
    assert_eq!(world.happened(), "abandon");
}

#[test]
fn a_record_that_was_forgotten_since_is_no_obstacle() {
    let mut world = World::new(&["0"]);
    let kept = world.keep_after(&plan(), Some(Generation(4)));
    assert!(matches!(kept, Kept::Executed(_)));
}

#[test]
fn a_call_that_was_called_off_claims_nothing() {
    for cancelled in [Cancelled::CallerGone, Cancelled::Signal(15)] {
        let mut world = World::new(&[]);
        world.hands.cancelled = Some(cancelled);
        let not = not_claimed(world.keep(&plan()));
        assert!(matches!(not, NotClaimed::Cancelled(c) if c == cancelled));
        assert_eq!(world.happened(), "abandon");
        assert!(world.store.record.is_none() && world.store.events.is_empty());
    }
}

#[test]
fn no_process_no_claim() {
    let mut world = World::new(&[]);
    world.hands.cannot_fork = Some("too many processes".into());
    let not = not_claimed(world.keep(&plan()));
    assert!(matches!(not, NotClaimed::CannotFork(_)), "{not:?}");
    assert!(world.store.record.is_none());
}

#[test]
fn the_token_lives_as_long_as_the_record() {
    let mut again = World::new(&["0"]).with_record(record(State::Failed, Some(Class::Safe)));
    again.executed(&plan());
    assert!(again.happened().contains("prepare 1 with old token"));
    assert_eq!(again.record().attempts, 2);
    let mut corrected = World::new(&["0"]).with_record(Record {
        fingerprint: OTHER,
        ..record(State::Failed, Some(Class::Permanent))
    });
    corrected.executed(&plan());
    assert!(corrected.happened().contains("prepare 1 with new token"));
    assert_eq!(corrected.record().attempts, 1);
    let mut expired = World::new(&["0"]).with_record(record(State::Succeeded, None));
    expired.hands.clock += 100 * S;
    expired.executed(&plan());
    assert!(expired.happened().contains("prepare 1 with new token"));
}

#[test]
fn every_attempt_is_noted_before_the_next_one_starts() {
    let mut world = World::new(&["9", "9", "0"]);
    let executed = world.executed(&retries(2));
    assert_eq!(
        world.happened(),
        "abandon, prepare 1 with new token, claim 1, claimed 1, attempt 1, step output 1 dirty, \
         pause 1s for attempt 2, end leftovers, prepare 2 with new token, step start dirty durable, attempt 2, \
         step output 2 dirty, pause 1s for attempt 3, end leftovers, prepare 3 with new token, \
         step start dirty durable, attempt 3, settle succeeded, release, tell success 0"
    );
    assert_eq!(executed.attempts, 3);
    assert_eq!(world.record().attempts, 3);
    assert_eq!(world.record().output.unwrap().number, 3);
    let ends = ["attempt_ended"; 3];
    let mut kinds = world.kinds();
    kinds.retain(|kind| *kind == "attempt_ended");
    assert_eq!(kinds, ends, "each end is told once");
}

#[test]
fn a_last_attempt_that_was_noted_is_still_the_result() {
    let mut world = World::new(&["9", "9"]);
    world.hands.interrupt_in_pause = true;
    let executed = world.executed(&retries(5));
    assert_eq!(executed.end, CallerEnd::Code(9));
    assert_eq!(executed.output.unwrap().stdout_bytes, 1);
    assert_eq!(world.record().output.unwrap().number, 1);
    assert_eq!(
        world.kinds(),
        [
            "claimed",
            "attempt_started",
            "attempt_ended",
            "paused",
            "settled"
        ]
    );
}

#[test]
fn a_retry_whose_start_cannot_be_noted_does_not_start() {
    let mut world = World::new(&["9"]);
    world.store.step_errors = [None, Some(busy())].into();
    let executed = world.executed(&retries(5));
    assert!(
        world
            .happened()
            .contains("prepare 2 with new token, step start dirty durable, abandon, ")
    );
    assert_eq!(
        (executed.state, executed.class),
        (State::Failed, Class::Safe)
    );
    assert!(executed.not_started && executed.reason.contains("could not be recorded"));
    assert!(
        world.record().dirty,
        "the first attempt's traces are still there"
    );
    assert_eq!(world.record().attempts, 1);
}

#[test]
fn nothing_starts_under_a_claim_that_others_have_taken_over() {
    let mut world = World::new(&[]);
    world.store.lease_lost = true;
    let executed = world.executed(&plan());
    assert!(
        !world.happened().contains("attempt 1"),
        "{}",
        world.happened()
    );
    assert!(executed.not_started && !executed.is_retry);
    assert_eq!(executed.class, Class::Safe);
    let dirty = Record {
        dirty: true,
        ..record(State::Failed, Some(Class::Retryable))
    };
    let mut world = World::new(&[]).with_record(dirty);
    world.store.lease_lost = true;
    world.executed(&with_cleanup(plan()));
    assert!(!world.happened().contains("clean"), "{}", world.happened());
}

#[test]
fn what_a_step_could_not_write_the_settlement_does() {
    let mut world = World::new(&["9", "0"]);
    world.store.step_errors = [Some(full())].into();
    world.executed(&retries(1));
    let mut kinds = world.kinds();
    kinds.retain(|kind| *kind == "attempt_ended");
    assert_eq!(kinds.len(), 2);
}

#[test]
fn an_uncertain_end_ends_the_rest_of_the_tree() {
    let mut world = World::new(&["timeout"]);
    let executed = world.executed(&retries(3));
    assert!(
        world
            .happened()
            .contains("attempt 1, end leftovers, settle unknown, release")
    );
    assert_eq!(executed.end, CallerEnd::Code(124));
    assert_eq!(executed.cut, Some(Cut::Timeout));
    assert_eq!((executed.exit_code, world.record().exit_code), (None, None));
    assert!(world.record().dirty);
}

#[test]
fn nothing_starts_over_what_is_still_alive() {
    let mut plan = retries(3);
    plan.retry.idempotent = true;
    for (plan, attempts) in [
        (plan, ["timeout"]),
        (with_probe(retries(0)), ["timeout"]),
        (retries(1), ["9"]),
    ] {
        let mut world = World::new(&attempts);
        world.hands.leftovers = [vec![77, 78]].into();
        let executed = world.executed(&plan);
        assert_eq!(executed.state, State::Unknown);
        assert_eq!(executed.survivors, [77, 78]);
        assert!(
            executed.reason.contains("still alive"),
            "{}",
            executed.reason
        );
        assert_eq!(executed.attempts, 1);
        let happened = world.happened();
        assert!(
            !happened.contains("ask") && !happened.contains("prepare 2"),
            "{happened}"
        );
    }
}

#[test]
fn a_later_attempt_that_did_nothing_leaves_an_earlier_one_unknown() {
    let mut plan = retries(1);
    plan.retry.idempotent = true;
    let mut world = World::new(&["timeout", "nostart"]);
    let executed = world.executed(&plan);
    assert_eq!(
        (executed.state, executed.end),
        (State::Unknown, CallerEnd::Code(127))
    );
    assert!(
        executed
            .reason
            .contains("an earlier attempt may have happened")
    );
}

#[test]
fn the_deadline_is_the_attempts_and_leaves_no_pause_past_it() {
    let mut world = World::new(&["9"]);
    let mut plan = retries(5);
    plan.limits.deadline = Some(world.hands.clock + S + S / 2);
    let executed = world.executed(&plan);
    assert!(world.happened().contains("attempt 1 for 1.5s"));
    assert_eq!(executed.attempts, 1);
    assert!(executed.reason.contains("deadline"));
}

#[test]
fn a_nested_call_leaves_retrying_to_the_outer_one() {
    let mut world = World::new(&["9"]);
    let mut plan = retries(5);
    plan.retry.nested = true;
    let executed = world.executed(&plan);
    assert_eq!((executed.attempts, executed.class), (1, Class::Retryable));
    assert!(world.happened().ends_with("tell retryable 9"));
}
