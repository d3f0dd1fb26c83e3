//! The keeper's process, from the fork to its end.

use super::counting;
use super::notice::{self, Unknown};
use crate::cli::exit;
use crate::cli::failure::Listeners;
use crate::cli::present::{Answer, Degraded, Presenter};
use crate::cli::say;
use crate::cli::settings::Speech;
use crate::domain::frames::Stream;
use crate::domain::name::Generation;
use crate::domain::outcome::{Class, Cut, Exit};
use crate::domain::record::OutputRef;
use crate::engine::claim::{FirstLook, NotClaimed};
use crate::engine::ending::CallerEnd;
use crate::engine::environment::ChildContext;
use crate::engine::hands::{Cancelled, Hands, Role};
use crate::engine::keeper::{self, Executed, Kept, Recorded};
use crate::engine::plan::Plan;
use crate::engine::store::{ClaimId, GuardKind, NewOutput, OpenOutput, OutputBody, StoreResult};
use crate::policy::nested::Inner;
use crate::process::hands::{Places, ProcessHands};
use crate::process::leaving::leave;
use crate::process::mirror::{MirrorPair, MirrorState};
use crate::process::notice::release_callers;
use crate::process::session::Session;
use crate::process::split::{Link, ToFront};
use crate::process::spool::Recording;
use crate::process::waiting_line::WaitingLine;
use crate::process::{clock, entry, facts, random};
use crate::store::location::{AnyStore, Location};
use crate::store::paths::Paths;
use std::fs::File;
use std::time::Duration;

/// How many expired records an execution deletes in passing.
const PURGED_IN_PASSING: u32 = 16;
/// How long an expired record is left for those who have waited for it, and read it only now.
const READING_TIME: Duration = Duration::from_secs(10);
/// How long the ledger of deleted records is kept.
pub const KEEP_EVENTS: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long a fallback may take where `--timeout` does not say.
const FALLBACK_LIMIT: Duration = Duration::from_secs(60);
/// How long a caller that does not read may hold up a call whose time is over.
const LAST_FLUSH: Duration = Duration::from_secs(1);

/// What the keeper takes along from the front.
pub struct Keeping<'a> {
    /// The call.
    pub plan: &'a Plan,
    /// How it speaks.
    pub speech: &'a Speech,
    /// Says it.
    pub presenter: &'a Presenter<'a>,
    /// Where the store is.
    pub location: &'a Location,
    /// The store's files.
    pub paths: Paths,
    /// What the front found.
    pub first: FirstLook,
    /// The front.
    pub front_pid: i32,
    /// Its parent.
    pub parent_pid: i32,
    /// The store lives on a throw-away machine, which must be said.
    pub note: bool,
}

/// The keeper's whole life. Never returns.
pub fn keep(link: Link, keeping: Keeping<'_>) -> ! {
    // Before the keeper gets a group of its own.
    let line = WaitingLine::new(keeping.speech.quiet);
    let mirrors = mirrors(&keeping);
    let session = match Session::new(link, mirrors, keeping.plan.running.kill_on_caller_loss) {
        Ok(session) => session,
        Err(error) => {
            keeping.presenter.complain(&format!(
                "the keeper cannot be set up: {error}; nothing was run, try again"
            ));
            leave(exit::OWN_FAILURE, Vec::new());
        }
    };
    let mut plan = keeping.plan.clone();
    plan.source = facts::source(keeping.front_pid, keeping.parent_pid);
    let paths = &keeping.paths;
    let places = Places {
        locks: paths.locks.clone(),
        spool_dir: paths.directory().to_owned(),
        store_name: paths.db.file_name().unwrap_or_default().to_owned(),
        shared: keeping.location.is_shared(),
    };
    let hands = match ProcessHands::new(session, &plan, places, line) {
        Ok(hands) => hands,
        Err((session, error)) => {
            keeping
                .presenter
                .complain(&format!("{error}; nothing was run, see `idem doctor`"));
            session.tell(ToFront::Exit(exit::OWN_FAILURE));
            leave(exit::OWN_FAILURE, Vec::new());
        }
    };
    work(hands, &plan, &keeping)
}

fn mirrors(keeping: &Keeping<'_>) -> MirrorPair {
    if keeping.speech.json || keeping.plan.running.detach {
        return MirrorPair::null();
    }
    let open = |fd| (!entry::state().was_closed(fd)).then_some(fd);
    MirrorPair::new(open(1), open(2))
}

fn work(mut hands: ProcessHands<'_>, plan: &Plan, keeping: &Keeping<'_>) -> ! {
    let mut store = match keeping.location.open_write() {
        Ok(store) => store,
        Err(error) => fail(&mut hands, keeping, &error.to_string()),
    };
    store.set_deadline(
        plan.limits
            .deadline
            .map(|at| at.saturating_sub(clock::monotonic())),
    );
    let kept = match keeper::keep(store.port(), &mut hands, plan, &keeping.first) {
        Ok(kept) => kept,
        Err(error) => fail(&mut hands, keeping, &error.to_string()),
    };
    let mut news = None;
    let server_away =
        matches!(&kept, Kept::Executed(done) if matches!(done.recorded, Recorded::Deferred(_)));
    let end = match kept {
        Kept::NotClaimed(not) => not_claimed(&mut hands, keeping, not),
        Kept::Executed(executed) => {
            news = new_unknown(&hands, plan, &executed);
            executed_end(&mut hands, keeping, &executed)
        }
    };
    hands.session().tell(end);
    // The caller has all that it waits for; what follows is housekeeping at nobody's expense.
    if keeping.location.is_shared() {
        // A server can take its time, or be gone.
        release_callers();
    }
    if !server_away {
        tidy_up(&mut store);
    }
    let mut pipes = hands.take_held_pipes();
    if let Some(unknown) = news {
        release_callers();
        notice::tell(&unknown, &mut pipes, |step| {
            store.port().step(&unknown.claim, &step).map(drop)
        });
    }
    leave(0, pipes)
}

fn tidy_up(store: &mut AnyStore) {
    let _ = counting::fold_if_due(store);
    let expired_before = clock::now().earlier(READING_TIME);
    let _ = store
        .port()
        .purge(&expired_before, PURGED_IN_PASSING, KEEP_EVENTS);
    let _ = store.tidy_up();
}

/// What `--on-unknown` is told of.
fn new_unknown(hands: &ProcessHands<'_>, plan: &Plan, executed: &Executed) -> Option<Unknown> {
    let command = plan.helpers.on_unknown.clone()?;
    executed.new_unknown.then(|| Unknown {
        command,
        claim: ClaimId {
            name: plan.name.clone(),
            generation: executed.generation,
            nonce: hands.nonce(),
        },
        reason: executed.reason.clone(),
    })
}

fn fail(hands: &mut ProcessHands<'_>, keeping: &Keeping<'_>, error: &str) -> ! {
    let listeners = Listeners {
        json: keeping.speech.json,
        report: keeping.speech.report.clone(),
    };
    listeners.tell(
        Some(keeping.plan.name.clone()),
        error,
        keeping.presenter.elapsed(),
    );
    keeping.presenter.complain(error);
    hands.session().tell(ToFront::Exit(exit::OWN_FAILURE));
    leave(0, Vec::new())
}

fn not_claimed(hands: &mut ProcessHands<'_>, keeping: &Keeping<'_>, not: NotClaimed) -> ToFront {
    counting::not_claimed(&keeping.paths.counts(), &keeping.plan.name.scope, &not);
    match not {
        NotClaimed::Changed(generation) => ToFront::Changed(generation.0),
        // The front finds the proposal, and refuses or waits as for any other.
        NotClaimed::LookAgain | NotClaimed::Proposed(_) => ToFront::LookAgain,
        NotClaimed::NoPreview(why) => {
            keeping.presenter.complain(&why);
            ToFront::Exit(exit::OWN_FAILURE)
        }
        NotClaimed::Cancelled(Cancelled::Signal(signal)) => ToFront::Die {
            signal,
            group: false,
        },
        NotClaimed::Cancelled(Cancelled::CallerGone) => ToFront::Exit(exit::OWN_FAILURE),
        NotClaimed::CannotFork(why) => {
            keeping
                .presenter
                .complain(&format!("{why}; nothing was run"));
            ToFront::Exit(exit::OWN_FAILURE)
        }
        NotClaimed::Guarded(guarded) => {
            let degraded = match guarded.guard {
                "task" => None,
                _ => fallback(hands, keeping, &guarded.why),
            };
            let (degraded, output) = degraded.unzip();
            let code = keeping.presenter.answer(
                Answer::Guarded {
                    guarded: &guarded,
                    degraded: degraded.as_ref(),
                },
                output.flatten(),
            );
            let wait = guarded.retry_at.map(|at| clock::now().wall.until(at));
            let class = Class::Safe;
            hands.tell_outer(Inner { class, code, wait });
            ToFront::Exit(code)
        }
    }
}

/// Delivers what is left to deliver, says what is to be said, and tells how the front ends.
fn executed_end(
    hands: &mut ProcessHands<'_>,
    keeping: &Keeping<'_>,
    executed: &Executed,
) -> ToFront {
    let session = hands.session();
    let limit = (executed.class == Class::Uncertain).then_some(LAST_FLUSH);
    session.flush(limit);
    let failed = [Stream::Stdout, Stream::Stderr]
        .into_iter()
        .find_map(|stream| match session.mirrors.state(stream) {
            MirrorState::Failed(errno) => Some((stream, errno)),
            _ => None,
        });
    let note = keeping.note.then(say::runner_store);
    let (degraded, answer) = match degrades(executed) {
        true => fallback(hands, keeping, &executed.reason).unzip(),
        false => (None, None),
    };
    let output = match answer {
        Some(answer) => answer,
        None => executed.output.as_ref().and_then(recording_of),
    };
    let code = keeping.presenter.answer(
        Answer::Executed {
            executed,
            note,
            undelivered: failed,
            degraded: degraded.as_ref(),
        },
        output,
    );
    keeping.presenter.complain_all(&survivors(executed));
    match executed.end {
        CallerEnd::Signal { signal, group } if degraded.is_none() => ToFront::Die { signal, group },
        _ => ToFront::Exit(code),
    }
}

/// Whether a failure is one that a fallback stands in for: the other side was in trouble or too slow.
fn degrades(executed: &Executed) -> bool {
    let timed_out = matches!(executed.cut, Some(Cut::Timeout | Cut::Deadline));
    match executed.class {
        Class::Success | Class::Permanent => false,
        Class::Uncertain => timed_out,
        Class::Safe => timed_out || !executed.not_started,
        Class::Retryable | Class::Throttled => executed.cut.is_none() || timed_out,
    }
}

/// Runs `--fallback`, if there is one; what it prints is the answer. The record knows nothing of it.
fn fallback(
    hands: &mut ProcessHands<'_>,
    keeping: &Keeping<'_>,
    why: &str,
) -> Option<(Degraded, Option<Recording>)> {
    let command = keeping.plan.helpers.fallback.as_ref()?;
    if hands.interrupted() {
        return None;
    }
    let context = ChildContext {
        name: &keeping.plan.name,
        token: "",
        generation: Generation(0),
        attempt: 0,
        deadline_unix_ms: None,
        ancestry: &keeping.plan.ancestry,
    };
    let limit = keeping.plan.limits.timeout.unwrap_or(FALLBACK_LIMIT);
    let end = hands.helper(Role::Fallback, command, &context, limit);
    let code = match end.exit {
        Some(Exit::Code(code)) => code,
        Some(Exit::Signal(signal)) => exit::SIGNAL_BASE + signal,
        None => exit::TIMED_OUT,
    };
    let output = recording_of(&end.stdout);
    // Opened, it can be read to its end; by its name nobody needs it.
    hands.discard(&end.stdout);
    Some((
        Degraded {
            why: why.to_owned(),
            code,
        },
        output,
    ))
}

fn survivors(executed: &Executed) -> Vec<String> {
    if executed.survivors.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "these processes could not be ended: {:?}; end them before you run it again",
        executed.survivors
    )]
}

/// The bytes of an output that this process has just recorded.
fn recording_of(output: &NewOutput) -> Option<Recording> {
    match &output.body {
        OutputBody::Nothing => None,
        OutputBody::Inline(bytes) => Some(Recording::from_bytes(bytes.clone())),
        OutputBody::Spooled(path) => File::open(path).ok().map(Recording::from_file),
    }
}

/// The bytes of a stored output; nothing where there is none, or none any more.
pub fn open_output(
    store: &mut Option<AnyStore>,
    output: Option<&OutputRef>,
) -> StoreResult<Option<Recording>> {
    let (Some(store), Some(output)) = (store, output) else {
        return Ok(None);
    };
    Ok(match store.port().open_output(output)? {
        OpenOutput::Inline(bytes) => Some(Recording::from_bytes(bytes)),
        OpenOutput::File(file) => Some(Recording::from_file(file)),
        OpenOutput::Nothing => None,
    })
}

/// A batch's present name, minted on first use.
pub fn batch_name(location: &Location, name: &str) -> StoreResult<String> {
    let mut store = location.open_write()?;
    let mut present = String::new();
    store.port().with_guards(&mut |guards| {
        let found = guards.guard(GuardKind::Batch, name)?;
        present = match found.as_ref().and_then(serde_json::Value::as_str) {
            Some(found) => found.to_owned(),
            None => {
                let minted = crate::domain::name::hex(&random::bytes::<8>());
                guards.set_guard(GuardKind::Batch, name, Some(minted.clone().into()))?;
                minted
            }
        };
        Ok(())
    })?;
    store.close_for_fork()?;
    Ok(present)
}
