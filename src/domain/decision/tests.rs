//! The whole table: state found, whose command, what is left of its owner, and what the options say.

use super::*;
use crate::domain::name::{Key, OpName, Scope};
use crate::domain::record::{CommandLine, Source};
use crate::domain::time::{BootId, Ttl, UnixMs};
use std::time::Duration;

mod properties;

const TTL: Duration = Duration::from_secs(100);
const FAILED_TTL: Duration = Duration::from_secs(10);
const OURS: Fingerprint = Fingerprint([1; 32]);
const OTHER: Fingerprint = Fingerprint([2; 32]);
const GENERATION: Generation = Generation(7);
const NONCE: Nonce = Nonce([9; 16]);

/// So many seconds after the record's state was entered.
fn after(secs: i64) -> Stamp {
    Stamp {
        wall: UnixMs(secs * 1000),
        boot_ms: secs * 1000,
        boot: BootId("boot".into()),
    }
}

fn identity(n: u8) -> Identity {
    Identity {
        argv: Fingerprint([n; 32]),
        cwd: b"/work".to_vec(),
        executable: Fingerprint([n; 32]),
    }
}

/// A record of our own command.
fn record(state: State) -> Record {
    Record {
        name: OpName {
            scope: Scope::default(),
            key: Key::new("k").unwrap(),
        },
        state,
        generation: GENERATION,
        nonce: NONCE,
        token: "token".into(),
        minted_by: GENERATION,
        fingerprint: OURS,
        command: CommandLine {
            argv: None,
            cwd: Vec::new(),
        },
        created_at: UnixMs(0),
        since: after(0),
        ttl: Ttl::For(TTL),
        failed_ttl: Ttl::For(FAILED_TTL),
        class: None,
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

fn failed(class: Class) -> Record {
    Record {
        class: Some(class),
        ..record(State::Failed)
    }
}

fn held(verdict: Verdict) -> Record {
    let proposal = Proposal {
        identity: identity(1),
        preview: Vec::new(),
        verdict,
        decided_by: None,
        decided_at: None,
        note: None,
    };
    Record {
        proposal: Some(proposal),
        ..record(State::Held)
    }
}

/// What a call without options asks for.
fn plain() -> Request {
    Request {
        fingerprint: OURS,
        if_running: IfRunning::Wait,
        rerun_unknown: false,
        rerun_failed: false,
        probe: false,
        probe_first: false,
        hold: false,
        waits_for_approval: false,
        identity: Some(identity(1)),
        ancestry: Vec::new(),
    }
}

fn with(change: impl FnOnce(&mut Request)) -> Request {
    let mut request = plain();
    change(&mut request);
    request
}

fn other() -> Request {
    with(|r| r.fingerprint = OTHER)
}

fn probe() -> Request {
    with(|r| r.probe = true)
}

fn probe_first() -> Request {
    with(|r| (r.probe, r.probe_first) = (true, true))
}

fn rerun_unknown() -> Request {
    with(|r| r.rerun_unknown = true)
}

fn rerun_failed() -> Request {
    with(|r| r.rerun_failed = true)
}

fn hold() -> Request {
    with(|r| r.hold = true)
}

fn if_running(what: IfRunning) -> Request {
    with(|r| r.if_running = what)
}

fn below(nonce: Nonce) -> Request {
    with(|r| r.ancestry = vec![Nonce([1; 16]), nonce])
}

fn tree() -> Liveness {
    Liveness::TreeAlive { pids: vec![4] }
}

use Decision::{Ask, Execute, Propose, Refuse, Replay, ReplayFailure, Skip, Wait, WaitForApproval};
use Liveness::{Gone, OutOfSight, OwnerAlive};
use Refusal::{
    Mismatch, NeedsApproval, OwnAncestry, ProposalExpired, Rejected, StillRunning, Unknown,
};
use State::Succeeded;

type Row = (
    &'static str,
    Option<Record>,
    Request,
    Liveness,
    i64,
    Decision,
);

fn check(rows: Vec<Row>) {
    for (what, record, request, liveness, secs, wanted) in rows {
        let got = decide(record.as_ref(), &request, &liveness, &after(secs));
        assert_eq!(got, wanted, "{what}");
    }
}

#[test]
fn nothing_found() {
    #[rustfmt::skip]
    let rows = vec![
        ("plain", None, plain(), Gone, 0, Execute(Why::New)),
        ("probe", None, probe(), Gone, 0, Execute(Why::New)),
        ("probe first", None, probe_first(), Gone, 0, Ask(Why::New)),
        ("hold", None, hold(), Gone, 0, Propose),
    ];
    check(rows);
}

#[test]
fn running() {
    let found = || Some(record(State::Running));
    let wait = Wait(GENERATION);
    let refuse = || if_running(IfRunning::Refuse);
    let skip = || if_running(IfRunning::Skip);
    let all = || {
        with(|r| {
            (r.probe, r.probe_first, r.rerun_unknown, r.rerun_failed) = (true, true, true, true);
        })
    };
    #[rustfmt::skip]
    let rows = vec![
        ("wait", found(), plain(), OwnerAlive, 0, wait),
        ("refuse", found(), refuse(), OwnerAlive, 0, Refuse(StillRunning)),
        ("skip", found(), skip(), OwnerAlive, 0, Skip),
        ("no option runs it twice", found(), all(), OwnerAlive, 0, wait),
        ("nor does time", found(), all(), OwnerAlive, 1_000_000, wait),
        ("hold waits as well", found(), hold(), OwnerAlive, 0, wait),
        ("other command", found(), other(), OwnerAlive, 0, Refuse(Mismatch)),
        ("out of sight is not gone", found(), all(), OutOfSight, 0, wait),
        ("processes left", found(), all(), tree(), 0, wait),
        ("processes left, refuse", found(), refuse(), tree(), 0, Refuse(StillRunning)),
        ("processes left, skip", found(), skip(), tree(), 0, Skip),
        ("processes left, other", found(), other(), tree(), 0, Refuse(Mismatch)),
        ("own ancestry", found(), below(NONCE), OwnerAlive, 0, Refuse(OwnAncestry)),
        ("below another", found(), below(Nonce([5; 16])), OwnerAlive, 0, wait),
    ];
    check(rows);
}

#[test]
fn unknown() {
    let unknown = || Some(record(State::Unknown));
    let abandoned = || Some(record(State::Running));
    let both = || with(|r| (r.probe, r.rerun_unknown) = (true, true));
    let hold_rerun = || with(|r| (r.hold, r.rerun_unknown) = (true, true));
    for found in [unknown, abandoned] {
        #[rustfmt::skip]
        let rows = vec![
            ("plain", found(), plain(), Gone, 0, Refuse(Unknown)),
            ("never expires", found(), plain(), Gone, 1_000_000, Refuse(Unknown)),
            ("probe", found(), probe(), Gone, 0, Ask(Why::UnknownRerun)),
            ("rerun", found(), rerun_unknown(), Gone, 0, Execute(Why::UnknownRerun)),
            ("a probe is asked first", found(), both(), Gone, 0, Ask(Why::UnknownRerun)),
            ("if-failed is no answer", found(), rerun_failed(), Gone, 0, Refuse(Unknown)),
            ("hold", found(), hold(), Gone, 0, Refuse(Unknown)),
            ("hold instead of a rerun", found(), hold_rerun(), Gone, 0, Propose),
            ("other command", found(), other(), Gone, 0, Refuse(Mismatch)),
            ("survivors are waited for", found(), both(), tree(), 0, Wait(GENERATION)),
        ];
        check(rows);
    }
    let refuse = if_running(IfRunning::Refuse);
    #[rustfmt::skip]
    let rows = vec![
        ("survivors, refuse", unknown(), refuse, tree(), 0, Refuse(StillRunning)),
        ("survivors, skip", unknown(), if_running(IfRunning::Skip), tree(), 0, Skip),
        ("survivors, other", unknown(), other(), tree(), 0, Refuse(Mismatch)),
        ("settled by a keeper that leaves", unknown(), plain(), OwnerAlive, 0, Refuse(Unknown)),
    ];
    check(rows);
}

#[test]
fn succeeded() {
    let found = || Some(record(Succeeded));
    let kept = || {
        Some(Record {
            ttl: Ttl::Forever,
            ..record(Succeeded)
        })
    };
    let all = || {
        with(|r| {
            (r.probe, r.probe_first, r.rerun_unknown, r.rerun_failed) = (true, true, true, true);
        })
    };
    #[rustfmt::skip]
    let rows = vec![
        ("replay", found(), plain(), Gone, 99, Replay),
        ("no option runs it again", found(), all(), Gone, 99, Replay),
        ("hold replays", found(), hold(), Gone, 99, Replay),
        ("its leftovers mean nothing", found(), plain(), tree(), 99, Replay),
        ("other command", found(), other(), Gone, 99, Refuse(Mismatch)),
        ("expired", found(), plain(), Gone, 100, Execute(Why::Expired)),
        ("expired, other", found(), other(), Gone, 100, Execute(Why::Expired)),
        ("expired, probe", found(), probe(), Gone, 100, Execute(Why::Expired)),
        ("expired, probe first", found(), probe_first(), Gone, 100, Ask(Why::Expired)),
        ("expired, hold", found(), hold(), Gone, 100, Propose),
        ("forever", kept(), plain(), Gone, 1_000_000, Replay),
    ];
    check(rows);
}

#[test]
fn failed_for_good() {
    let found = || Some(failed(Class::Permanent));
    let no_class = || Some(record(State::Failed));
    let hold_rerun = with(|r| (r.hold, r.rerun_failed) = (true, true));
    let first_rerun = with(|r| (r.probe, r.probe_first, r.rerun_failed) = (true, true, true));
    #[rustfmt::skip]
    let rows = vec![
        ("replay", found(), plain(), Gone, 9, ReplayFailure),
        ("probe-first does not change that", found(), probe_first(), Gone, 9, ReplayFailure),
        ("rerun-unknown neither", found(), rerun_unknown(), Gone, 9, ReplayFailure),
        ("rerun", found(), rerun_failed(), Gone, 9, Execute(Why::FailedRerun)),
        ("rerun, ask first", found(), first_rerun, Gone, 9, Ask(Why::FailedRerun)),
        ("rerun, hold", found(), hold_rerun, Gone, 9, Propose),
        ("corrected", found(), other(), Gone, 9, Execute(Why::Corrected)),
        ("failures expire by themselves", found(), plain(), Gone, 10, Execute(Why::Expired)),
        ("a person's word", no_class(), plain(), Gone, 9, ReplayFailure),
        ("a person's word, rerun", no_class(), rerun_failed(), Gone, 9, Execute(Why::FailedRerun)),
        ("a person's word, corrected", no_class(), other(), Gone, 9, Execute(Why::Corrected)),
    ];
    check(rows);
}

#[test]
fn failed_otherwise() {
    for class in [Class::Safe, Class::Throttled, Class::Retryable] {
        let found = || Some(failed(class));
        #[rustfmt::skip]
        let rows = vec![
            ("again", found(), plain(), Gone, 9, Execute(Why::FailedBefore)),
            ("probe", found(), probe(), Gone, 9, Execute(Why::FailedBefore)),
            ("probe first", found(), probe_first(), Gone, 9, Ask(Why::FailedBefore)),
            ("hold", found(), hold(), Gone, 9, Propose),
            ("other", found(), other(), Gone, 9, Execute(Why::Corrected)),
            ("expired", found(), plain(), Gone, 10, Execute(Why::Expired)),
        ];
        check(rows);
    }
}

#[test]
fn held_for_a_person() {
    let pending = || Some(held(Verdict::Pending));
    let approved = || Some(held(Verdict::Approved));
    let rejected = || Some(held(Verdict::Rejected));
    let waits = || with(|r| r.waits_for_approval = true);
    let elsewhere = || with(|r| r.identity = Some(identity(2)));
    let nameless = || with(|r| r.identity = None);
    let no_proposal = Some(record(State::Held));
    #[rustfmt::skip]
    let rows = vec![
        ("pending", pending(), plain(), Gone, 99, Refuse(NeedsApproval)),
        ("pending, hold again", pending(), hold(), Gone, 99, Refuse(NeedsApproval)),
        ("pending, wait", pending(), waits(), Gone, 99, WaitForApproval),
        ("pending, other", pending(), other(), Gone, 99, Refuse(Mismatch)),
        ("pending, elsewhere", pending(), elsewhere(), Gone, 99, Refuse(Mismatch)),
        ("pending, too old", pending(), waits(), Gone, 100, Refuse(ProposalExpired)),
        ("approved", approved(), plain(), Gone, 99, Execute(Why::Approved)),
        ("approved, hold", approved(), hold(), Gone, 99, Execute(Why::Approved)),
        ("approved, ask first", approved(), probe_first(), Gone, 99, Ask(Why::Approved)),
        ("approved, other", approved(), other(), Gone, 99, Refuse(Mismatch)),
        ("approved, elsewhere", approved(), elsewhere(), Gone, 99, Refuse(Mismatch)),
        ("approved, unidentified", approved(), nameless(), Gone, 99, Refuse(Mismatch)),
        ("approved, too old", approved(), plain(), Gone, 100, Refuse(ProposalExpired)),
        ("rejected", rejected(), waits(), Gone, 99, Refuse(Rejected)),
        ("rejected, old", rejected(), hold(), Gone, 1_000_000, Refuse(Rejected)),
        ("nothing to decide about", no_proposal, plain(), Gone, 0, Refuse(NeedsApproval)),
    ];
    check(rows);
}
