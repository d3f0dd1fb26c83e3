//! Proposals and approvals.

use super::super::claim::NotClaimed;
use super::super::front::Outcome;
use super::super::keeper::Kept;
use super::front::{FakeCaller, refusal};
use super::*;
use crate::domain::decision::Refusal;
use crate::domain::record::{Identity, Proposal, Verdict};

fn identity() -> Identity {
    Identity {
        argv: OURS,
        cwd: Vec::new(),
        executable: OURS,
    }
}

fn held(verdict: Verdict) -> Record {
    let proposal = Proposal {
        identity: identity(),
        preview: Vec::new(),
        verdict,
        decided_by: None,
        decided_at: None,
        note: None,
    };
    Record {
        proposal: Some(proposal),
        ..record(State::Held, None)
    }
}

fn holding() -> Plan {
    let mut plan = plan();
    plan.request.hold = true;
    plan.helpers.preview = Some("show".into());
    plan
}

fn proposing(generation: Option<Generation>) -> FirstLook {
    FirstLook {
        generation,
        proposes: true,
        identity: Some(identity()),
    }
}

fn kept(world: &mut World, plan: &Plan, first: &FirstLook) -> Kept {
    keep(&mut world.store, &mut world.hands, plan, first).unwrap()
}

#[test]
fn a_proposal_is_previewed_first_and_nothing_is_prepared() {
    let mut world = World::new(&[]);
    let end = kept(&mut world, &holding(), &proposing(None));
    assert!(
        matches!(end, Kept::NotClaimed(NotClaimed::Proposed(Generation(1)))),
        "{end:?}"
    );
    assert_eq!(world.happened(), "preview show, abandon, propose 1");
    assert_eq!(world.record().proposal.as_ref().unwrap().preview, b"plan");
}

#[test]
fn without_its_preview_nothing_is_proposed() {
    let mut world = World::new(&[]);
    world.hands.preview_fails = true;
    let end = kept(&mut world, &holding(), &proposing(None));
    assert!(
        matches!(end, Kept::NotClaimed(NotClaimed::NoPreview(_))),
        "{end:?}"
    );
    assert!(world.store.record.is_none());
}

#[test]
fn a_proposal_keeps_what_another_commands_failure_left_unless_it_has_expired() {
    let failure = || Record {
        fingerprint: Fingerprint([9; 32]),
        ..dirty(record(State::Failed, Some(Class::Permanent)))
    };
    let mut world = World::new(&[]).with_record(failure());
    kept(&mut world, &holding(), &proposing(Some(Generation(1))));
    assert_eq!(
        (world.record().state, world.record().dirty),
        (State::Held, true)
    );
    let expired = Record {
        failed_ttl: Ttl::For(Duration::ZERO),
        ..failure()
    };
    let mut world = World::new(&[]).with_record(expired);
    kept(&mut world, &holding(), &proposing(Some(Generation(1))));
    assert_eq!(
        (world.record().state, world.record().dirty),
        (State::Held, false)
    );
}

#[test]
fn an_approval_is_executed_and_consumed_by_the_claim() {
    let mut world = World::new(&["0"]).with_record(held(Verdict::Approved));
    let first = FirstLook {
        proposes: false,
        ..proposing(Some(Generation(1)))
    };
    let end = kept(&mut world, &holding(), &first);
    assert!(matches!(end, Kept::Executed(_)), "{end:?}");
    assert!(
        world
            .happened()
            .starts_with("abandon, prepare 1 with old token, claim 2")
    );
}

#[test]
fn after_a_probes_no_a_held_call_runs_nothing_by_itself() {
    let unknown = record(State::Unknown, Some(Class::Uncertain));
    let mut world = World::new(&[])
        .with_record(unknown)
        .with_helpers(&[(1, "")]);
    let first = FirstLook {
        proposes: false,
        ..proposing(Some(Generation(1)))
    };
    let Kept::Executed(executed) = kept(&mut world, &with_probe(holding()), &first) else {
        panic!("nothing was asked");
    };
    assert_eq!(
        (executed.state, executed.class),
        (State::Failed, Class::Safe)
    );
}

#[test]
fn who_waits_for_an_approval_gets_it_or_is_told() {
    let mut waiting = plan();
    waiting.request.waits_for_approval = true;
    waiting.limits.wait = Some(5 * S);
    let mut in_vain = FakeCaller::finding(held(Verdict::Pending));
    assert_eq!(
        refusal(in_vain.call(&waiting)),
        (Refusal::NeedsApproval, true)
    );
    assert_eq!(in_vain.happened(), "watch Some(5s)");
    let mut approved = FakeCaller::finding(held(Verdict::Pending))
        .during_wait(|_| {})
        .during_wait(|caller| caller.store.put(held(Verdict::Approved)))
        .executes();
    assert!(matches!(approved.call(&waiting), Outcome::Executed(_)));
    assert_eq!(
        approved.happened(),
        "watch Some(5s), watch Some(5s), delegate Some(1)"
    );
    waiting.limits.wait = Some(500 * S);
    let mut too_late = FakeCaller::finding(held(Verdict::Pending));
    assert_eq!(
        refusal(too_late.call(&waiting)),
        (Refusal::ProposalExpired, false)
    );
    assert_eq!(
        too_late.happened(),
        "watch Some(100s)",
        "no longer than it is valid"
    );
}
