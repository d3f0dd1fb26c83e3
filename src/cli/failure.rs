//! What `idem run` leaves for programs where idem itself refuses or fails (exit 125): whoever reads the
//! object or the report must not find nothing.

use super::json_out;
use super::run_json::Report;
use super::words::{Words, flag, value};
use crate::domain::name::OpName;
use crate::process::spool::Recording;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Who wants to know.
#[derive(Debug, Default)]
pub struct Listeners {
    /// `--json`.
    pub json: bool,
    /// `--report`.
    pub report: Option<PathBuf>,
}

impl Listeners {
    /// As far as the words of the call say.
    pub fn of(words: &Words) -> Listeners {
        Listeners {
            json: flag(words, "json"),
            report: value(words, "report").map(PathBuf::from),
        }
    }

    /// The same of a command line that could not be understood; nobody where it is not `run`'s.
    pub fn of_line(arguments: &[OsString]) -> Listeners {
        let own = arguments.iter().take_while(|argument| *argument != "--");
        let own: Vec<&OsStr> = own.map(OsString::as_os_str).collect();
        let runs = own.iter().find(|argument| !is_option(argument)) == Some(&OsStr::new("run"));
        if !runs {
            return Listeners::default();
        }
        let report = own.iter().position(|argument| *argument == "--report");
        Listeners {
            json: own.contains(&OsStr::new("--json")),
            report: report.and_then(|at| own.get(at + 1)).map(PathBuf::from),
        }
    }

    /// Tells them. The line on stderr and the exit code say the same, so what cannot be written is left.
    pub fn tell(&self, name: Option<OpName>, error: &str, took: Duration) {
        let failure = Report::failure(name, Some(error.to_owned()), took);
        if self.json {
            let _ = print(&failure);
        }
        if let Some(path) = &self.report {
            let _ = write(path, &failure);
        }
    }
}

fn is_option(argument: &OsStr) -> bool {
    argument.to_string_lossy().starts_with('-')
}

fn print(failure: &Report) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let nothing = Some(Recording::from_bytes(Vec::new()));
    json_out::write_object(&mut out, &failure.first(), nothing, &failure.last())
        .map_err(|error| io::Error::other(error.to_string()))?;
    out.write_all(b"\n")?;
    out.flush()
}

fn write(path: &Path, failure: &Report) -> io::Result<()> {
    std::fs::write(path, format!("{}\n", failure.without_streams()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_not_understood_still_says_who_listens() {
        let of = |line: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let found = Listeners::of_line(&arguments);
            (found.json, found.report)
        };
        assert_eq!(of("run --json --retires 3 -- x"), (true, None));
        assert_eq!(
            of("run --report /r --zebra -- x"),
            (false, Some("/r".into()))
        );
        assert_eq!(of("run --zebra -- x --json"), (false, None));
        assert_eq!(of("status --json --zebra"), (false, None));
    }
}
