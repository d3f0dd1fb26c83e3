//! The pseudo-terminal of `--tty`: the child's stdout and stderr, one merged stream.
//!
//! Where the caller's stdin is the terminal that its job runs on, the new terminal is the child's stdin
//! as well and the controlling terminal of a session of the child's own, so that the keys for
//! interrupting, stopping and ending work in it as in any terminal; the caller's own is in raw mode
//! meanwhile. Otherwise the child stays in the caller's session: `/dev/tty` is still the caller's
//! terminal and a prompt there still works, and the pseudo-terminal is for the output alone.

use super::input::Input;
use super::{Modes, Size};
use crate::process::sys::{self, check};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

/// The keeper's side of a pseudo-terminal.
#[derive(Debug)]
pub struct Pty {
    master: OwnedFd,
    /// Kept for as long as the child lives: a command that closes the terminal and opens it again has
    /// not ended its output.
    slave: OwnedFd,
    input: Option<Input>,
}

impl Pty {
    /// A new one, of the size and with the modes of the caller's terminal where there is one.
    /// `interactive`: it is the child's input and controlling terminal.
    pub fn open(size: Size, modes: Option<&Modes>, interactive: bool) -> io::Result<Pty> {
        let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
        // SAFETY: integers only.
        let master = owned(unsafe { libc::posix_openpt(flags | libc::O_NONBLOCK) })?;
        // SAFETY: integers only.
        check(unsafe { libc::unlockpt(master.as_raw_fd()) })?;
        // SAFETY: TIOCGPTPEER takes flags and returns a descriptor, wherever devpts is mounted.
        let slave = owned(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags) })?;
        size.set(slave.as_raw_fd())?;
        if let Some(modes) = modes {
            modes.set(slave.as_raw_fd())?;
        }
        Ok(Pty {
            master: sys::above_stdio(master)?,
            slave: sys::above_stdio(slave)?,
            input: interactive.then(Input::default),
        })
    }

    /// What becomes the child's descriptors.
    pub fn slave(&self) -> BorrowedFd<'_> {
        self.slave.as_fd()
    }

    /// The keeper's end: what the child writes is read here, and what is written here is typed there.
    pub fn master(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }

    /// Whether it is the child's input and controlling terminal.
    pub fn is_interactive(&self) -> bool {
        self.input.is_some()
    }

    /// Whether the caller's terminal should be read.
    pub fn wants_input(&self) -> bool {
        self.input.as_ref().is_some_and(Input::wants_more)
    }

    /// The master's descriptor while something typed waits to be taken.
    pub fn waits_to_type(&self) -> Option<RawFd> {
        let waits = self.input.as_ref().is_some_and(Input::waits);
        waits.then(|| self.master.as_raw_fd())
    }

    /// Reads from the caller's terminal what is typed, and types it here. Returns whether the key that
    /// stops a job was among it, with the terminal's first process group, the child's, in the foreground.
    pub fn take_input(&mut self, from: BorrowedFd<'_>) -> bool {
        let Some(input) = &mut self.input else {
            return false;
        };
        let stop_key = Modes::of(self.master.as_raw_fd()).and_then(|modes| modes.stop_key());
        let keys = input.take(from, self.master.as_fd());
        let stops = stop_key.is_some_and(|key| keys.contains(&key));
        // SAFETY: integers only; the master answers for its terminal.
        let (foreground, session) = unsafe {
            let master = self.master.as_raw_fd();
            (libc::tcgetpgrp(master), libc::tcgetsid(master))
        };
        stops && foreground > 0 && foreground == session
    }

    /// Types what waits.
    pub fn type_on(&mut self) {
        if let Some(input) = &mut self.input {
            input.deliver(self.master.as_fd());
        }
    }

    /// Nobody will type any more.
    pub fn end_input(&mut self) {
        if let Some(input) = &mut self.input {
            input.end(self.master.as_fd());
        }
    }

    /// Makes the window's size the caller's. `child` leads the child's group: outside of the terminal's
    /// own session the kernel tells nobody of the change.
    pub fn follow(&self, size: Size, child: i32) {
        let before = Size::of(self.master.as_raw_fd());
        if before != Some(size) && size.set(self.master.as_raw_fd()).is_ok() && self.input.is_none()
        {
            let _ = sys::signal_group(child, libc::SIGWINCH);
        }
    }
}

fn owned(fd: i32) -> io::Result<OwnedFd> {
    let fd = check(fd)?;
    // SAFETY: the kernel has just returned this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read as _, Write as _};

    #[test]
    fn output_is_a_terminals_and_ends_when_the_last_user_is_gone() {
        let size = Size {
            rows: 7,
            columns: 33,
            pixels: (0, 0),
        };
        let pty = Pty::open(size, None, false).expect("a pseudo-terminal");
        let mut out = File::from(pty.slave.try_clone().expect("a copy"));
        assert_eq!(Size::of(out.as_raw_fd()), Some(size));
        out.write_all(b"one\n").expect("the terminal takes it");
        let mut master = File::from(pty.master.try_clone().expect("a copy"));
        let mut seen = [0; 16];
        crate::process::testing::until(|| matches!(master.read(&mut seen), Ok(5)));
        assert_eq!(&seen[..5], b"one\r\n");
        assert_eq!(
            master.read(&mut seen).expect_err("nothing yet").kind(),
            io::ErrorKind::WouldBlock
        );
        drop((out, pty));
        let end = master.read(&mut seen).expect_err("nobody is left");
        assert_eq!(end.raw_os_error(), Some(libc::EIO));
    }
}
