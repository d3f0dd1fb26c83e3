//! What goes in comes out, field by field and byte by byte.

use crate::Place;
use crate::sample::*;
use idem::domain::name::{Key, OpName, Scope};
use idem::domain::outcome::{Class, State};
use idem::domain::owner::{LockFileId, OwnerRef, ProcessRef};
use idem::domain::record::{CommandLine, Place as Where, Record, Source, Verdict};
use idem::domain::time::{BootId, Stamp, Ttl, UnixMs};
use idem::engine::store::{Change, Claiming, Fenced, NewClaim, NewRecord};
use std::time::Duration;

fn full_claim() -> NewClaim {
    let base = new_claim(9, mint("a token"));
    NewClaim {
        record: NewRecord {
            command: CommandLine {
                argv: Some(vec![
                    b"a b".to_vec(),
                    Vec::new(),
                    vec![0xff, 0, b'\n', 0x80],
                ]),
                cwd: vec![b'/', 0xfe, b'x'],
            },
            ttl: Ttl::For(Duration::from_millis(1_501)),
            failed_ttl: Ttl::Forever,
            source: Source {
                host: "höst".to_owned(),
                user: "u\"ser".to_owned(),
                pid: 42,
                parent: "make\\".to_owned(),
                label: Some("nightly".to_owned()),
            },
            ..base.record
        },
        owner: OwnerRef {
            keeper: ProcessRef {
                pid: i32::MAX,
                start_ticks: u64::MAX,
            },
            boot_id: BootId("another boot".to_owned()),
            pid_namespace: u64::MAX - 1,
            lock_file: LockFileId {
                device: u64::MAX - 2,
                inode: u64::MAX - 3,
            },
            keeper_byte: (1 << 62) - 1,
            tree_byte: 1 << 61,
            child: Some(ProcessRef {
                pid: 2,
                start_ticks: 3,
            }),
            nonce: nonce(9),
            lease: None,
        },
        ..base
    }
}

fn expected(new: &NewClaim, written: &Record) -> Record {
    let asked = &new.record;
    Record {
        name: name("k"),
        state: State::Running,
        generation: written.generation,
        nonce: asked.nonce,
        token: "a token".to_owned(),
        minted_by: written.generation,
        fingerprint: asked.fingerprint,
        command: asked.command.clone(),
        created_at: asked.at.wall,
        since: asked.at.clone(),
        ttl: asked.ttl,
        failed_ttl: asked.failed_ttl,
        class: None,
        reason: None,
        exit_code: None,
        retry_at: None,
        output: None,
        attempts: 1,
        dirty: true,
        owner: Some(new.owner.clone()),
        source: asked.source.clone(),
        proposal: None,
        decided_by: None,
    }
}

pub fn every_field_of_a_claim_comes_back(place: &dyn Place) {
    let mut store = place.open();
    let new = full_claim();
    let (_, written) = claim_as(&mut *store, "k", new.clone());
    assert_eq!(written, expected(&new, &written));
    assert_eq!(found(&mut *place.open(), "k"), written);
    let plain = NewClaim {
        record: NewRecord {
            command: CommandLine {
                argv: None,
                cwd: Vec::new(),
            },
            source: Source::default(),
            dirty: false,
            ..new_claim(1, mint("a token")).record
        },
        owner: owner(1),
        starts_attempt: false,
    };
    let (_, written) = claim_as(&mut *store, "k", plain.clone());
    let wanted = Record {
        attempts: 0,
        dirty: false,
        ..expected(&plain, &written)
    };
    assert_eq!(written, wanted);
    assert_eq!(found(&mut *place.open(), "k"), wanted);
}

pub fn every_field_of_a_proposal_comes_back(place: &dyn Place) {
    let mut store = place.open();
    let mut new = new_proposal(3, mint("t"));
    new.proposal.preview = vec![0, 0xff, b'\n'];
    new.proposal.identity.cwd = vec![0xff];
    let written = propose(&mut *store, "k", new.clone());
    assert_eq!(written.state, State::Held);
    assert_eq!(written.proposal, Some(new.proposal.clone()));
    assert_eq!(written.owner, None);
    assert_eq!((written.attempts, written.dirty), (0, false));
    assert_eq!(found(&mut *store, "k"), written);
    for verdict in [Verdict::Approved, Verdict::Rejected] {
        let mut decided = new.proposal.clone();
        decided.verdict = verdict;
        decided.decided_by = Some("ann@host".to_owned());
        decided.decided_at = Some(UnixMs(5));
        decided.note = Some("fine".to_owned());
        change(
            &mut *store,
            "k",
            Change::Decide {
                proposal: Box::new(decided.clone()),
                events: Vec::new(),
            },
        );
        let wanted = Record {
            proposal: Some(decided),
            decided_by: Some("ann@host".to_owned()),
            ..written.clone()
        };
        assert_eq!(found(&mut *store, "k"), wanted);
    }
}

pub fn every_settled_state_comes_back(place: &dyn Place) {
    let mut store = place.open();
    for state in [State::Succeeded, State::Failed, State::Unknown] {
        for class in Class::ALL {
            let claim = claim(&mut *store, "k", 1);
            let running = found(&mut *store, "k");
            let mut settlement = settlement(state);
            settlement.class = Some(class);
            settlement.retry_at = Some(UnixMs(99));
            settlement.dirty = false;
            settlement.output = Some(inline(2, b"out"));
            assert_eq!(settle_as(&mut *store, &claim, &settlement), Fenced::Done);
            let record = found(&mut *store, "k");
            let output = record.output.unwrap();
            assert_eq!(
                (output.place, output.nonce, output.number),
                (Where::Inline, nonce(1), 2)
            );
            assert_eq!((output.stdout_bytes, output.stderr_bytes), (10, 3));
            let wanted = Record {
                state,
                class: Some(class),
                reason: Some("because".to_owned()),
                exit_code: Some(7),
                retry_at: Some(UnixMs(99)),
                dirty: false,
                since: settlement.at.clone(),
                output: Some(output),
                ..running
            };
            assert_eq!(record, wanted);
        }
    }
}

pub fn times_and_numbers_at_their_ends_come_back(place: &dyn Place) {
    let mut store = place.open();
    let mut new = full_claim();
    new.record.ttl = Ttl::For(Duration::from_millis(u64::try_from(i64::MAX).unwrap()));
    new.record.failed_ttl = Ttl::For(Duration::ZERO);
    new.record.at = Stamp {
        wall: UnixMs(i64::MIN),
        boot_ms: i64::MAX,
        boot: BootId(String::new()),
    };
    let (claim, written) = claim_as(&mut *store, "k", new.clone());
    assert_eq!(written, expected(&new, &written));
    assert_eq!(found(&mut *store, "k"), written);
    let mut settlement = settlement(State::Succeeded);
    settlement.at.wall = UnixMs(i64::MAX);
    settlement.exit_code = Some(i32::MIN);
    let mut output = inline(u32::MAX, b"");
    output.stdout_bytes = u64::MAX;
    output.truncated = true;
    output.lost = true;
    settlement.output = Some(output);
    assert_eq!(settle_as(&mut *store, &claim, &settlement), Fenced::Done);
    let record = found(&mut *store, "k");
    assert_eq!(record.since, settlement.at);
    assert_eq!(record.exit_code, Some(i32::MIN));
    let output = record.output.unwrap();
    assert_eq!(output.number, u32::MAX);
    assert_eq!(output.stdout_bytes, u64::MAX);
    assert!(output.truncated && output.lost);
}

pub fn names_are_told_apart_exactly(place: &dyn Place) {
    let mut store = place.open();
    let names = [
        ("", "k"),
        ("", "K"),
        ("", "k "),
        ("k", "k"),
        ("", "é"),
        ("", "e\u{301}"),
    ];
    for (i, (scope, key)) in names.into_iter().enumerate() {
        let name = OpName {
            scope: Scope::new(scope).unwrap(),
            key: Key::new(key).unwrap(),
        };
        assert_eq!(store.find(&name).unwrap(), None, "{scope:?} {key:?}");
        let new = new_claim(u8::try_from(i).unwrap(), mint("t"));
        store
            .claim(&name, &mut |_| Ok(Claiming::Claim(Box::new(new.clone()))))
            .unwrap();
        assert_eq!(store.find(&name).unwrap().unwrap().name, name);
    }
}
