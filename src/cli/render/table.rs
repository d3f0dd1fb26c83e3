//! Aligned tables that fit the terminal.

use super::style::{Style, Tone};
use super::text::{fit, fit_ends, width};

/// Blanks between two columns.
const GAP: usize = 2;

/// A column that may be cut is not cut below this as long as another can leave instead: names would not
/// be told apart any more.
const TELLING_COLUMNS: usize = 20;

/// It is not cut below this at all.
const LEAST_COLUMNS: usize = 8;

/// One cell: its text, already printable, and its tone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell in a tone.
    pub fn toned(text: impl Into<String>, tone: Tone) -> Cell {
        Cell {
            text: text.into(),
            tone,
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::toned(text, Tone::Plain)
    }
}

/// Where a text that is too wide is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Its beginning stays.
    End,
    /// Both ends stay: a name often ends with what it is told apart by.
    Middle,
}

/// One column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its head.
    pub head: &'static str,
    /// It may be cut where the terminal is narrow.
    pub cuts: Option<Cut>,
    /// Where the terminal is too narrow even so, columns are left out, the lowest number first; none
    /// for those that stay.
    pub leaves: Option<u8>,
}

impl Column {
    /// A column that is never cut or left out.
    pub const fn fixed(head: &'static str) -> Column {
        Column {
            head,
            cuts: None,
            leaves: None,
        }
    }

    /// A column that may be cut at the end.
    pub const fn cut(head: &'static str) -> Column {
        Column {
            cuts: Some(Cut::End),
            ..Column::fixed(head)
        }
    }

    /// A column that may be cut in the middle.
    pub const fn cut_inside(head: &'static str) -> Column {
        Column {
            cuts: Some(Cut::Middle),
            ..Column::fixed(head)
        }
    }

    /// A column that may be left out, the lower its number the sooner.
    pub const fn leaving(head: &'static str, number: u8) -> Column {
        Column {
            leaves: Some(number),
            ..Column::fixed(head)
        }
    }
}

/// The table, a line for the heads and one for each row. No line ends with blanks.
pub fn table(columns: &[Column], rows: &[Vec<Cell>], style: Style) -> String {
    let heads: Vec<Cell> = columns
        .iter()
        .map(|column| Cell::toned(column.head, Tone::Bold))
        .collect();
    let mut rows: Vec<Vec<Cell>> = std::iter::once(&heads).chain(rows).cloned().collect();
    let mut columns = columns.to_vec();
    let mut widths = widths(&columns, &rows, style.columns, TELLING_COLUMNS);
    while let Some(limit) = style.columns
        && total(&widths) > limit
        && let Some(at) = first_to_leave(&columns)
    {
        columns.remove(at);
        for row in rows.iter_mut().filter(|row| at < row.len()) {
            row.remove(at);
        }
        widths = self::widths(&columns, &rows, style.columns, TELLING_COLUMNS);
    }
    let widths = self::widths(&columns, &rows, style.columns, LEAST_COLUMNS);
    let mut out = String::new();
    for row in &rows {
        push_row(&mut out, row, &columns, &widths, style);
    }
    out
}

fn first_to_leave(columns: &[Column]) -> Option<usize> {
    let leaving = |(at, column): (usize, &Column)| Some((column.leaves?, at));
    let first = columns.iter().enumerate().filter_map(leaving).min();
    first.map(|(_, at)| at)
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

fn push_row(out: &mut String, row: &[Cell], columns: &[Column], widths: &[usize], style: Style) {
    let mut left = style.columns.unwrap_or(usize::MAX);
    let mut pending = 0;
    for ((cell, column), wide) in row.iter().zip(columns).zip(widths) {
        let room = (*wide).min(left.saturating_sub(pending));
        let text = match column.cuts {
            Some(Cut::Middle) => fit_ends(&cell.text, room),
            Some(Cut::End) | None => fit(&cell.text, room),
        };
        let taken = width(&text);
        if taken > 0 {
            out.extend(std::iter::repeat_n(' ', pending));
            out.push_str(&style.paint(cell.tone, &text));
            left = left.saturating_sub(pending + taken);
            pending = 0;
        }
        pending += wide.saturating_sub(taken) + GAP;
    }
    out.push('\n');
}

/// The width of each column: as wide as its widest cell, and where that does not fit, the widest of
/// those that may be cut gives way first, though not below `least`.
fn widths(
    columns: &[Column],
    rows: &[Vec<Cell>],
    limit: Option<usize>,
    least: usize,
) -> Vec<usize> {
    let widest = |at: usize| {
        let cells = rows.iter().filter_map(|row: &Vec<Cell>| row.get(at));
        cells
            .map(|cell: &Cell| width(&cell.text))
            .max()
            .unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..columns.len()).map(widest).collect();
    while let Some(limit) = limit
        && total(&widths) > limit
        && let Some(widest) = widest_that_cuts(columns, &mut widths, least)
    {
        *widest -= 1;
    }
    widths
}

fn widest_that_cuts<'a>(
    columns: &[Column],
    widths: &'a mut [usize],
    least: usize,
) -> Option<&'a mut usize> {
    let columns = columns.iter().zip(widths);
    let cutting = columns.filter(|(column, _)| column.cuts.is_some());
    let (_, widest) = cutting.max_by_key(|(_, width)| **width)?;
    (*widest > least).then_some(widest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [
        Column::cut_inside("key"),
        Column::leaving("n", 0),
        Column::fixed("next"),
    ];

    fn rows() -> Vec<Vec<Cell>> {
        vec![
            vec!["a".into(), "12".into(), Cell::from("")],
            vec!["a-key-of-2026-11-30-12".into(), "3".into(), "wait".into()],
        ]
    }

    #[test]
    fn columns_are_aligned_and_lines_end_without_blanks() {
        assert_eq!(
            table(&COLUMNS, &rows(), Style::PLAIN),
            "key                     n   next\n\
             a                       12\n\
             a-key-of-2026-11-30-12  3   wait\n"
        );
    }

    #[test]
    fn what_is_too_wide_is_cut() {
        let narrow = |columns| {
            let style = Style {
                colour: false,
                columns: Some(columns),
            };
            table(&COLUMNS, &rows(), style)
        };
        assert_eq!(
            narrow(30),
            "key                   n   next\n\
             a                     12\n\
             a-key-of-…6-11-30-12  3   wait\n"
        );
        assert_eq!(
            narrow(27),
            "key                    next\n\
             a\n\
             a-key-of-2…6-11-30-12  wait\n"
        );
        assert_eq!(
            narrow(15),
            "key        next\n\
             a\n\
             a-ke…0-12  wait\n"
        );
        for columns in 0..30 {
            let fits = narrow(columns).lines().all(|line| width(line) <= columns);
            assert!(fits, "{columns}: {}", narrow(columns));
        }
    }

    #[test]
    fn colour_takes_no_room() {
        let style = Style {
            colour: true,
            columns: Some(40),
        };
        let row = vec![
            Cell::toned("k", Tone::Good),
            Cell::from("1"),
            Cell::from("x"),
        ];
        let table = table(&COLUMNS, &[row], style);
        assert!(table.contains("\u{1b}[32mk\u{1b}[0m    1  x"), "{table:?}");
    }
}
