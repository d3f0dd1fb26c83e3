//! A queue in front of the database: who comes first goes first, but nobody waits for ever.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use libc::c_int;

use super::clock::monotonic;
use super::signal::{SignalSet, set_handler};
use super::sys::{check, uninterrupted};

/// A wake-up that comes between two system calls is lost, so another follows after this long.
const REPEAT: Duration = Duration::from_millis(50);

/// A file on which callers queue with flock(2).
#[derive(Debug)]
pub struct Queue {
    file: File,
}

/// A place at the head of the queue, until it is dropped.
#[derive(Debug)]
pub struct Turn<'a> {
    file: &'a File,
}

impl Queue {
    /// Opens the file, and creates it with mode 0600 if there is none. A symbolic link is refused.
    pub fn open(path: &Path) -> io::Result<Queue> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOFOLLOW);
        let file = match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let file = options.create(true).mode(0o600).open(path)?;
                // A umask may have taken the owner's rights away, and then nobody could open it again.
                file.set_permissions(Permissions::from_mode(0o600))?;
                file
            }
            other => other?,
        };
        Ok(Queue { file })
    }

    /// Waits for a turn, at most this long; nothing if it did not come. A holder can be stopped for
    /// hours, so the queue is only a courtesy, and who got no turn goes on without.
    pub fn enter(&self, limit: Duration) -> io::Result<Option<Turn<'_>>> {
        let lock = |how| {
            // SAFETY: integers only.
            check(unsafe { libc::flock(self.file.as_raw_fd(), how) })
        };
        let result = match lock(libc::LOCK_EX | libc::LOCK_NB) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if limit.is_zero() {
                    return Ok(None);
                }
                bounded(limit, || lock(libc::LOCK_EX))
            }
            other => other,
        };
        match result {
            Ok(_) => Ok(Some(Turn { file: &self.file })),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // SAFETY: integers only. Unlocking takes the lock from every copy of the descriptor.
        let _ = uninterrupted(|| unsafe { libc::flock(self.file.as_raw_fd(), libc::LOCK_UN) });
    }
}

/// Repeats a blocking call until it succeeds, fails, or the limit has passed (`EINTR`).
fn bounded(limit: Duration, mut call: impl FnMut() -> io::Result<c_int>) -> io::Result<c_int> {
    let end = monotonic() + limit;
    let _alarm = Alarm::after(limit)?;
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted && monotonic() < end => {}
            other => return other,
        }
    }
}

/// A timer that interrupts this thread's system calls: once after its time, and then repeatedly.
struct Alarm {
    timer: libc::timer_t,
    mask: SignalSet,
}

impl Alarm {
    fn after(limit: Duration) -> io::Result<Alarm> {
        let signal = alarm_signal();
        install_handler(signal)?;
        let timer = new_timer(signal)?;
        let alarm = Alarm {
            timer,
            mask: SignalSet::of(&[signal]).unblock()?,
        };
        let times = libc::itimerspec {
            it_interval: timespec(REPEAT),
            it_value: timespec(limit.max(Duration::from_nanos(1))),
        };
        // SAFETY: the timer is ours, and the times outlive the call.
        check(unsafe { libc::timer_settime(timer, 0, &times, std::ptr::null_mut()) })?;
        Ok(alarm)
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: the timer is ours and not used again. A signal of it that is still pending is
        // delivered here, before the mask is set back.
        unsafe { libc::timer_delete(self.timer) };
        let _ = self.mask.set_mask();
    }
}

/// A real-time signal, so that an alarm(2) of the caller, which outlives exec, stays the caller's.
fn alarm_signal() -> c_int {
    libc::SIGRTMIN() + 6
}

/// The handler does nothing and without SA_RESTART its call ends a wait. It stays installed: children
/// get the disposition of idem's start, and nobody else uses this signal.
fn install_handler(signal: c_int) -> io::Result<()> {
    extern "C" fn wake(_: c_int) {}
    static INSTALLED: Once = Once::new();
    let mut result = Ok(());
    INSTALLED.call_once(|| {
        let handler = wake as extern "C" fn(c_int);
        result = set_handler(signal, handler as libc::sighandler_t);
    });
    result
}

fn new_timer(signal: c_int) -> io::Result<libc::timer_t> {
    let mut timer: libc::timer_t = std::ptr::null_mut();
    // SAFETY: all-zero is a valid sigevent, gettid has no arguments, and timer_create fills `timer`.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        event.sigev_notify_thread_id = libc::gettid();
        check(libc::timer_create(
            libc::CLOCK_MONOTONIC,
            &mut event,
            &mut timer,
        ))?;
    }
    Ok(timer)
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        // The widths differ between C libraries; a century is long enough.
        tv_sec: time.as_secs().min(u32::MAX.into()) as _,
        tv_nsec: time.subsec_nanos() as _,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::testing::{LIMIT, own_process};

    const SHORT: Duration = Duration::from_millis(20);

    fn two(home: &Path) -> [Queue; 2] {
        [(); 2].map(|()| Queue::open(&home.join("queue")).expect("queue"))
    }

    #[test]
    fn only_one_has_the_turn_and_nobody_waits_for_ever() {
        own_process!("only_one_has_the_turn_and_nobody_waits_for_ever", || {
            let home = tempfile::tempdir().expect("directory");
            let [first, second] = two(home.path());
            let turn = first.enter(LIMIT).expect("flock").expect("a turn");
            assert!(second.enter(SHORT).expect("flock").is_none());
            assert!(second.enter(Duration::ZERO).expect("flock").is_none());
            drop(turn);
            assert!(second.enter(Duration::ZERO).expect("flock").is_some());
        });
    }

    #[test]
    fn a_turn_passes_on_when_it_ends() {
        let home = tempfile::tempdir().expect("directory");
        let path = home.path();
        let counter = path.join("counter");
        std::fs::write(&counter, "0").expect("write");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let [queue, _] = two(path);
                    for _ in 0..25 {
                        let _turn = queue.enter(LIMIT).expect("flock").expect("a turn");
                        let text = std::fs::read_to_string(&counter).expect("read");
                        let count: u32 = text.parse().expect("a number");
                        std::fs::write(&counter, (count + 1).to_string()).expect("write");
                    }
                });
            }
        });
        assert_eq!(std::fs::read_to_string(&counter).expect("read"), "100");
    }

    #[test]
    fn the_mask_and_the_callers_own_alarm_are_untouched() {
        own_process!("the_mask_and_the_callers_own_alarm_are_untouched", || {
            let home = tempfile::tempdir().expect("directory");
            let [first, second] = two(home.path());
            SignalSet::ALL.block().expect("mask");
            let mask = SignalSet::current_mask().expect("mask");
            // SAFETY: integers only.
            unsafe { libc::alarm(1000) };
            let _turn = first.enter(LIMIT).expect("flock");
            assert!(second.enter(SHORT).expect("flock").is_none());
            assert_eq!(SignalSet::current_mask().expect("mask"), mask);
            // SAFETY: integers only.
            assert!(unsafe { libc::alarm(0) } > 900);
        });
    }
}
