//! Records for the tests of what is shown.

use crate::cli::attempts::Attempt;
use crate::cli::view::View;
use crate::domain::name::{Fingerprint, Generation, Key, Nonce, OpName, Scope};
use crate::domain::outcome::{Class, State};
use crate::domain::owner::{Liveness, LockFileId, OwnerRef, ProcessRef};
use crate::domain::record::{CommandLine, OutputRef, Place, Record, Source};
use crate::domain::time::{BootId, Stamp, Ttl, UnixMs};
use std::time::Duration;

/// Noon of 30 November 2026, UTC.
pub const NOON_MS: i64 = 1_796_040_000_000;

pub fn stamp(after_noon_s: i64) -> Stamp {
    Stamp {
        wall: UnixMs(NOON_MS + 1000 * after_noon_s),
        boot_ms: 1_000_000 + 1000 * after_noon_s,
        boot: BootId("a".into()),
    }
}

/// What is shown is shown an hour after noon.
pub fn now() -> Stamp {
    stamp(3600)
}

pub fn name(key: &str) -> OpName {
    OpName {
        scope: Scope::default(),
        key: Key::new(key).unwrap(),
    }
}

/// Succeeded at noon.
pub fn succeeded() -> Record {
    let nonce = Nonce([7; 16]);
    Record {
        name: name("job/good"),
        state: State::Succeeded,
        generation: Generation(3),
        nonce,
        token: "t".into(),
        minted_by: Generation(3),
        fingerprint: Fingerprint([0xab; 32]),
        command: CommandLine {
            argv: Some(vec![b"echo".to_vec(), b"\xff".to_vec()]),
            cwd: b"/srv/app".to_vec(),
        },
        created_at: UnixMs(NOON_MS - 2000),
        since: stamp(0),
        ttl: Ttl::For(Duration::from_secs(86_400)),
        failed_ttl: Ttl::Forever,
        class: Some(Class::Success),
        reason: Some("it returned 0".into()),
        exit_code: Some(0),
        retry_at: None,
        output: Some(OutputRef {
            place: Place::Inline,
            nonce,
            number: 1,
            stdout_bytes: 4,
            stderr_bytes: 0,
            truncated: false,
            lost: false,
        }),
        attempts: 1,
        dirty: false,
        owner: Some(owner()),
        source: Source {
            host: "web-1".into(),
            user: "deploy".into(),
            pid: 40,
            parent: "cron".into(),
            label: None,
        },
        proposal: None,
        decided_by: None,
    }
}

pub fn failed(class: Class, code: i32) -> Record {
    Record {
        name: name("job/bad"),
        state: State::Failed,
        class: Some(class),
        reason: Some(format!("it returned {code}")),
        exit_code: Some(code),
        ..succeeded()
    }
}

pub fn running() -> Record {
    Record {
        name: name("job/now"),
        state: State::Running,
        class: None,
        reason: None,
        exit_code: None,
        output: None,
        ..succeeded()
    }
}

pub fn unknown() -> Record {
    Record {
        name: name("job/lost"),
        state: State::Unknown,
        class: Some(Class::Uncertain),
        reason: Some("signal 9 ended it".into()),
        exit_code: None,
        ..succeeded()
    }
}

fn owner() -> OwnerRef {
    OwnerRef {
        keeper: ProcessRef {
            pid: 41,
            start_ticks: 1,
        },
        boot_id: BootId("a".into()),
        pid_namespace: 1,
        lock_file: LockFileId {
            device: 1,
            inode: 1,
        },
        keeper_byte: 1,
        tree_byte: 2,
        child: None,
        nonce: Nonce([7; 16]),
        lease: None,
    }
}

pub fn view(record: Record, liveness: Liveness) -> View {
    View { record, liveness }
}

/// An attempt of two seconds before noon that returned 0.
pub fn attempt(generation: i64, number: u32) -> Attempt {
    Attempt {
        generation: Generation(generation),
        number,
        pid: Some(42),
        started_at: Some(UnixMs(NOON_MS - 2000)),
        ended_at: Some(UnixMs(NOON_MS)),
        duration_ms: Some(2000),
        exit_code: Some(0),
        signal: None,
        class: Some(Class::Success),
        reason: Some("it returned 0".into()),
        output: None,
    }
}
