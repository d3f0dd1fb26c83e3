//! What a terminal of a given width shows after it was written to: as much of one as the tests need.

use std::fmt;

/// The columns between two stops of the tabulator.
const TAB: usize = 8;

/// Everything that was shown, scrolled away or not.
#[derive(Debug)]
pub struct Screen {
    columns: usize,
    height: usize,
    rows: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// The rows that a line went on in because it was too long for the one before.
    wrapped: Vec<usize>,
}

impl Screen {
    /// A terminal of this size, written to.
    #[track_caller]
    pub fn new(bytes: &[u8], height: usize, columns: usize) -> Screen {
        let mut screen = Screen {
            columns,
            height,
            rows: vec![Vec::new()],
            row: 0,
            column: 0,
            wrapped: Vec::new(),
        };
        let text = String::from_utf8_lossy(bytes);
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match c {
                '\x1b' => screen.escape(&mut rest),
                c => screen.put(c),
            }
        }
        screen
    }

    /// The rows as they stand, without blanks at their ends and without empty rows at the end.
    pub fn text(&self) -> String {
        let row = |row: &Vec<char>| row.iter().collect::<String>().trim_end().to_owned() + "\n";
        let text: String = self.rows.iter().map(row).collect();
        text.trim_end().to_owned() + "\n"
    }

    /// Fails if a line was too long for its row.
    #[track_caller]
    pub fn unwrapped(&self) -> &Screen {
        assert!(
            self.wrapped.is_empty(),
            "wrapped {:?}:\n{self}",
            self.wrapped
        );
        self
    }

    fn put(&mut self, c: char) {
        match c {
            '\r' => self.column = 0,
            '\n' => self.down(),
            '\x08' => self.column = self.column.saturating_sub(1),
            '\t' => self.column = (self.column / TAB + 1) * TAB,
            '\x07' => {}
            c => self.print(c),
        }
    }

    fn print(&mut self, c: char) {
        if self.column >= self.columns {
            self.column = 0;
            self.down();
            self.wrapped.push(self.row);
        }
        let (row, column) = (&mut self.rows[self.row], self.column);
        if row.len() <= column {
            row.resize(column + 1, ' ');
        }
        row[column] = c;
        self.column += 1;
    }

    fn down(&mut self) {
        self.row += 1;
        if self.row == self.rows.len() {
            self.rows.push(Vec::new());
        }
    }

    /// The first row that has not scrolled away.
    fn top(&self) -> usize {
        self.rows.len().saturating_sub(self.height)
    }

    fn escape(&mut self, rest: &mut std::str::Chars<'_>) {
        match rest.next() {
            Some('[') => {}
            other => panic!("the screen does not know ESC {other:?}"),
        }
        let mut arguments = String::new();
        for c in rest {
            if !c.is_ascii_alphabetic() {
                arguments.push(c);
                continue;
            }
            match (c, arguments.as_str()) {
                ('m', _) | ('h' | 'l', "?2004" | "?25") => {}
                ('K', "" | "0") => self.rows[self.row].truncate(self.column),
                ('H', "") => (self.row, self.column) = (self.top(), 0),
                ('J', "" | "0") => {
                    self.rows[self.row].truncate(self.column);
                    self.rows.truncate(self.row + 1);
                }
                ('J', "2") => {
                    let top = self.top();
                    self.rows[top..].iter_mut().for_each(Vec::clear);
                }
                (c, arguments) => panic!("the screen does not know ESC [ {arguments} {c}"),
            }
            return;
        }
    }
}

impl fmt::Display for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

#[test]
fn a_screen_shows_what_was_written_last() {
    let show = |text: &str| Screen::new(text.as_bytes(), 3, 5).text();
    assert_eq!(show("ab\r\ncd\r\x1b[Ke\r\n"), "ab\ne\n");
    assert_eq!(show("abcde\r\x1b[K"), "\n");
    assert_eq!(show("1\r\n2\r\n3\r\n4\x1b[H\x1b[Jx"), "1\nx\n");
    let wraps = Screen::new(b"abcdefg", 3, 5);
    assert_eq!(
        (wraps.text().as_str(), wraps.wrapped.len()),
        ("abcde\nfg\n", 1)
    );
    Screen::new(b"abcde\r\nf", 3, 5).unwrapped();
}
