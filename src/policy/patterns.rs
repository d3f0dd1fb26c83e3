//! Looks for patterns in output while it streams by: line by line, across the borders of its chunks,
//! in bounded memory.

use regex::bytes::Regex;

use super::classify::{Classifier, Collector, Evidence, Lookup};
use super::conditions::{Conditions, Stream};
use super::outcome::{Rules, Sightings};
use crate::domain::outcome::Exit;
use crate::domain::time::UnixMs;

/// Any match up to this long is found, in a line of any length.
pub const WINDOW_BYTES: usize = 64 * 1024;

/// A line without its end, or one piece of a line that is too long to be kept whole.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// The bytes, with one byte of context before `from` if that is not 0.
    pub bytes: &'a [u8],
    /// Where the piece begins; 0 at the beginning of a line.
    pub from: usize,
    /// Whether the line ends with this piece.
    pub last: bool,
}

impl Piece<'_> {
    /// Whether a pattern matches in this piece. What reaches the very end of a piece may only look
    /// like a match (`$`, `\b`): it is decided by the next piece, which repeats the end of this one.
    pub fn fits(&self, regex: &Regex) -> bool {
        if self.last {
            return regex.is_match_at(self.bytes, self.from);
        }
        let end = regex.shortest_match_at(self.bytes, self.from);
        end.is_some_and(|end| end < self.bytes.len())
    }
}

/// Cuts a stream into lines.
#[derive(Debug)]
struct Lines {
    /// The beginning of a line whose end has not come yet.
    pending: Vec<u8>,
    /// Where in `pending` the next piece begins: 1 once earlier pieces of the line are gone.
    from: usize,
    window_bytes: usize,
}

impl Lines {
    fn new(window_bytes: usize) -> Lines {
        Lines {
            pending: Vec::new(),
            from: 0,
            window_bytes,
        }
    }

    fn feed(&mut self, bytes: &[u8], look: &mut dyn FnMut(Piece)) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|b| *b == b'\n') {
            let (line, more) = rest.split_at(end);
            if self.pending.is_empty() {
                look(Piece {
                    bytes: without_return(line),
                    from: 0,
                    last: true,
                });
            } else {
                self.hold(line, look);
                self.end_line(look);
            }
            rest = more.get(1..).unwrap_or_default();
        }
        self.hold(rest, look);
    }

    /// Keeps the beginning of a line; looks at what no longer fits.
    fn hold(&mut self, mut bytes: &[u8], look: &mut dyn FnMut(Piece)) {
        let most = 2 * self.window_bytes;
        while self.pending.len() + bytes.len() > most {
            let (now, later) = bytes.split_at(most.saturating_sub(self.pending.len()));
            self.pending.extend_from_slice(now);
            look(Piece {
                bytes: &self.pending,
                from: self.from,
                last: false,
            });
            // The next piece repeats a whole window, and one byte of context before it.
            let gone = self.pending.len().saturating_sub(self.window_bytes + 1);
            self.pending.drain(..gone);
            self.from = 1;
            bytes = later;
        }
        self.pending.extend_from_slice(bytes);
    }

    fn end_line(&mut self, look: &mut dyn FnMut(Piece)) {
        look(Piece {
            bytes: without_return(&self.pending),
            from: self.from,
            last: true,
        });
        self.pending.clear();
        self.from = 0;
    }

    /// The stream has ended; a last line needs no line feed.
    fn end(&mut self, look: &mut dyn FnMut(Piece)) {
        if !self.pending.is_empty() {
            self.end_line(look);
        }
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Which option a pattern belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    StopOn,
    RetryOn,
}

/// One pattern of the user's.
#[derive(Debug)]
struct Wanted {
    list: List,
    item: usize,
    stream: Stream,
    regex: Regex,
    seen: bool,
}

/// What was seen in an attempt's output.
#[derive(Debug, Default)]
pub struct Seen {
    /// Positions of the items of `--stop-on` whose pattern was seen.
    pub stop_on: Vec<usize>,
    /// Positions of the items of `--retry-on` whose pattern was seen.
    pub retry_on: Vec<usize>,
    /// What a classifier needs, if there is one.
    pub evidence: Option<Evidence>,
}

impl Seen {
    /// Lets the classifier conclude from what was seen. `environment` is the child's, and `now` the
    /// moment that a date in Retry-After is relative to.
    pub fn judge(
        self,
        classifier: Option<&Classifier>,
        exit: Exit,
        environment: Lookup,
        now: UnixMs,
    ) -> Sightings {
        let evidence = self.evidence.unwrap_or_default();
        Sightings {
            stop_on: self.stop_on,
            retry_on: self.retry_on,
            verdict: classifier.and_then(|c| c.verdict(exit, &evidence, environment, now)),
        }
    }
}

/// Looks at the output of one attempt.
#[derive(Debug)]
pub struct Scanner {
    stdout: Lines,
    stderr: Lines,
    eyes: Eyes,
}

#[derive(Debug)]
struct Eyes {
    wanted: Vec<Wanted>,
    collector: Option<Collector>,
}

impl Scanner {
    /// Looks for the patterns of the options and for what a classifier needs.
    pub fn new(rules: &Rules, collector: Option<Collector>) -> Scanner {
        Scanner::with_window(rules, collector, WINDOW_BYTES)
    }

    fn with_window(rules: &Rules, collector: Option<Collector>, window_bytes: usize) -> Scanner {
        let stop = wanted(rules.stop_on.as_ref(), List::StopOn);
        let retry = wanted(rules.retry_on.as_ref(), List::RetryOn);
        Scanner {
            stdout: Lines::new(window_bytes),
            stderr: Lines::new(window_bytes),
            eyes: Eyes {
                wanted: stop.chain(retry).collect(),
                collector,
            },
        }
    }

    /// Takes the next bytes of a stream, cut anywhere.
    pub fn feed(&mut self, stream: Stream, bytes: &[u8]) {
        if self.eyes.idle(stream) {
            return;
        }
        let (lines, eyes) = self.of(stream);
        lines.feed(bytes, &mut |piece| eyes.look(stream, &piece));
    }

    /// Both streams have ended: says what was seen.
    pub fn finish(mut self) -> Seen {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let (lines, eyes) = self.of(stream);
            lines.end(&mut |piece| eyes.look(stream, &piece));
        }
        let of = |list| {
            let seen = self.eyes.wanted.iter().filter(|w| w.seen && w.list == list);
            seen.map(|w| w.item).collect()
        };
        Seen {
            stop_on: of(List::StopOn),
            retry_on: of(List::RetryOn),
            evidence: self.eyes.collector.map(Collector::finish),
        }
    }

    fn of(&mut self, stream: Stream) -> (&mut Lines, &mut Eyes) {
        match stream {
            Stream::Stdout => (&mut self.stdout, &mut self.eyes),
            Stream::Stderr => (&mut self.stderr, &mut self.eyes),
        }
    }
}

impl Eyes {
    /// Whether nothing is looked for on this stream any more.
    fn idle(&self, stream: Stream) -> bool {
        self.collector.is_none() && self.wanted.iter().all(|w| w.seen || w.stream != stream)
    }

    fn look(&mut self, stream: Stream, piece: &Piece) {
        for wanted in &mut self.wanted {
            if wanted.stream == stream && !wanted.seen {
                wanted.seen = piece.fits(&wanted.regex);
            }
        }
        if let Some(collector) = &mut self.collector {
            collector.look(stream, piece);
        }
    }
}

fn wanted(conditions: Option<&Conditions>, list: List) -> impl Iterator<Item = Wanted> {
    let patterns = conditions.into_iter().flat_map(Conditions::patterns);
    patterns.map(move |(item, stream, regex)| Wanted {
        list,
        item,
        stream,
        regex: regex.clone(),
        seen: false,
    })
}

#[cfg(test)]
mod tests;
