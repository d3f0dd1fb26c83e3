//! What is typed at the caller's terminal, on its way to the child's.

use super::Modes;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// One read of the keyboard.
const READ_BYTES: usize = 1024;

/// Keys that were typed and not taken yet.
#[derive(Debug, Default)]
pub struct Input {
    pending: Vec<u8>,
    over: bool,
}

impl Input {
    /// Whether more should be read: never more than what the child's terminal takes.
    pub fn wants_more(&self) -> bool {
        !self.over && self.pending.is_empty()
    }

    /// Whether something waits for the child's terminal to take it.
    pub fn waits(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Reads once from the caller's terminal and hands it on; returns what was read. A terminal that has
    /// vanished ends the input.
    pub fn take(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Vec<u8> {
        let mut keys = [0; READ_BYTES];
        // SAFETY: the buffer lives through the call and its length is given.
        let count = unsafe { libc::read(from.as_raw_fd(), keys.as_mut_ptr().cast(), keys.len()) };
        let keys = match usize::try_from(count) {
            Ok(count) => keys.get(..count).unwrap_or_default(),
            Err(_) => match io::Error::last_os_error().kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => return Vec::new(),
                _ => &[],
            },
        };
        if keys.is_empty() {
            self.end(to);
        }
        self.pending.extend(keys);
        self.deliver(to);
        keys.to_vec()
    }

    /// Types as much as the child's terminal takes without waiting.
    pub fn deliver(&mut self, to: BorrowedFd<'_>) {
        while !self.pending.is_empty() {
            let keys = &self.pending;
            // SAFETY: pointer and length are those of a buffer that lives through the call.
            let count = unsafe { libc::write(to.as_raw_fd(), keys.as_ptr().cast(), keys.len()) };
            match usize::try_from(count) {
                Ok(count) => drop(self.pending.drain(..count.min(keys.len()))),
                Err(_) => match io::Error::last_os_error().kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock => return,
                    _ => self.pending.clear(),
                },
            }
        }
    }

    /// Nobody will type any more: types the end of the input, once to send off a line that was begun and
    /// once for the end itself. Where keys are read one by one there is no such key.
    pub fn end(&mut self, to: BorrowedFd<'_>) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        if let Some(key) = Modes::of(to.as_raw_fd()).and_then(|modes| modes.end_of_input()) {
            self.pending.extend([key, key]);
            self.deliver(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Size;
    use super::super::pty::Pty;
    use super::*;
    use crate::process::testing::until;
    use std::fs::File;
    use std::io::Read as _;
    use std::os::fd::AsFd as _;

    fn typed(pty: &Pty) -> File {
        File::from(pty.slave().try_clone_to_owned().expect("a copy"))
    }

    #[test]
    fn keys_and_the_end_arrive() {
        let (caller, child) = (terminal(), terminal());
        let mut input = Input::default();
        type_at(&caller, b"one\n");
        input.take(caller.slave(), child.master());
        until(|| child_has_line(&child));
        let mut line = [0; 16];
        let mut reader = typed(&child);
        assert_eq!(reader.read(&mut line).expect("a line"), 4);
        input.end(child.master());
        assert_eq!(reader.read(&mut line).expect("the end"), 0);
        assert!(!input.wants_more());
    }

    #[test]
    fn a_vanished_terminal_ends_the_input() {
        let (caller, child) = (terminal(), terminal());
        let slave = caller.slave().try_clone_to_owned().expect("a copy");
        drop(caller);
        let mut input = Input::default();
        until(|| {
            input.take(slave.as_fd(), child.master());
            !input.wants_more()
        });
        assert_eq!(typed(&child).read(&mut [0; 4]).expect("the end"), 0);
    }

    fn terminal() -> Pty {
        Pty::open(Size::ASSUMED, None, true).expect("a pseudo-terminal")
    }

    fn type_at(pty: &Pty, keys: &[u8]) {
        let mut input = Input {
            pending: keys.to_vec(),
            over: false,
        };
        input.deliver(pty.master());
        assert!(!input.waits());
    }

    fn child_has_line(pty: &Pty) -> bool {
        let mut fds = [crate::process::session::pollfd(
            pty.slave().as_raw_fd(),
            libc::POLLIN,
        )];
        crate::process::session::poll(&mut fds, Some(std::time::Duration::ZERO));
        fds[0].revents & libc::POLLIN != 0
    }
}
