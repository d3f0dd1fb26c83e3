//! The lease of a claim: what makes others take its keeper for alive.
//!
//! It is renewed by a thread of the keeper's process over a connection of its own. A keeper that is
//! stopped stops it as well, and so its lease runs out; a keeper that only waits for its command keeps it.

use super::fault::Tried;
use super::{ServerPlace, ServerStore};
use crate::domain::name::Nonce;
use crate::engine::store::ClaimId;
use crate::process::random;
use crate::process::signal::spawn_deaf_thread;
use crate::store::postgres::Param;
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
    /// Begins to renew.
    pub fn start(place: &ServerPlace, claim: ClaimId) -> Heart {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let heart = Heart {
            stop: Arc::clone(&stop),
        };
        let place = place.clone();
        // Without the thread the lease runs out, and the result is recorded all the same.
        let _ = spawn_deaf_thread("lease", move || beat(&place, &claim, &stop));
        heart
    }
}

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
        pause = match store.renew(claim) {
            Ok(true) => interval,
            // The record has moved on, or others have given the claim up.
            Ok(false) => return,
            Err(_) => RETRY_PAUSE.min(interval),
        };
    }
}

impl ServerStore {
    /// Renews a lease, and the claim's permits; false if the claim is no longer the running one.
    pub(super) fn renew(&mut self, claim: &ClaimId) -> Tried<bool> {
        let sql = self.within(
            "WITH until AS (SELECT clock_timestamp() + make_interval(secs => $1) AS until), \
             own AS (UPDATE @operation SET lease_until = until.until, version = $2 FROM until \
               WHERE scope = $3 AND key = $4 AND generation = $5 AND nonce = $6 AND state = 'running' \
               RETURNING 1), \
             held AS (UPDATE @permit AS p SET until = until.until FROM until \
               WHERE p.nonce = $6 AND EXISTS (SELECT FROM own)) \
             SELECT EXISTS (SELECT FROM own)",
        );
        let params = [
            Param::Float8(Some(self.lease_seconds())),
            Param::Int8(Some(i64::from_ne_bytes(random::bytes()))),
            Param::Text(Some(claim.name.scope.as_str())),
            Param::Text(Some(claim.name.key.as_str())),
            Param::Int8(Some(claim.generation.0)),
            Param::Bytes(Some(nonce(&claim.nonce))),
        ];
        // A renewal can be repeated.
        Ok(self.ask(&sql, &params)?.only()?.get(0)?)
    }
}

fn nonce(nonce: &Nonce) -> &[u8] {
    &nonce.0
}
