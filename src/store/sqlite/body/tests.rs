use super::*;
use crate::domain::name::{Key, Scope};

fn columns() -> Columns {
    Columns {
        name: OpName {
            scope: Scope::default(),
            key: Key::new("k").unwrap(),
        },
        state: State::Failed,
        generation: Generation(7),
        nonce: Nonce([3; 16]),
        minted_by: Generation(5),
        since_at: UnixMs(1_000),
    }
}

/// Nothing that may be absent is there.
fn smallest() -> Stored {
    let columns = columns();
    Stored {
        record: Record {
            name: columns.name,
            state: columns.state,
            generation: columns.generation,
            nonce: columns.nonce,
            token: String::new(),
            minted_by: columns.minted_by,
            fingerprint: Fingerprint([9; 32]),
            command: CommandLine {
                argv: None,
                cwd: Vec::new(),
            },
            created_at: UnixMs(0),
            since: Stamp {
                wall: columns.since_at,
                boot_ms: 0,
                boot: BootId(String::new()),
            },
            ttl: Ttl::Forever,
            failed_ttl: Ttl::Forever,
            class: None,
            reason: None,
            exit_code: None,
            retry_at: None,
            output: None,
            attempts: 0,
            dirty: false,
            owner: None,
            source: Source::default(),
            proposal: None,
            decided_by: None,
        },
        kept: Vec::new(),
    }
}

/// Everything is there, with values at the ends of their ranges.
fn largest() -> Stored {
    let mut stored = smallest();
    let record = &mut stored.record;
    record.token = "töken\n".to_owned();
    record.command = CommandLine {
        argv: Some(vec![b"\xff\0".to_vec(), Vec::new(), vec![b'x'; 200]]),
        cwd: b"/\x80".to_vec(),
    };
    record.created_at = UnixMs(i64::MIN);
    record.since.boot_ms = i64::MAX;
    record.since.boot = BootId("boot".to_owned());
    record.ttl = Ttl::For(Duration::from_millis(i64::MAX.cast_unsigned()));
    record.failed_ttl = Ttl::For(Duration::ZERO);
    record.class = Some(Class::Permanent);
    record.reason = Some("why".to_owned());
    record.exit_code = Some(i32::MIN);
    record.retry_at = Some(UnixMs(-1));
    record.output = Some(OutputRef {
        place: Place::Spool,
        nonce: Nonce([4; 16]),
        number: u32::MAX,
        stdout_bytes: u64::MAX,
        stderr_bytes: 0x80,
        truncated: true,
        lost: false,
    });
    record.attempts = u32::MAX;
    record.dirty = true;
    record.owner = Some(OwnerRef {
        keeper: ProcessRef {
            pid: i32::MAX,
            start_ticks: 1 << 63,
        },
        boot_id: BootId("boot".to_owned()),
        pid_namespace: 4_026_531_836,
        lock_file: LockFileId {
            device: 127,
            inode: 128,
        },
        keeper_byte: 1 << 62,
        tree_byte: 16_384,
        child: Some(ProcessRef {
            pid: 1,
            start_ticks: 2,
        }),
        nonce: Nonce([5; 16]),
        lease: None,
    });
    record.source = Source {
        host: "host".to_owned(),
        user: "user".to_owned(),
        pid: -1,
        parent: "sh".to_owned(),
        label: Some("cron".to_owned()),
    };
    record.proposal = Some(Proposal {
        identity: Identity {
            argv: Fingerprint([1; 32]),
            cwd: b"/srv".to_vec(),
            executable: Fingerprint([2; 32]),
        },
        preview: b"plan\xfe".to_vec(),
        verdict: Verdict::Rejected,
        decided_by: Some("ann@host".to_owned()),
        decided_at: Some(UnixMs(5)),
        note: Some("no".to_owned()),
    });
    record.decided_by = Some("ann@host".to_owned());
    stored.kept = vec![Nonce([6; 16]), Nonce([7; 16])];
    stored
}

#[test]
fn what_is_packed_is_unpacked() {
    for stored in [smallest(), largest()] {
        assert_eq!(decode(columns(), &encode(&stored)), Some(stored));
    }
}

#[test]
fn every_value_of_a_list_of_words_is_unpacked() {
    let mut stored = largest();
    for class in [
        Class::Success,
        Class::Safe,
        Class::Throttled,
        Class::Retryable,
        Class::Permanent,
        Class::Uncertain,
    ] {
        stored.record.class = Some(class);
        assert_eq!(decode(columns(), &encode(&stored)), Some(stored.clone()));
    }
    for place in [Place::Nowhere, Place::Inline, Place::Spool] {
        stored.record.output.as_mut().unwrap().place = place;
        assert_eq!(decode(columns(), &encode(&stored)), Some(stored.clone()));
    }
    for verdict in VERDICTS {
        stored.record.proposal.as_mut().unwrap().verdict = verdict;
        assert_eq!(decode(columns(), &encode(&stored)), Some(stored.clone()));
    }
}

#[test]
fn numbers_of_every_length_are_unpacked() {
    for bits in 0..64 {
        for number in [1_u64 << bits, (1 << bits) - 1, u64::MAX - (1 << bits)] {
            let mut out = Writer { bytes: Vec::new() };
            out.number(number);
            out.signed(number.cast_signed());
            let mut from = Reader { rest: &out.bytes };
            assert_eq!(from.number(), Some(number));
            assert_eq!(from.signed(), Some(number.cast_signed()));
            assert!(from.rest.is_empty());
        }
    }
    let mut too_large = Reader { rest: &[0xff; 10] };
    assert_eq!(too_large.number(), None);
}

#[test]
fn what_is_broken_is_not_unpacked() {
    let whole = encode(&largest());
    for end in 0..whole.len() {
        assert_eq!(decode(columns(), &whole[..end]), None, "{end}");
    }
    let longer = [&whole[..], &[0]].concat();
    assert_eq!(decode(columns(), &longer), None);
    for version in [0, ENCODING + 1, 255] {
        let mut other = whole.clone();
        other[0] = version;
        assert_eq!(decode(columns(), &other), None);
    }
    // Whatever a byte becomes, it is read or not read, and nothing worse.
    let mut read = 0;
    for at in 0..whole.len() {
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let mut other = whole.clone();
            other[at] = byte;
            read += usize::from(decode(columns(), &other).is_some());
        }
    }
    assert!(read > 0);
}

/// Stores are full of these bytes: they may not change, only a new encoding may come beside them.
#[test]
fn the_first_encoding_stays() {
    let mut wanted = vec![1, 0];
    wanted.extend([9; 32]);
    wanted.extend([0; 23]);
    assert_eq!(encode(&smallest()), wanted);
    let digest: [u8; 32] = sha2::Digest::finalize(<sha2::Sha256 as sha2::Digest>::new_with_prefix(
        encode(&largest()),
    ))
    .into();
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        "4024f756c039e4b107b0efb43996d6b97e63b477b606e7ff5ac4aee0057b51cf"
    );
}
