//! What people and the housekeeping do.

use super::{Class, Model, Record, State, Verdict};
use crate::script::{Settles, World};

impl Model {
    pub(super) fn resolve(&mut self, key: usize, how: Settles) -> i32 {
        let looks = self.looks(key);
        let Some(record) = &mut self.records[key] else {
            return 1;
        };
        match looks {
            Some(State::Unknown) => {}
            Some(State::Running) => return 120,
            Some(State::Held(_)) => return 122,
            _ => return 125,
        }
        self.generation += 1;
        record.generation = self.generation;
        record.by_person = true;
        record.prints.clear();
        record.since = self.now;
        (record.state, record.code) = match how {
            Settles::Succeeded => (State::Succeeded, 0),
            Settles::Failed => (State::Failed(Class::Permanent), 1),
            Settles::NotDone => (State::Failed(Class::Safe), 1),
        };
        0
    }

    pub(super) fn forget(&mut self, key: usize, force: bool) -> i32 {
        match self.looks(key) {
            None => return 1,
            Some(State::Succeeded | State::Failed(_)) => {}
            Some(_) if force => {}
            Some(_) => return 125,
        }
        self.records[key] = None;
        0
    }

    pub(super) fn decide_proposal(&mut self, key: usize, yes: bool) -> i32 {
        let expired = self.records[key]
            .as_ref()
            .is_some_and(|record| self.expired(record));
        match &mut self.records[key] {
            None => 1,
            Some(Record {
                state: State::Held(verdict @ Verdict::Pending),
                ..
            }) if !expired => {
                *verdict = if yes {
                    Verdict::Approved
                } else {
                    Verdict::Rejected
                };
                0
            }
            Some(_) => 125,
        }
    }

    /// What has expired goes. Of processes only the boot clock can be moved, and that alone deletes
    /// nothing.
    pub(super) fn collect(&mut self) {
        if self.world == World::Processes {
            return;
        }
        for key in [0, 1] {
            let settled = matches!(self.looks(key), Some(State::Succeeded | State::Failed(_)));
            if settled
                && self.records[key]
                    .as_ref()
                    .is_some_and(|record| self.expired(record))
            {
                self.records[key] = None;
            }
        }
    }
}
