//! The line on stderr that says what a call waits for.

use super::clock::monotonic;
use super::screen::columns;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

/// How often the line is written anew on a terminal.
const REFRESH: Duration = Duration::from_secs(1);

/// After this long a waiter that nobody watches says once what it waits for.
const SAY_AFTER: Duration = Duration::from_secs(60);

/// On a terminal in the hands of the caller's job: one line, there at once, written over and over and
/// gone when the wait is. Anywhere else: a line that stays, once, after a minute.
#[derive(Debug)]
pub struct WaitingLine {
    quiet: bool,
    terminal: bool,
    group: i32,
    began: Option<Duration>,
    said: bool,
    shown: bool,
}

impl WaitingLine {
    /// Called while this process is still in the caller's group. Says nothing at all if `quiet`.
    pub fn new(quiet: bool) -> WaitingLine {
        WaitingLine {
            quiet,
            terminal: io::stderr().is_terminal(),
            // SAFETY: no arguments.
            group: unsafe { libc::getpgrp() },
            began: None,
            said: false,
            shown: false,
        }
    }

    /// Says what is waited for, if it is time; `what` is given how long that has been. Returns how long
    /// until this must be called again.
    pub fn tell(&mut self, what: impl FnOnce(Duration) -> String) -> Option<Duration> {
        if self.quiet {
            return None;
        }
        let now = monotonic();
        let waited = now.saturating_sub(*self.began.get_or_insert(now));
        if self.in_front() {
            self.shown = true;
            write(&format!("\r{}\x1b[K", one_row(&what(waited))));
            return Some(REFRESH);
        }
        self.shown = false;
        if !self.said && waited >= SAY_AFTER {
            self.said = true;
            write(&format!("{}\n", clean(&what(waited))));
        }
        // A job in the background can be brought to the front.
        let refresh = self.terminal.then_some(REFRESH);
        let mark = (!self.said).then(|| SAY_AFTER.saturating_sub(waited));
        refresh.into_iter().chain(mark).min()
    }

    /// Takes the line away: something else is to be said, or the wait is over.
    pub fn erase(&mut self) {
        if std::mem::take(&mut self.shown) && self.in_front() {
            write("\r\x1b[K");
        }
    }

    /// Whether the terminal behind stderr is the caller's to write on without a fuss.
    fn in_front(&self) -> bool {
        // SAFETY: integers only; any other file is an error.
        self.terminal && unsafe { libc::tcgetpgrp(libc::STDERR_FILENO) } == self.group
    }
}

fn write(text: &str) {
    // Who cannot be told still gets what it waits for.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// What others wrote must not move the cursor.
fn clean(what: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    format!("idem: {}", what.chars().map(printable).collect::<String>())
}

/// As much as is sure to fit in one row: a line that wraps could not be taken away.
fn one_row(what: &str) -> String {
    let mut room = columns(libc::STDERR_FILENO).unwrap_or(80).saturating_sub(1);
    let fits = |c: &char| {
        let width = if c.is_ascii() { 1 } else { 2 };
        let fits = width <= room;
        room = room.saturating_sub(width);
        fits
    };
    clean(what).chars().take_while(fits).collect()
}
