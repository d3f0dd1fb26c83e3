//! The decision: what a call does about the record that it found. One pure function.

use super::name::{Fingerprint, Generation, Nonce};
use super::outcome::{Class, State};
use super::owner::Liveness;
use super::record::{Identity, Proposal, Record, Verdict};
use super::time::Stamp;

/// `--if-running`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfRunning {
    /// Wait for that execution and hand out its result.
    Wait,
    /// Say that it is running.
    Refuse,
    /// End with 0, silently.
    Skip,
}

/// What the caller asks for, as far as the decision needs it.
#[derive(Debug, Clone)]
pub struct Request {
    /// Digest of what is to run.
    pub fingerprint: Fingerprint,
    /// `--if-running`.
    pub if_running: IfRunning,
    /// `--if-unknown rerun` or `--idempotent`.
    pub rerun_unknown: bool,
    /// `--if-failed rerun`.
    pub rerun_failed: bool,
    /// A probe is given.
    pub probe: bool,
    /// `--probe-first`.
    pub probe_first: bool,
    /// `--hold`: record a proposal instead of executing.
    pub hold: bool,
    /// `--wait` was given, so an approval is waited for.
    pub waits_for_approval: bool,
    /// What exactly would run; needed where the record is held or `hold` is set.
    pub identity: Option<Identity>,
    /// The nonces of the claims that this call runs under.
    pub ancestry: Vec<Nonce>,
}

/// Why a command is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// There is no record.
    New,
    /// The record has expired.
    Expired,
    /// It failed in a way that may be tried again.
    FailedBefore,
    /// It failed, and the command is another one now.
    Corrected,
    /// It failed for good, and the caller asks for another run.
    FailedRerun,
    /// Its outcome is unknown, and the caller declared that it may be repeated.
    UnknownRerun,
    /// A person approved it.
    Approved,
}

/// Why nothing is executed or replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It is running, and the caller does not wait.
    StillRunning,
    /// The key stands for a different command.
    Mismatch,
    /// Nobody knows whether it happened.
    Unknown,
    /// It is held and nobody has decided.
    NeedsApproval,
    /// It is held and was rejected.
    Rejected,
    /// It is held and the proposal is too old.
    ProposalExpired,
    /// The call runs under the very operation that it asks for, and would wait for itself.
    OwnAncestry,
}

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Claim and execute.
    Execute(Why),
    /// Claim and ask the probe first; a no leads to an execution for the reason given.
    Ask(Why),
    /// Record a proposal for a person to decide.
    Propose,
    /// Hand out the stored result.
    Replay,
    /// Hand out the stored result and say that it is an old failure.
    ReplayFailure,
    /// Wait until this generation is no longer running.
    Wait(Generation),
    /// Wait for a person's decision.
    WaitForApproval,
    /// End with 0, silently.
    Skip,
    /// Say no.
    Refuse(Refusal),
}

/// The state as an observer sees it: running with nobody left is unknown, and an unknown operation with
/// survivors is not over.
pub fn seen_state(record: &Record, liveness: &Liveness) -> State {
    match (record.state, liveness) {
        (State::Running, Liveness::Gone) => State::Unknown,
        // What survived the end of an attempt may still be at work.
        (State::Unknown, Liveness::TreeAlive { .. }) => State::Running,
        (state, _) => state,
    }
}

/// Decides. `liveness` tells about the record's owner and means something only while it is running.
pub fn decide(
    record: Option<&Record>,
    request: &Request,
    liveness: &Liveness,
    now: &Stamp,
) -> Decision {
    let Some(record) = record else {
        return execute(Why::New, request);
    };
    let same = record.fingerprint == request.fingerprint;
    match seen_state(record, liveness) {
        State::Running => running(record, request, same),
        State::Unknown if !same => Decision::Refuse(Refusal::Mismatch),
        State::Unknown => unknown(request),
        State::Succeeded | State::Failed if record.expired(now) => execute(Why::Expired, request),
        State::Succeeded if same => Decision::Replay,
        State::Succeeded => Decision::Refuse(Refusal::Mismatch),
        State::Failed => failed(record, request, same),
        State::Held => held(record, request, same, now),
    }
}

/// An execution, or what takes its place: the probe that is asked first, or a proposal.
fn execute(why: Why, request: &Request) -> Decision {
    if request.hold && why != Why::Approved {
        Decision::Propose
    } else if request.probe_first && request.probe {
        Decision::Ask(why)
    } else {
        Decision::Execute(why)
    }
}

fn running(record: &Record, request: &Request, same: bool) -> Decision {
    if request.ancestry.contains(&record.nonce) {
        return Decision::Refuse(Refusal::OwnAncestry);
    }
    if !same {
        return Decision::Refuse(Refusal::Mismatch);
    }
    match request.if_running {
        IfRunning::Wait => Decision::Wait(record.generation),
        IfRunning::Refuse => Decision::Refuse(Refusal::StillRunning),
        IfRunning::Skip => Decision::Skip,
    }
}

fn unknown(request: &Request) -> Decision {
    if request.hold && request.rerun_unknown && !request.probe {
        Decision::Propose
    } else if request.probe {
        Decision::Ask(Why::UnknownRerun)
    } else if request.rerun_unknown {
        Decision::Execute(Why::UnknownRerun)
    } else {
        Decision::Refuse(Refusal::Unknown)
    }
}

fn failed(record: &Record, request: &Request, same: bool) -> Decision {
    match (record.class, same) {
        (Some(Class::Permanent) | None, true) if request.rerun_failed => {
            execute(Why::FailedRerun, request)
        }
        (Some(Class::Permanent) | None, true) => Decision::ReplayFailure,
        (Some(Class::Permanent) | None, false) => execute(Why::Corrected, request),
        (Some(_), true) => execute(Why::FailedBefore, request),
        (Some(_), false) => execute(Why::Corrected, request),
    }
}

fn held(record: &Record, request: &Request, same: bool, now: &Stamp) -> Decision {
    let Some(proposal) = &record.proposal else {
        return Decision::Refuse(Refusal::NeedsApproval);
    };
    if !same || !matches_identity(proposal, request) {
        return Decision::Refuse(Refusal::Mismatch);
    }
    match proposal.verdict {
        Verdict::Rejected => Decision::Refuse(Refusal::Rejected),
        Verdict::Pending | Verdict::Approved if record.expired(now) => {
            Decision::Refuse(Refusal::ProposalExpired)
        }
        Verdict::Approved => execute(Why::Approved, request),
        Verdict::Pending if request.waits_for_approval => Decision::WaitForApproval,
        Verdict::Pending => Decision::Refuse(Refusal::NeedsApproval),
    }
}

fn matches_identity(proposal: &Proposal, request: &Request) -> bool {
    request.identity.as_ref() == Some(&proposal.identity)
}

#[cfg(test)]
mod tests;
