//! The line on stderr that says what a call waits for.

use super::erasing;
use super::mirror::Mirror;
use super::screen::columns;
use super::{clock, sys};
use std::io::{self, IsTerminal as _};
use std::time::Duration;

/// How often the line is written anew on a terminal.
const REFRESH: Duration = Duration::from_secs(1);

/// After this long a waiter that nobody watches says once what it waits for.
const SAY_AFTER: Duration = Duration::from_secs(60);

/// Columns of a terminal that does not tell.
const ASSUMED_COLUMNS: usize = 80;

/// What is left free at the end of a row, for the `^C` that the terminal shows behind the line.
const FREE_COLUMNS: usize = 3;

/// Stands at the end of a line that was cut.
const CUT: &str = "...";

/// On a terminal in the hands of the caller's job: one line, there at once, written over and over and
/// gone when the wait is, also when a signal ends this process. Anywhere else: a line that stays, once,
/// after a minute.
#[derive(Debug)]
pub struct WaitingLine {
    quiet: bool,
    group: i32,
    lines: Lines,
    /// Open while there is something to write: a terminal that takes nothing (Ctrl-S) delays nobody.
    out: Option<Mirror>,
}

impl WaitingLine {
    /// Called while this process is still in the caller's group. Says nothing at all if `quiet`.
    pub fn new(quiet: bool) -> WaitingLine {
        WaitingLine {
            quiet,
            // SAFETY: no arguments.
            group: unsafe { libc::getpgrp() },
            lines: Lines::new(io::stderr().is_terminal()),
            out: None,
        }
    }

    /// Says what is waited for, if it is time; `what` is given how long that has been. Returns how long
    /// until this must be called again.
    pub fn tell(&mut self, what: impl FnOnce(Duration) -> String) -> Option<Duration> {
        self.tell_below(&mut false, what)
    }

    /// The same where output may stand in the cursor's row, as `open_row` says: the line gets a row of its
    /// own then.
    pub fn tell_below(
        &mut self,
        open_row: &mut bool,
        what: impl FnOnce(Duration) -> String,
    ) -> Option<Duration> {
        if self.quiet {
            return None;
        }
        let columns = self.in_front().then(|| {
            let told = columns(libc::STDERR_FILENO);
            told.unwrap_or(ASSUMED_COLUMNS)
        });
        let (text, again) = self.lines.turn(clock::monotonic(), columns, open_row, what);
        if !text.is_empty() {
            if self.lines.shown {
                erasing::arm();
            }
            self.write(&text);
        }
        again
    }

    /// Takes the line away: something else is to be said.
    pub fn erase(&mut self) {
        erasing::disarm();
        if self.lines.vanish() && self.in_front() {
            self.write(erasing::ERASED);
        }
        self.out = None;
    }

    /// This wait is over, and what comes next is another one.
    pub fn end(&mut self) {
        self.erase();
        self.lines.begin();
    }

    /// Whoever was told is gone: nothing is held open that a reader of the caller's would wait for.
    pub fn let_go(&mut self) {
        erasing::disarm();
        self.lines.vanish();
        self.out = None;
    }

    fn write(&mut self, text: &str) {
        let out = self
            .out
            .get_or_insert_with(|| Mirror::new(Some(libc::STDERR_FILENO)));
        // Who cannot be told still gets what it waits for.
        out.on_writable();
        if out.queued_bytes() == 0 {
            out.push(text.as_bytes());
        }
    }

    /// Whether the terminal behind stderr is the caller's to write on without a fuss.
    fn in_front(&self) -> bool {
        self.lines.terminal && sys::foreground_group(libc::STDERR_FILENO) == Some(self.group)
    }
}

/// What is written when. Knows no clock and no terminal.
#[derive(Debug)]
struct Lines {
    terminal: bool,
    began: Option<Duration>,
    /// When the line on the terminal is written anew.
    due: Option<Duration>,
    said: bool,
    shown: bool,
}

impl Lines {
    fn new(terminal: bool) -> Lines {
        Lines {
            terminal,
            began: None,
            due: None,
            said: false,
            shown: false,
        }
    }

    /// A wait begins with the next turn.
    fn begin(&mut self) {
        *self = Lines::new(self.terminal);
    }

    /// What is to be written at a moment, and how long until there may be more. `columns` is given while
    /// the terminal may be written on.
    fn turn(
        &mut self,
        now: Duration,
        columns: Option<usize>,
        open_row: &mut bool,
        what: impl FnOnce(Duration) -> String,
    ) -> (String, Option<Duration>) {
        let waited = now.saturating_sub(*self.began.get_or_insert(now));
        if let Some(columns) = columns {
            if let Some(due) = self.due.filter(|due| self.shown && now < *due) {
                return (String::new(), Some(due.saturating_sub(now)));
            }
            self.due = Some(now.saturating_add(REFRESH));
            let row = one_row(&what(waited), columns);
            let text = format!("{}\r{row}\x1b[K", self.new_row(open_row));
            self.shown = true;
            return (text, Some(REFRESH));
        }
        self.shown = false;
        let mut text = String::new();
        if !self.said && waited >= SAY_AFTER {
            self.said = true;
            text = format!("{}{}\n", self.new_row(open_row), clean(&what(waited)));
        }
        // A job in the background can be brought to the front.
        let refresh = self.terminal.then_some(REFRESH);
        let mark = (!self.said).then(|| SAY_AFTER.saturating_sub(waited));
        (text, refresh.into_iter().chain(mark).min())
    }

    fn new_row(&self, open_row: &mut bool) -> &'static str {
        match self.terminal && std::mem::take(open_row) {
            true => "\n",
            false => "",
        }
    }

    /// Forgets the line on the terminal; returns whether there was one.
    fn vanish(&mut self) -> bool {
        std::mem::take(&mut self.shown)
    }
}

/// What others wrote must not move the cursor.
fn clean(what: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    format!("idem: {}", what.chars().map(printable).collect::<String>())
}

/// As much as is sure to fit in one row: a line that wraps could not be taken away.
fn one_row(what: &str, columns: usize) -> String {
    let text = clean(what);
    let room = columns.saturating_sub(FREE_COLUMNS);
    if width(&text) <= room {
        return text;
    }
    let mut left = room.saturating_sub(CUT.len());
    let fits = |c: &char| {
        let fits = width_of(*c) <= left;
        left = left.saturating_sub(width_of(*c));
        fits
    };
    let kept: String = text.chars().take_while(fits).collect();
    let cut = CUT.get(..room.min(CUT.len())).unwrap_or(CUT);
    format!("{kept}{cut}")
}

fn width(text: &str) -> usize {
    text.chars().map(width_of).sum()
}

/// The most that a character takes.
fn width_of(c: char) -> usize {
    if c.is_ascii() { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn turn(lines: &mut Lines, now: u64, columns: Option<usize>) -> (String, Option<Duration>) {
        let what = |waited: Duration| format!("waiting for k: {}s", waited.as_secs());
        lines.turn(s(1000 + now), columns, &mut false, what)
    }

    #[test]
    fn without_a_terminal_one_line_comes_after_a_minute() {
        let mut lines = Lines::new(false);
        assert_eq!(turn(&mut lines, 0, None), (String::new(), Some(s(60))));
        assert_eq!(turn(&mut lines, 59, None), (String::new(), Some(s(1))));
        let said = "idem: waiting for k: 60s\n".to_owned();
        assert_eq!(turn(&mut lines, 60, None), (said, None));
        assert_eq!(turn(&mut lines, 600, None), (String::new(), None));
        lines.begin();
        assert_eq!(turn(&mut lines, 601, None), (String::new(), Some(s(60))));
        assert!(turn(&mut lines, 661, None).0.ends_with("k: 60s\n"));
    }

    #[test]
    fn on_a_terminal_the_line_is_there_at_once_and_written_over() {
        let mut lines = Lines::new(true);
        let row = |secs| format!("\ridem: waiting for k: {secs}s\x1b[K");
        assert_eq!(turn(&mut lines, 0, Some(80)), (row(0), Some(s(1))));
        let early = lines.turn(s(1000), Some(80), &mut false, |_| "news".into());
        assert_eq!(early, (String::new(), Some(s(1))));
        assert_eq!(turn(&mut lines, 1, Some(80)), (row(1), Some(s(1))));
        assert!(lines.vanish() && !lines.vanish());
        assert_eq!(turn(&mut lines, 1, Some(80)), (row(1), Some(s(1))));
    }

    #[test]
    fn a_job_in_the_background_says_it_once_and_looks_for_the_front() {
        let mut lines = Lines::new(true);
        assert_eq!(turn(&mut lines, 0, None), (String::new(), Some(s(1))));
        let said = "idem: waiting for k: 60s\n".to_owned();
        assert_eq!(turn(&mut lines, 60, None), (said, Some(s(1))));
        assert_eq!(turn(&mut lines, 61, None), (String::new(), Some(s(1))));
        assert!(turn(&mut lines, 62, Some(80)).0.starts_with('\r'));
    }

    #[test]
    fn output_that_stands_in_the_row_is_left_alone() {
        let told = |terminal, columns, open: &mut bool| {
            let mut lines = Lines::new(terminal);
            lines.began = Some(s(0));
            lines.turn(s(60), columns, open, |_| "x".into()).0
        };
        for (terminal, columns, wanted, left) in [
            (true, Some(80), "\n\ridem: x\x1b[K", false),
            (true, None, "\nidem: x\n", false),
            (false, None, "idem: x\n", true),
        ] {
            let mut open = true;
            assert_eq!(told(terminal, columns, &mut open), wanted);
            assert_eq!(open, left);
        }
    }

    #[test]
    fn a_line_never_fills_its_row() {
        for (what, columns, row) in [
            ("abcdef", 15, "idem: abcdef"),
            ("abcdef", 14, "idem: ab..."),
            ("\u{e4}\u{e4}\u{e4}\u{e4}", 16, "idem: \u{e4}\u{e4}..."),
            ("a\u{1b}[2J\nb", 80, "idem: a [2J b"),
            ("abcdef", 5, ".."),
            ("abcdef", 0, ""),
        ] {
            assert_eq!(one_row(what, columns), row);
        }
    }
}
