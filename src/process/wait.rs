//! How children change: ended, stopped, continued, waitid(2).

use std::io;

use libc::{c_int, pid_t};

use super::sys::uninterrupted;
use crate::domain::outcome::Exit;

/// One change of a child's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It ended. Its PID stays its own until it is reaped.
    Ended(Exit),
    /// A signal with this number stopped it.
    Stopped(c_int),
    /// It was continued.
    Continued,
}

/// The next change of this child, or nothing if there is none yet. A stop is told once; an end is told
/// until the child is reaped, so that nobody signals a PID that another process has meanwhile.
///
/// Fails with `ECHILD` if there is no such child.
pub fn next_change(child: pid_t) -> io::Result<Option<Change>> {
    match waitid(child, libc::WSTOPPED | libc::WCONTINUED | libc::WNOHANG) {
        Ok(Some(change)) => Ok(Some(change)),
        // One that has ended does not count as a child for this question.
        Ok(None) | Err(_) => peek(child),
    }
}

/// How this child ended, if it has; it is left to be reaped.
pub fn peek(child: pid_t) -> io::Result<Option<Change>> {
    waitid(child, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT)
}

/// Reaps this child if it has ended. From here on its PID can be another process's.
pub fn reap(child: pid_t) -> io::Result<Option<Exit>> {
    waitid(child, libc::WEXITED | libc::WNOHANG).map(ended)
}

/// Waits until this child has ended, and reaps it.
pub fn reap_blocking(child: pid_t) -> io::Result<Exit> {
    loop {
        if let Some(exit) = waitid(child, libc::WEXITED).map(ended)? {
            return Ok(exit);
        }
    }
}

fn ended(change: Option<Change>) -> Option<Exit> {
    match change {
        Some(Change::Ended(exit)) => Some(exit),
        _ => None,
    }
}

fn waitid(child: pid_t, options: c_int) -> io::Result<Option<Change>> {
    // SAFETY: all-zero is a valid siginfo, and waitid fills the one that it is given.
    let info = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        uninterrupted(|| libc::waitid(libc::P_PID, child as libc::id_t, &mut info, options))?;
        info
    };
    // SAFETY: these fields are the ones of a SIGCHLD siginfo, or zero when nothing has changed.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    Ok((pid != 0).then(|| decode(info.si_code, status)))
}

/// Reads the `si_code` and `si_status` of a SIGCHLD, waitid(2).
fn decode(code: c_int, status: c_int) -> Change {
    match code {
        libc::CLD_STOPPED | libc::CLD_TRAPPED => Change::Stopped(status),
        libc::CLD_CONTINUED => Change::Continued,
        libc::CLD_KILLED | libc::CLD_DUMPED => Change::Ended(Exit::Signal(status)),
        _ => Change::Ended(Exit::Code(status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::testing::{shell, until};

    #[test]
    fn codes_and_signals_are_told_apart() {
        for (script, exit) in [
            ("exit 0", Exit::Code(0)),
            ("exit 255", Exit::Code(255)),
            ("kill -KILL $$", Exit::Signal(libc::SIGKILL)),
            ("exit 137", Exit::Code(137)),
        ] {
            let child = shell(script);
            assert_eq!(
                reap_blocking(child.process.pid).expect("our child"),
                exit,
                "{script}"
            );
        }
    }

    #[test]
    fn a_stop_is_told_once_and_an_end_until_it_is_reaped() {
        let child = shell("kill -STOP $$; exit 3");
        let pid = child.process.pid;
        until(|| next_change(pid).expect("child") == Some(Change::Stopped(libc::SIGSTOP)));
        assert_eq!(next_change(pid).expect("child"), None);
        // SAFETY: signals an unreaped child of ours.
        unsafe { libc::kill(pid, libc::SIGCONT) };
        until(|| peek(pid).expect("child").is_some());
        let end = Some(Change::Ended(Exit::Code(3)));
        assert_eq!(
            (peek(pid).expect("child"), peek(pid).expect("child")),
            (end, end)
        );
        assert_eq!(reap(pid).expect("child"), Some(Exit::Code(3)));
        let error = reap(pid).expect_err("already reaped");
        assert_eq!(error.raw_os_error(), Some(libc::ECHILD));
    }
}
