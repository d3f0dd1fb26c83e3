//! `--on-unknown`: somebody is told of an outcome that has become unknown.

use crate::engine::environment::notice_environment;
use crate::engine::event::{EventKind, NewEvent};
use crate::engine::ledger;
use crate::engine::store::{ClaimId, Step, StoreResult};
use crate::process::{clock, leaving, notice};
use crate::store::location::Location;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How long the telling may take.
const LIMIT: Duration = Duration::from_secs(30);

/// A new unknown, and how somebody is told of it.
#[derive(Debug)]
pub struct Unknown {
    /// The shell command.
    pub command: OsString,
    /// Whose outcome it is.
    pub claim: ClaimId,
    /// Why it is unknown.
    pub reason: String,
}

/// Runs the command and notes in the ledger how it went. The caller has been answered.
pub fn tell(
    unknown: &Unknown,
    pipes: &mut Vec<OwnedFd>,
    note: impl FnOnce(Step) -> StoreResult<()>,
) {
    let env = notice_environment(
        std::env::vars_os(),
        &unknown.claim.name,
        unknown.claim.generation,
        &unknown.reason,
    );
    let end = notice::run(&unknown.command, &env, LIMIT, pipes);
    let event = NewEvent {
        at: clock::now().wall,
        kind: EventKind::Told,
        attempt: None,
        detail: ledger::told(&unknown.command, &end),
    };
    let step = Step {
        starts_attempt: false,
        child: None,
        dirty: None,
        output: None,
        events: vec![event],
        durable: false,
    };
    // There is nobody left to tell that this could not be noted.
    let _ = note(step);
}

/// The same in a process of its own, for a caller that must not wait for it. No store may be open.
pub fn tell_in_background(unknown: Unknown, location: Location) {
    // Who cannot fork has lost the notice, not the answer; the record shows the unknown all the same.
    let _ = notice::in_background((unknown, location), |(unknown, location)| {
        tell(&unknown, &mut Vec::new(), |step| {
            let mut store = location.open_write()?;
            store.port().step(&unknown.claim, &step).map(drop)
        });
        leaving::leave(0, Vec::new())
    });
}
