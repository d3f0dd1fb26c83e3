//! The lease of a claim: what makes others take its keeper for alive.
//!
//! It is renewed by a thread of the keeper's process over a connection of its own. A keeper that is
//! stopped stops it as well, and so its lease runs out; a keeper that only waits for its command keeps it.

use super::buffer::durable;
use super::fault::Tried;
use super::{CALL_LIMIT, ServerPlace, ServerStore};
use crate::domain::name::Nonce;
use crate::engine::store::{ClaimId, StoreError, StoreResult};
use crate::process::clock;
use crate::process::random;
use crate::process::signal::spawn_deaf_thread;
use crate::store::postgres::Param;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A lease is renewed this often during its length, so that two renewals may be lost.
pub const RENEWALS_A_LEASE: u32 = 3;

/// The pause after a renewal that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Renews the lease of one claim until it is dropped.
#[derive(Debug)]
pub struct Heart {
    stop: Arc<(Mutex<bool>, Condvar)>,
}

impl Heart {
    /// Begins to renew. Fails where no thread can be made.
    pub fn start(place: &ServerPlace, claim: ClaimId) -> io::Result<Heart> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let heart = Heart {
            stop: Arc::clone(&stop),
        };
        let place = place.clone();
        spawn_deaf_thread("lease", move || beat(&place, &claim, &stop))?;
        Ok(heart)
    }
}

/// The thread is not waited for: it may hang on a server that is away. What it still renews is fenced.
impl Drop for Heart {
    fn drop(&mut self) {
        let (stopped, wake) = &*self.stop;
        *stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        wake.notify_all();
    }
}

/// Sleeps; true if it is over.
fn rest(stop: &(Mutex<bool>, Condvar), pause: Duration) -> bool {
    let (stopped, wake) = stop;
    let stopped = stopped.lock().unwrap_or_else(PoisonError::into_inner);
    let woken = wake.wait_timeout_while(stopped, pause, |stopped| !*stopped);
    *woken.unwrap_or_else(PoisonError::into_inner).0
}

fn beat(place: &ServerPlace, claim: &ClaimId, stop: &(Mutex<bool>, Condvar)) {
    let interval = place.lease / RENEWALS_A_LEASE;
    let mut store = ServerStore::unconnected(place);
    let mut pause = interval;
    while !rest(stop, pause) {
        store.until = Instant::now() + interval.max(RETRY_PAUSE);
        pause = match store.renew(claim, false) {
            Ok(Renewed::Lost) => return,
            Ok(_) => interval,
            Err(_) => RETRY_PAUSE.min(interval),
        };
    }
}

/// What became of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renewed {
    /// The lease is as long as ever.
    Yes,
    /// The same, and the standby that must have it as well has not confirmed it.
    Unconfirmed,
    /// The record has moved on, or others have given the claim up.
    Lost,
}

impl ServerStore {
    /// Whether the claim is held, right before something starts under it: the lease may have run out
    /// unseen, since this process or its machine was stopped, or the reply to the claim took so long.
    pub(super) fn hold_on(&mut self, claim: &ClaimId) -> StoreResult<bool> {
        if self.is_fresh() {
            return Ok(true);
        }
        self.begin(CALL_LIMIT);
        let asked_at = clock::since_boot();
        let renewed = self.renew(claim, true);
        match self.told(renewed)? {
            Renewed::Yes => {
                self.held_at = asked_at;
                Ok(true)
            }
            Renewed::Lost => Ok(false),
            Renewed::Unconfirmed => Err(StoreError::Other(format!(
                "{}: its standby has not confirmed that the claim is held",
                self.place()
            ))),
        }
    }

    /// Whether the lease cannot have run out since the server has last acknowledged it.
    pub(super) fn is_fresh(&self) -> bool {
        clock::since_boot().saturating_sub(self.held_at) < self.place.lease / 2
    }

    /// Renews a lease, and the claim's permits. `lasting` waits as a claim does; a renewal that a crash of
    /// the server undoes is the next one's business.
    pub(super) fn renew(&mut self, claim: &ClaimId, lasting: bool) -> Tried<Renewed> {
        let durable = durable(7);
        let sql = self.within(&format!(
            "WITH {durable}, until AS (SELECT clock_timestamp() + make_interval(secs => $1) AS until), \
             own AS (UPDATE @operation SET lease_until = until.until, version = $2 FROM until, durable \
               WHERE scope = $3 AND key = $4 AND generation = $5 AND nonce = $6 AND state = 'running' \
               RETURNING 1), \
             held AS (UPDATE @permit AS p SET until = until.until FROM until \
               WHERE p.nonce = $6 AND EXISTS (SELECT FROM own)) \
             SELECT EXISTS (SELECT FROM own)",
        ));
        let params = [
            Param::Float8(Some(self.lease_seconds())),
            Param::Int8(Some(i64::from_ne_bytes(random::bytes()))),
            Param::Text(Some(claim.name.scope.as_str())),
            Param::Text(Some(claim.name.key.as_str())),
            Param::Int8(Some(claim.generation.0)),
            Param::Bytes(Some(nonce(&claim.nonce))),
            Param::Bool(Some(lasting)),
        ];
        // A renewal can be repeated.
        let held = self.ask(&sql, &params)?.only()?.get(0)?;
        Ok(match (held, self.is_confirmed()) {
            (false, _) => Renewed::Lost,
            (true, true) => Renewed::Yes,
            (true, false) => Renewed::Unconfirmed,
        })
    }
}

fn nonce(nonce: &Nonce) -> &[u8] {
    &nonce.0
}
