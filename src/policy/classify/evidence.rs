//! What of the output a classifier keeps while it streams by.

use std::collections::BTreeSet;

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use super::super::conditions::Stream;
use super::super::patterns::Piece;
use super::{Row, Tool};

/// More kinds of lines than this are not told apart.
const MOST_LINES: usize = 512;

/// A longer value of Retry-After is none.
const LONGEST_HINT_BYTES: usize = 64;

/// Nothing longer is captured: a host's name and a port fit.
const LONGEST_CAPTURE_BYTES: usize = 300;

/// One kind of line: which rows it fits, and what they captured.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// The positions of the rows.
    pub rows: Vec<usize>,
    /// What rows captured, each with its row's position.
    pub captured: Vec<(usize, Vec<u8>)>,
}

impl Line {
    /// What the row at a position captured.
    pub fn captured_by(&self, row: usize) -> Option<&[u8]> {
        let mut captured = self.captured.iter();
        let found = captured.find(|(at, _)| *at == row);
        found.map(|(_, bytes)| bytes.as_slice())
    }

    /// The same, as a number.
    pub fn number_of(&self, row: usize) -> Option<u16> {
        std::str::from_utf8(self.captured_by(row)?)
            .ok()?
            .parse()
            .ok()
    }
}

/// Everything that the output told about one tool's rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The kinds of lines that fit any row.
    pub lines: BTreeSet<Line>,
    /// There were more kinds than can be kept.
    pub overflow: bool,
    /// The value of the last Retry-After header.
    pub retry_after: Option<Vec<u8>>,
}

/// A row's pattern, compiled.
#[derive(Debug)]
struct Pattern {
    row: usize,
    regex: Regex,
    captures: bool,
}

/// The patterns of one stream.
#[derive(Debug)]
struct Watch {
    /// All of them at once: most lines fit none.
    any: RegexSet,
    each: Vec<Pattern>,
}

/// Looks at the lines of both streams for one tool.
#[derive(Debug)]
pub struct Collector {
    stdout: Watch,
    stderr: Watch,
    evidence: Evidence,
}

impl Collector {
    /// Compiles the rows of a tool.
    pub fn new(tool: &Tool) -> Collector {
        Collector {
            stdout: Watch::new(tool, Stream::Stdout),
            stderr: Watch::new(tool, Stream::Stderr),
            evidence: Evidence::default(),
        }
    }

    /// Looks at one line, or at one piece of a very long one.
    pub fn look(&mut self, stream: Stream, piece: &Piece) {
        if let Some(value) = retry_after(piece) {
            self.evidence.retry_after = Some(value.to_vec());
        }
        let watch = match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        };
        if let Some(line) = watch.read(piece) {
            self.keep(line);
        }
    }

    fn keep(&mut self, line: Line) {
        if self.evidence.lines.len() < MOST_LINES {
            self.evidence.lines.insert(line);
        } else if !self.evidence.lines.contains(&line) {
            self.evidence.overflow = true;
        }
    }

    /// What was seen.
    pub fn finish(self) -> Evidence {
        self.evidence
    }
}

impl Watch {
    fn new(tool: &Tool, stream: Stream) -> Watch {
        let rows = tool.rows.iter().enumerate();
        let on_stream = rows.filter(|(_, row)| row.on.covers(stream));
        let sources = on_stream.filter_map(|(at, row)| Some((at, row, row.pattern?)));
        let each: Vec<Pattern> = sources
            .filter_map(|(at, row, p)| Pattern::new(at, row, p))
            .collect();
        let all = each.iter().map(|p| p.regex.as_str());
        let any = RegexSetBuilder::new(all).unicode(false).build();
        Watch {
            any: any.unwrap_or_else(|_| RegexSet::empty()),
            each,
        }
    }

    fn read(&self, piece: &Piece) -> Option<Line> {
        if self.each.is_empty() || !self.any.is_match(piece.bytes) {
            return None;
        }
        let fitting: Vec<&Pattern> = self.each.iter().filter(|p| piece.fits(&p.regex)).collect();
        let captured = fitting
            .iter()
            .filter_map(|p| Some((p.row, p.capture(piece)?)));
        (!fitting.is_empty()).then(|| Line {
            rows: fitting.iter().map(|p| p.row).collect(),
            captured: captured.collect(),
        })
    }
}

impl Pattern {
    fn new(at: usize, row: &Row, source: &str) -> Option<Pattern> {
        Some(Pattern {
            row: at,
            regex: RegexBuilder::new(source).unicode(false).build().ok()?,
            captures: row.says.captures(),
        })
    }

    /// What the first group that took part captured.
    fn capture(&self, piece: &Piece) -> Option<Vec<u8>> {
        if !self.captures {
            return None;
        }
        let captures = self.regex.captures_at(piece.bytes, piece.from)?;
        let group = captures.iter().skip(1).flatten().next()?;
        (group.len() <= LONGEST_CAPTURE_BYTES).then(|| group.as_bytes().to_vec())
    }
}

/// The value of a Retry-After header as curl (`-i`, `-D`, `-v`) and wget (`-S`) show it.
fn retry_after<'a>(piece: &Piece<'a>) -> Option<&'a [u8]> {
    const NAME: &[u8] = b"retry-after:";
    if piece.from > 0 || !piece.last {
        return None;
    }
    let line = piece.bytes;
    let start = line
        .iter()
        .position(|b| !matches!(b, b' ' | b'\t' | b'<'))?;
    let header = line.get(start..)?;
    let (name, value) = header.split_at_checked(NAME.len())?;
    let value = value.trim_ascii();
    let fits = name.eq_ignore_ascii_case(NAME) && value.len() <= LONGEST_HINT_BYTES;
    fits.then_some(value)
}
