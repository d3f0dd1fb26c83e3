//! Telling somebody outside once the caller has all that it waits for.

use super::clock::monotonic;
use super::leaving::read_some;
use super::session::{let_go, poll, pollfd};
use super::signal::{Disposition, set_disposition};
use super::spawn::{Running, Spawn, Stdio};
use super::sys::{check, signal_group};
use super::wait;
use crate::domain::outcome::Exit;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Runs `act` in a process of its own that has nothing of the caller's and outlives this one.
///
/// No connection to a database may be open here: it would be open on both sides.
pub fn in_background<T>(context: T, act: fn(T) -> !) -> io::Result<()> {
    // SAFETY: this process has one thread, and the child's branch never returns.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        // A group of its own, so that what ends the caller's group does not end the telling.
        // SAFETY: integers only.
        unsafe { libc::setpgid(0, 0) };
        let _ = set_disposition(libc::SIGHUP, Disposition::Ignore);
        release_callers();
        act(context);
    }
    Ok(())
}

/// Lets go of every descriptor that the caller handed over, so that nobody who reads from one is held up.
pub fn release_callers() {
    let_go(&[0, 1, 2]);
    for fd in open_descriptors() {
        // SAFETY: integers only. What is not close-on-exec is the caller's: all of idem's own are.
        unsafe {
            if fd > 2 && libc::fcntl(fd, libc::F_GETFD) & libc::FD_CLOEXEC == 0 {
                libc::close(fd);
            }
        }
    }
}

fn open_descriptors() -> Vec<RawFd> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).collect()
}

/// Runs a shell command that reads nothing and prints to nobody, for at most `limit`; the error says why
/// its end is not known. What comes from `pipes` meanwhile is read and thrown away.
pub fn run(
    command: &OsStr,
    env: &[(OsString, OsString)],
    limit: Duration,
    pipes: &mut Vec<OwnedFd>,
) -> Result<Exit, String> {
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(|error| format!("/dev/null cannot be opened: {error}"))?;
    let nothing = Stdio::Fd(null.as_fd());
    let running = Spawn::new(&["sh".into(), "-c".into(), command.to_owned()], env)
        .and_then(|spawn| spawn.stdio(nothing, nothing, nothing).fork())
        .and_then(|gated| gated.open_gate())
        .map_err(|cannot| cannot.message)?;
    wait_for(&running, limit, pipes)
}

fn wait_for(running: &Running, limit: Duration, pipes: &mut Vec<OwnedFd>) -> Result<Exit, String> {
    let until = monotonic().saturating_add(limit);
    let child = running.process.pid;
    let lost = |error: io::Error| format!("its end could not be read: {error}");
    loop {
        if let Some(exit) = wait::reap(child).map_err(lost)? {
            return Ok(exit);
        }
        let left = until.saturating_sub(monotonic());
        if left.is_zero() {
            // Unreaped, so the group is still its own.
            let _ = signal_group(child, libc::SIGKILL);
            wait::reap_blocking(child).map_err(lost)?;
            return Err(format!("ended after {} s", limit.as_secs()));
        }
        let mut fds = vec![pollfd(running.pidfd.as_raw_fd(), libc::POLLIN)];
        fds.extend(pipes.iter().map(|fd| pollfd(fd.as_raw_fd(), libc::POLLIN)));
        poll(&mut fds, Some(left));
        let mut ready = fds.iter().skip(1).map(|fd| fd.revents != 0);
        pipes.retain(|pipe| !ready.next().unwrap_or(false) || read_some(pipe.as_raw_fd()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::sys;
    use std::io::Write;

    const LONG: Duration = Duration::from_secs(20);

    fn told(command: &str, limit: Duration, pipes: &mut Vec<OwnedFd>) -> Result<Exit, String> {
        let env: Vec<_> = std::env::vars_os().collect();
        run(OsStr::new(command), &env, limit, pipes)
    }

    #[test]
    fn the_end_is_told() {
        assert_eq!(told("exit 7", LONG, &mut Vec::new()), Ok(Exit::Code(7)));
        let killed = told("kill -9 $$", LONG, &mut Vec::new());
        assert_eq!(killed, Ok(Exit::Signal(9)));
    }

    #[test]
    fn it_has_nothing_to_read_and_nobody_to_print_to() {
        let script = "read x && exit 1; for fd in 0 1 2; do \
                      test /proc/self/fd/$fd -ef /dev/null || exit 2; done";
        assert_eq!(told(script, LONG, &mut Vec::new()), Ok(Exit::Code(0)));
    }

    #[test]
    fn what_takes_too_long_is_ended_with_its_group() {
        let limit = Duration::from_millis(50);
        let error = told("sleep 600 & wait", limit, &mut Vec::new()).expect_err("too long");
        assert!(error.starts_with("ended after"), "{error}");
    }

    #[test]
    fn pipes_are_read_meanwhile() {
        let (read, write) = sys::pipe().expect("a pipe");
        let more_than_fits = std::thread::spawn(move || {
            File::from(write)
                .write_all(&vec![0; 1 << 20])
                .expect("all of it is read");
        });
        let mut pipes = vec![read];
        let end = told("sleep 0.2", LONG, &mut pipes);
        assert_eq!(end, Ok(Exit::Code(0)));
        // What is left after the command is read by whoever gets the pipes back.
        while !pipes.is_empty() {
            pipes.retain(|pipe| read_some(pipe.as_raw_fd()));
        }
        more_than_fits.join().expect("the writer");
    }
}
