//! What is timed survives a jump of the wall clock: within one boot the boot clock decides.

use std::time::Duration;

use idem::domain::name::{Fingerprint, Key, Nonce, OpName, Scope};
use idem::domain::outcome::{Class, State};
use idem::domain::record::{CommandLine, Source};
use idem::domain::time::{Stamp, Ttl, UnixMs};
use idem::engine::store::{
    ClaimId, Claiming, GuardKind, NewClaim, NewRecord, Settlement, Store, TokenChoice,
};
use idem::process::clock;
use idem::store::sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::env::TestEnv;
use crate::random::edit;

const YEAR_MS: i64 = 365 * 24 * 3_600_000;

/// Now, as it was written before the wall clock jumped by so much.
fn before_a_jump(jump_ms: i64) -> Stamp {
    let now = clock::now();
    Stamp {
        wall: UnixMs(now.wall.0 - jump_ms),
        ..now
    }
}

/// Shifts every wall clock reading in a stored state.
fn shift(state: &mut Value, by_ms: i64) {
    match state {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value.as_i64()) {
                    ("wall", Some(wall)) => *value = json!(wall + by_ms),
                    _ => shift(value, by_ms),
                }
            }
        }
        Value::Array(entries) => entries.iter_mut().for_each(|entry| shift(entry, by_ms)),
        _ => {}
    }
}

#[test]
fn breakers_budgets_and_tasks_do_not_jump() {
    for jump_ms in [YEAR_MS, -YEAR_MS] {
        let t = TestEnv::new();
        t.idem("breaker api --trip --cooldown 1h").end().code(0);
        edit(&t, GuardKind::Breaker, "api", |state| shift(state, jump_ms));
        t.run("--key k --breaker api", "echo x >> n")
            .end()
            .code(123);
        t.idem("task open r --deadline 1h --retries 1")
            .end()
            .code(0);
        edit(&t, GuardKind::Task, "r", |state| shift(state, jump_ms));
        let shown = t.idem("task show r --json").end().code(0).json();
        let left = shown["deadline_left_ms"].as_u64().expect("a number");
        assert!((3_000_000..=3_600_000).contains(&left), "{left}");
        t.run("--task r --step s", "true").end().code(0);
        let quick = "--retries 3 --backoff const:10ms --budget b=1/1h";
        t.run(&format!("--key b1 {quick}"), "echo x >> m; exit 9")
            .end()
            .code(9);
        edit(&t, GuardKind::Budget, "b", |state| shift(state, jump_ms));
        t.run(&format!("--key b2 {quick}"), "echo x >> m; exit 9")
            .end()
            .code(9);
        assert_eq!(
            (t.lines("n"), t.lines("m")),
            (0, 3),
            "a jump of {jump_ms} grants nothing"
        );
    }
}

/// Records a success of `key` under a clock that was off by so much, with a time to live of an hour.
fn record(t: &TestEnv, key: &str, fingerprint: Fingerprint, jump_ms: i64) {
    let name = OpName {
        scope: Scope::default(),
        key: Key::new(key).unwrap(),
    };
    let at = before_a_jump(jump_ms);
    let hour = Ttl::For(Duration::from_secs(3600));
    let mut store = SqliteStore::open_write(&t.store()).expect("the store");
    let owner = store
        .find(&name)
        .unwrap()
        .expect("a record")
        .owner
        .expect("an owner");
    let new = NewClaim {
        record: NewRecord {
            nonce: Nonce([3; 16]),
            token: TokenChoice::Mint("token".into()),
            fingerprint,
            command: CommandLine {
                argv: None,
                cwd: Vec::new(),
            },
            ttl: hour,
            failed_ttl: hour,
            source: Source::default(),
            dirty: true,
            at: at.clone(),
            events: Vec::new(),
        },
        owner,
        starts_attempt: true,
    };
    let (_, claimed) = store
        .claim(&name, &mut |_| Ok(Claiming::Claim(Box::new(new.clone()))))
        .unwrap();
    let claim = ClaimId {
        name,
        generation: claimed.unwrap().generation,
        nonce: Nonce([3; 16]),
    };
    let settlement = Settlement {
        state: State::Succeeded,
        class: Some(Class::Success),
        reason: None,
        exit_code: Some(0),
        retry_at: None,
        output: None,
        dirty: false,
        at,
        events: Vec::new(),
    };
    store.settle(&claim, &settlement, &mut |_| Ok(())).unwrap();
}

#[test]
fn a_result_is_as_old_as_it_is_whatever_the_wall_clock_says() {
    for jump_ms in [YEAR_MS, -YEAR_MS] {
        let t = TestEnv::new();
        let run = || t.run("--key k --fingerprint none --ttl 1h", "echo x >> n");
        run().end().code(0);
        let mut store = SqliteStore::open_write(&t.store()).expect("the store");
        let name = OpName {
            scope: Scope::default(),
            key: Key::new("k").unwrap(),
        };
        let fingerprint = store.find(&name).unwrap().expect("a record").fingerprint;
        drop(store);
        record(&t, "k", fingerprint, jump_ms);
        run().end().code(0);
        assert_eq!(t.lines("n"), 1, "written {jump_ms} ms off, replayed");
    }
}
