//! Colour and width: what the place that is written to allows.

use crate::domain::outcome::State;
use crate::process::screen;
use std::ffi::OsStr;
use std::io::{self, IsTerminal};

/// How wide a terminal counts that does not tell.
const USUAL_COLUMNS: usize = 80;

/// A colour by its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As any text.
    Plain,
    /// Less important.
    Faint,
    /// A heading.
    Bold,
    /// It is well.
    Good,
    /// It failed.
    Bad,
    /// Someone must act.
    Alert,
    /// It is under way.
    Busy,
}

impl Tone {
    /// The tone of a state.
    pub fn of(state: State) -> Tone {
        match state {
            State::Succeeded => Tone::Good,
            State::Failed => Tone::Bad,
            State::Unknown | State::Held => Tone::Alert,
            State::Running => Tone::Busy,
        }
    }

    /// The parameters of "select graphic rendition", ECMA-48.
    fn code(self) -> &'static str {
        match self {
            Tone::Plain => "",
            Tone::Faint => "2",
            Tone::Bold => "1",
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Alert => "1;33",
            Tone::Busy => "36",
        }
    }
}

/// How text is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether colours are used.
    pub colour: bool,
    /// The width that tables must fit in; nothing cuts where there is none.
    pub columns: Option<usize>,
}

impl Style {
    /// No colour and no cutting: for files and pipes.
    pub const PLAIN: Style = Style {
        colour: false,
        columns: None,
    };

    /// The style for this process's stdout.
    pub fn of_stdout() -> Style {
        if !io::stdout().is_terminal() {
            return Style::PLAIN;
        }
        let env = |name: &str| std::env::var_os(name);
        Style {
            colour: colour_wanted(env("NO_COLOR").as_deref(), env("TERM").as_deref()),
            columns: Some(screen::columns(1).unwrap_or(USUAL_COLUMNS)),
        }
    }

    /// The text in its tone.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        if !self.colour || tone == Tone::Plain || text.is_empty() {
            return text.to_owned();
        }
        format!("\u{1b}[{}m{text}\u{1b}[0m", tone.code())
    }
}

/// `NO_COLOR` counts where it is not empty, as its proposal (no-color.org) says.
fn colour_wanted(no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    no_color.is_none_or(OsStr::is_empty) && term.is_some_and(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_that_want_it() {
        let xterm = Some(OsStr::new("xterm"));
        assert!(colour_wanted(None, xterm));
        assert!(colour_wanted(Some(OsStr::new("")), xterm));
        assert!(!colour_wanted(Some(OsStr::new("1")), xterm));
        assert!(!colour_wanted(None, Some(OsStr::new("dumb"))));
        assert!(!colour_wanted(None, None));
    }

    #[test]
    fn only_a_coloured_style_paints() {
        let colour = Style {
            colour: true,
            columns: None,
        };
        assert_eq!(colour.paint(Tone::Bad, "no"), "\u{1b}[31mno\u{1b}[0m");
        assert_eq!(colour.paint(Tone::Plain, "no"), "no");
        assert_eq!(Style::PLAIN.paint(Tone::Bad, "no"), "no");
    }
}
