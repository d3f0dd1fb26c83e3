//! The process port: what the engine's keeper needs done by processes, clocks and chance.

use super::environment::ChildContext;
use super::store::NewOutput;
use crate::domain::name::{Generation, Nonce};
use crate::domain::outcome::{Cut, Exit};
use crate::domain::owner::{Liveness, OwnerRef};
use crate::domain::record::Record;
use crate::domain::time::Stamp;
use crate::policy::bulkhead::BulkheadSpec;
use crate::policy::nested::Inner;
use crate::policy::outcome::{Control, Sightings};
use std::ffi::OsStr;
use std::time::Duration;

/// Why a claim is not made after all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// The caller is gone.
    CallerGone,
    /// INT, TERM or QUIT (this number) came before anything started.
    Signal(i32),
}

/// How an attempt went.
#[derive(Debug)]
pub struct AttemptEnd {
    /// How it ended.
    pub how: HowEnded,
    /// From the gate's opening to the end.
    pub duration: Duration,
    /// What its output showed to `--retry-on`, `--stop-on` and the classifier.
    pub seen: Sightings,
    /// What it wrote to `IDEM_CONTROL`.
    pub control: Control,
    /// When it ended, by the monotonic clock.
    pub ended: Duration,
    /// The child was killed by a signal while it held the terminal.
    pub held_terminal: bool,
    /// Processes that outlived SIGKILL or could not be signalled.
    pub survivors: Vec<i32>,
}

/// The bare end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HowEnded {
    /// It could not be started.
    NotStarted {
        /// 126 or 127.
        code: i32,
        /// Why, as a lowercase fragment.
        why: String,
    },
    /// The child ended.
    Ended {
        /// Its code or signal.
        exit: Exit,
        /// Why idem ended it, if it did.
        cut: Option<Cut>,
    },
}

/// What a helper is run for, as the caller who waits for it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `--probe`.
    Probe,
    /// `--cleanup`.
    Cleanup,
    /// `--fallback`.
    Fallback,
    /// `--preview`.
    Preview,
}

impl Role {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Role::Probe => "probe",
            Role::Cleanup => "cleanup",
            Role::Fallback => "fallback",
            Role::Preview => "preview",
        }
    }
}

/// What a pause comes before, as the caller who waits is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before<'a> {
    /// An attempt with this number, since the one before it ended so.
    Attempt(u32, &'a str),
    /// The probe is asked again.
    Probe,
    /// The store is asked again for one of so many permits of this bulkhead. The pauses of one wait are
    /// told as one, which [`Hands::waited`] ends.
    Permit(&'a str, u32),
}

/// How a probe, a cleanup or a fallback went.
#[derive(Debug)]
pub struct HelperEnd {
    /// Its exit; none if it could not be started or was ended by idem (a hang, an interrupt).
    pub exit: Option<Exit>,
    /// What it wrote to stdout, recorded like an attempt's output.
    pub stdout: NewOutput,
    /// The first 4 KiB of what it wrote to stdout.
    pub stdout_head: Vec<u8>,
    /// The first 4 KiB of what it wrote to stderr.
    pub stderr_head: Vec<u8>,
    /// Why it did not end by itself, if it did not.
    pub trouble: Option<String>,
}

/// What the keeper's side can do with processes. One implementation runs real ones.
pub trait Hands {
    /// The moment, by wall clock and boot clock.
    fn now(&self) -> Stamp;

    /// The monotonic clock, which stands still while the user has stopped the job.
    fn monotonic(&self) -> Duration;

    /// Uniform in [0, 1).
    fn random(&mut self) -> f64;

    /// A new random token for a record.
    fn mint_token(&mut self) -> String;

    /// The nonce of the claim that this process is about to make.
    fn nonce(&self) -> Nonce;

    /// What is left of a record's owner.
    fn observe(&self, record: &Record) -> Liveness;

    /// Whether the call was called off before its claim.
    fn cancelled(&mut self) -> Option<Cancelled>;

    /// Whether INT, TERM or QUIT was forwarded since the claim, or the caller's loss means the end.
    fn interrupted(&mut self) -> bool;

    /// This process as the owner of a claim, with its child if one is prepared.
    fn owner(&self) -> OwnerRef;

    /// Takes a permit of a bulkhead, waiting until that moment of the monotonic clock. It lasts as long
    /// as the claim's owner or its tree.
    fn permit(&mut self, spec: &BulkheadSpec, auxiliary: bool, until: Option<Duration>) -> bool;

    /// This keeper as the holder of a lease.
    fn holder(&self) -> String;

    /// Whether the holder of a lease on this machine, or anything that it started, still lives.
    fn holder_lives(&self, holder: &str) -> bool;

    /// Forks the next attempt's child behind its gate. The error says why it cannot be, as a fragment.
    fn prepare(&mut self, context: &ChildContext<'_>) -> Result<(), String>;

    /// Gives up a prepared child; nothing of it ran.
    fn abandon(&mut self);

    /// The claim is durable: tells the caller's side.
    fn claimed(&mut self, generation: Generation);

    /// Opens the gate of the prepared child and stays with it to its end. `deadline` is a moment of the
    /// monotonic clock.
    fn attempt(&mut self, number: u32, deadline: Option<Duration>) -> AttemptEnd;

    /// The last attempt's output, durable and ready to be stored.
    fn take_output(&mut self) -> NewOutput;

    /// Runs `sh -c COMMAND` in this role, for at most `limit`.
    fn helper(
        &mut self,
        role: Role,
        command: &OsStr,
        context: &ChildContext<'_>,
        limit: Duration,
    ) -> HelperEnd;

    /// Ends everything that earlier attempts left running; returns what could not be ended.
    fn end_leftovers(&mut self) -> Vec<i32>;

    /// Waits, until the time is over or a signal ends it.
    fn pause(&mut self, delay: Duration, before: Before<'_>);

    /// A wait of several pauses is over.
    fn waited(&mut self);

    /// Runs the preview of a proposal (`sh -c COMMAND`), and keeps what it prints for [`Hands::preview`].
    /// The error says why there is none, as a fragment. Without a command the preview is empty.
    fn take_preview(
        &mut self,
        command: Option<&OsStr>,
        context: &ChildContext<'_>,
        limit: Duration,
    ) -> Result<(), String>;

    /// What the preview printed, once it has been taken.
    fn preview(&self) -> Option<Vec<u8>>;

    /// Lets go of the claim's locks: it is settled, nobody needs to wait any more.
    fn release(&mut self);

    /// Tells an outer call how this one ended.
    fn tell_outer(&mut self, inner: Inner);

    /// Deletes recorded output that nobody refers to.
    fn discard(&mut self, output: &NewOutput);
}
