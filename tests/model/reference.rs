//! The reference: what every step of a script must lead to, written from the tables of the design and
//! not from the code. One operation is a record, callers that wait, and lives: keepers and their trees.

use std::collections::HashMap;
use std::time::Duration;

use crate::script::{Dies, How, IfRunning, Options, Probe, SHORT, Settles, Step, Who, World};

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

    /// A keeper decides again, under the exclusive right to change the record.
    fn claim(&mut self, id: usize, seen: Option<Generation>) {
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

    fn propose(&mut self, id: usize) {
        self.write(id, State::Held(Verdict::Pending));
        self.calls[id].front = Some(122);
    }

    /// A record of the next generation.
    fn write(&mut self, id: usize, state: State) -> Generation {
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

    fn execute(&mut self, id: usize, asks: bool) {
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
    fn lose(&mut self, id: usize) {
        let call = &mut self.calls[id];
        call.front.get_or_insert(122);
        call.at_gate = false;
        if let Some(claim) = call.claim {
            self.lives.remove(&claim);
        }
    }

    fn attempt(&mut self, id: usize) {
        self.calls[id].at_gate = true;
        self.calls[id].attempts += 1;
        self.calls[id].printed += &from(id);
        self.effects[self.calls[id].key] += 1;
    }

    fn probe(&mut self, id: usize) {
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
    fn ended(&mut self, id: usize, how: How) {
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
    fn retry(&mut self, id: usize, otherwise: Class) {
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
    fn is_present(&self, id: usize) -> bool {
        let record = self.records[self.calls[id].key].as_ref();
        record.is_some_and(|record| Some(record.generation) == self.calls[id].claim)
    }

    fn settle(&mut self, id: usize, class: Class) {
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

    fn kill(&mut self, id: usize, who: Who) {
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

    fn admit(&mut self, claim: Generation) -> bool {
        let lives = &self.lives;
        match &mut self.breaker {
            Breaker::Closed(_) => true,
            Breaker::Open(until) if self.now < *until => false,
            Breaker::Open(_) => {
                self.breaker = Breaker::HalfOpen(vec![claim]);
                true
            }
            Breaker::HalfOpen(leases) => {
                leases.retain(|lease| *lease == claim || lives.contains_key(lease));
                if leases.is_empty() {
                    leases.push(claim);
                }
                leases.contains(&claim)
            }
        }
    }

    fn tell(&mut self, claim: Generation, told: Told) {
        if matches!(self.breaker, Breaker::Open(until) if self.now >= until) {
            self.breaker = Breaker::HalfOpen(Vec::new());
        }
        match &mut self.breaker {
            Breaker::Open(_) => {}
            Breaker::Closed(failures) => match told {
                Told::Nothing => {}
                Told::Works => *failures = 0,
                Told::Fails if *failures + 1 < FAILURES => *failures += 1,
                Told::Fails => self.breaker = Breaker::Open(self.now + COOLDOWN),
            },
            Breaker::HalfOpen(leases) => {
                if !leases.contains(&claim) {
                    return;
                }
                leases.retain(|lease| *lease != claim);
                match told {
                    Told::Nothing => {}
                    Told::Works => self.breaker = Breaker::Closed(0),
                    Told::Fails => self.breaker = Breaker::Open(self.now + COOLDOWN),
                }
            }
        }
    }

    fn resolve(&mut self, key: usize, how: Settles) -> i32 {
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

    fn forget(&mut self, key: usize, force: bool) -> i32 {
        match self.looks(key) {
            None => return 1,
            Some(State::Succeeded | State::Failed(_)) => {}
            Some(_) if force => {}
            Some(_) => return 125,
        }
        self.records[key] = None;
        0
    }

    fn decide_proposal(&mut self, key: usize, yes: bool) -> i32 {
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
    fn collect(&mut self) {
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
