//! The store port: what the engine and the verbs need of a store, whichever it is.
//!
//! Every change is one short transaction. Nothing here stays open while a child runs. A change that
//! depends on what it finds gets a closure, which the store may call more than once (an optimistic
//! store tries again after a lost race), so closures must have no other effect.

use super::event::{Event, NewEvent};
use crate::domain::name::{Fingerprint, Generation, Nonce, OpName, Scope};
use crate::domain::outcome::{Class, State};
use crate::domain::owner::{OwnerRef, ProcessRef};
use crate::domain::record::{CommandLine, OutputRef, Place, Proposal, Record, Source};
use crate::domain::time::{Stamp, Ttl, UnixMs};
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What can go wrong with a store. The text says which file or server, and what to do next.
#[derive(Debug)]
pub enum StoreError {
    /// The store's place cannot be used: permissions, a symbolic link, no such directory.
    Place(String),
    /// It is not a store of idem's, or it is damaged.
    Foreign(String),
    /// It was written by a newer version.
    Newer {
        /// The schema found.
        found: i64,
        /// The newest schema that this version knows.
        known: i64,
        /// The store.
        store: String,
    },
    /// Another process kept it busy for too long.
    Busy(String),
    /// There is no room left.
    Full(String),
    /// It can be read and not written.
    ReadOnly(String),
    /// Its server cannot be reached, or went away.
    Unreachable(String),
    /// Anything else that the store's library or the system said.
    Other(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Newer {
                found,
                known,
                store,
            } => write!(
                f,
                "{store} was written by a newer idem (schema {found}, this one knows {known}); upgrade idem"
            ),
            StoreError::Place(text)
            | StoreError::Foreign(text)
            | StoreError::Busy(text)
            | StoreError::Full(text)
            | StoreError::ReadOnly(text)
            | StoreError::Unreachable(text)
            | StoreError::Other(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for StoreError {}

/// Short for what store calls return.
pub type StoreResult<T> = Result<T, StoreError>;

/// The kinds of named guards that live in the store; a guard's state is one JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GuardKind {
    /// A breaker's state.
    Breaker,
    /// A retry budget's bucket.
    Budget,
    /// A task.
    Task,
    /// A batch's random name.
    Batch,
    /// A counter of the statistics.
    Counter,
}

impl GuardKind {
    /// The word used in the store.
    pub fn word(self) -> &'static str {
        match self {
            GuardKind::Breaker => "breaker",
            GuardKind::Budget => "budget",
            GuardKind::Task => "task",
            GuardKind::Batch => "batch",
            GuardKind::Counter => "counter",
        }
    }
}

/// Named guards inside a transaction.
pub trait Guards {
    /// A guard's state, if it exists.
    fn guard(&mut self, kind: GuardKind, name: &str) -> StoreResult<Option<Value>>;
    /// Writes a guard's state, or deletes it.
    fn set_guard(&mut self, kind: GuardKind, name: &str, state: Option<Value>) -> StoreResult<()>;
    /// The record of another operation, which tells whether its owner lives. Only stores that several
    /// machines share are asked.
    fn record_of(&mut self, _name: &OpName) -> StoreResult<Option<Record>> {
        Ok(None)
    }
}

/// Whether a claim keeps the record's token or starts a record of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenChoice {
    /// A re-execution of the same record; an error where there is none. The outputs of its earlier
    /// claims stay (a store may bound from how many).
    Keep,
    /// A new record: `created_at`, `minted_by` and `attempts` start anew, and all earlier outputs go.
    Mint(String),
}

/// What a claim and a proposal write alike: the record's new generation.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRecord {
    /// The generation's random name.
    pub nonce: Nonce,
    /// Keep or mint.
    pub token: TokenChoice,
    /// What was asked for.
    pub fingerprint: Fingerprint,
    /// The command.
    pub command: CommandLine,
    /// How long a success is kept; for a proposal, how long it is valid.
    pub ttl: Ttl,
    /// How long a failure is kept.
    pub failed_ttl: Ttl,
    /// Who called.
    pub source: Source,
    /// Something half done may be left: by the attempt that starts, or by an earlier one, of whichever
    /// command, that no cleanup has followed. What is approved later finds it.
    pub dirty: bool,
    /// When.
    pub at: Stamp,
    /// Written to the ledger in the same transaction.
    pub events: Vec<NewEvent>,
}

/// A claim to be written (state running). It gets the next generation.
#[derive(Debug, Clone, PartialEq)]
pub struct NewClaim {
    /// What it shares with a proposal.
    pub record: NewRecord,
    /// Who owns it.
    pub owner: OwnerRef,
    /// An attempt starts with this claim, so it counts. Without it a probe or a cleanup comes first.
    pub starts_attempt: bool,
}

/// A proposal to be recorded for a person to decide (state held). It gets the next generation.
#[derive(Debug, Clone, PartialEq)]
pub struct NewProposal {
    /// What it shares with a claim.
    pub record: NewRecord,
    /// What a person decides about.
    pub proposal: Proposal,
}

/// What a claiming transaction does, as its closure decides.
#[derive(Debug, Clone, PartialEq)]
pub enum Claiming {
    /// Write this claim.
    Claim(Box<NewClaim>),
    /// Write this proposal.
    Propose(Box<NewProposal>),
    /// Leave the record, keep what the closure wrote to the guards, and note why in the ledger (under
    /// the generation found, or 0 where there is no record).
    Refuse {
        /// Written to the ledger in the same transaction.
        events: Vec<NewEvent>,
    },
    /// Leave everything as it is, guards included.
    Leave,
}

/// Names a claim that is held, for fenced changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimId {
    /// The operation.
    pub name: OpName,
    /// Its generation.
    pub generation: Generation,
    /// Its nonce.
    pub nonce: Nonce,
}

/// Recorded output on its way into the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOutput {
    /// The attempt's number; 0 for a probe's answer or a person's.
    pub number: u32,
    /// The bytes, or the file that has them (already durable and under its final name).
    pub body: OutputBody,
    /// Stored bytes of the standard output.
    pub stdout_bytes: u64,
    /// Stored bytes of the standard error.
    pub stderr_bytes: u64,
    /// The stored copy is shorter than what came.
    pub truncated: bool,
    /// Output came and could not be stored at all.
    pub lost: bool,
}

impl NewOutput {
    /// What a record says of it, once its claim's nonce and its place are known.
    pub fn stored(&self, nonce: Nonce, place: Place) -> OutputRef {
        OutputRef {
            place,
            nonce,
            number: self.number,
            stdout_bytes: self.stdout_bytes,
            stderr_bytes: self.stderr_bytes,
            truncated: self.truncated,
            lost: self.lost,
        }
    }
}

/// Where recorded bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputBody {
    /// Nothing was recorded.
    Nothing,
    /// In memory, framed.
    Inline(Vec<u8>),
    /// In this spool file, framed.
    Spooled(PathBuf),
}

/// How an execution ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Settlement {
    /// The new state.
    pub state: State,
    /// The final attempt's class.
    pub class: Option<Class>,
    /// Why, in a few words.
    pub reason: Option<String>,
    /// The result's exit code; 128+n for a signal.
    pub exit_code: Option<i32>,
    /// Earliest moment at which another try makes sense.
    pub retry_at: Option<UnixMs>,
    /// The result's output.
    pub output: Option<NewOutput>,
    /// Whether a re-execution needs the cleanup first.
    pub dirty: bool,
    /// When.
    pub at: Stamp,
    /// Written to the ledger in the same transaction.
    pub events: Vec<NewEvent>,
}

/// What became of a fenced change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fenced {
    /// It is written, now or by an earlier try of the same claim.
    Done,
    /// The record has moved on to another generation, or is gone; nothing was changed.
    Superseded,
    /// The store's server is away. The settlement is durable in a file of this machine, and is delivered
    /// by whoever uses that server from here next, if the fence still lets it through.
    Deferred {
        /// Why it could not be written.
        why: String,
    },
}

/// What is asked of a bulkhead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermitWish<'a> {
    /// The bulkhead's name.
    pub bulkhead: &'a str,
    /// How many permits it has.
    pub permits: u32,
    /// The call gives way to others: see [`crate::policy::bulkhead::enough`].
    pub auxiliary: bool,
    /// The claim to be, which holds it.
    pub nonce: Nonce,
}

/// Whether there is a permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// It is taken, until the claim is settled, is given up, or loses its lease.
    Taken,
    /// None is free now.
    NoneFree,
    /// The store is one machine's, whose kernel keeps the permits.
    OfThisMachine,
}

/// A step inside an execution that the ledger and the record learn of at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// One more attempt starts.
    pub starts_attempt: bool,
    /// The attempt's process ID and start time, which replace those in the record's owner.
    pub child: Option<ProcessRef>,
    /// The record's new `dirty`, if it changes.
    pub dirty: Option<bool>,
    /// The output of an attempt that is not the last.
    pub output: Option<NewOutput>,
    /// Written to the ledger in the same transaction.
    pub events: Vec<NewEvent>,
    /// Must be on disk before the call returns (what starts next may not be forgotten).
    pub durable: bool,
}

/// A person's or an import's word about an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolution {
    /// The new state.
    pub state: State,
    /// The class that goes with it.
    pub class: Option<Class>,
    /// Why, in a few words.
    pub reason: Option<String>,
    /// The exit code to replay.
    pub exit_code: Option<i32>,
    /// The output to replay.
    pub output: Option<NewOutput>,
    /// A new nonce: names the output, and fences the old keeper.
    pub nonce: Nonce,
    /// `user@host`.
    pub decided_by: String,
    /// When.
    pub at: Stamp,
    /// Written to the ledger in the same transaction.
    pub events: Vec<NewEvent>,
}

/// What a person's change does, as its closure decides from the record that it finds.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Settle it; takes a new generation.
    Resolve(Box<Resolution>),
    /// Decide a proposal; the generation stays.
    Decide {
        /// The proposal with its verdict.
        proposal: Box<Proposal>,
        /// Written to the ledger in the same transaction.
        events: Vec<NewEvent>,
    },
    /// Delete the record with its outputs; its ledger stays.
    Forget {
        /// Written to the ledger in the same transaction.
        events: Vec<NewEvent>,
    },
    /// A running record whose owner was found gone becomes unknown; fenced by the generation found.
    OwnerLost {
        /// When.
        at: Stamp,
        /// Why, in a few words.
        reason: String,
        /// Written to the ledger in the same transaction.
        events: Vec<NewEvent>,
    },
    /// Leave everything as it is.
    Leave,
}

/// A record from elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Import {
    /// The record. Its generations are not used, nor is its output or an owner; its nonce must be new.
    pub record: Record,
    /// Its output.
    pub output: Option<NewOutput>,
    /// A record of the same name is replaced, unless it is running.
    pub overwrite: bool,
    /// When.
    pub at: UnixMs,
    /// Written to the ledger in the same transaction, with an `imported` event added if it is missing.
    pub events: Vec<NewEvent>,
}

/// What became of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Imported {
    /// It was not there.
    Added,
    /// Another one had its name, and is gone.
    Replaced,
    /// Another one has its name, and stays; nothing was changed.
    Kept,
}

/// Which records a list shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// Only keys that match this glob (`*`, `?`, `[a-z]`, matched against the whole key).
    pub glob: Option<String>,
    /// Only this scope; none for all.
    pub scope: Option<Scope>,
    /// Only keys of this task (`T/…`).
    pub task: Option<String>,
    /// Only these stored states; empty for all.
    pub states: Vec<State>,
    /// Only records whose state was entered at or after this.
    pub since: Option<UnixMs>,
    /// At most this many, newest first.
    pub limit: Option<u32>,
}

/// How an earlier generation ended: for waiters whose record has moved on.
#[derive(Debug, Clone, PartialEq)]
pub struct PastResult {
    /// The generation asked for.
    pub generation: Generation,
    /// Its final state.
    pub state: State,
    /// Its class.
    pub class: Option<Class>,
    /// Why.
    pub reason: Option<String>,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// Its output.
    pub output: Option<OutputRef>,
    /// When it ended.
    pub settled_at: UnixMs,
}

/// A recorded output opened for reading.
#[derive(Debug)]
pub enum OpenOutput {
    /// There is none.
    Nothing,
    /// In memory, framed.
    Inline(Vec<u8>),
    /// A spool file, framed, positioned at its start.
    File(std::fs::File),
}

/// What a claiming transaction shows to the closure that decides.
pub struct Claimable<'a> {
    /// The record found.
    pub record: Option<&'a Record>,
    /// The generation that a claim or a proposal would get: the child's environment has it.
    pub generation: Generation,
    /// The named guards, in the same transaction.
    pub guards: &'a mut dyn Guards,
}

/// Decides inside a claiming transaction.
pub type DecideClaim<'a> = dyn FnMut(Claimable<'_>) -> StoreResult<Claiming> + 'a;

/// The store, as the engine and the verbs see it.
pub trait Store {
    /// The record of an operation. Takes no lock that anyone waits for and writes nothing.
    fn find(&mut self, name: &OpName) -> StoreResult<Option<Record>>;

    /// Reads the record under the exclusive right to change it, lets `decide` say what to do, and does
    /// it durably. Returns the record as written, or as found if it was left.
    fn claim(
        &mut self,
        name: &OpName,
        decide: &mut DecideClaim<'_>,
    ) -> StoreResult<(Claimed, Option<Record>)>;

    /// Notes a step of a held claim. Fenced: generation and nonce match and the state is running, or
    /// unknown for a step that starts no attempt (observers gave the claim up, so nothing new starts).
    /// `attempt_ended` events of the step's output get its place as their `output`.
    fn step(&mut self, claim: &ClaimId, step: &Step) -> StoreResult<Fenced>;

    /// Whether a claim still keeps everybody else away: asked right before something starts under it. A
    /// store whose claims have leases renews one that may have run out, for instance because the machine
    /// slept since the claim was made.
    fn still_holds(&mut self, _claim: &ClaimId) -> StoreResult<bool> {
        Ok(true)
    }

    /// Ends an execution durably. Fenced: generation and nonce match and the state is running or
    /// unknown. Repeating one's own settle is `Done` and changes nothing, also after the record has moved
    /// on. `guards` runs in the same transaction, only if the fence let it through. The `settled` event (added if it is missing) gets
    /// what [`Store::past_result`] tells; a superseded settle leaves a `superseded` event instead.
    /// A store on a server that is away tries for a while, and then may defer it, without its guards.
    fn settle(
        &mut self,
        claim: &ClaimId,
        settlement: &Settlement,
        guards: &mut dyn FnMut(&mut dyn Guards) -> StoreResult<()>,
    ) -> StoreResult<Fenced>;

    /// A person's change: reads the record, lets `decide` say what to do, and does it durably.
    /// Returns the record as found. Nothing changes where there is no record, where `Decide` finds
    /// none that is held, or `OwnerLost` none that is running.
    fn change(
        &mut self,
        name: &OpName,
        decide: &mut dyn FnMut(Option<&Record>) -> Change,
    ) -> StoreResult<Option<Record>>;

    /// Changes named guards in one transaction, durably.
    fn with_guards(
        &mut self,
        body: &mut dyn FnMut(&mut dyn Guards) -> StoreResult<()>,
    ) -> StoreResult<()>;

    /// The records that a filter lets through, newest first.
    fn list(&mut self, filter: &Filter) -> StoreResult<Vec<Record>>;

    /// The names of the records that a filter lets through, newest first: for those who look at one after
    /// the other.
    fn names(&mut self, filter: &Filter) -> StoreResult<Vec<OpName>>;

    /// Writes a record from elsewhere durably, under a new generation that also counts as the one that
    /// minted its token. Repeating an import without `overwrite` changes nothing.
    fn import(&mut self, import: &Import) -> StoreResult<Imported>;

    /// How many records there are of each stored state in each scope.
    fn count_states(&mut self) -> StoreResult<Vec<(Scope, State, u64)>>;

    /// All guards of a kind with their states, by name.
    fn list_guards(&mut self, kind: GuardKind) -> StoreResult<Vec<(String, Value)>>;

    /// The ledger: of one operation or of all, after a position, oldest first, at most `limit`.
    fn events(
        &mut self,
        name: Option<&OpName>,
        after_id: i64,
        limit: u32,
    ) -> StoreResult<Vec<Event>>;

    /// How an earlier generation of an operation ended, if that is still known.
    fn past_result(
        &mut self,
        name: &OpName,
        generation: Generation,
    ) -> StoreResult<Option<PastResult>>;

    /// Opens a recorded output. `Nothing` also if it has been purged meanwhile: read the record again.
    fn open_output(&mut self, output: &OutputRef) -> StoreResult<OpenOutput>;

    /// Takes a permit of a bulkhead that several machines share, if one is free.
    fn permit(&mut self, _wish: &PermitWish<'_>) -> StoreResult<Permit> {
        Ok(Permit::OfThisMachine)
    }

    /// Gives back what [`Store::permit`] took for a claim that was not made.
    fn give_back_permit(&mut self, _nonce: &Nonce) -> StoreResult<()> {
        Ok(())
    }

    /// Deletes at most `limit` expired settled records with their outputs (each leaves a `forgotten`
    /// event), and some ledger lines: those older than `keep_events` whose record is gone for as long.
    /// Costs a read where there is nothing to do.
    fn purge(&mut self, now: &Stamp, limit: u32, keep_events: Duration) -> StoreResult<Purged>;
}

/// What a batch of purging did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purged {
    /// Records that went.
    pub records: u32,
    /// Lines of the ledger that went.
    pub lines: u32,
    /// Another batch may find more.
    pub more: bool,
}

/// What a claiming transaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// The claim is durable and mine.
    Won,
    /// The proposal is durable.
    Proposed,
    /// Nothing was changed.
    Left,
}
