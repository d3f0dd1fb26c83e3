//! `--log`: one JSON line a decision, for log shippers.

use super::run_json::Report;
use super::when::rfc3339;
use crate::domain::record::Source;
use crate::domain::time::UnixMs;
use crate::engine::ledger::source_value;
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The line, with its end. `status` is what the process ends with; the record's own code is `exit_code`,
/// as in the report.
pub fn line(report: &Report, status: i32, source: &Source, at: UnixMs) -> String {
    let mut fields = Map::new();
    fields.insert("at".to_owned(), rfc3339(at).into());
    fields.extend(report.first());
    fields.extend(report.last());
    fields.insert("status".to_owned(), status.into());
    fields.insert("source".to_owned(), source_value(source));
    format!("{}\n", Value::Object(fields))
}

/// Appends it in one write, so that lines of several calls never mix. A pipe that nobody reads fails
/// rather than holding the call up.
pub fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut file = File::options()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    match file.write(line.as_bytes()) {
        Ok(written) if written < line.len() => Err(io::ErrorKind::WriteZero.into()),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn lines_are_appended_to_a_private_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log");
        append(&path, "a\n").expect("the first line");
        append(&path, "b\n").expect("the second line");
        assert_eq!(std::fs::read_to_string(&path).expect("the log"), "a\nb\n");
        let mode = path.metadata().expect("its mode").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_cannot_be_written_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(append(dir.path(), "a\n").is_err());
        assert!(append(&dir.path().join("no/log"), "a\n").is_err());
        assert!(append(Path::new("/dev/full"), "a\n").is_err());
    }
}
