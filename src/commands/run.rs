//! `idem run`.

use super::notice::{self, Unknown};
use super::{context, counting, dry_run, keeping};
use crate::cli::exit;
use crate::cli::failure::Listeners;
use crate::cli::layers::Layers;
use crate::cli::present::{Answer, Presenter};
use crate::cli::require;
use crate::cli::say;
use crate::cli::settings::{self, KeySource, Named, Speech, Surroundings};
use crate::cli::words::Words;
use crate::domain::decision::Refusal;
use crate::domain::name::Generation;
use crate::domain::outcome::{Class, State};
use crate::domain::owner::Liveness;
use crate::domain::record::{Identity, Record};
use crate::domain::time::{Stamp, UnixMs};
use crate::engine::claim::FirstLook;
use crate::engine::environment::{ANCESTRY, Ancestor, parse_ancestry};
use crate::engine::event::{EventKind, NewEvent};
use crate::engine::front::{self, Caller, Delegated, WaitEnd};
use crate::engine::ledger;
use crate::engine::plan::{Plan, StdinMode};
use crate::engine::store::{Change, ClaimId, Store, StoreError, StoreResult};
use crate::policy::nested::Inner;
use crate::process::facts::SystemFacts;
use crate::process::front::{KeeperEnd, die_of, split};
use crate::process::identity::identity;
use crate::process::spool::Recording;
use crate::process::stdin::{buffer_stdin, put_in_place};
use crate::process::waiting::{self, ChangeWatch, Patience, wait_for_end};
use crate::process::waiting_line::WaitingLine;
use crate::process::{clock, entry, liveness, outer, proc};
use crate::store::location::{AnyStore, Location};
use anyhow::{Result, anyhow};
use std::collections::HashSet;
use std::io;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why an outcome is unknown whose keeper is not there to say so.
const OWNER_GONE: &str = "whoever ran it is gone";

/// Runs the verb; the error is one line for the user.
pub fn run(words: &Words) -> Result<i32> {
    let started = clock::monotonic();
    attempt(words, started).inspect_err(|error| {
        let took = clock::monotonic().saturating_sub(started);
        Listeners::of(words).tell(None, &format!("{error:#}"), took);
    })
}

fn attempt(words: &Words, started: Duration) -> Result<i32> {
    let env = |name: &str| std::env::var_os(name);
    let around = Surroundings {
        env: &env,
        now: clock::now(),
        monotonic: started,
        ancestry: living_ancestry(),
        cwd: working_directory(),
    };
    let layers = Layers::read(words, &env).map_err(|e| anyhow!(e))?;
    require::check(&layers).map_err(|e| anyhow!(e))?;
    if layers.flag("dry-run") {
        return dry_run::run(&layers, &around);
    }
    let speech = settings::speech(&layers).map_err(|e| anyhow!(e))?;
    let location = context::location(&layers)?;
    let mut batches = |name: &str| keeping::batch_name(&location, name).map_err(|e| e.to_string());
    let spool_dir = super::key::spool_dir(location.path());
    let (named, plan) = understand(&layers, &around, &spool_dir, &mut batches)?;
    let presenter = Presenter::new(&plan, &speech, started);
    // Never closed: the process is about to leave, and a close takes longer than the read did.
    let mut call = ManuallyDrop::new(Call {
        plan: &plan,
        speech: &speech,
        presenter: &presenter,
        location: &location,
        store: None,
        detach: plan.running.detach,
        buffered: false,
        watch: None,
        pauses: ChangeWatch::by_looking(),
        line: WaitingLine::new(speech.quiet),
        lost: None,
    });
    let outcome = front::call(&mut *call, &plan)?;
    counting::outcome(&location, &plan.name.scope, &outcome);
    let derived = named.source == KeySource::Derived;
    let code = finish(&mut call, outcome, derived);
    call.tell_of_lost();
    Ok(code)
}

/// Options to a plan. What was read of stdin to make a key is put back in its place.
pub(super) fn understand(
    layers: &Layers<'_>,
    around: &Surroundings<'_>,
    spool_dir: &Path,
    batches: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Result<(Named, Plan)> {
    let argv = settings::command(layers.words())
        .into_iter()
        .map(std::os::unix::ffi::OsStringExt::into_vec)
        .collect();
    let mut facts = SystemFacts::new(argv, entry::stdin(), spool_dir, batches);
    let named = settings::named(layers, around, &mut facts).map_err(|e| anyhow!(e))?;
    let fingerprint = settings::fingerprint(layers, around, &mut facts).map_err(|e| anyhow!(e))?;
    if let Some(file) = facts.into_spooled_stdin() {
        put_in_place(&file)
            .map_err(|e| anyhow!("stdin cannot be put back: {e}; nothing was run"))?;
    }
    let plan = settings::plan(layers, around, &named, fingerprint).map_err(|e| anyhow!(e))?;
    Ok((named, plan))
}

/// The claims that this process runs under, as far as their keepers live. A server that was started
/// under idem keeps the variable for ever, and that must not count.
fn living_ancestry() -> Vec<Ancestor> {
    let Some(value) = std::env::var_os(ANCESTRY) else {
        return Vec::new();
    };
    let lives = |ancestor: &Ancestor| proc::is_alive(ancestor.keeper).unwrap_or(false);
    parse_ancestry(&value).into_iter().filter(lives).collect()
}

fn working_directory() -> Vec<u8> {
    use std::os::unix::ffi::OsStringExt as _;
    std::env::current_dir()
        .map(|path| path.into_os_string().into_vec())
        .unwrap_or_default()
}

/// One call's dealings with its store and its keeper.
struct Call<'a> {
    plan: &'a Plan,
    speech: &'a Speech,
    presenter: &'a Presenter<'a>,
    location: &'a Location,
    store: Option<AnyStore>,
    detach: bool,
    buffered: bool,
    watch: Option<ChangeWatch>,
    /// For what only a server can tell.
    pauses: ChangeWatch,
    line: WaitingLine,
    /// The claim whose owner this call was the first to find gone.
    lost: Option<ClaimId>,
}

impl Call<'_> {
    fn locks(&self) -> PathBuf {
        match &self.store {
            Some(store) => store.paths().locks.clone(),
            None => self.location.beside("-locks"),
        }
    }

    /// `--stdin buffer`. The front reads, since only it is in the terminal's foreground.
    fn buffer_stdin(&mut self, dir: &Path) -> StoreResult<()> {
        if self.plan.running.stdin != StdinMode::Buffer || self.buffered {
            return Ok(());
        }
        self.buffered = true;
        buffer_stdin(dir).map_err(|e| {
            StoreError::Other(format!(
                "stdin could not be read to its end: {e}; nothing was run"
            ))
        })
    }

    /// Tells `--on-unknown` of the owner that was found gone.
    fn tell_of_lost(&mut self) {
        if let (Some(claim), Some(command)) = (self.lost.take(), &self.plan.helpers.on_unknown) {
            self.drop_store();
            let unknown = Unknown {
                command: command.clone(),
                claim,
                reason: OWNER_GONE.to_owned(),
            };
            notice::tell_in_background(unknown, self.location.clone());
        }
    }

    /// Waiting keeps no connection to an embedded store: its read mark would keep the log from being
    /// folded in.
    fn rest_store(&mut self) {
        if !self.location.is_shared() {
            self.drop_store();
        }
    }

    /// Nothing that is open may be carried across a fork.
    fn drop_store(&mut self) {
        if let Some(store) = self.store.take() {
            // A connection for reading has nothing to lose.
            let _ = store.close_for_fork();
        }
    }
}

impl Caller for Call<'_> {
    type Execution = KeeperEnd;

    fn store(&mut self) -> StoreResult<Option<&mut dyn Store>> {
        if self.store.is_none() {
            self.store = self.location.open_read()?;
        }
        Ok(self.store.as_mut().map(AnyStore::port))
    }

    fn now(&self) -> Stamp {
        clock::now()
    }

    fn monotonic(&self) -> Duration {
        clock::monotonic()
    }

    fn observe(&mut self, record: &Record) -> Liveness {
        match &record.owner {
            Some(owner) => liveness::observe(owner, &self.locks(), &HashSet::new()),
            None => Liveness::Gone,
        }
    }

    fn wait(&mut self, record: &Record, liveness: &Liveness, until: Option<Duration>) -> WaitEnd {
        let Some(owner) = &record.owner else {
            return WaitEnd::LookAgain;
        };
        let locks = self.locks();
        self.rest_store();
        let line = &mut self.line;
        let mut tell = || line.tell(|_| say::waits_for_caller(record, liveness, &clock::now()));
        let patience = &mut Patience::new(left(until)).telling(&mut tell);
        let end = wait_for_end(owner, liveness, &locks, &mut self.pauses, patience);
        self.line.erase();
        front_end(end)
    }

    fn wait_for_change(&mut self, record: &Record, until: Option<Duration>) -> WaitEnd {
        let locks = self.locks();
        self.rest_store();
        let watch = match &mut self.watch {
            _ if self.location.is_shared() => &mut self.pauses,
            Some(watch) => watch,
            None => {
                return match ChangeWatch::begin(&locks) {
                    Ok(watch) => {
                        self.watch = Some(watch);
                        WaitEnd::LookAgain
                    }
                    Err(_) => WaitEnd::TimedOut,
                };
            }
        };
        let line = &mut self.line;
        let mut tell = || line.tell(|_| say::waits_for_approval(record, &clock::now()));
        let end = watch.wait(&mut Patience::new(left(until)).telling(&mut tell));
        self.line.erase();
        front_end(end)
    }

    fn identity(&mut self) -> Identity {
        identity(&self.plan.running.argv, &self.plan.command.cwd)
    }

    fn note_owner_lost(&mut self, record: &Record) {
        self.drop_store();
        let generation = record.generation;
        let at = clock::now();
        let mut first = false;
        // Who cannot write sees the same by looking, so a failure changes nothing.
        let noted = self.location.open_write().and_then(|mut store| {
            store.port().change(&self.plan.name, &mut |found| {
                first = found.is_some_and(|found| {
                    found.generation == generation && found.state == State::Running
                });
                if first {
                    owner_lost(&at)
                } else {
                    Change::Leave
                }
            })
        });
        if first && noted.is_ok() {
            self.lost = Some(ClaimId {
                name: self.plan.name.clone(),
                generation,
                nonce: record.nonce,
            });
        }
    }

    fn delegate(&mut self, first: FirstLook) -> StoreResult<Delegated<KeeperEnd>> {
        self.drop_store();
        let paths = self.location.prepare()?;
        self.buffer_stdin(paths.directory())?;
        let keeping = keeping::Keeping {
            plan: self.plan,
            speech: self.speech,
            presenter: self.presenter,
            paths,
            first,
            front_pid: std::process::id().cast_signed(),
            parent_pid: std::os::unix::process::parent_id().cast_signed(),
            location: self.location,
            note: self
                .location
                .is_default()
                .then(|| std::env::var_os("CI"))
                .flatten()
                .is_some(),
        };
        let end = split(self.detach, keeping, keeping::keep).map_err(|e| {
            StoreError::Other(format!(
                "no process could be made: {e}; nothing was run, try again"
            ))
        })?;
        Ok(match end {
            KeeperEnd::Changed(generation) => Delegated::Changed(Generation(generation)),
            KeeperEnd::LookAgain => Delegated::LookAgain,
            end => Delegated::Ended(end),
        })
    }
}

fn left(until: Option<Duration>) -> Option<Duration> {
    until.map(|until| until.saturating_sub(clock::monotonic()))
}

fn front_end(end: io::Result<waiting::WaitEnd>) -> WaitEnd {
    match end {
        Ok(waiting::WaitEnd::OwnerGone) => WaitEnd::LookAgain,
        // What cannot be watched is not waited for: the caller is told that it is still running.
        Ok(waiting::WaitEnd::TimedOut) | Err(_) => WaitEnd::TimedOut,
    }
}

fn owner_lost(at: &Stamp) -> Change {
    Change::OwnerLost {
        at: at.clone(),
        reason: OWNER_GONE.to_owned(),
        events: vec![NewEvent {
            at: at.wall,
            kind: EventKind::OwnerLost,
            attempt: None,
            detail: ledger::because(OWNER_GONE),
        }],
    }
}

/// Presents the outcome, tells an outer call, and returns the exit code, or dies of a signal.
fn finish(call: &mut Call<'_>, outcome: front::Outcome<KeeperEnd>, derived: bool) -> i32 {
    let told = class_for_outer(&outcome);
    let code = present(call, outcome, derived);
    if let Some((class, retry_at)) = told {
        let wait = retry_at.map(|at| clock::now().wall.until(at));
        outer::tell(&call.plan.ancestry, Inner { class, code, wait });
    }
    code
}

/// What an outer call is told of an outcome that no keeper of this call has told it of.
fn class_for_outer(outcome: &front::Outcome<KeeperEnd>) -> Option<(Class, Option<UnixMs>)> {
    let settled = |state, class: Option<Class>| match state {
        State::Succeeded => Class::Success,
        State::Failed => class.unwrap_or(Class::Permanent),
        State::Running | State::Unknown | State::Held => Class::Uncertain,
    };
    match outcome {
        front::Outcome::Executed(KeeperEnd::Lost { .. }) => Some((Class::Uncertain, None)),
        front::Outcome::Executed(_) | front::Outcome::Skipped | front::Outcome::UnderWay { .. } => {
            None
        }
        front::Outcome::Refused { refusal, .. } => Some((refusal_class(*refusal), None)),
        front::Outcome::Replayed { record, .. } | front::Outcome::Waited { record } => {
            Some((settled(record.state, record.class), record.retry_at))
        }
        front::Outcome::WaitedPast { result } => Some((settled(result.state, result.class), None)),
    }
}

/// Whether what was refused may happen behind the caller's back, or has happened.
fn refusal_class(refusal: Refusal) -> Class {
    match refusal {
        Refusal::StillRunning | Refusal::Unknown => Class::Uncertain,
        Refusal::NeedsApproval | Refusal::Rejected | Refusal::ProposalExpired => Class::Safe,
        Refusal::Mismatch | Refusal::OwnAncestry => Class::Permanent,
    }
}

fn present(call: &mut Call<'_>, outcome: front::Outcome<KeeperEnd>, derived: bool) -> i32 {
    let presenter = call.presenter;
    match outcome {
        front::Outcome::Executed(end) => ended(presenter, end),
        front::Outcome::Skipped => presenter.answer(Answer::Skipped, None),
        front::Outcome::UnderWay { generation } => {
            presenter.answer(Answer::Detached(generation), None)
        }
        front::Outcome::Refused {
            refusal,
            name,
            record,
            pids,
            waited,
        } => {
            let answer = Answer::Refused {
                refusal,
                name: &name,
                record: record.as_deref(),
                pids: &pids,
                waited,
            };
            presenter.answer(answer, None)
        }
        front::Outcome::Replayed {
            record,
            old_failure,
        } => {
            let output = keeping::open_output(&mut call.store, record.output.as_ref());
            let answer = Answer::Replayed {
                record: &record,
                old_failure,
                derived,
            };
            hand_out(presenter, answer, output)
        }
        front::Outcome::Waited { record } => {
            let output = match call.store() {
                Ok(_) => keeping::open_output(&mut call.store, record.output.as_ref()),
                Err(error) => Err(error),
            };
            hand_out(presenter, Answer::Waited { record: &record }, output)
        }
        front::Outcome::WaitedPast { result } => {
            let output = keeping::open_output(&mut call.store, result.output.as_ref());
            hand_out(presenter, Answer::WaitedPast { result: &result }, output)
        }
    }
}

/// An output that is there and cannot be read at this moment must not pass for an empty one.
fn hand_out(
    presenter: &Presenter<'_>,
    answer: Answer<'_>,
    output: StoreResult<Option<Recording>>,
) -> i32 {
    match output {
        Ok(output) => presenter.answer(answer, output),
        Err(error) => presenter.undeliverable(&answer, &error.to_string()),
    }
}

fn ended(presenter: &Presenter<'_>, end: KeeperEnd) -> i32 {
    match end {
        KeeperEnd::Exit(code) => code,
        KeeperEnd::Detached(generation) => {
            presenter.answer(Answer::Detached(Generation(generation)), None)
        }
        KeeperEnd::Die { signal, group } => {
            die_of(signal, group);
            exit::SIGNAL_BASE + signal
        }
        KeeperEnd::Lost { claimed } => presenter.answer(Answer::KeeperLost { claimed }, None),
        // The front has gone on after these.
        KeeperEnd::Changed(_) | KeeperEnd::LookAgain => exit::OWN_FAILURE,
    }
}
