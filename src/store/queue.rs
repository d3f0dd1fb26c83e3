//! A queue of writers: an advisory lock on a file, held around each write transaction.
//!
//! It is a courtesy. SQLite's own lock is what keeps transactions apart; a crowd that polls that one
//! spends its time asleep, and a crowd that takes turns here does not. So a turn that does not come
//! in time (its holder is stopped, say) is no error: the writer goes on without it.

use std::fs::{File, TryLockError};
use std::time::{Duration, Instant};

/// The lock file, opened. The lock is `flock`'s: it is a matter of the open file description and
/// knows nothing of the record locks that lie on bytes of the same file.
#[derive(Debug)]
pub struct Queue {
    file: File,
}

/// A writer's turn; it ends when this is dropped.
#[derive(Debug)]
pub struct Turn<'q> {
    held: Option<&'q File>,
}

impl Queue {
    /// Queues on this file.
    pub fn new(file: File) -> Queue {
        Queue { file }
    }

    /// Waits for a turn, at most this long, then goes on without.
    pub fn enter(&self, limit: Duration) -> Turn<'_> {
        let mut started = None;
        loop {
            match self.file.try_lock() {
                Ok(()) => break Turn::of(&self.file),
                Err(TryLockError::Error(_)) => break Turn { held: None },
                Err(TryLockError::WouldBlock) => {}
            }
            if started.get_or_insert_with(Instant::now).elapsed() >= limit {
                break Turn { held: None };
            }
            pause(PAUSE_US);
        }
    }

    /// A turn, if it is free at this moment.
    pub fn try_enter(&self) -> Option<Turn<'_>> {
        self.file.try_lock().ok().map(|()| Turn::of(&self.file))
    }
}

impl<'q> Turn<'q> {
    fn of(file: &'q File) -> Turn<'q> {
        Turn { held: Some(file) }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.held {
            // It cannot fail on a lock that is held; the description's end would release it too.
            let _ = file.unlock();
        }
    }
}

/// Shortest and longest pause between two looks at the queue, in microseconds.
const PAUSE_US: (u64, u64) = (300, 3_000);

/// Sleeps for a random time between two bounds in microseconds, so that a crowd does not wake at once.
pub fn pause((least_us, most_us): (u64, u64)) {
    let us = rand::random_range(least_us..=most_us);
    std::thread::sleep(Duration::from_micros(us));
}
