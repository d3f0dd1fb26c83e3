//! What a keeper does: claim, attempts, probe, settle; and how it dies.

use super::{
    ASKED, Act, Call, Class, Generation, Life, Model, Record, State, Told, Verdict, Waiting, from,
};
use crate::script::{Dies, How, Probe, Who};

impl Model {
    /// A keeper decides again, under the exclusive right to change the record.
    pub(super) fn claim(&mut self, id: usize, seen: Option<Generation>) {
        let key = self.calls[id].key;
        if let Some(record) = &self.records[key]
            && seen != Some(record.generation)
        {
            self.calls[id].waiting = Some(Waiting {
                generation: record.generation,
                owner_lived: true,
                same: false,
                for_tree: false,
            });
            return self.look(id);
        }
        let act = self.decide(id);
        match act {
            Act::Execute | Act::Ask => self.execute(id, matches!(act, Act::Ask)),
            Act::Propose => self.propose(id),
            Act::Replay | Act::Wait(_) | Act::End(_) => self.look(id),
        }
    }

    pub(super) fn propose(&mut self, id: usize) {
        self.write(id, State::Held(Verdict::Pending));
        self.calls[id].front = Some(122);
    }

    /// A record of the next generation.
    pub(super) fn write(&mut self, id: usize, state: State) -> Generation {
        self.generation += 1;
        let call = &self.calls[id];
        self.records[call.key] = Some(Record {
            generation: self.generation,
            state,
            other: call.other,
            short: call.options.short,
            since: self.now,
            code: 0,
            prints: String::new(),
            by_person: false,
        });
        self.generation
    }

    pub(super) fn execute(&mut self, id: usize, asks: bool) {
        let key = self.calls[id].key;
        let options = self.calls[id].options;
        if options.dies == Some(Dies::BeforeClaim) {
            return self.lose(id);
        }
        if options.breaker && !self.admit(self.generation + 1) {
            self.calls[id].front = Some(123);
            return;
        }
        self.calls[id].doubt = self.looks(key) == Some(State::Unknown);
        let claim = self.write(id, State::Running);
        self.calls[id].claim = Some(claim);
        self.calls[id].waiting = None;
        if options.dies == Some(Dies::AfterClaim) {
            return self.lose(id);
        }
        self.lives.insert(
            claim,
            Life {
                keeper: true,
                tree: true,
            },
        );
        if asks {
            self.probe(id)
        } else {
            self.attempt(id)
        }
    }

    /// The keeper is gone and nothing of it is left: its front says that nobody knows.
    pub(super) fn lose(&mut self, id: usize) {
        let call = &mut self.calls[id];
        call.front.get_or_insert(122);
        call.at_gate = false;
        if let Some(claim) = call.claim {
            self.lives.remove(&claim);
        }
    }

    pub(super) fn attempt(&mut self, id: usize) {
        self.calls[id].at_gate = true;
        self.calls[id].attempts += 1;
        self.calls[id].printed += &from(id);
        self.effects[self.calls[id].key] += 1;
    }

    pub(super) fn probe(&mut self, id: usize) {
        let begun = self.calls[id].attempts > 0;
        match self.calls[id].options.probe {
            Some(Probe::Happened) => {
                self.calls[id].last_code = 0;
                self.calls[id].printed += ASKED;
                self.settle(id, Class::Success);
            }
            Some(Probe::DidNot) => {
                self.calls[id].doubt = false;
                if begun {
                    self.retry(id, Class::Safe);
                } else {
                    self.attempt(id);
                }
            }
            // Whoever asks and learns nothing may still have declared the repetition safe.
            Some(Probe::CannotTell) if !begun && self.calls[id].options.rerun_unknown => {
                self.attempt(id);
            }
            Some(Probe::CannotTell) | None => self.settle(id, Class::Uncertain),
        }
    }

    /// A command ends.
    pub(super) fn ended(&mut self, id: usize, how: How) {
        let Some(claim) = self.calls[id].claim else {
            return;
        };
        self.calls[id].at_gate = false;
        if !self.life(claim).keeper {
            self.lives.remove(&claim);
            return;
        }
        if self.calls[id].options.dies == Some(Dies::AfterEnd) {
            return self.lose(id);
        }
        let (class, code, told) = match how {
            How::Success => (Class::Success, 0, Told::Works),
            How::Permanent => (Class::Permanent, 3, Told::Nothing),
            How::Safe => (Class::Safe, 4, Told::Fails),
            How::Retryable => (Class::Retryable, 5, Told::Fails),
            How::Killed => (Class::Uncertain, 137, Told::Fails),
        };
        self.calls[id].last_code = code;
        self.calls[id].told = told;
        match class {
            Class::Success | Class::Permanent => self.settle(id, class),
            Class::Safe | Class::Retryable => self.retry(id, class),
            Class::Uncertain => {
                self.calls[id].doubt = true;
                self.probe(id);
            }
        }
    }

    /// One more attempt, if the call and all that it shares allow one.
    pub(super) fn retry(&mut self, id: usize, otherwise: Class) {
        let Call {
            key,
            options,
            claim,
            ..
        } = self.calls[id];
        if self.calls[id].retries_used >= options.retries {
            return self.settle(id, otherwise);
        }
        let claim = claim.unwrap_or_default();
        if options.breaker {
            let told = std::mem::replace(&mut self.calls[id].told, Told::Nothing);
            self.tell(claim, told);
            if !self.admit(claim) {
                return self.settle(id, otherwise);
            }
        }
        if key == 1 && self.task == Some(0) {
            return self.settle(id, otherwise);
        }
        if let Some(left) = self.task.as_mut().filter(|_| key == 1) {
            *left -= 1;
        }
        self.calls[id].retries_used += 1;
        if !self.is_present(id) {
            // A record that was taken away lets nothing new start.
            self.calls[id].last_code = 126;
            return self.settle(id, Class::Safe);
        }
        self.attempt(id);
    }

    /// Whether the record is still the claim's.
    pub(super) fn is_present(&self, id: usize) -> bool {
        let record = self.records[self.calls[id].key].as_ref();
        record.is_some_and(|record| Some(record.generation) == self.calls[id].claim)
    }

    pub(super) fn settle(&mut self, id: usize, class: Class) {
        let call = self.calls[id].clone();
        let again = matches!(class, Class::Safe | Class::Retryable);
        let class = if call.doubt && again {
            Class::Uncertain
        } else {
            class
        };
        let claim = call.claim.unwrap_or_default();
        if self.is_present(id) {
            let now = self.now;
            if let Some(record) = &mut self.records[call.key] {
                record.state = match class {
                    Class::Success => State::Succeeded,
                    Class::Uncertain => State::Unknown,
                    class => State::Failed(class),
                };
                record.since = now;
                record.code = call.last_code;
                record.prints = match call.printed.ends_with(ASKED) {
                    true => ASKED.to_owned(),
                    false => from(id),
                };
            }
            let code = match class {
                Class::Uncertain => 122,
                _ => call.last_code,
            };
            self.ends.insert(claim, code);
            if call.options.breaker {
                self.tell(claim, call.told);
            }
        }
        self.lives.remove(&claim);
        let code = match call.options.dies {
            Some(Dies::AfterSettle) => 122,
            _ => call.last_code,
        };
        self.calls[id].front.get_or_insert(code);
    }

    pub(super) fn kill(&mut self, id: usize, who: Who) {
        let claim = self.calls[id].claim.unwrap_or_default();
        if who != Who::Keeper {
            self.calls[id].front.get_or_insert(137);
        }
        match who {
            Who::Front => {}
            Who::Keeper | Who::Both => {
                self.calls[id].front.get_or_insert(122);
                self.lives.insert(
                    claim,
                    Life {
                        keeper: false,
                        tree: true,
                    },
                );
            }
            Who::Everything => {
                self.lives.remove(&claim);
                self.calls[id].at_gate = false;
            }
        }
    }
}
