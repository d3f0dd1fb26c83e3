//! The end is made durable, whatever it takes.

use super::super::ending::CallerEnd;
use super::super::keeper::Recorded;
use super::super::store::OutputBody;
use super::*;

#[test]
fn a_result_that_does_not_fit_is_recorded_without_its_output() {
    let mut world = World::new(&["0"]);
    world.store.settle_errors = [Some(full())].into();
    let executed = world.executed(&plan());
    assert!(matches!(executed.recorded, Recorded::WithoutOutput));
    let output = executed.output.unwrap();
    assert_eq!((output.body, output.lost), (OutputBody::Nothing, true));
    assert!(
        world
            .happened()
            .contains("settle succeeded, discard 1, settle succeeded, release")
    );
    assert!(world.record().output.unwrap().lost);
}

#[test]
fn a_store_that_has_no_room_at_all_leaves_the_claim_open() {
    let mut world = World::new(&["0"]);
    world.store.settle_errors = [Some(full()), Some(full())].into();
    let executed = world.executed(&plan());
    assert!(matches!(
        executed.recorded,
        Recorded::No(StoreError::Full(_))
    ));
    assert_eq!(world.record().state, State::Running);
    assert_eq!(executed.end, CallerEnd::Code(0));
}

#[test]
fn a_busy_store_is_tried_again_and_not_for_ever() {
    let mut world = World::new(&["0"]);
    world.store.settle_errors = [Some(busy()), Some(busy()), Some(busy())].into();
    assert!(matches!(world.executed(&plan()).recorded, Recorded::Yes));
    assert_eq!(world.record().state, State::Succeeded);
    let mut world = World::new(&["0"]);
    world.store.settle_errors = (0..9).map(|_| Some(busy())).collect();
    let recorded = world.executed(&plan()).recorded;
    assert!(matches!(recorded, Recorded::No(StoreError::Busy(_))));
    assert_eq!(world.happened().matches("settle succeeded").count(), 4);
}

#[test]
fn a_record_that_moved_on_stays_as_it_is() {
    let mut world = World::new(&["0"]);
    world.store.moved_on = true;
    let executed = world.executed(&plan());
    assert!(matches!(executed.recorded, Recorded::Superseded));
    assert_eq!(
        executed.end,
        CallerEnd::Code(0),
        "the caller gets what it ran"
    );
    assert_eq!(world.record().state, State::Running);
}

#[test]
fn no_retry_starts_for_a_record_that_moved_on() {
    let mut world = World::new(&["9"]);
    world.store.moved_on = true;
    let executed = world.executed(&retries(3));
    assert!(matches!(executed.recorded, Recorded::Superseded));
    let happened = world.happened();
    assert!(
        happened.contains("step start dirty durable, abandon, settle"),
        "{happened}"
    );
    assert!(executed.reason.contains("resolved or forgotten"));
}

#[test]
fn what_the_other_side_asks_for_is_kept_for_the_next_caller() {
    let now = at(1).wall.0;
    for text in ["throttled+30", "safe+30", "retryable+30", "uncertain+30"] {
        let mut world = World::new(&[text]);
        let retry_at = world.executed(&plan()).retry_at;
        assert_eq!(retry_at, Some(UnixMs(now + 30_000)), "{text}");
        assert_eq!(world.record().retry_at, retry_at);
    }
    let mut world = World::new(&["permanent+30"]);
    assert_eq!(world.executed(&plan()).retry_at, None);
}
