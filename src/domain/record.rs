//! What the store keeps of an operation.

use super::name::{Fingerprint, Generation, Nonce, OpName};
use super::outcome::{Class, State};
use super::owner::OwnerRef;
use super::time::{Stamp, Ttl, UnixMs};

/// The exact command of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// The arguments, the command's own name first; none where only their digest is kept.
    pub argv: Option<Vec<Vec<u8>>>,
    /// The working directory of the caller.
    pub cwd: Vec<u8>,
}

/// Where a recorded output lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// There is none: nothing was written, it was not to be stored, or it could not be.
    Nowhere,
    /// In the database.
    Inline,
    /// In a spool file beside the database.
    Spool,
}

/// The recorded output of one attempt, probe or resolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputRef {
    /// Where the bytes lie.
    pub place: Place,
    /// The nonce of the claim that recorded it.
    pub nonce: Nonce,
    /// The attempt's number in that claim; 0 for a probe's answer or a person's.
    pub number: u32,
    /// Stored bytes of the standard output.
    pub stdout_bytes: u64,
    /// Stored bytes of the standard error.
    pub stderr_bytes: u64,
    /// The stored copy is shorter than what came.
    pub truncated: bool,
    /// Output came and could not be stored at all.
    pub lost: bool,
}

/// Who made a claim: for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Source {
    /// Name of the machine.
    pub host: String,
    /// Name of the user.
    pub user: String,
    /// The front's process ID.
    pub pid: i32,
    /// Name of the process that called idem.
    pub parent: String,
    /// `IDEM_SOURCE`, if set.
    pub label: Option<String>,
}

/// What an approval is bound to, beyond the operation's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Digest of the exact arguments, whatever the fingerprint is made of.
    pub argv: Fingerprint,
    /// The working directory.
    pub cwd: Vec<u8>,
    /// Digest of the executable or script.
    pub executable: Fingerprint,
}

/// What a person said of a held operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing yet.
    Pending,
    /// It may run once.
    Approved,
    /// It may not run.
    Rejected,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Verdict; 3] = [Verdict::Pending, Verdict::Approved, Verdict::Rejected];

    /// The word used in JSON, in the store and in messages.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Pending => "pending",
            Verdict::Approved => "approved",
            Verdict::Rejected => "rejected",
        }
    }

    /// Reads back what [`Verdict::word`] wrote.
    pub fn from_word(word: &str) -> Option<Verdict> {
        Verdict::ALL.into_iter().find(|v| v.word() == word)
    }
}

/// A held operation's proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// What exactly may run.
    pub identity: Identity,
    /// The preview's output, as far as it is kept.
    pub preview: Vec<u8>,
    /// The decision.
    pub verdict: Verdict,
    /// Who decided: `user@host`.
    pub decided_by: Option<String>,
    /// When.
    pub decided_at: Option<UnixMs>,
    /// The decider's note.
    pub note: Option<String>,
}

/// An operation's record. Text fields are for people; what decisions need is typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Scope and key.
    pub name: OpName,
    /// The stored state; a running one whose owner is gone is unknown to every observer.
    pub state: State,
    /// The fencing token of the latest claim or resolution.
    pub generation: Generation,
    /// The latest claim's nonce.
    pub nonce: Nonce,
    /// The idempotency token handed to the child, the same for every re-execution of this record.
    pub token: String,
    /// The generation that minted the token: attempts since then belong to this record.
    pub minted_by: Generation,
    /// What was asked for.
    pub fingerprint: Fingerprint,
    /// The command, for people and for approvals.
    pub command: CommandLine,
    /// When the record was first made, under the present token.
    pub created_at: UnixMs,
    /// When the present state was entered.
    pub since: Stamp,
    /// How long a success (or a proposal) is kept.
    pub ttl: Ttl,
    /// How long a failure is kept.
    pub failed_ttl: Ttl,
    /// The final attempt's class.
    pub class: Option<Class>,
    /// Why the state is what it is, in a few words.
    pub reason: Option<String>,
    /// The result's exit code; 128+n for a signal.
    pub exit_code: Option<i32>,
    /// Earliest moment at which another try makes sense.
    pub retry_at: Option<UnixMs>,
    /// The result's output.
    pub output: Option<OutputRef>,
    /// Attempts since the token was minted.
    pub attempts: u32,
    /// An attempt started, may have left something half done, and no cleanup has succeeded since.
    pub dirty: bool,
    /// The latest claim's owner; none for what only a person or an import wrote.
    pub owner: Option<OwnerRef>,
    /// The latest claim's caller.
    pub source: Source,
    /// The proposal of a held operation, kept for display after its approval was consumed.
    pub proposal: Option<Proposal>,
    /// Who resolved or decided it: `user@host`.
    pub decided_by: Option<String>,
}

impl Record {
    /// How long the record is kept in its present state; only settled records (and proposals, which
    /// stop being valid then) have a limit.
    pub fn kept_for(&self) -> Ttl {
        match self.state {
            State::Succeeded | State::Held => self.ttl,
            State::Failed => self.failed_ttl,
            State::Running | State::Unknown => Ttl::Forever,
        }
    }

    /// Whether a settled record, or a proposal, has outlived its time.
    pub fn expired(&self, now: &Stamp) -> bool {
        match self.kept_for() {
            Ttl::For(limit) => self.since.age(now) >= limit,
            Ttl::Forever => false,
        }
    }

    /// The wall-clock time of expiry, for people and for the purge index.
    pub fn expires_at(&self) -> Option<UnixMs> {
        self.kept_for()
            .ms()
            .map(|ms| UnixMs(self.since.wall.0.saturating_add(ms)))
    }

    /// Whether this generation is a person's word, and no execution's: what a person only approved has an
    /// owner, whose nonce is the record's.
    pub fn settled_by_person(&self) -> bool {
        let claimed = |owner: &OwnerRef| owner.nonce == self.nonce;
        self.decided_by.is_some() && !self.owner.as_ref().is_some_and(claimed)
    }

    /// When the latest execution ended; none while it runs or is held.
    pub fn settled_at(&self) -> Option<UnixMs> {
        match self.state {
            State::Succeeded | State::Failed | State::Unknown => Some(self.since.wall),
            State::Held | State::Running => None,
        }
    }
}
