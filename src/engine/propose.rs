//! Recording a proposal for a person to decide: `--hold`.

use super::claim::{FirstLook, NotClaimed, Verdict, new_record};
use super::event::{EventKind, NewEvent};
use super::hands::Hands;
use super::ledger;
use super::plan::Plan;
use super::store::{Claiming, NewProposal, NewRecord, TokenChoice};
use crate::domain::record::{Proposal, Record, Verdict as Said};
use crate::domain::time::Stamp;

/// Concludes that a proposal is recorded in place of an execution. A record that was there before gives
/// way to it, with its token if it is the same command's.
pub(super) fn propose(
    hands: &mut dyn Hands,
    plan: &Plan,
    first: &FirstLook,
    record: Option<&Record>,
    now: Stamp,
) -> Verdict {
    let (Some(identity), Some(preview)) = (first.identity.clone(), hands.preview()) else {
        return (Err(NotClaimed::LookAgain), Claiming::Leave);
    };
    // What has expired is history.
    let lasting = record.filter(|record| !(record.state.settled() && record.expired(&now)));
    let same = lasting.filter(|record| record.fingerprint == plan.request.fingerprint);
    let token = match same {
        Some(_) => TokenChoice::Keep,
        None => TokenChoice::Mint(hands.mint_token()),
    };
    let event = NewEvent {
        at: now.wall,
        kind: EventKind::Proposed,
        attempt: None,
        detail: ledger::proposed(record, &plan.source, &preview),
    };
    let proposal = NewProposal {
        record: NewRecord {
            dirty: lasting.is_some_and(|record| record.dirty),
            events: vec![event],
            ..new_record(hands, plan, token, now)
        },
        proposal: Proposal {
            identity,
            preview,
            verdict: Said::Pending,
            decided_by: None,
            decided_at: None,
            note: None,
        },
    };
    (
        Err(NotClaimed::LookAgain),
        Claiming::Propose(Box::new(proposal)),
    )
}
