//! What holds for every record, every request and every moment.

use super::*;
use proptest::prelude::*;

fn any_record() -> impl Strategy<Value = Record> {
    let class = proptest::option::of(proptest::sample::select(&Class::ALL[..]));
    let verdict =
        proptest::sample::select(vec![Verdict::Pending, Verdict::Approved, Verdict::Rejected]);
    let ttl = prop_oneof![Just(Ttl::Forever), Just(Ttl::For(TTL))];
    let state = proptest::sample::select(&State::ALL[..]);
    (state, class, verdict, ttl).prop_map(|(state, class, verdict, ttl)| Record {
        state,
        class,
        ttl,
        ..held(verdict)
    })
}

fn any_request() -> impl Strategy<Value = Request> {
    let if_running =
        proptest::sample::select(vec![IfRunning::Wait, IfRunning::Refuse, IfRunning::Skip]);
    (
        if_running,
        any::<[bool; 7]>(),
        proptest::sample::select(vec![OURS, OTHER]),
    )
        .prop_map(|(if_running, flags, fingerprint)| {
            let [
                rerun_unknown,
                rerun_failed,
                probe,
                probe_first,
                hold,
                waits,
                below,
            ] = flags;
            Request {
                fingerprint,
                if_running,
                rerun_unknown,
                rerun_failed,
                probe,
                probe_first,
                hold,
                waits_for_approval: waits,
                identity: Some(identity(1)),
                ancestry: if below { vec![NONCE] } else { Vec::new() },
            }
        })
}

fn any_liveness() -> impl Strategy<Value = Liveness> {
    proptest::sample::select(vec![OwnerAlive, tree(), Gone, OutOfSight])
}

fn starts_something(decision: Decision) -> bool {
    matches!(decision, Execute(_) | Ask(_) | Propose)
}

proptest! {
    #[test]
    fn a_fresh_success_is_never_run_again(
        record in any_record(), request in any_request(), liveness in any_liveness(), secs in 0i64..100,
    ) {
        let record = Record { state: Succeeded, ..record };
        let decision = decide(Some(&record), &request, &liveness, &after(secs));
        let wanted = if request.fingerprint == OURS { Replay } else { Refuse(Mismatch) };
        prop_assert_eq!(decision, wanted);
    }

    #[test]
    fn the_unknown_is_never_run_without_being_asked_about_or_declared(
        record in any_record(), request in any_request(), secs in 0i64..1_000_000,
        (state, liveness) in proptest::sample::select(vec![
            (State::Running, Gone), (State::Unknown, Gone), (State::Unknown, OutOfSight), (State::Unknown, OwnerAlive),
        ]),
    ) {
        let record = Record { state, ..record };
        match decide(Some(&record), &request, &liveness, &after(secs)) {
            Execute(why) => {
                prop_assert_eq!(why, Why::UnknownRerun);
                prop_assert!(request.rerun_unknown && !request.probe && !request.hold);
            }
            Ask(_) => prop_assert!(request.probe),
            Propose => prop_assert!(request.rerun_unknown),
            decision => prop_assert!(matches!(decision, Refuse(Unknown | Mismatch)), "{:?}", decision),
        }
    }

    #[test]
    fn what_runs_is_never_run_a_second_time(
        record in any_record(), request in any_request(), secs in 0i64..1_000_000,
        liveness in proptest::sample::select(vec![OwnerAlive, tree(), OutOfSight]),
    ) {
        let record = Record { state: State::Running, ..record };
        let decision = decide(Some(&record), &request, &liveness, &after(secs));
        prop_assert!(!starts_something(decision), "{:?}", decision);
        prop_assert!(!matches!(decision, Replay | ReplayFailure), "{:?}", decision);
    }

    #[test]
    fn only_what_is_settled_expires(
        record in any_record(), request in any_request(), liveness in any_liveness(), secs in 0i64..1_000_000,
    ) {
        let then = decide(Some(&record), &request, &liveness, &after(0));
        let later = decide(Some(&record), &request, &liveness, &after(secs));
        if matches!(later, Execute(Why::Expired) | Ask(Why::Expired)) {
            prop_assert!(record.state.settled() && record.expired(&after(secs)));
        }
        if !record.state.settled() {
            prop_assert!(later == then || later == Refuse(ProposalExpired), "{:?} {:?}", then, later);
        }
    }

    #[test]
    fn another_command_runs_only_over_a_failure_or_what_has_expired(
        record in any_record(), request in any_request(), liveness in any_liveness(), secs in 0i64..1_000_000,
    ) {
        let request = Request { fingerprint: OTHER, ..request };
        let decision = decide(Some(&record), &request, &liveness, &after(secs));
        if starts_something(decision) {
            let over = record.state == State::Failed || (record.state == Succeeded && record.expired(&after(secs)));
            prop_assert!(over, "{:?} over {:?}", decision, record.state);
        }
    }

    #[test]
    fn a_held_call_executes_only_what_was_approved(
        record in proptest::option::of(any_record()), request in any_request(),
        liveness in any_liveness(), secs in 0i64..1_000,
    ) {
        let request = Request { hold: true, ..request };
        let decision = decide(record.as_ref(), &request, &liveness, &after(secs));
        prop_assert!(matches!(decision, Execute(Why::Approved)) || !matches!(decision, Execute(_)));
    }
}
