//! What one call wants, frozen: the meaning of the options, the environment and the defaults.

use super::environment::Ancestor;
use crate::domain::decision::Request;
use crate::domain::name::OpName;
use crate::domain::record::{CommandLine, Source};
use crate::domain::time::Ttl;
use crate::policy::backoff::{Backoff, Jitter};
use crate::policy::breaker::BreakerSpec;
use crate::policy::budget::BudgetSpec;
use crate::policy::bulkhead::BulkheadSpec;
use crate::policy::classify::Selection;
use crate::policy::conditions::{Conditions, SuccessCodes};
use crate::policy::outcome::Rules;
use std::ffi::OsString;
use std::time::Duration;

/// Time limits of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For one attempt.
    pub timeout: Option<Duration>,
    /// For the whole call, as a moment of the monotonic clock.
    pub deadline: Option<Duration>,
    /// From SIGTERM to SIGKILL.
    pub kill_after: Duration,
    /// For each wait: another caller, a permit, an approval.
    pub wait: Option<Duration>,
}

/// How failures are read and tried again.
#[derive(Debug, Clone)]
pub struct RetryPlan {
    /// Further attempts after the first.
    pub retries: u32,
    /// `--retries` was given by the caller.
    pub retries_given: bool,
    /// An outer idem that lives does the retrying.
    pub nested: bool,
    /// Pauses between attempts.
    pub backoff: Backoff,
    /// Their spread.
    pub jitter: Jitter,
    /// `--retry-on`.
    pub retry_on: Option<Conditions>,
    /// `--stop-on`.
    pub stop_on: Option<Conditions>,
    /// `--success-codes`.
    pub success_codes: Option<SuccessCodes>,
    /// `--classifier`.
    pub classifier: Selection,
    /// `--idempotent`.
    pub idempotent: bool,
    /// `--if-unknown rerun`.
    pub rerun_unknown: bool,
}

impl RetryPlan {
    /// What the options say about outcomes.
    pub fn rules(&self) -> Rules {
        Rules {
            stop_on: self.stop_on.clone(),
            retry_on: self.retry_on.clone(),
            success_codes: self.success_codes.clone(),
            retries_given: self.retries_given,
        }
    }
}

/// The caller's own ways of asking and undoing.
#[derive(Debug, Clone, Default)]
pub struct Helpers {
    /// `--probe`.
    pub probe: Option<OsString>,
    /// `--settle`.
    pub settle: Option<Duration>,
    /// `--cleanup`.
    pub cleanup: Option<OsString>,
    /// `--fallback`.
    pub fallback: Option<OsString>,
    /// `--preview`.
    pub preview: Option<OsString>,
    /// `--on-unknown`.
    pub on_unknown: Option<OsString>,
}

/// What protects the things that the command talks to.
#[derive(Debug, Clone, Default)]
pub struct GuardPlan {
    /// `--breaker`.
    pub breaker: Option<BreakerSpec>,
    /// `--bulkhead`.
    pub bulkhead: Option<BulkheadSpec>,
    /// `--budget`.
    pub budget: Option<BudgetSpec>,
    /// The task that this is a step of, whether it was opened or not.
    pub task: Option<String>,
    /// `--auxiliary`.
    pub auxiliary: bool,
}

/// `--stdin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinMode {
    /// The caller's.
    Inherit,
    /// Nothing to read.
    Null,
    /// Read to its end first, then given to every attempt.
    Buffer,
}

/// How the command runs and what is kept of it.
#[derive(Debug, Clone)]
pub struct Running {
    /// The arguments to execute, the command's name first (templates of `--expand` not filled yet).
    pub argv: Vec<OsString>,
    /// `--expand`.
    pub expand: bool,
    /// `--stdin`.
    pub stdin: StdinMode,
    /// `--tty`.
    pub tty: bool,
    /// Bytes of output that are stored at most.
    pub max_output: u64,
    /// `--no-store-output` was not given.
    pub store_output: bool,
    /// `--on-caller-loss kill`.
    pub kill_on_caller_loss: bool,
    /// `--detach`.
    pub detach: bool,
}

/// One call of `idem run`.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The operation.
    pub name: OpName,
    /// The operation's key in the previous period, whose running execution is met first.
    pub previous: Option<OpName>,
    /// What the decision needs to know.
    pub request: Request,
    /// The command as it is recorded.
    pub command: CommandLine,
    /// How it runs.
    pub running: Running,
    /// How long a success is kept.
    pub ttl: Ttl,
    /// How long a failure is kept.
    pub failed_ttl: Ttl,
    /// Time limits.
    pub limits: Limits,
    /// Trying again.
    pub retry: RetryPlan,
    /// Asking and undoing.
    pub helpers: Helpers,
    /// Protection.
    pub guards: GuardPlan,
    /// Who calls.
    pub source: Source,
    /// The claims that this call runs under, outermost first, as far as their keepers live.
    pub ancestry: Vec<Ancestor>,
}
