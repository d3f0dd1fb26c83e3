//! One call of the engine in a thread of its own, which stops at its gates until it is told to go on.
//! At any moment either one actor runs or the one who directs them, so that a script always does the
//! same. Front and keeper are one thread: a keeper that dies unwinds to its front.

use idem::cli::present::settled_code;
use idem::domain::decision::Refusal;
use idem::domain::name::{Fingerprint, Generation, Nonce};
use idem::domain::outcome::{Class, Exit};
use idem::domain::owner::{Liveness, LockFileId, OwnerRef, ProcessRef};
use idem::domain::record::{Identity, Record};
use idem::domain::time::{BootId, Stamp, UnixMs};
use idem::engine::claim::{FirstLook, NotClaimed};
use idem::engine::ending::CallerEnd;
use idem::engine::environment::ChildContext;
use idem::engine::front::{self, Caller, Delegated, Outcome, WaitEnd};
use idem::engine::hands::{AttemptEnd, Before, Cancelled, Hands, HelperEnd, HowEnded, Role};
use idem::engine::keeper::{Kept, keep};
use idem::engine::plan::Plan;
use idem::engine::store::{Change, NewOutput, OutputBody, Store, StoreResult};
use idem::policy::bulkhead::BulkheadSpec;
use idem::policy::nested::Inner;
use idem::policy::outcome::{Control, Sightings};
use idem::store::sqlite::SqliteStore;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::script::{Dies, How, Options, Probe};

/// What lives of a claim.
#[derive(Debug, Clone, Copy)]
pub struct Life {
    pub keeper: bool,
    pub tree: bool,
}

/// What all actors see.
pub struct Shared {
    pub clock: Duration,
    pub lives: HashMap<Nonce, Life>,
    pub effects: [u32; 2],
    /// The number of claims that were prepared, which names them.
    pub nonces: u128,
}

/// What an actor tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Held up between its look and its claim.
    Paused,
    /// It waits for this claim's keeper, or for its tree.
    Waits { nonce: Nonce, for_tree: bool },
    /// Its command waits at its gate.
    AtGate(Nonce),
    /// It has ended with this code.
    Ended(i32),
}

/// What an actor is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    GoOn,
    End(How),
    Die,
}

/// A keeper was killed.
struct KeeperDied;

/// A front was killed.
struct FrontDied;

/// What an execution hands to its front.
pub enum Done {
    Code(i32),
    Lost,
}

/// One call.
pub struct Actor {
    pub key: usize,
    pub options: Options,
    pub plan: Plan,
    pub path: PathBuf,
    pub shared: Arc<Mutex<Shared>>,
    pub news: Sender<News>,
    pub orders: Receiver<Order>,
    pub paused: bool,
    pub store: Option<SqliteStore>,
}

impl Actor {
    /// The whole call.
    pub fn act(mut self) {
        let news = self.news.clone();
        let plan = self.plan.clone();
        let called = catch_unwind(AssertUnwindSafe(|| front::call(&mut self, &plan)));
        let code = match called {
            Ok(Ok(outcome)) => code_of(&outcome),
            Ok(Err(error)) => panic!("the store failed: {error}"),
            Err(payload) if payload.is::<FrontDied>() => 137,
            Err(payload) => resume_unwind(payload),
        };
        news.send(News::Ended(code)).ok();
    }

    fn tell(&self, news: News) -> Order {
        self.news.send(news).ok();
        // Whoever directs has lost interest: so has the call.
        self.orders.recv().unwrap_or(Order::Die)
    }
}

/// The exit code of a call.
fn code_of(outcome: &Outcome<Done>) -> i32 {
    let of_record = |record: &Record| settled_code(record.state, record.class, record.exit_code);
    match outcome {
        Outcome::Replayed { record, .. } | Outcome::Waited { record } => of_record(record),
        Outcome::WaitedPast { result } => {
            settled_code(result.state, result.class, result.exit_code)
        }
        Outcome::Refused { refusal, .. } => match refusal {
            Refusal::StillRunning => 120,
            Refusal::Mismatch => 121,
            Refusal::OwnAncestry => 125,
            _ => 122,
        },
        Outcome::Skipped | Outcome::UnderWay { .. } => 0,
        Outcome::Executed(Done::Code(code)) => *code,
        Outcome::Executed(Done::Lost) => 122,
    }
}

/// The moment by both clocks.
pub fn stamp(clock: Duration) -> Stamp {
    let ms = i64::try_from(clock.as_millis()).expect("a short test");
    Stamp {
        wall: UnixMs(1_700_000_000_000 + ms),
        boot_ms: ms,
        boot: BootId("00000000-0000-0000-0000-000000000000".into()),
    }
}

/// What is left of a record's owner.
pub fn observe(shared: &Mutex<Shared>, record: &Record) -> Liveness {
    let shared = shared.lock().expect("no actor panics while it holds it");
    let nonce = record.owner.as_ref().map(|owner| owner.nonce);
    match nonce.and_then(|nonce| shared.lives.get(&nonce)) {
        Some(life) if life.keeper => Liveness::OwnerAlive,
        Some(life) if life.tree => Liveness::TreeAlive { pids: Vec::new() },
        _ => Liveness::Gone,
    }
}

impl Caller for Actor {
    type Execution = Done;

    fn store(&mut self) -> StoreResult<Option<&mut dyn Store>> {
        if self.store.is_none() {
            self.store = SqliteStore::open_read(&self.path)?;
        }
        Ok(self.store.as_mut().map(|store| store as &mut dyn Store))
    }

    fn now(&self) -> Stamp {
        stamp(self.monotonic())
    }

    fn monotonic(&self) -> Duration {
        self.shared.lock().expect("the world").clock
    }

    fn observe(&mut self, record: &Record) -> Liveness {
        observe(&self.shared, record)
    }

    fn wait(&mut self, record: &Record, liveness: &Liveness, _: Option<Duration>) -> WaitEnd {
        let owner = record.owner.as_ref().expect("an owner to wait for");
        let waits = News::Waits {
            nonce: owner.nonce,
            for_tree: *liveness != Liveness::OwnerAlive,
        };
        match self.tell(waits) {
            Order::Die => resume_unwind(Box::new(FrontDied)),
            _ => WaitEnd::LookAgain,
        }
    }

    fn wait_for_change(&mut self, _: &Record, _: Option<Duration>) -> WaitEnd {
        unreachable!("no script waits for an approval")
    }

    fn identity(&mut self) -> Identity {
        Identity {
            argv: self.plan.request.fingerprint,
            cwd: Vec::new(),
            executable: Fingerprint([7; 32]),
        }
    }

    fn note_owner_lost(&mut self, record: &Record) {
        let at = self.now();
        let generation = record.generation;
        let mut store = SqliteStore::open_write(&self.path).expect("the store");
        let change = store.change(&record.name, &mut |found| match found {
            Some(found) if found.generation == generation => Change::OwnerLost {
                at: at.clone(),
                reason: "gone".into(),
                events: Vec::new(),
            },
            _ => Change::Leave,
        });
        change.expect("the change");
    }

    fn delegate(&mut self, first: FirstLook) -> StoreResult<Delegated<Done>> {
        if self.options.pauses && !self.paused {
            self.paused = true;
            if self.tell(News::Paused) == Order::Die {
                resume_unwind(Box::new(FrontDied));
            }
        }
        self.store = None;
        let mut store = SqliteStore::open_write(&self.path)?;
        let mut hands = Keeper::new(self);
        let plan = &self.plan;
        let kept = catch_unwind(AssertUnwindSafe(|| {
            keep(&mut store, &mut hands, plan, &first)
        }));
        let nonce = hands.nonce;
        let died = matches!(&kept, Err(payload) if payload.is::<KeeperDied>());
        if !died {
            self.shared.lock().expect("the world").lives.remove(&nonce);
        }
        Ok(match kept {
            Ok(Ok(Kept::Executed(executed))) => Delegated::Ended(Done::Code(match executed.end {
                CallerEnd::Code(code) => code,
                CallerEnd::Signal { signal, .. } => 128 + signal,
            })),
            Ok(Ok(Kept::NotClaimed(not))) => match not {
                NotClaimed::Changed(generation) => Delegated::Changed(generation),
                NotClaimed::Guarded(_) => Delegated::Ended(Done::Code(123)),
                _ => Delegated::LookAgain,
            },
            Ok(Err(error)) => return Err(error),
            Err(_) if died => Delegated::Ended(Done::Lost),
            Err(payload) => resume_unwind(payload),
        })
    }
}

/// The keeper of a call.
struct Keeper<'a> {
    actor: &'a Actor,
    nonce: Nonce,
    number: u32,
    preview: Option<Vec<u8>>,
}

impl Keeper<'_> {
    fn new(actor: &Actor) -> Keeper<'_> {
        let mut shared = actor.shared.lock().expect("the world");
        shared.nonces += 1;
        let nonce = Nonce(shared.nonces.to_be_bytes());
        let alive = Life {
            keeper: true,
            tree: true,
        };
        shared.lives.insert(nonce, alive);
        Keeper {
            actor,
            nonce,
            number: 0,
            preview: None,
        }
    }

    /// Dies here with all that it has started, if that is what is to happen.
    fn may_die(&self, at: Dies) {
        if self.actor.options.dies == Some(at) {
            let mut shared = self.actor.shared.lock().expect("the world");
            shared.lives.remove(&self.nonce);
            drop(shared);
            resume_unwind(Box::new(KeeperDied));
        }
    }
}

fn output(number: u32) -> NewOutput {
    NewOutput {
        number,
        body: OutputBody::Nothing,
        stdout_bytes: 0,
        stderr_bytes: 0,
        truncated: false,
        lost: false,
    }
}

fn ended(how: How) -> (Exit, Option<Class>) {
    match how {
        How::Success => (Exit::Code(0), None),
        How::Permanent => (Exit::Code(3), None),
        How::Safe => (Exit::Code(4), Some(Class::Safe)),
        How::Retryable => (Exit::Code(5), Some(Class::Retryable)),
        How::Killed => (Exit::Signal(9), None),
    }
}

impl Hands for Keeper<'_> {
    fn now(&self) -> Stamp {
        self.actor.now()
    }

    fn monotonic(&self) -> Duration {
        self.actor.monotonic()
    }

    fn random(&mut self) -> f64 {
        0.5
    }

    fn mint_token(&mut self) -> String {
        self.nonce.hex()
    }

    fn nonce(&self) -> Nonce {
        self.nonce
    }

    fn observe(&self, record: &Record) -> Liveness {
        observe(&self.actor.shared, record)
    }

    fn cancelled(&mut self) -> Option<Cancelled> {
        self.may_die(Dies::BeforeClaim);
        None
    }

    fn interrupted(&mut self) -> bool {
        false
    }

    fn owner(&self) -> OwnerRef {
        let process = ProcessRef {
            pid: 10,
            start_ticks: 1,
        };
        OwnerRef {
            keeper: process,
            boot_id: self.actor.now().boot,
            pid_namespace: 1,
            lock_file: LockFileId {
                device: 1,
                inode: 1,
            },
            keeper_byte: 1,
            tree_byte: 2,
            child: Some(process),
            nonce: self.nonce,
            lease: None,
        }
    }

    fn permit(&mut self, _: &BulkheadSpec, _: bool, _: Option<Duration>) -> bool {
        true
    }

    fn holder(&self) -> String {
        self.nonce.hex()
    }

    fn holder_lives(&self, holder: &str) -> bool {
        let shared = self.actor.shared.lock().expect("the world");
        Nonce::from_hex(holder).is_some_and(|nonce| shared.lives.contains_key(&nonce))
    }

    fn prepare(&mut self, _: &ChildContext<'_>) -> Result<(), String> {
        Ok(())
    }

    fn abandon(&mut self) {}

    fn claimed(&mut self, _: Generation) {
        self.may_die(Dies::AfterClaim);
    }

    fn attempt(&mut self, number: u32, _: Option<Duration>) -> AttemptEnd {
        self.number = number;
        let key = self.actor.key;
        self.actor.shared.lock().expect("the world").effects[key] += 1;
        let how = match self.actor.tell(News::AtGate(self.nonce)) {
            Order::End(how) => how,
            Order::Die | Order::GoOn => resume_unwind(Box::new(KeeperDied)),
        };
        let (exit, outcome) = ended(how);
        AttemptEnd {
            how: HowEnded::Ended { exit, cut: None },
            duration: Duration::ZERO,
            seen: Sightings::default(),
            control: Control {
                outcome,
                ..Control::default()
            },
            ended: self.monotonic(),
            held_terminal: false,
            survivors: Vec::new(),
        }
    }

    fn take_output(&mut self) -> NewOutput {
        self.may_die(Dies::AfterEnd);
        output(self.number)
    }

    fn helper(&mut self, _: Role, _: &OsStr, _: &ChildContext<'_>, _: Duration) -> HelperEnd {
        let code = match self.actor.options.probe {
            Some(Probe::Happened) => 0,
            Some(Probe::DidNot) => 1,
            Some(Probe::CannotTell) | None => 2,
        };
        HelperEnd {
            exit: Some(Exit::Code(code)),
            stdout: output(0),
            stdout_head: Vec::new(),
            stderr_head: Vec::new(),
            trouble: None,
        }
    }

    fn end_leftovers(&mut self) -> Vec<i32> {
        Vec::new()
    }

    fn pause(&mut self, _: Duration, _: Before<'_>) {}

    fn waited(&mut self) {}

    fn take_preview(
        &mut self,
        _: Option<&OsStr>,
        _: &ChildContext<'_>,
        _: Duration,
    ) -> Result<(), String> {
        self.preview = Some(Vec::new());
        Ok(())
    }

    fn preview(&self) -> Option<Vec<u8>> {
        self.preview.clone()
    }

    fn release(&mut self) {
        let mut shared = self.actor.shared.lock().expect("the world");
        shared.lives.remove(&self.nonce);
        drop(shared);
        self.may_die(Dies::AfterSettle);
    }

    fn tell_outer(&mut self, _: Inner) {}

    fn discard(&mut self, _: &NewOutput) {}
}
