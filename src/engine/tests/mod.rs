//! The engine against a store in memory and hands that only write down what they are asked to do.

mod cleanup;
mod front;
mod guards;
mod hands;
mod hold;
mod keeper;
mod memory;
mod probe;
mod settling;

use super::claim::FirstLook;
use super::event::EventKind;
use super::keeper::{Executed, Kept, keep};
use super::plan::{GuardPlan, Helpers, Limits, Plan, RetryPlan, Running, StdinMode};
use super::store::StoreError;
use crate::domain::decision::{IfRunning, Request};
use crate::domain::name::{Fingerprint, Generation, Key, Nonce, OpName, Scope};
use crate::domain::outcome::{Class, State};
use crate::domain::record::{CommandLine, Record, Source};
use crate::domain::time::{BootId, Stamp, Ttl, UnixMs};
use crate::policy::backoff::{Backoff, Jitter};
use crate::policy::classify::Selection;
use hands::FakeHands;
use memory::Memory;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const S: Duration = Duration::from_secs(1);
const OURS: Fingerprint = Fingerprint([1; 32]);
const OTHER: Fingerprint = Fingerprint([2; 32]);
const NONCE: Nonce = Nonce([7; 16]);

/// Everything that store and hands were asked to do, in order.
type Log = Rc<RefCell<Vec<String>>>;

/// The moment that lies so many seconds after the beginning.
fn at(secs: u64) -> Stamp {
    stamp(Duration::from_secs(secs))
}

fn stamp(since_start: Duration) -> Stamp {
    let ms = i64::try_from(since_start.as_millis()).unwrap();
    Stamp {
        wall: UnixMs(1_000_000 + ms),
        boot_ms: ms,
        boot: BootId("boot".into()),
    }
}

fn name(key: &str) -> OpName {
    OpName {
        scope: Scope::default(),
        key: Key::new(key).unwrap(),
    }
}

/// A call without options.
fn plan() -> Plan {
    Plan {
        name: name("k"),
        previous: None,
        request: Request {
            fingerprint: OURS,
            if_running: IfRunning::Wait,
            rerun_unknown: false,
            rerun_failed: false,
            probe: false,
            probe_first: false,
            hold: false,
            waits_for_approval: false,
            identity: None,
            ancestry: Vec::new(),
        },
        command: CommandLine {
            argv: None,
            cwd: Vec::new(),
        },
        running: Running {
            argv: vec!["true".into()],
            expand: false,
            stdin: StdinMode::Inherit,
            tty: false,
            max_output: 1,
            store_output: true,
            kill_on_caller_loss: false,
            detach: false,
        },
        ttl: Ttl::For(100 * S),
        failed_ttl: Ttl::For(100 * S),
        limits: Limits {
            timeout: None,
            deadline: None,
            kill_after: S,
            wait: None,
        },
        retry: RetryPlan {
            retries: 0,
            retries_given: false,
            nested: false,
            backoff: Backoff::Constant(S),
            jitter: Jitter::None,
            retry_on: None,
            stop_on: None,
            success_codes: None,
            classifier: Selection::None,
            idempotent: false,
            rerun_unknown: false,
        },
        helpers: Helpers::default(),
        guards: GuardPlan::default(),
        source: Source::default(),
        ancestry: Vec::new(),
    }
}

fn retries(retries: u32) -> Plan {
    let mut plan = plan();
    plan.retry.retries = retries;
    plan.retry.retries_given = retries > 0;
    plan
}

fn with_probe(mut plan: Plan) -> Plan {
    plan.helpers.probe = Some("ask".into());
    plan.request.probe = true;
    plan
}

fn with_cleanup(mut plan: Plan) -> Plan {
    plan.helpers.cleanup = Some("tidy".into());
    plan
}

/// A first look that found this.
fn looked(generation: Option<Generation>) -> FirstLook {
    FirstLook {
        generation,
        proposes: false,
        identity: None,
    }
}

/// A record of our own command, in that state since the beginning.
fn record(state: State, class: Option<Class>) -> Record {
    Record {
        name: name("k"),
        state,
        generation: Generation(1),
        nonce: Nonce([1; 16]),
        token: "old token".into(),
        minted_by: Generation(1),
        fingerprint: OURS,
        command: CommandLine {
            argv: None,
            cwd: Vec::new(),
        },
        created_at: UnixMs(0),
        since: at(0),
        ttl: Ttl::For(100 * S),
        failed_ttl: Ttl::For(100 * S),
        class,
        reason: None,
        exit_code: None,
        retry_at: None,
        output: None,
        attempts: 1,
        dirty: false,
        owner: None,
        source: Source::default(),
        proposal: None,
        decided_by: None,
    }
}

fn dirty(record: Record) -> Record {
    Record {
        dirty: true,
        ..record
    }
}

/// One keeper with its store.
struct World {
    log: Log,
    store: Memory,
    hands: FakeHands,
}

impl World {
    /// With these attempts to come, as the fake hands read them.
    fn new(attempts: &[&str]) -> World {
        let log = Log::default();
        World {
            store: Memory::new(&log),
            hands: FakeHands::new(&log, attempts),
            log,
        }
    }

    fn with_record(mut self, record: Record) -> World {
        self.store.put(record);
        self
    }

    fn with_helpers(mut self, ends: &[(i32, &str)]) -> World {
        let ends = ends.iter().map(|(code, stderr)| (*code, (*stderr).into()));
        self.hands.helpers = ends.collect();
        self
    }

    /// Keeps, after a first look that saw what is there.
    fn keep(&mut self, plan: &Plan) -> Kept {
        let generation = self.store.record.as_ref().map(|found| found.generation);
        self.keep_after(plan, generation)
    }

    fn keep_after(&mut self, plan: &Plan, generation: Option<Generation>) -> Kept {
        let first = looked(generation);
        keep(&mut self.store, &mut self.hands, plan, &first).unwrap()
    }

    fn executed(&mut self, plan: &Plan) -> Executed {
        match self.keep(plan) {
            Kept::Executed(executed) => *executed,
            Kept::NotClaimed(not) => panic!("not claimed: {not:?}"),
        }
    }

    /// What happened since the last time this was asked.
    fn happened(&self) -> String {
        self.log
            .borrow_mut()
            .drain(..)
            .collect::<Vec<_>>()
            .join(", ")
    }

    fn record(&self) -> &Record {
        self.store.record.as_ref().unwrap()
    }

    fn kinds(&self) -> Vec<&'static str> {
        let kinds = self.store.events.iter();
        kinds.map(|event| EventKind::word(event.kind)).collect()
    }
}

fn full() -> StoreError {
    StoreError::Full("no room".into())
}

fn busy() -> StoreError {
    StoreError::Busy("another writes".into())
}
