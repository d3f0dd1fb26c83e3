//! An operation as an observer sees it: its record, and what is left of its owner.

use crate::domain::decision::seen_state;
use crate::domain::outcome::State;
use crate::domain::owner::Liveness;
use crate::domain::record::Record;
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
}
