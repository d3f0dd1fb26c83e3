//! The reference: what every step of a script must lead to, written from the tables of the design and
//! not from the code. One operation is a record, callers that wait, and lives: keepers and their trees.

mod breaker;
mod execution;
mod people;

use std::collections::HashMap;
use std::time::Duration;

use crate::script::{IfRunning, Options, SHORT, Step, Who, World};

/// How long a step of passing time is: a breaker's cooldown passes in one, a short result's time in three.
pub const PASS: Duration = Duration::from_secs(25);

const COOLDOWN: Duration = Duration::from_secs(20);
const FAILURES: u32 = 2;
const TASK_RETRIES: u32 = 1;

/// What a test can see of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Held up between its look and its claim.
    Paused,
    /// It waits for another one's end.
    Waiting,
    /// Its command waits at its gate.
    Executing,
    /// It has ended with this code.
    Ended(i32),
}

/// What a test can see of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    Nothing,
    Held,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Success,
    Permanent,
    Safe,
    Retryable,
    Uncertain,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Pending,
    Approved,
    Rejected,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Held(Verdict),
    Running,
    Succeeded,
    Failed(Class),
    Unknown,
}

type Generation = u32;

#[derive(Debug, Clone)]
struct Record {
    generation: Generation,
    state: State,
    other: bool,
    short: bool,
    since: Duration,
    code: i32,
    /// What a replay prints.
    prints: String,
    /// A person has settled this very generation.
    by_person: bool,
}

/// What lives of a claim.
#[derive(Debug, Clone, Copy, Default)]
struct Life {
    keeper: bool,
    tree: bool,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    generation: Generation,
    owner_lived: bool,
    same: bool,
    /// The keeper is gone, and what it started is waited for.
    for_tree: bool,
}

#[derive(Debug, Clone)]
struct Call {
    key: usize,
    other: bool,
    options: Options,
    /// The code that its front has ended with.
    front: Option<i32>,
    /// Held up before its claim, after it has seen this generation.
    paused: Option<Option<Generation>>,
    waiting: Option<Waiting>,
    /// What its keeper holds, and the attempts under it; kept while anything of it lives.
    claim: Option<Generation>,
    at_gate: bool,
    attempts: u32,
    retries_used: u32,
    doubt: bool,
    told: Told,
    last_code: i32,
    /// What it has printed.
    printed: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Works,
    Fails,
    Nothing,
}

#[derive(Debug, Clone)]
enum Breaker {
    Closed(u32),
    Open(Duration),
    HalfOpen(Vec<Generation>),
}

/// What a call does about what it finds.
enum Act {
    Execute,
    Ask,
    Propose,
    Replay,
    Wait(Generation),
    End(i32),
}

/// What a probe prints.
pub const ASKED: &str = "asked\n";

/// What the command prints that a call runs.
pub fn from(id: usize) -> String {
    format!("from {id}\n")
}

/// The whole world.
pub struct Model {
    world: World,
    now: Duration,
    records: [Option<Record>; 2],
    /// How each generation ended, as the ledger tells waiters.
    ends: HashMap<Generation, i32>,
    lives: HashMap<Generation, Life>,
    generation: Generation,
    calls: Vec<Call>,
    breaker: Breaker,
    /// The retries that are left to the task once it is open.
    task: Option<u32>,
    effects: [u32; 2],
    /// What a person's verb has ended with in this step.
    verb: Option<i32>,
}

impl Model {
    /// Nothing has happened.
    pub fn new(world: World) -> Model {
        Model {
            world,
            now: Duration::ZERO,
            records: [None, None],
            ends: HashMap::new(),
            lives: HashMap::new(),
            generation: 0,
            calls: Vec::new(),
            breaker: Breaker::Closed(0),
            task: None,
            effects: [0, 0],
            verb: None,
        }
    }

    /// Takes a step, if it means anything here.
    pub fn step(&mut self, step: &Step) {
        self.verb = None;
        match *step {
            Step::Call {
                key,
                other,
                options,
            } => self.call(key, other, options),
            Step::GoOn(call) => {
                if let Some(id) = self.find(call, |call| call.paused.is_some()) {
                    let seen = self.calls[id].paused.take().flatten();
                    self.claim(id, seen);
                }
            }
            Step::End(call, how) => {
                if let Some(id) = self.find(call, |call| call.at_gate) {
                    self.ended(id, how);
                }
            }
            Step::Kill(call, who) => {
                if let Some(id) = self.victim(call, who) {
                    self.kill(id, who);
                }
            }
            Step::Pass => self.now += PASS,
            Step::Resolve(key, how) => self.verb = Some(self.resolve(key, how)),
            Step::Forget(key, force) => self.verb = Some(self.forget(key, force)),
            Step::Decide(key, yes) => self.verb = Some(self.decide_proposal(key, yes)),
            Step::OpenTask => {
                self.task.get_or_insert(TASK_RETRIES);
            }
            Step::Collect => self.collect(),
        }
        self.wake();
    }

    /// The call that a step means: the first such from a place on, around the end.
    fn find(&self, from: usize, fits: impl Fn(&Call) -> bool) -> Option<usize> {
        let count = self.calls.len();
        (0..count)
            .map(|i| (from + i) % count)
            .find(|id| fits(&self.calls[*id]))
    }

    /// The call that a gate's opening means.
    pub fn at_gate(&self, from: usize) -> Option<usize> {
        self.find(from, |call| call.at_gate)
    }

    /// The call that goes on.
    pub fn paused(&self, from: usize) -> Option<usize> {
        self.find(from, |call| call.paused.is_some())
    }

    /// The call that a kill means.
    pub fn victim(&self, from: usize, who: Who) -> Option<usize> {
        self.find(from, |call| {
            let keeper = call.claim.is_some_and(|claim| self.life(claim).keeper);
            match who {
                Who::Front => call.front.is_none() && call.paused.is_none(),
                Who::Keeper | Who::Both => call.at_gate && keeper,
                Who::Everything => call.at_gate,
            }
        })
    }

    /// What there is to see of the calls.
    pub fn seen(&self) -> Vec<Seen> {
        let seen = self.calls.iter().map(|call| match call.front {
            Some(code) => Seen::Ended(code),
            None if call.paused.is_some() => Seen::Paused,
            None if call.at_gate => Seen::Executing,
            None => Seen::Waiting,
        });
        seen.collect()
    }

    /// What there is to see of the operations.
    pub fn shown(&self) -> [Shown; 2] {
        [0, 1].map(|key| match self.looks(key) {
            None => Shown::Nothing,
            Some(State::Held(_)) => Shown::Held,
            Some(State::Running) => Shown::Running,
            Some(State::Succeeded) => Shown::Succeeded,
            Some(State::Failed(_)) => Shown::Failed,
            Some(State::Unknown) => Shown::Unknown,
        })
    }

    /// How often each effect has happened.
    pub fn effects(&self) -> [u32; 2] {
        self.effects
    }

    /// What the verb of the last step must have ended with.
    pub fn verb(&self) -> Option<i32> {
        self.verb
    }

    /// Whether a driver that cannot choose whom to wake first, nor move the clocks of those who live, can
    /// take this step.
    pub fn is_certain(&self, step: &Step) -> bool {
        let open = |call: &Call| call.front.is_none() || call.at_gate;
        match *step {
            Step::Call { key, .. } => {
                let waits = |call: &Call| call.key == key && call.front.is_none() && !call.at_gate;
                !self.calls.iter().any(waits)
            }
            Step::Pass => !self.calls.iter().any(open),
            _ => true,
        }
    }

    /// Whether what there is to see of an operation is over, so that it may be gone.
    pub fn is_expired(&self, key: usize) -> bool {
        let settled = matches!(self.looks(key), Some(State::Succeeded | State::Failed(_)));
        settled
            && self.records[key]
                .as_ref()
                .is_some_and(|record| self.expired(record))
    }

    /// What a call has printed that ended well.
    pub fn printed(&self, id: usize) -> &str {
        &self.calls[id].printed
    }

    fn life(&self, generation: Generation) -> Life {
        self.lives.get(&generation).copied().unwrap_or_default()
    }

    /// The state as observers see it.
    fn looks(&self, key: usize) -> Option<State> {
        let record = self.records[key].as_ref()?;
        let life = self.life(record.generation);
        Some(match record.state {
            State::Running if !life.keeper && !life.tree => State::Unknown,
            state => state,
        })
    }

    fn expired(&self, record: &Record) -> bool {
        record.short && self.now >= record.since + SHORT
    }

    fn call(&mut self, key: usize, other: bool, options: Options) {
        self.calls.push(Call {
            key,
            other,
            options,
            front: None,
            paused: None,
            waiting: None,
            claim: None,
            at_gate: false,
            attempts: 0,
            retries_used: 0,
            doubt: false,
            told: Told::Nothing,
            last_code: 122,
            printed: String::new(),
        });
        self.look(self.calls.len() - 1);
    }

    /// Everyone whose wait is over looks again, in the order of their coming.
    fn wake(&mut self) {
        loop {
            let over = |call: &Call| {
                let waits = call.front.is_none() && call.paused.is_none() && !call.at_gate;
                let waited = call.waiting.filter(|_| waits);
                waited.is_some_and(|waiting| {
                    let life = self.life(waiting.generation);
                    !(if waiting.for_tree {
                        life.tree
                    } else {
                        life.keeper
                    })
                })
            };
            let Some(id) = self.calls.iter().position(over) else {
                return;
            };
            self.look(id);
        }
    }

    /// A front looks, and acts on what it sees.
    fn look(&mut self, id: usize) {
        if let Some(code) = self.awaited(id) {
            self.calls[id].front = Some(code);
            return;
        }
        let key = self.calls[id].key;
        let seen = self.records[key].as_ref().map(|record| record.generation);
        match self.decide(id) {
            Act::Execute | Act::Ask | Act::Propose if self.calls[id].options.pauses => {
                self.calls[id].options.pauses = false;
                self.calls[id].paused = Some(seen);
            }
            Act::Execute | Act::Ask | Act::Propose => self.claim(id, seen),
            Act::Wait(generation) => {
                let keeper = self.life(generation).keeper;
                let waiting = self.calls[id].waiting.get_or_insert(Waiting {
                    generation,
                    owner_lived: keeper,
                    same: true,
                    for_tree: false,
                });
                waiting.owner_lived &= keeper;
                waiting.for_tree = !keeper;
            }
            Act::Replay => {
                if let Some(record) = &self.records[key] {
                    self.calls[id].printed.clone_from(&record.prints);
                    self.calls[id].front = Some(record.code);
                }
            }
            Act::End(code) => {
                self.note_owner_lost(key, code);
                self.calls[id].front = Some(code);
            }
        }
    }

    /// The result that was waited for, if it can be handed out.
    fn awaited(&mut self, id: usize) -> Option<i32> {
        let waiting = self.calls[id].waiting?;
        let (key, other) = (self.calls[id].key, self.calls[id].other);
        let Some(record) = self.records[key].clone() else {
            self.calls[id].waiting = None;
            return None;
        };
        if record.generation != waiting.generation {
            self.calls[id].waiting = None;
            return self
                .ends
                .get(&waiting.generation)
                .copied()
                .filter(|_| waiting.same);
        }
        let same = record.other == other;
        self.calls[id].waiting = Some(Waiting { same, ..waiting });
        match self.looks(key) {
            Some(State::Running) => return None,
            Some(State::Succeeded | State::Failed(_)) if same && !record.by_person => {
                self.calls[id].printed = record.prints;
                return Some(record.code);
            }
            Some(State::Unknown)
                if same && waiting.owner_lived && record.state == State::Unknown =>
            {
                return Some(122);
            }
            _ => {}
        }
        self.calls[id].waiting = None;
        None
    }

    /// The table: what is found, and what a call does.
    fn decide(&self, id: usize) -> Act {
        let call = &self.calls[id];
        let options = call.options;
        let execute = if options.hold {
            Act::Propose
        } else {
            Act::Execute
        };
        let (Some(record), Some(state)) = (&self.records[call.key], self.looks(call.key)) else {
            return execute;
        };
        let same = record.other == call.other;
        match state {
            State::Running | State::Unknown if !same => Act::End(121),
            State::Running => match options.if_running {
                IfRunning::Wait => Act::Wait(record.generation),
                IfRunning::Refuse => Act::End(120),
                IfRunning::Skip => Act::End(0),
            },
            State::Unknown if options.probe.is_some() => Act::Ask,
            State::Unknown if options.rerun_unknown => execute,
            State::Unknown => Act::End(122),
            State::Succeeded | State::Failed(_) if self.expired(record) => execute,
            State::Succeeded if same => Act::Replay,
            State::Succeeded => Act::End(121),
            State::Failed(Class::Permanent) if same && !options.rerun_failed => Act::Replay,
            State::Failed(_) => execute,
            State::Held(_) if !same => Act::End(121),
            State::Held(Verdict::Approved) if !self.expired(record) => Act::Execute,
            State::Held(_) => Act::End(122),
        }
    }

    /// A refusal that finds the owner gone says so for all.
    fn note_owner_lost(&mut self, key: usize, code: i32) {
        let refused = [120, 121, 122].contains(&code);
        let looks = self.looks(key);
        if let Some(record) = &mut self.records[key]
            && refused
            && record.state == State::Running
            && looks == Some(State::Unknown)
        {
            record.state = State::Unknown;
            self.ends.insert(record.generation, 122);
        }
    }
}
