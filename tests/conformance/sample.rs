//! Sample values and short ways to do common things.

use idem::domain::name::{Fingerprint, Key, Nonce, OpName, Scope};
use idem::domain::outcome::{Class, State};
use idem::domain::owner::{LockFileId, OwnerRef, ProcessRef};
use idem::domain::record::{CommandLine, Identity, Proposal, Record, Source, Verdict};
use idem::domain::time::{BootId, Stamp, Ttl, UnixMs};
use idem::engine::event::{EventKind, NewEvent};
use idem::engine::store::{
    Change, ClaimId, Claimed, Claiming, Fenced, NewClaim, NewOutput, NewProposal, NewRecord,
    OpenOutput, OutputBody, Resolution, Settlement, Step, Store, TokenChoice,
};
use serde_json::Map;
use std::io::Read;
use std::time::Duration;

pub const DAY: Duration = Duration::from_secs(86_400);

pub fn name(key: &str) -> OpName {
    OpName {
        scope: Scope::default(),
        key: Key::new(key).unwrap(),
    }
}

pub fn stamp(ms: i64) -> Stamp {
    Stamp {
        wall: UnixMs(ms),
        boot_ms: ms,
        boot: BootId("0c6b1d2e-boot".to_owned()),
    }
}

pub fn nonce(n: u8) -> Nonce {
    Nonce([n; 16])
}

pub fn mint(text: &str) -> TokenChoice {
    TokenChoice::Mint(text.to_owned())
}

pub fn event(kind: EventKind, at: i64) -> NewEvent {
    NewEvent {
        at: UnixMs(at),
        kind,
        attempt: None,
        detail: Map::new(),
    }
}

pub fn attempt_event(kind: EventKind, number: u32) -> NewEvent {
    NewEvent {
        attempt: Some(number),
        ..event(kind, 1)
    }
}

pub fn owner(n: u8) -> OwnerRef {
    OwnerRef {
        keeper: ProcessRef {
            pid: 4711,
            start_ticks: 99,
        },
        boot_id: BootId("0c6b1d2e-boot".to_owned()),
        pid_namespace: 4_026_531_836,
        lock_file: LockFileId {
            device: 64,
            inode: 77,
        },
        keeper_byte: 11,
        tree_byte: 12,
        child: None,
        nonce: nonce(n),
        lease: None,
    }
}

pub fn new_claim(n: u8, token: TokenChoice) -> NewClaim {
    NewClaim {
        record: NewRecord {
            nonce: nonce(n),
            token,
            fingerprint: Fingerprint([n; 32]),
            command: CommandLine {
                argv: Some(vec![b"true".to_vec()]),
                cwd: b"/".to_vec(),
            },
            ttl: Ttl::For(DAY),
            failed_ttl: Ttl::For(DAY),
            source: Source::default(),
            dirty: true,
            at: stamp(1_000),
            events: vec![event(EventKind::Claimed, 1_000)],
        },
        owner: owner(n),
        starts_attempt: true,
    }
}

pub fn proposal() -> Proposal {
    Proposal {
        identity: Identity {
            argv: Fingerprint([1; 32]),
            cwd: b"/srv".to_vec(),
            executable: Fingerprint([2; 32]),
        },
        preview: b"plan".to_vec(),
        verdict: Verdict::Pending,
        decided_by: None,
        decided_at: None,
        note: None,
    }
}

pub fn new_proposal(n: u8, token: TokenChoice) -> NewProposal {
    NewProposal {
        record: NewRecord {
            dirty: false,
            events: vec![event(EventKind::Proposed, 1_000)],
            ..new_claim(n, token).record
        },
        proposal: proposal(),
    }
}

/// A record without what is left of its lease, which is another from look to look.
pub fn plain(mut record: Record) -> Record {
    if let Some(owner) = &mut record.owner {
        owner.lease = None;
    }
    record
}

/// Claims without looking at what is there.
pub fn claim_as(store: &mut dyn Store, key: &str, new: NewClaim) -> (ClaimId, Record) {
    let (claimed, record) = store
        .claim(&name(key), &mut |_| {
            Ok(Claiming::Claim(Box::new(new.clone())))
        })
        .unwrap();
    assert_eq!(claimed, Claimed::Won);
    let record = record.unwrap();
    (id_of(&record), record)
}

/// Claims a new record.
pub fn claim(store: &mut dyn Store, key: &str, n: u8) -> ClaimId {
    claim_as(store, key, new_claim(n, mint("token"))).0
}

pub fn propose(store: &mut dyn Store, key: &str, new: NewProposal) -> Record {
    let (claimed, record) = store
        .claim(&name(key), &mut |_| {
            Ok(Claiming::Propose(Box::new(new.clone())))
        })
        .unwrap();
    assert_eq!(claimed, Claimed::Proposed);
    record.unwrap()
}

pub fn id_of(record: &Record) -> ClaimId {
    ClaimId {
        name: record.name.clone(),
        generation: record.generation,
        nonce: record.nonce,
    }
}

pub fn output(number: u32, body: OutputBody) -> NewOutput {
    NewOutput {
        number,
        body,
        stdout_bytes: 10,
        stderr_bytes: 3,
        truncated: false,
        lost: false,
    }
}

pub fn inline(number: u32, bytes: &[u8]) -> NewOutput {
    output(number, OutputBody::Inline(bytes.to_vec()))
}

pub fn settlement(state: State) -> Settlement {
    let class = match state {
        State::Succeeded => Class::Success,
        State::Unknown => Class::Uncertain,
        _ => Class::Permanent,
    };
    Settlement {
        state,
        class: Some(class),
        reason: Some("because".to_owned()),
        exit_code: Some(7),
        retry_at: None,
        output: None,
        dirty: true,
        at: stamp(2_000),
        events: vec![event(EventKind::Settled, 2_000)],
    }
}

pub fn settle_as(store: &mut dyn Store, claim: &ClaimId, settlement: &Settlement) -> Fenced {
    store.settle(claim, settlement, &mut |_| Ok(())).unwrap()
}

pub fn settle(store: &mut dyn Store, claim: &ClaimId, state: State) -> Fenced {
    settle_as(store, claim, &settlement(state))
}

pub fn step(output: Option<NewOutput>) -> Step {
    Step {
        starts_attempt: false,
        child: None,
        dirty: None,
        output,
        events: Vec::new(),
        durable: false,
    }
}

pub fn resolution(n: u8, state: State) -> Change {
    Change::Resolve(Box::new(Resolution {
        state,
        class: Some(Class::Success),
        reason: Some("a person said so".to_owned()),
        exit_code: Some(0),
        output: None,
        nonce: nonce(n),
        decided_by: "ann@host".to_owned(),
        at: stamp(3_000),
        events: vec![event(EventKind::Resolved, 3_000)],
    }))
}

pub fn owner_lost() -> Change {
    Change::OwnerLost {
        at: stamp(2_500),
        reason: "nobody is left".to_owned(),
        events: vec![event(EventKind::OwnerLost, 2_500)],
    }
}

pub fn forget() -> Change {
    Change::Forget {
        events: vec![event(EventKind::Forgotten, 3_000)],
    }
}

/// Makes a change whatever is found; returns the record as found.
pub fn change(store: &mut dyn Store, key: &str, change: Change) -> Option<Record> {
    let found = store.change(&name(key), &mut |_| change.clone()).unwrap();
    found.map(plain)
}

pub fn find(store: &mut dyn Store, key: &str) -> Option<Record> {
    store.find(&name(key)).unwrap().map(plain)
}

pub fn found(store: &mut dyn Store, key: &str) -> Record {
    find(store, key).unwrap()
}

/// The kinds of all events of an operation, oldest first.
pub fn kinds(store: &mut dyn Store, key: &str) -> Vec<EventKind> {
    let events = store.events(Some(&name(key)), 0, 1_000).unwrap();
    events.into_iter().map(|event| event.kind).collect()
}

/// Everything that an opened output has; none where it is nothing.
pub fn content(output: OpenOutput) -> Option<Vec<u8>> {
    match output {
        OpenOutput::Nothing => None,
        OpenOutput::Inline(bytes) => Some(bytes),
        OpenOutput::File(mut file) => {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            Some(bytes)
        }
    }
}
