//! When a cleanup is due, and what becomes of it.

use super::*;

fn unknown() -> Record {
    record(State::Unknown, Some(Class::Uncertain))
}

fn rerun() -> Plan {
    let mut plan = with_cleanup(plan());
    plan.retry.rerun_unknown = true;
    plan.request.rerun_unknown = true;
    plan.request.rerun_failed = true;
    plan
}

#[test]
fn it_runs_between_attempts_that_leave_something() {
    let mut world = World::new(&["9", "0"]).with_helpers(&[(0, "")]);
    world.executed(&with_cleanup(retries(1)));
    assert!(world.happened().contains(
        "step output 1 dirty, end leftovers, tidy 60s, discard 0, step clean durable, pause 1s for attempt 2, \
         end leftovers, prepare 2"
    ));
}

#[test]
fn it_has_nothing_to_do_after_what_did_nothing() {
    for class in ["safe", "throttled"] {
        let mut world = World::new(&[class, "0"]);
        world.executed(&with_cleanup(retries(1)));
        let happened = world.happened();
        assert!(
            !happened.contains("tidy") && happened.contains("step output 1 clean"),
            "{happened}"
        );
    }
}

#[test]
fn a_later_call_cleans_up_what_an_earlier_one_left() {
    for (found, tidies) in [
        (dirty(record(State::Failed, Some(Class::Permanent))), true),
        (dirty(record(State::Failed, Some(Class::Retryable))), true),
        (dirty(unknown()), true),
        // It did nothing itself, but an attempt before it did, and nobody has cleaned up since.
        (dirty(record(State::Failed, Some(Class::Safe))), true),
        (record(State::Failed, Some(Class::Safe)), false),
        (record(State::Failed, Some(Class::Permanent)), false),
        (unknown(), false),
    ] {
        let what = format!("{:?} {:?} {}", found.state, found.class, found.dirty);
        let mut world = World::new(&["0"])
            .with_record(found)
            .with_helpers(&[(0, "")]);
        world.executed(&rerun());
        assert_eq!(world.happened().contains("tidy"), tidies, "{what}");
    }
}

#[test]
fn it_is_also_due_for_a_corrected_command_and_not_after_expiry() {
    let other = Record {
        fingerprint: OTHER,
        ..dirty(record(State::Failed, Some(Class::Permanent)))
    };
    let mut corrected = World::new(&["0"])
        .with_record(other)
        .with_helpers(&[(0, "")]);
    corrected.executed(&with_cleanup(plan()));
    assert!(
        corrected
            .happened()
            .contains("claim 2, claimed 2, end leftovers, tidy")
    );
    let mut expired = World::new(&["0"]).with_record(dirty(record(State::Succeeded, None)));
    expired.hands.clock += 100 * S;
    expired.executed(&with_cleanup(plan()));
    assert!(!expired.happened().contains("tidy"));
}

#[test]
fn until_it_has_succeeded_the_record_stays_dirty() {
    let other = Record {
        fingerprint: OTHER,
        ..dirty(record(State::Failed, Some(Class::Permanent)))
    };
    for found in [other, dirty(unknown())] {
        let mut world = World::new(&[]).with_record(found);
        let first = looked(Some(Generation(1)));
        // Whoever dies after this claim has not cleaned up.
        let claim =
            super::super::claim::claim(&mut world.store, &mut world.hands, &rerun(), &first);
        assert!(!claim.unwrap().unwrap().prepared);
        assert!(world.record().dirty);
    }
}

#[test]
fn one_that_was_interrupted_is_run_again_and_one_that_succeeded_is_not() {
    let died_before = dirty(record(State::Running, None));
    let mut again = World::new(&["0"])
        .with_record(died_before)
        .with_helpers(&[(0, "")]);
    again.executed(&rerun());
    assert!(again.happened().contains("tidy"));
    let died_after = record(State::Running, None);
    let mut once = World::new(&["0"]).with_record(died_after);
    once.executed(&rerun());
    assert!(!once.happened().contains("tidy"));
}

#[test]
fn a_failed_cleanup_leaves_everything_as_it_was() {
    let mut first = World::new(&["9"]).with_helpers(&[(1, "")]);
    let executed = first.executed(&with_cleanup(retries(1)));
    assert_eq!(
        (executed.state, executed.class),
        (State::Failed, Class::Retryable)
    );
    assert!(first.record().dirty);
    // Also after a probe's no: what is half done is not known.
    let asking = with_cleanup(with_probe(retries(1)));
    let mut second = World::new(&["timeout"]).with_helpers(&[(1, ""), (1, "")]);
    let executed = second.executed(&asking);
    assert_eq!((executed.state, executed.attempts), (State::Unknown, 1));
    assert!(
        executed.reason.contains("the cleanup failed"),
        "{}",
        executed.reason
    );
    let mut third = World::new(&[])
        .with_record(dirty(unknown()))
        .with_helpers(&[(9, "")]);
    let executed = third.executed(&rerun());
    assert_eq!(executed.state, State::Unknown);
    assert!(third.record().dirty);
    let mut fourth = World::new(&[])
        .with_record(dirty(record(State::Failed, Some(Class::Permanent))))
        .with_helpers(&[(9, "")]);
    let executed = fourth.executed(&rerun());
    assert_eq!(
        (executed.state, executed.class),
        (State::Failed, Class::Permanent)
    );
}

#[test]
fn one_whose_success_cannot_be_noted_does_not_count() {
    let mut world = World::new(&["9"]).with_helpers(&[(0, "")]);
    world.store.step_errors = [None, Some(busy())].into();
    let executed = world.executed(&with_cleanup(retries(1)));
    assert_eq!(executed.attempts, 1);
    assert_eq!(executed.state, State::Failed);
    assert!(
        world.kinds().contains(&"cleanup"),
        "the ledger learns of it in the end"
    );
}
