//! What a caller gets: replay, wait, refusal, or an execution that is left to a keeper.

use super::super::front::{Caller, Delegated, Outcome, WaitEnd, call};
use super::super::hands::Hands as _;
use super::super::store::{PastResult, Store, StoreResult};
use super::*;
use crate::domain::decision::Refusal;
use crate::domain::owner::{Liveness, OwnerRef};
use crate::domain::record::Identity;
use std::collections::VecDeque;

type Change = Box<dyn FnOnce(&mut FakeCaller)>;

/// A front whose waits and keepers do what the test says.
pub struct FakeCaller {
    pub store: Memory,
    no_store: bool,
    pub clock: Duration,
    liveness: Liveness,
    /// What happens during the next waits; after these a wait times out.
    waits: VecDeque<Change>,
    /// What the next keepers do.
    keepers: VecDeque<(Delegated<&'static str>, Change)>,
    log: Log,
}

impl FakeCaller {
    fn new() -> FakeCaller {
        let log = Log::default();
        FakeCaller {
            store: Memory::new(&log),
            no_store: false,
            clock: Duration::ZERO,
            liveness: Liveness::OwnerAlive,
            waits: VecDeque::new(),
            keepers: VecDeque::new(),
            log,
        }
    }

    pub fn finding(record: Record) -> FakeCaller {
        let mut caller = FakeCaller::new();
        caller.store.put(record);
        caller
    }

    pub fn during_wait(mut self, change: impl FnOnce(&mut FakeCaller) + 'static) -> FakeCaller {
        self.waits.push_back(Box::new(change));
        self
    }

    fn keeper(
        mut self,
        end: Delegated<&'static str>,
        change: impl FnOnce(&mut FakeCaller) + 'static,
    ) -> FakeCaller {
        self.keepers.push_back((end, Box::new(change)));
        self
    }

    pub fn executes(self) -> FakeCaller {
        self.keeper(Delegated::Ended("executed"), |_| {})
    }

    pub fn call(&mut self, plan: &Plan) -> Outcome<&'static str> {
        call(self, plan).unwrap()
    }

    pub fn happened(&self) -> String {
        self.log
            .borrow_mut()
            .drain(..)
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl Caller for FakeCaller {
    type Execution = &'static str;

    fn store(&mut self) -> StoreResult<Option<&mut dyn Store>> {
        Ok((!self.no_store).then_some(&mut self.store as &mut dyn Store))
    }

    fn now(&self) -> Stamp {
        stamp(self.clock)
    }

    fn monotonic(&self) -> Duration {
        self.clock
    }

    fn observe(&mut self, _record: &Record) -> Liveness {
        self.liveness.clone()
    }

    fn wait(&mut self, record: &Record, _: &Liveness, until: Option<Duration>) -> WaitEnd {
        let left = until.map(|until| until.saturating_sub(self.clock));
        self.log
            .borrow_mut()
            .push(format!("wait {} {left:?}", record.name.key));
        match self.waits.pop_front() {
            Some(change) => {
                change(self);
                WaitEnd::LookAgain
            }
            None => WaitEnd::TimedOut,
        }
    }

    fn wait_for_change(&mut self, _: &Record, until: Option<Duration>) -> WaitEnd {
        let left = until.map(|until| until.saturating_sub(self.clock));
        self.log.borrow_mut().push(format!("watch {left:?}"));
        match self.waits.pop_front() {
            Some(change) => {
                change(self);
                WaitEnd::LookAgain
            }
            None => {
                self.clock = until.unwrap_or(self.clock);
                WaitEnd::TimedOut
            }
        }
    }

    fn identity(&mut self) -> Identity {
        Identity {
            argv: OURS,
            cwd: Vec::new(),
            executable: OURS,
        }
    }

    fn note_owner_lost(&mut self, record: &Record) {
        self.log
            .borrow_mut()
            .push(format!("owner of {} lost", record.generation));
    }

    fn delegate(&mut self, first: FirstLook) -> StoreResult<Delegated<&'static str>> {
        let saw = first.generation.map(|generation| generation.0);
        self.log.borrow_mut().push(format!("delegate {saw:?}"));
        let (end, change) = self.keepers.pop_front().expect("another keeper");
        change(self);
        Ok(end)
    }
}

fn running(generation: i64) -> Record {
    Record {
        generation: Generation(generation),
        ..record(State::Running, None)
    }
}

fn settled(generation: i64, state: State, class: Class) -> Record {
    Record {
        generation: Generation(generation),
        ..record(state, Some(class))
    }
}

fn settles(state: State, class: Class) -> impl FnOnce(&mut FakeCaller) {
    move |caller| caller.store.put(settled(1, state, class))
}

fn past(generation: i64) -> PastResult {
    PastResult {
        generation: Generation(generation),
        state: State::Succeeded,
        class: Some(Class::Success),
        reason: None,
        exit_code: Some(0),
        output: None,
        settled_at: UnixMs(1),
    }
}

pub fn refusal(outcome: Outcome<&'static str>) -> (Refusal, bool) {
    match outcome {
        Outcome::Refused {
            refusal, waited, ..
        } => (refusal, waited),
        other => panic!("not refused: {other:?}"),
    }
}

fn executed(outcome: &Outcome<&'static str>) -> bool {
    matches!(outcome, Outcome::Executed("executed"))
}

#[test]
fn where_there_is_no_store_a_keeper_makes_it() {
    let mut caller = FakeCaller::new().executes();
    caller.no_store = true;
    assert!(executed(&caller.call(&plan())));
    assert_eq!(caller.happened(), "delegate None");
}

#[test]
fn a_waiter_gets_its_generation_whatever_it_is() {
    for (state, class) in [
        (State::Succeeded, Class::Success),
        (State::Failed, Class::Permanent),
        (State::Failed, Class::Safe),
        (State::Failed, Class::Retryable),
        (State::Unknown, Class::Uncertain),
    ] {
        let mut caller = FakeCaller::finding(running(1)).during_wait(settles(state, class));
        let outcome = caller.call(&plan());
        let Outcome::Waited { record } = outcome else {
            panic!("{state:?}: {outcome:?}");
        };
        assert_eq!((record.state, record.generation), (state, Generation(1)));
        assert_eq!(
            caller.happened(),
            "wait k None",
            "49 waiters are not 49 more runs"
        );
    }
}

#[test]
fn also_when_it_expired_while_the_waiter_slept() {
    let mut caller = FakeCaller::finding(running(1)).during_wait(|caller| {
        caller
            .store
            .put(settled(1, State::Succeeded, Class::Success));
        caller.clock += 1_000 * S;
    });
    assert!(matches!(caller.call(&plan()), Outcome::Waited { .. }));
}

#[test]
fn also_when_the_record_has_moved_on() {
    let mut caller = FakeCaller::finding(running(1)).during_wait(|caller| {
        caller.store.put(running(2));
        caller.store.past.push(past(1));
    });
    let outcome = caller.call(&plan());
    assert!(matches!(outcome, Outcome::WaitedPast { result } if result.generation.0 == 1));
}

#[test]
fn a_result_that_nobody_knows_any_more_is_decided_anew() {
    let mut forgotten = FakeCaller::finding(running(1))
        .during_wait(|caller| caller.store.record = None)
        .executes();
    assert!(executed(&forgotten.call(&plan())));
    assert_eq!(forgotten.happened(), "wait k None, delegate None");
    let mut moved_on = FakeCaller::finding(running(1))
        .during_wait(|caller| caller.store.put(settled(2, State::Failed, Class::Safe)))
        .executes();
    assert!(executed(&moved_on.call(&plan())));
    assert_eq!(moved_on.happened(), "wait k None, delegate Some(2)");
}

#[test]
fn an_owner_that_died_leaves_an_unknown() {
    let dies = |caller: &mut FakeCaller| caller.liveness = Liveness::Gone;
    let mut caller = FakeCaller::finding(running(1)).during_wait(dies);
    assert_eq!(refusal(caller.call(&plan())), (Refusal::Unknown, false));
    assert_eq!(caller.happened(), "wait k None, owner of 1 lost");
    let mut asking = FakeCaller::finding(running(1)).during_wait(dies).executes();
    assert!(executed(&asking.call(&with_probe(plan()))));
    assert_eq!(asking.happened(), "wait k None, delegate Some(1)");
    // What it left is waited for as well, and then it is as unknown as before.
    let mut caller = FakeCaller::finding(running(1))
        .during_wait(|caller| caller.liveness = Liveness::TreeAlive { pids: vec![5] })
        .during_wait(dies);
    assert_eq!(refusal(caller.call(&plan())), (Refusal::Unknown, false));
    assert_eq!(
        caller.happened(),
        "wait k None, wait k None, owner of 1 lost"
    );
}

#[test]
fn an_unknown_with_survivors_is_waited_for_and_then_decided() {
    let unknown = || settled(1, State::Unknown, Class::Uncertain);
    let mut caller = FakeCaller::finding(unknown());
    caller.liveness = Liveness::TreeAlive { pids: vec![5, 6] };
    let Outcome::Refused {
        refusal: Refusal::StillRunning,
        pids,
        waited: true,
        ..
    } = caller.call(&plan())
    else {
        panic!("not refused");
    };
    assert_eq!(pids, [5, 6]);
    let gone = |caller: &mut FakeCaller| caller.liveness = Liveness::Gone;
    let mut caller = FakeCaller::finding(unknown()).during_wait(gone).executes();
    caller.liveness = Liveness::TreeAlive { pids: vec![5] };
    assert!(executed(&caller.call(&with_probe(plan()))));
}

#[test]
fn what_a_person_says_is_decided_anew() {
    let by_person = |state, class| {
        move |caller: &mut FakeCaller| {
            caller.store.put(Record {
                decided_by: Some("me@here".into()),
                ..settled(2, state, class)
            });
        }
    };
    let found = || FakeCaller::finding(running(1));
    let mut yes = found().during_wait(by_person(State::Succeeded, Class::Success));
    assert!(matches!(yes.call(&plan()), Outcome::Replayed { .. }));
    let mut not_done = found()
        .during_wait(by_person(State::Failed, Class::Safe))
        .executes();
    assert!(executed(&not_done.call(&plan())));
    // What was only approved is an execution's own result.
    let mut approved = found().during_wait(|caller| {
        let owner = OwnerRef {
            nonce: Nonce([1; 16]),
            ..super::hands::FakeHands::new(&Log::default(), &[]).owner()
        };
        caller.store.put(Record {
            decided_by: Some("me@here".into()),
            owner: Some(owner),
            ..settled(1, State::Failed, Class::Safe)
        });
    });
    assert!(matches!(approved.call(&plan()), Outcome::Waited { .. }));
    let mut same_generation = found().during_wait(|caller| {
        caller.store.put(Record {
            decided_by: Some("me@here".into()),
            ..settled(1, State::Succeeded, Class::Success)
        });
    });
    assert!(matches!(
        same_generation.call(&plan()),
        Outcome::Replayed { .. }
    ));
}

#[test]
fn a_keeper_that_came_second_makes_its_front_a_waiter() {
    let changed = || Delegated::Changed(Generation(4));
    let mut late = FakeCaller::new().keeper(changed(), |caller| {
        caller.store.put(settled(4, State::Failed, Class::Safe));
    });
    assert!(
        matches!(late.call(&plan()), Outcome::Waited { .. }),
        "settled or not"
    );
    let mut early = FakeCaller::new()
        .keeper(changed(), |caller| caller.store.put(running(4)))
        .during_wait(|caller| {
            caller
                .store
                .put(settled(4, State::Succeeded, Class::Success))
        });
    assert!(matches!(early.call(&plan()), Outcome::Waited { .. }));
    assert_eq!(early.happened(), "delegate None, wait k None");
    let mut gone = FakeCaller::new().keeper(changed(), |caller| {
        caller.store.put(running(4));
        caller.liveness = Liveness::Gone;
    });
    assert_eq!(refusal(gone.call(&plan())), (Refusal::Unknown, false));
}

#[test]
fn nobody_gets_the_result_of_another_command() {
    let other = |record: Record| Record {
        fingerprint: OTHER,
        ..record
    };
    let changed = || Delegated::Changed(Generation(4));
    let mut settled_other = FakeCaller::new().keeper(changed(), move |caller| {
        caller
            .store
            .put(other(settled(4, State::Succeeded, Class::Success)));
    });
    assert_eq!(
        refusal(settled_other.call(&plan())),
        (Refusal::Mismatch, false)
    );
    // The other command's record has even moved on before it was looked at.
    let mut moved_on = FakeCaller::new().keeper(changed(), move |caller| {
        caller
            .store
            .put(other(settled(5, State::Succeeded, Class::Success)));
        caller.store.past.push(past(4));
    });
    assert_eq!(refusal(moved_on.call(&plan())), (Refusal::Mismatch, false));
}

#[test]
fn a_keeper_that_found_something_else_is_no_end() {
    let mut caller = FakeCaller::finding(settled(1, State::Failed, Class::Safe)).keeper(
        Delegated::LookAgain,
        |caller| {
            caller
                .store
                .put(settled(1, State::Succeeded, Class::Success));
        },
    );
    assert!(matches!(
        caller.call(&plan()),
        Outcome::Replayed {
            old_failure: false,
            ..
        }
    ));
}

#[test]
fn a_detached_call_does_not_wait_for_the_others_end() {
    let mut plan = plan();
    plan.running.detach = true;
    let mut caller = FakeCaller::finding(running(3));
    let outcome = call(&mut caller, &plan).unwrap();
    assert!(
        matches!(outcome, Outcome::UnderWay { generation } if generation == Generation(3)),
        "{outcome:?}"
    );
    let mut late = FakeCaller::new().keeper(Delegated::Changed(Generation(4)), |caller| {
        caller.store.put(running(4));
    });
    let outcome = call(&mut late, &plan).unwrap();
    assert!(
        matches!(outcome, Outcome::UnderWay { generation } if generation == Generation(4)),
        "{outcome:?}"
    );
}

#[test]
fn waits_end_with_their_limit_or_the_deadline() {
    let waiting = |wait, deadline| {
        let mut plan = plan();
        plan.limits.wait = wait;
        plan.limits.deadline = deadline;
        let mut caller = FakeCaller::finding(running(1)).during_wait(|caller| caller.clock += S);
        assert_eq!(refusal(caller.call(&plan)), (Refusal::StillRunning, true));
        caller.happened()
    };
    assert_eq!(
        waiting(Some(5 * S), None),
        "wait k Some(5s), wait k Some(4s)"
    );
    assert_eq!(
        waiting(Some(5 * S), Some(2 * S)),
        "wait k Some(2s), wait k Some(1s)"
    );
    assert_eq!(
        waiting(None, Some(2 * S)),
        "wait k Some(2s), wait k Some(1s)"
    );
}

#[test]
fn the_previous_period_is_met_first() {
    let mut plan = plan();
    plan.previous = Some(name("yesterday"));
    let yesterday = || Record {
        name: name("yesterday"),
        ..running(1)
    };
    let found = || {
        let mut caller = FakeCaller::new();
        caller.store.others = vec![yesterday()];
        caller
    };
    let ends = move |caller: &mut FakeCaller| {
        caller.store.others = vec![Record {
            state: State::Failed,
            ..yesterday()
        }];
    };
    let mut waits = found().during_wait(ends).executes();
    assert!(executed(&waits.call(&plan)));
    assert_eq!(waits.happened(), "wait yesterday None, delegate None");
    let mut died = found()
        .during_wait(|caller| caller.liveness = Liveness::Gone)
        .executes();
    assert!(
        executed(&died.call(&plan)),
        "an unknown of yesterday does not stop today"
    );
    let mut impatient = found();
    assert_eq!(
        refusal(impatient.call(&plan)),
        (Refusal::StillRunning, true)
    );
    plan.request.if_running = IfRunning::Refuse;
    assert_eq!(refusal(found().call(&plan)), (Refusal::StillRunning, false));
    plan.request.if_running = IfRunning::Skip;
    assert!(matches!(found().call(&plan), Outcome::Skipped));
    plan.request.ancestry = vec![yesterday().nonce];
    assert!(
        executed(&found().executes().call(&plan)),
        "it would wait for itself"
    );
}
