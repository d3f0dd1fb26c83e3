//! An operation as an observer sees it: its record, and what is left of its owner.

use crate::domain::decision::{Refusal, seen_state};
use crate::domain::outcome::State;
use crate::domain::owner::Liveness;
use crate::domain::record::{Record, Verdict};
use crate::domain::time::{Stamp, UnixMs};

/// A record and the observation that belongs to it.
#[derive(Debug, Clone)]
pub struct View {
    /// The record.
    pub record: Record,
    /// What is left of its owner; means something while it runs or is unknown.
    pub liveness: Liveness,
}

impl View {
    /// The state that is shown: what runs with nobody left is unknown.
    pub fn state(&self) -> State {
        seen_state(&self.record, &self.liveness)
    }

    /// Whether the keeper works on it.
    pub fn owner_alive(&self) -> bool {
        self.record.state == State::Running
            && matches!(self.liveness, Liveness::OwnerAlive | Liveness::OutOfSight)
    }

    /// Processes of it that are alive without their keeper.
    pub fn survivors(&self) -> Option<&[i32]> {
        match &self.liveness {
            Liveness::TreeAlive { pids } if self.state() == State::Running => Some(pids),
            _ => None,
        }
    }

    /// Why the state is what it is.
    pub fn reason(&self) -> Option<String> {
        match (self.record.state, self.state()) {
            (State::Running, State::Unknown) => Some("whoever ran it is gone".to_owned()),
            _ if self.survivors().is_some() => {
                Some("its keeper is gone, and what it started is still at work".to_owned())
            }
            _ => self.record.reason.clone(),
        }
    }

    /// When it was settled; nothing while it runs, or when nobody was there to see its end.
    pub fn settled_at(&self) -> Option<UnixMs> {
        (self.state() == self.record.state)
            .then(|| self.record.settled_at())
            .flatten()
    }

    /// Whether it has outlived its time, so that the next call does not meet it any more.
    pub fn expired(&self, now: &Stamp) -> bool {
        self.record.expired(now)
    }

    /// Why there is no result to hand out; nothing where there is one.
    pub fn refusal(&self, now: &Stamp) -> Option<Refusal> {
        match self.state() {
            State::Running => Some(Refusal::StillRunning),
            State::Unknown => Some(Refusal::Unknown),
            State::Held => Some(match self.record.proposal.as_ref().map(|p| p.verdict) {
                Some(Verdict::Rejected) => Refusal::Rejected,
                _ if self.expired(now) => Refusal::ProposalExpired,
                _ => Refusal::NeedsApproval,
            }),
            State::Succeeded | State::Failed => None,
        }
    }

    /// The processes that work on it: the keeper, or without it what it has started.
    pub fn working(&self) -> Vec<i32> {
        match self.survivors() {
            Some(pids) => pids.to_vec(),
            None if self.state() == State::Running => {
                let keeper = self.record.owner.as_ref().map(|owner| owner.keeper.pid);
                keeper.into_iter().collect()
            }
            None => Vec::new(),
        }
    }
}
