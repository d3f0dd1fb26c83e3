//! The guards around every attempt, in one visible order.

use super::hands::Hands;
use super::plan::Plan;
use super::store::{Guards, StoreResult};
use crate::domain::time::UnixMs;
use std::time::Duration;

/// A guard's no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarded {
    /// Why, as a lowercase fragment that says what to do.
    pub why: String,
    /// Earliest moment at which another try makes sense.
    pub retry_at: Option<UnixMs>,
}

/// Asks the guards that stand before a claim, in the claim's own transaction.
pub fn before_claim(
    hands: &mut dyn Hands,
    plan: &Plan,
    _guards: &mut dyn Guards,
) -> StoreResult<Option<Guarded>> {
    let spent = plan
        .limits
        .deadline
        .is_some_and(|at| at.saturating_sub(hands.monotonic()) == Duration::ZERO);
    Ok(spent.then(|| Guarded {
        why: "the deadline has already passed, nothing was run; give more time with --deadline"
            .to_owned(),
        retry_at: None,
    }))
}
