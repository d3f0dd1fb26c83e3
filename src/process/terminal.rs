//! The terminal that the caller's job runs on: who is in its foreground, its modes and its size.
//!
//! The front stays in the shell's job; keeper and child have process groups of their own, which makes
//! them background groups. [`job`] hands the terminal to the child when it asks, and takes it back;
//! [`stops`] is the front's part in that. With `--tty` the child gets a terminal of its own, see
//! [`pty`], and [`input`] carries what is typed to it.

pub mod input;
pub mod job;
pub mod pty;
pub mod stops;

use super::sys::check;
use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;

/// The signals of job control that stop a process unless it catches them.
pub const STOPPING: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// How a terminal treats input and output, termios(3).
#[derive(Clone, Copy)]
pub struct Modes(libc::termios);

impl fmt::Debug for Modes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Modes")
            .field("input", &self.0.c_iflag)
            .field("output", &self.0.c_oflag)
            .field("local", &self.0.c_lflag)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Modes {
    fn eq(&self, other: &Modes) -> bool {
        let flags = |modes: &Modes| {
            [
                modes.0.c_iflag,
                modes.0.c_oflag,
                modes.0.c_cflag,
                modes.0.c_lflag,
            ]
        };
        flags(self) == flags(other) && self.0.c_cc == other.0.c_cc
    }
}

impl Modes {
    /// Those of any terminal, foreground or not.
    pub fn of(fd: RawFd) -> Option<Modes> {
        // SAFETY: all-zero is a valid termios, and tcgetattr fills the one that it is given.
        let mut modes: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: as above; it lives through the call.
        let got = unsafe { libc::tcgetattr(fd, &mut modes) };
        (got == 0).then_some(Modes(modes))
    }

    /// Sets them at once, whatever is still on its way to the screen: waiting for that could last for
    /// ever on a terminal whose output the user has halted.
    pub fn set(&self, fd: RawFd) -> io::Result<()> {
        // SAFETY: the structure is complete and lives through the call.
        check(unsafe { libc::tcsetattr(fd, libc::TCSANOW, &self.0) }).map(drop)
    }

    /// The key that ends the input, where lines are read and not single keys.
    pub fn end_of_input(&self) -> Option<u8> {
        (self.0.c_lflag & libc::ICANON != 0).then_some(self.0.c_cc[libc::VEOF])
    }

    /// The key that stops a job, where keys make signals.
    pub fn stop_key(&self) -> Option<u8> {
        (self.0.c_lflag & libc::ISIG != 0).then_some(self.0.c_cc[libc::VSUSP])
    }

    /// These modes with every key passed on as it is typed, no echo and no signals; output stays as it
    /// is processed now if `keep_output` says so.
    pub fn raw(mut self, keep_output: bool) -> Modes {
        let output = self.0.c_oflag;
        // SAFETY: changes the structure that it is given.
        unsafe { libc::cfmakeraw(&mut self.0) };
        if keep_output {
            self.0.c_oflag = output;
        }
        self
    }
}

/// The controlling terminal of this process's session.
#[derive(Debug)]
pub struct Terminal {
    fd: OwnedFd,
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Terminal {
    /// Opens it on a non-blocking description of its own; none if there is no such terminal.
    pub fn of_session() -> Option<Terminal> {
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK)
            .open("/dev/tty");
        opened.ok().map(|file| Terminal { fd: file.into() })
    }

    /// The process group in its foreground; none once it has vanished.
    pub fn foreground(&self) -> Option<i32> {
        // SAFETY: integers only.
        let group = unsafe { libc::tcgetpgrp(self.fd.as_raw_fd()) };
        (group > 0).then_some(group)
    }

    /// Puts a process group of this session in its foreground. SIGTTOU must be ignored or blocked, since
    /// this process may be in the background.
    pub fn set_foreground(&self, group: i32) -> io::Result<()> {
        // SAFETY: integers only.
        check(unsafe { libc::tcsetpgrp(self.fd.as_raw_fd(), group) }).map(drop)
    }

    /// Its modes.
    pub fn modes(&self) -> Option<Modes> {
        Modes::of(self.fd.as_raw_fd())
    }

    /// Sets its modes; see [`Terminal::set_foreground`] for SIGTTOU.
    pub fn set_modes(&self, modes: &Modes) -> io::Result<()> {
        modes.set(self.fd.as_raw_fd())
    }

    /// Whether a descriptor of this process is this very terminal.
    pub fn is_behind(&self, fd: RawFd) -> bool {
        // SAFETY: integers only; it answers for a controlling terminal and fails for any other file.
        unsafe { libc::tcgetpgrp(fd) >= 0 }
    }
}

/// A window's rows and columns, and its size in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Lines of text.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
    /// Width and height in pixels, 0 where nobody knows.
    pub pixels: (u16, u16),
}

impl Size {
    /// What a program may assume of a terminal that tells nothing.
    pub const ASSUMED: Size = Size {
        rows: 24,
        columns: 80,
        pixels: (0, 0),
    };

    /// The size of a terminal's window, if it has one.
    pub fn of(fd: RawFd) -> Option<Size> {
        // SAFETY: all-zero is a valid winsize.
        let mut size: libc::winsize = unsafe { std::mem::zeroed() };
        // SAFETY: TIOCGWINSZ writes one winsize, which lives through the call.
        let got = unsafe { libc::ioctl(fd, libc::TIOCGWINSZ, &mut size) };
        (got == 0 && size.ws_row > 0 && size.ws_col > 0).then_some(Size {
            rows: size.ws_row,
            columns: size.ws_col,
            pixels: (size.ws_xpixel, size.ws_ypixel),
        })
    }

    /// Gives a terminal this size; its foreground group gets SIGWINCH if that is a change.
    pub fn set(self, fd: RawFd) -> io::Result<()> {
        let size = libc::winsize {
            ws_row: self.rows,
            ws_col: self.columns,
            ws_xpixel: self.pixels.0,
            ws_ypixel: self.pixels.1,
        };
        // SAFETY: TIOCSWINSZ reads one winsize, which lives through the call.
        check(unsafe { libc::ioctl(fd, libc::TIOCSWINSZ, &size) }).map(drop)
    }
}
