//! What well-known tools tell by their exit code and output: a table, and what reads it.
//!
//! Every line of the output is looked at, and the worst class wins: one line that says that a request
//! may have arrived weighs more than a last line that says that the server was not reached. `safe` and
//! `throttled` are believed only where the arguments and the environment show that the tool sent one
//! request at most; otherwise the outcome is uncertain.

mod advice;
mod evidence;
mod invocation;
mod proof;
mod table;
mod verdict;

use std::fmt;
use std::str::FromStr;

pub use advice::Advice;
pub use evidence::{Collector, Evidence};
pub use table::TOOLS;
pub use verdict::Classifier;

use super::conditions::Stream;
use crate::domain::outcome::Class;
use invocation::Invocation;
pub use invocation::Lookup;

/// Shows that the tool, called like this, sends one request at most.
pub type Proof = fn(&Invocation) -> bool;

/// Shows that what a pattern captured speaks of the tool's own arguments.
pub type Subject = fn(&Invocation, &[u8]) -> bool;

/// A tool and what its endings mean.
pub struct Tool {
    /// The name for `--classifier`.
    pub name: &'static str,
    /// The names of its executables, without version numbers.
    pub commands: &'static [&'static str],
    /// The subcommands that the rows speak of; empty means all.
    pub subcommands: &'static [&'static str],
    /// Options before the subcommand that take a value of their own.
    pub valued: &'static [&'static str],
    /// What its endings mean; the first row that fits a line counts.
    pub rows: &'static [Row],
    /// What an exit code of the rows means when no row fits.
    pub unmatched: Unmatched,
    /// What to know about an exit 0, from the arguments alone.
    pub warning: fn(&Invocation) -> Option<&'static str>,
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tool({})", self.name)
    }
}

impl PartialEq for Tool {
    fn eq(&self, other: &Tool) -> bool {
        self.name == other.name
    }
}

impl Eq for Tool {}

/// One kind of ending.
#[derive(Debug)]
pub struct Row {
    /// What it is, as a lowercase fragment for people.
    pub condition: &'static str,
    /// The exit codes, as inclusive ranges.
    pub exits: &'static [(u8, u8)],
    /// Where the pattern is looked for.
    pub on: On,
    /// A regular expression for one line; none means that the exit code alone says it.
    pub pattern: Option<&'static str>,
    /// What it means.
    pub says: Says,
    /// Whether a test runs the real tool into this ending.
    pub verified: bool,
}

impl Row {
    /// Whether the row speaks of this exit code.
    pub fn covers(&self, code: u8) -> bool {
        self.exits
            .iter()
            .any(|(low, high)| (*low..=*high).contains(&code))
    }
}

/// Where a row's pattern is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// Standard error.
    Stderr,
    /// Standard output.
    Stdout,
    /// Both.
    Either,
}

impl On {
    /// Whether this stream is among them.
    pub fn covers(self, stream: Stream) -> bool {
        match self {
            On::Stderr => stream == Stream::Stderr,
            On::Stdout => stream == Stream::Stdout,
            On::Either => true,
        }
    }
}

/// What a row means.
#[derive(Debug, Clone, Copy)]
pub enum Says {
    /// This class. Safe and throttled need the proof, and are uncertain without it.
    Class(Class, Proof),
    /// This class, if what the pattern captures is what the tool was called for; uncertain without
    /// that, since then the message may be somebody else's.
    About(Class, Subject),
    /// By the HTTP status that the pattern captures; throttled needs the proof.
    Http(Proof),
    /// A proxy refused with the captured status: below 500 permanent, else safe, which needs the proof.
    Tunnel(Proof),
    /// Success although the code is not 0, if the arguments say so; the condition is a warning.
    Fine(Proof),
    /// Not an ending of its own: it shows that more than one request was sent.
    Repeats,
    /// Like `Repeats`, if the captured number is not the exit code.
    OtherCode,
}

impl Says {
    /// Whether the pattern's group is needed.
    pub fn captures(self) -> bool {
        match self {
            Says::About(..) | Says::Http(_) | Says::Tunnel(_) | Says::OtherCode => true,
            Says::Class(..) | Says::Fine(_) | Says::Repeats => false,
        }
    }
}

/// What a code means that the rows speak of, when nothing in the output fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmatched {
    /// Nobody knows: the tool may be silent, or speak another language.
    Uncertain,
    /// What any unknown command's code means.
    Default,
}

impl Unmatched {
    /// What becomes of the operation, as a word for programs.
    pub fn word(self) -> &'static str {
        match self {
            Unmatched::Uncertain => "unknown",
            Unmatched::Default => "final",
        }
    }
}

impl Tool {
    /// The tool of this name.
    pub fn named(name: &str) -> Option<&'static Tool> {
        TOOLS.iter().copied().find(|tool| tool.name == name)
    }

    /// The tool that a command line runs, looked for behind `env`, `nice`, `nohup`, `stdbuf`, `time`,
    /// `sudo` and `timeout`. A shell's `-c` runs many commands and is none.
    pub fn for_command(argv: &[Vec<u8>]) -> Option<&'static Tool> {
        Classifier::choose(Selection::Auto, argv).map(|c| c.tool())
    }

    /// Whether some row speaks of this exit code.
    fn knows(&self, code: u8) -> bool {
        let hints = |row: &Row| matches!(row.says, Says::Repeats | Says::OtherCode);
        let mut endings = self.rows.iter().filter(|row| !hints(row));
        endings.any(|row| row.covers(code))
    }
}

/// `--classifier`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Selection {
    /// By the command line; an exit 0 stays a success.
    #[default]
    Auto,
    /// None.
    None,
    /// This one, whatever the command is; it may turn an exit 0 into a failure.
    Named(&'static Tool),
}

/// No classifier has the given name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownTool(pub String);

impl fmt::Display for UnknownTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a classifier, expected auto, none or one of",
            self.0
        )?;
        for (i, tool) in TOOLS.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma} {}", tool.name)?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownTool {}

impl FromStr for Selection {
    type Err = UnknownTool;

    fn from_str(text: &str) -> Result<Selection, UnknownTool> {
        match text {
            "auto" => Ok(Selection::Auto),
            "none" => Ok(Selection::None),
            _ => match Tool::named(text) {
                Some(tool) => Ok(Selection::Named(tool)),
                None => Err(UnknownTool(text.to_owned())),
            },
        }
    }
}

#[cfg(test)]
mod tests;
