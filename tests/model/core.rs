//! The engine under a script: real decisions and a real store in memory, with processes and clocks that
//! the script moves.

use idem::cli::present::settled_code;
use idem::domain::decision::{IfRunning as Meets, Request, seen_state};
use idem::domain::name::{Fingerprint, Key, Nonce, OpName, Scope};
use idem::domain::outcome::{Class, State};
use idem::domain::record::{CommandLine, Proposal, Record, Source, Verdict};
use idem::domain::time::Ttl;
use idem::engine::event::{EventKind, NewEvent};
use idem::engine::plan::{GuardPlan, Helpers, Limits, Plan, RetryPlan, Running, StdinMode};
use idem::engine::store::{Change, GuardKind, Resolution, Store};
use idem::policy::backoff::{Backoff, Jitter};
use idem::policy::classify::Selection;
use idem::policy::task::Task;
use idem::store::sqlite::SqliteStore;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

use crate::actor::{Actor, News, Order, Shared, observe, stamp};
use crate::reference::{Model, PASS, Seen, Shown};
use crate::script::{How, IfRunning, KEYS, Options, Probe, SHORT, Settles, Step, Who, World};

/// A store that many scripts use one after the other, each with names of its own.
pub struct Ground {
    home: TempDir,
    scripts: AtomicU64,
}

impl Ground {
    /// In memory where there is such a place: the disk's syncs are not what is tested.
    pub fn new() -> Ground {
        let memory = Path::new("/dev/shm");
        let home = match memory.is_dir() {
            true => TempDir::new_in(memory),
            false => TempDir::new(),
        };
        Ground {
            home: home.expect("a private directory"),
            scripts: AtomicU64::new(0),
        }
    }

    fn path(&self) -> PathBuf {
        self.home.path().join("model.db")
    }
}

/// One call and what is known of it.
struct Caller {
    orders: Sender<Order>,
    news: Receiver<News>,
    last: News,
    /// Its front was killed while its keeper went on.
    killed: bool,
    /// Its keeper is gone, and its command is not.
    orphan: Option<Nonce>,
}

struct Core {
    path: PathBuf,
    number: u64,
    shared: Arc<Mutex<Shared>>,
    callers: Vec<Caller>,
    store: SqliteStore,
}

/// Runs a script against the model; the error says where they part.
pub fn run(ground: &Ground, script: &[Step]) -> Result<(), String> {
    let number = ground.scripts.fetch_add(1, Ordering::Relaxed);
    let mut core = Core::new(ground, number);
    let mut model = Model::new(World::Core);
    for (at, step) in script.iter().enumerate() {
        core.take(&mut model, step)
            .map_err(|what| format!("after step {}, `{step}`: {what}", at + 1))?;
    }
    // Whatever is still open comes to an end.
    while let Some(step) = last_step(&model) {
        core.take(&mut model, &step)
            .map_err(|what| format!("in the end, `{step}`: {what}"))?;
    }
    match model
        .seen()
        .iter()
        .all(|seen| matches!(seen, Seen::Ended(_)))
    {
        true => Ok(()),
        false => Err(format!("in the end: {:?}", model.seen())),
    }
}

fn last_step(model: &Model) -> Option<Step> {
    let end = model.at_gate(0).map(|_| Step::End(0, How::Success));
    end.or_else(|| model.paused(0).map(|_| Step::GoOn(0)))
}

impl Core {
    fn new(ground: &Ground, number: u64) -> Core {
        let path = ground.path();
        let shared = Shared {
            // Each script begins when the ones before it are long over.
            clock: Duration::from_secs(1_000_000 * (number + 1)),
            lives: HashMap::new(),
            effects: [0, 0],
            nonces: u128::from(number) << 64,
        };
        Core {
            store: SqliteStore::open_write(&path).expect("a store"),
            path,
            number,
            shared: Arc::new(Mutex::new(shared)),
            callers: Vec::new(),
        }
    }

    fn take(&mut self, model: &mut Model, step: &Step) -> Result<(), String> {
        let target = self.target(model, step);
        model.step(step);
        let verb = self.step(step, target);
        self.wake();
        self.differs(model, verb).map_or(Ok(()), Err)
    }

    fn name(&self, key: usize) -> OpName {
        OpName {
            scope: Scope::default(),
            key: Key::new(format!("{}{}", KEYS[key], self.number)).expect("a key"),
        }
    }

    /// The call that a step means.
    fn target(&self, model: &Model, step: &Step) -> Option<usize> {
        match *step {
            Step::GoOn(from) => model.paused(from),
            Step::End(from, _) => model.at_gate(from),
            Step::Kill(from, who) => model.victim(from, who),
            _ => None,
        }
    }

    /// Takes a step; the code of a person's verb.
    fn step(&mut self, step: &Step, target: Option<usize>) -> Option<i32> {
        match (*step, target) {
            (
                Step::Call {
                    key,
                    other,
                    options,
                },
                _,
            ) => self.call(key, other, options),
            (Step::GoOn(_), Some(id)) => self.order(id, Order::GoOn),
            (Step::End(_, how), Some(id)) => self.end(id, how),
            (Step::Kill(_, who), Some(id)) => self.kill(id, who),
            (Step::Pass, _) => self.shared.lock().expect("the world").clock += PASS,
            (Step::Resolve(key, how), _) => return Some(self.resolve(key, how)),
            (Step::Forget(key, force), _) => return Some(self.forget(key, force)),
            (Step::Decide(key, yes), _) => return Some(self.decide(key, yes)),
            (Step::OpenTask, _) => self.open_task(),
            (Step::Collect, _) => {
                let now = self.now();
                self.store
                    .purge(&now, 64, Duration::from_secs(1))
                    .expect("a purge");
            }
            (Step::GoOn(_) | Step::End(..) | Step::Kill(..), None) => {}
        }
        None
    }

    fn now(&self) -> idem::domain::time::Stamp {
        stamp(self.shared.lock().expect("the world").clock)
    }

    fn call(&mut self, key: usize, other: bool, options: Options) {
        let (orders, orders_of_actor) = channel();
        let (news_of_actor, news) = channel();
        let actor = Actor {
            key,
            options,
            plan: self.plan(key, other, options),
            path: self.path.clone(),
            shared: Arc::clone(&self.shared),
            news: news_of_actor,
            orders: orders_of_actor,
            paused: false,
            store: None,
        };
        std::thread::spawn(move || actor.act());
        let last = news.recv().expect("an actor that tells how it goes");
        self.callers.push(Caller {
            orders,
            news,
            last,
            killed: false,
            orphan: None,
        });
    }

    fn order(&mut self, id: usize, order: Order) {
        let caller = &mut self.callers[id];
        caller.orders.send(order).expect("an actor that listens");
        caller.last = caller.news.recv().expect("an actor that tells how it goes");
    }

    fn end(&mut self, id: usize, how: How) {
        match self.callers[id].orphan.take() {
            Some(nonce) => {
                self.shared.lock().expect("the world").lives.remove(&nonce);
            }
            None => self.order(id, Order::End(how)),
        }
    }

    fn kill(&mut self, id: usize, who: Who) {
        let nonce = match (self.callers[id].last, self.callers[id].orphan) {
            (_, Some(nonce)) | (News::AtGate(nonce), None) => nonce,
            (News::Waits { .. }, None) if who == Who::Front => {
                return self.order(id, Order::Die);
            }
            (last, None) => panic!("nothing of call {id} can be killed: {last:?}"),
        };
        self.callers[id].killed |= who != Who::Keeper && self.callers[id].orphan.is_none();
        if who == Who::Front {
            return;
        }
        let mut shared = self.shared.lock().expect("the world");
        if who == Who::Everything {
            shared.lives.remove(&nonce);
        } else if let Some(life) = shared.lives.get_mut(&nonce) {
            life.keeper = false;
        }
        drop(shared);
        if self.callers[id].orphan.take().is_none() {
            self.order(id, Order::Die);
        }
        if who != Who::Everything {
            self.callers[id].orphan = Some(nonce);
        }
    }

    /// Everyone whose wait is over looks again, in the order of their coming.
    fn wake(&mut self) {
        loop {
            let shared = self.shared.lock().expect("the world");
            let over = |caller: &Caller| match caller.last {
                News::Waits { nonce, for_tree } => !shared
                    .lives
                    .get(&nonce)
                    .is_some_and(|life| if for_tree { life.tree } else { life.keeper }),
                _ => false,
            };
            let next = self.callers.iter().position(over);
            drop(shared);
            match next {
                Some(id) => self.order(id, Order::GoOn),
                None => return,
            }
        }
    }

    fn find(&mut self, key: usize) -> Option<Record> {
        let name = self.name(key);
        self.store.find(&name).expect("a look")
    }

    fn looks(&self, record: &Record) -> State {
        seen_state(record, &observe(&self.shared, record))
    }

    fn event(&self, kind: EventKind) -> Vec<NewEvent> {
        vec![NewEvent {
            at: self.now().wall,
            kind,
            attempt: None,
            detail: Default::default(),
        }]
    }

    fn change(&mut self, key: usize, change: Change) {
        let name = self.name(key);
        let changed = self.store.change(&name, &mut |_| change.clone());
        changed.expect("the change");
    }

    fn resolve(&mut self, key: usize, how: Settles) -> i32 {
        let Some(record) = self.find(key) else {
            return 1;
        };
        match self.looks(&record) {
            State::Unknown => {}
            State::Running => return 120,
            State::Held => return 122,
            State::Succeeded | State::Failed => return 125,
        }
        let (state, class, exit_code) = match how {
            Settles::Succeeded => (State::Succeeded, Class::Success, Some(0)),
            Settles::Failed => (State::Failed, Class::Permanent, Some(1)),
            Settles::NotDone => (State::Failed, Class::Safe, None),
        };
        let mut shared = self.shared.lock().expect("the world");
        shared.nonces += 1;
        let nonce = Nonce(shared.nonces.to_be_bytes());
        drop(shared);
        let resolution = Resolution {
            state,
            class: Some(class),
            reason: None,
            exit_code,
            output: None,
            nonce,
            decided_by: "ann".into(),
            at: self.now(),
            events: self.event(EventKind::Resolved),
        };
        self.change(key, Change::Resolve(Box::new(resolution)));
        0
    }

    fn forget(&mut self, key: usize, force: bool) -> i32 {
        let Some(record) = self.find(key) else {
            return 1;
        };
        if !self.looks(&record).settled() && !force {
            return 125;
        }
        let events = self.event(EventKind::Forgotten);
        self.change(key, Change::Forget { events });
        0
    }

    fn decide(&mut self, key: usize, yes: bool) -> i32 {
        let Some(record) = self.find(key) else {
            return 1;
        };
        let pending = record
            .proposal
            .clone()
            .filter(|proposal| proposal.verdict == Verdict::Pending)
            .filter(|_| record.state == State::Held && !record.expired(&self.now()));
        let Some(proposal) = pending else {
            return 125;
        };
        let (verdict, kind) = match yes {
            true => (Verdict::Approved, EventKind::Approved),
            false => (Verdict::Rejected, EventKind::Rejected),
        };
        let change = Change::Decide {
            proposal: Box::new(Proposal {
                verdict,
                decided_by: Some("ann".into()),
                ..proposal
            }),
            events: self.event(kind),
        };
        self.change(key, change);
        0
    }

    fn open_task(&mut self) {
        let (name, now) = (format!("t{}", self.number), self.now());
        let opened = self.store.with_guards(&mut |guards| {
            if guards.guard(GuardKind::Task, &name)?.is_none() {
                let task = Task::open(&now, Some(1), None).to_json();
                guards.set_guard(GuardKind::Task, &name, Some(task))?;
            }
            Ok(())
        });
        opened.expect("a task");
    }

    /// What is otherwise than the model says.
    fn differs(&mut self, model: &Model, verb: Option<i32>) -> Option<String> {
        let seen: Vec<Seen> = self
            .callers
            .iter()
            .map(|caller| match caller.last {
                _ if caller.killed => Seen::Ended(137),
                News::Paused => Seen::Paused,
                News::Waits { .. } => Seen::Waiting,
                News::AtGate(_) => Seen::Executing,
                News::Ended(code) => Seen::Ended(code),
            })
            .collect();
        let shown = [0, 1].map(|key| {
            let record = self.find(key);
            record.map_or(Shown::Nothing, |record| match self.looks(&record) {
                State::Held => Shown::Held,
                State::Running => Shown::Running,
                State::Succeeded => Shown::Succeeded,
                State::Failed => Shown::Failed,
                State::Unknown => Shown::Unknown,
            })
        });
        let effects = self.shared.lock().expect("the world").effects;
        crate::compare(model, &seen, shown, effects, verb)
    }

    fn plan(&self, key: usize, other: bool, options: Options) -> Plan {
        let fingerprint = Fingerprint([u8::from(other) + 1; 32]);
        let ttl = match options.short {
            true => Ttl::For(SHORT),
            false => Ttl::For(100_000 * SHORT),
        };
        let retries = options.retries;
        let breaker = format!("b{}:failures=2,cooldown=20s", self.number);
        Plan {
            name: self.name(key),
            previous: None,
            request: Request {
                fingerprint,
                if_running: match options.if_running {
                    IfRunning::Wait => Meets::Wait,
                    IfRunning::Refuse => Meets::Refuse,
                    IfRunning::Skip => Meets::Skip,
                },
                rerun_unknown: options.rerun_unknown,
                rerun_failed: options.rerun_failed,
                probe: options.probe.is_some(),
                probe_first: false,
                hold: options.hold,
                waits_for_approval: false,
                identity: None,
                ancestry: Vec::new(),
            },
            command: CommandLine {
                argv: None,
                cwd: Vec::new(),
            },
            running: running(),
            ttl,
            failed_ttl: ttl,
            limits: Limits {
                timeout: None,
                deadline: None,
                kill_after: Duration::from_secs(1),
                wait: None,
            },
            retry: RetryPlan {
                retries,
                retries_given: retries > 0,
                nested: false,
                backoff: Backoff::Constant(Duration::from_millis(1)),
                jitter: Jitter::None,
                retry_on: (retries > 0).then(|| "exit:200".parse().expect("a condition")),
                stop_on: None,
                success_codes: None,
                classifier: Selection::None,
                idempotent: false,
                rerun_unknown: options.rerun_unknown,
            },
            helpers: Helpers {
                probe: options.probe.map(|_: Probe| "ask".into()),
                ..Helpers::default()
            },
            guards: GuardPlan {
                breaker: options.breaker.then(|| breaker.parse().expect("a breaker")),
                task: (key == 1).then(|| format!("t{}", self.number)),
                ..GuardPlan::default()
            },
            source: Source::default(),
            ancestry: Vec::new(),
        }
    }
}

fn running() -> Running {
    Running {
        argv: vec!["effect".into()],
        expand: false,
        stdin: StdinMode::Inherit,
        tty: false,
        max_output: 1,
        store_output: true,
        kill_on_caller_loss: false,
        detach: false,
    }
}

/// The code that a waiter would end with: kept here so that a change of it is noticed.
#[test]
fn an_unknown_outcome_is_122_to_all_who_wait() {
    assert_eq!(settled_code(State::Unknown, None, None), 122);
}
