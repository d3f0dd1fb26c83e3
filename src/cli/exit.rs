//! The exit-code table: the one place that maps what happened to a process status.

use crate::domain::decision::Refusal;

/// Still running elsewhere.
pub const RUNNING: i32 = 120;
/// The key was used for a different command.
pub const MISMATCH: i32 = 121;
/// A person or a probe must decide.
pub const UNDECIDED: i32 = 122;
/// Refused by a guard before executing.
pub const GUARDED: i32 = 123;
/// Timed out.
pub const TIMED_OUT: i32 = 124;
/// idem itself failed.
pub const OWN_FAILURE: i32 = 125;
/// A verb looked for something that is not there.
pub const NOT_FOUND: i32 = 1;
/// 128 plus a signal's number: the command died of it.
pub const SIGNAL_BASE: i32 = 128;

/// The status of a refusal.
pub fn of_refusal(refusal: Refusal) -> i32 {
    match refusal {
        Refusal::StillRunning => RUNNING,
        Refusal::Mismatch => MISMATCH,
        Refusal::Unknown
        | Refusal::NeedsApproval
        | Refusal::Rejected
        | Refusal::ProposalExpired => UNDECIDED,
        Refusal::OwnAncestry => OWN_FAILURE,
    }
}

/// What a caller should do next, in one word: the `next` of the JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing: there is a result.
    Done,
    /// Wait for it.
    Wait,
    /// Correct the request.
    FixRequest,
    /// A person must decide.
    AskHuman,
    /// Try again later.
    RetryLater,
}

impl Next {
    /// The word used in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Next::Done => "done",
            Next::Wait => "wait",
            Next::FixRequest => "fix_request",
            Next::AskHuman => "ask_human",
            Next::RetryLater => "retry_later",
        }
    }
}
