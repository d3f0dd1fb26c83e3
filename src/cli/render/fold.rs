//! Long texts in rows of their own: a terminal that wraps a line breaks it anywhere, and what is indented
//! below is no longer seen to be so.

use super::text::width;
use std::fmt::Write as _;

/// Rows are not made narrower than this, whatever is asked for.
const LEAST_COLUMNS: usize = 20;

/// Where a text stands: the columns of the terminal (none: nothing is folded), those that are taken in
/// the first row, and those left free at the beginning of the others.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// All of them.
    pub columns: Option<usize>,
    /// Taken in the first row.
    pub first: usize,
    /// Free in the others.
    pub indent: usize,
}

impl Place {
    /// The columns, and the indent that leaves at least half of them.
    fn room(self) -> Option<(usize, usize)> {
        let columns = self.columns?.max(LEAST_COLUMNS);
        Some((columns, self.indent.min(columns / 2)))
    }
}

/// A text for reading, broken at blanks where there are any.
pub fn prose(text: &str, place: Place) -> String {
    let Some((columns, indent)) = place.room() else {
        return text.to_owned();
    };
    let mut out = String::new();
    let mut taken = place.first;
    for word in text.split_inclusive(' ') {
        let wide = width(word.trim_end());
        if taken + wide > columns && indent + wide <= columns {
            out.truncate(out.trim_end_matches(' ').len());
            break_row(&mut out, "", indent);
            taken = indent;
        }
        for c in word.chars() {
            let wide = width(c.encode_utf8(&mut [0; 4]));
            let blank_at_end = c == ' ' && taken + wide > columns;
            if taken + wide > columns && !blank_at_end {
                break_row(&mut out, "", indent);
                taken = indent;
            }
            if !blank_at_end {
                out.push(c);
                taken += wide;
            }
        }
    }
    out
}

/// A command as the functions for quoting write it, in rows that a shell reads as the same command: they
/// end with a backslash. A row that goes on in the middle of a word is not indented.
pub fn command(text: &str, place: Place) -> String {
    let Some((columns, indent)) = place.room() else {
        return text.to_owned();
    };
    let mut out = String::new();
    let mut taken = place.first;
    let words = words(text);
    let last = words.len().saturating_sub(1);
    for (at, word) in words.iter().enumerate() {
        let gap = usize::from(at > 0);
        let end = if at == last { 0 } else { 2 };
        let wide = width(word);
        if taken + gap + wide + end <= columns {
            out.extend((at > 0).then_some(' '));
            out.push_str(word);
            taken += gap + wide;
        } else if indent + wide + end <= columns {
            break_row(&mut out, if at > 0 { " \\" } else { "\\" }, indent);
            out.push_str(word);
            taken = indent + wide;
        } else {
            out.extend((at > 0).then_some(' '));
            taken = split_word(&mut out, word, columns - end, taken + gap);
        }
    }
    out
}

fn break_row(out: &mut String, end: &str, indent: usize) {
    // Writing to a string does not fail.
    let _ = write!(out, "{end}\n{:indent$}", "");
}

/// Whether and how the characters at a place are quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quoted {
    Not,
    Single,
    AnsiC,
}

impl Quoted {
    fn opening(self) -> &'static str {
        match self {
            Quoted::Not => "",
            Quoted::Single => "'",
            Quoted::AnsiC => "$'",
        }
    }

    fn closing(self) -> &'static str {
        match self {
            Quoted::Not => "",
            Quoted::Single | Quoted::AnsiC => "'",
        }
    }
}

/// The smallest part of a command that must stay together, and how the places around it are quoted.
struct Piece<'a> {
    text: &'a str,
    before: Quoted,
    after: Quoted,
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut before = Quoted::Not;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (length, after) = match (before, c) {
            (Quoted::Not, '$') if rest.starts_with("$'") => (2, Quoted::AnsiC),
            (Quoted::Not, '\'') => (1, Quoted::Single),
            (Quoted::Single | Quoted::AnsiC, '\'') => (1, Quoted::Not),
            (Quoted::AnsiC, '\\') if rest.starts_with("\\x") => (4, before),
            (Quoted::AnsiC | Quoted::Not, '\\') => (2, before),
            _ => (c.len_utf8(), before),
        };
        let (text, behind) = rest.split_at_checked(length).unwrap_or((rest, ""));
        pieces.push(Piece {
            text,
            before,
            after,
        });
        before = after;
        rest = behind;
    }
    pieces
}

fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for piece in pieces(text) {
        match words.last_mut() {
            Some(word) if piece.before != Quoted::Not || piece.text != " " => {
                word.push_str(piece.text);
            }
            _ => words.push(String::new()),
        }
    }
    words
}

/// Writes a word that is too long for any row; returns the columns taken in the last one.
fn split_word(out: &mut String, word: &str, columns: usize, first: usize) -> usize {
    let mut taken = first;
    for piece in pieces(word) {
        let wide = width(piece.text);
        // Behind it there must be room to close the quote and for a backslash.
        let end = piece.after.closing().len() + 1;
        if taken + wide + end > columns {
            let (closing, opening) = (piece.before.closing(), piece.before.opening());
            let _ = write!(out, "{closing}\\\n{opening}");
            taken = opening.len();
        }
        out.push_str(piece.text);
        taken += wide;
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;
    use proptest::prelude::*;

    fn place(columns: usize) -> Place {
        Place {
            columns: Some(columns),
            first: 4,
            indent: 4,
        }
    }

    fn widest(text: &str, first: usize) -> usize {
        let rows = text.lines().enumerate();
        let wide = |(at, row): (usize, &str)| width(row) + if at == 0 { first } else { 0 };
        rows.map(wide).max().unwrap_or(0)
    }

    #[test]
    fn prose_is_broken_at_blanks() {
        assert_eq!(
            prose("one two three four five", place(20)),
            "one two three\n    four five"
        );
        assert_eq!(
            prose("a-word-that-is-long", place(20)),
            "a-word-that-is-l\n    ong"
        );
        let nowhere = Place {
            columns: None,
            ..place(0)
        };
        assert_eq!(
            prose("one two three four five", nowhere),
            "one two three four five"
        );
    }

    #[test]
    fn a_command_is_broken_between_its_words() {
        assert_eq!(command("ls -l", place(20)), "ls -l");
        assert_eq!(
            command("idem run --key=k -- sh -c 'a b'", place(20)),
            "idem run \\\n    --key=k -- sh \\\n    -c 'a b'"
        );
        assert_eq!(
            command("sh -c 'echo a long line'", place(20)),
            "sh -c 'echo a '\\\n'long line'"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_row_is_too_wide_and_a_shell_reads_the_same(
            argv in prop::collection::vec("[a-c '\\\\\n\t$*ä]{0,60}", 1..5),
            columns in 20..60_usize,
        ) {
            let argv: Vec<Vec<u8>> = argv.into_iter().map(String::into_bytes).collect();
            let folded = command(&text::command(&argv), place(columns));
            prop_assert!(widest(&folded, 4) <= columns, "{folded}");
            let script = format!("printf '%s\\0' {folded}");
            let Ok(output) = std::process::Command::new("bash").args(["-c", &script]).output() else {
                return Ok(());
            };
            let mut read: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0).collect();
            read.pop();
            prop_assert_eq!(read, argv.iter().map(Vec::as_slice).collect::<Vec<_>>(), "{}", folded);
        }

        #[test]
        fn prose_loses_nothing_but_blanks(words in "[a-dä ]{0,120}", columns in 20..60_usize) {
            let folded = prose(&words, place(columns));
            prop_assert!(widest(folded.trim_end(), 4) <= columns, "{folded}");
            let bare = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(bare(&folded), bare(&words));
        }
    }
}
