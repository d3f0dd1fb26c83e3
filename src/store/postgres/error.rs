//! What can go wrong with a server, by what the caller can do about it.

use std::fmt::{self, Display, Formatter, Write as _};
use std::io;

/// More of a text than this is cut off.
const TEXT_LIMIT: usize = 600;

/// A failure of a connection or of a statement. No text contains a password; each is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PgError {
    /// No server could be connected to.
    Unreachable(String),
    /// The deadline passed. A statement may or may not have been executed.
    TimedOut(String),
    /// The server does not let this user in.
    Authentication(String),
    /// No protected connection came about, or not with the server that was meant.
    Tls(String),
    /// The connection ended. A statement may or may not have been executed.
    Closed(String),
    /// The server refused the statement, or (`fatal`) ended the session.
    Server {
        /// The five characters of the SQL standard.
        sqlstate: String,
        message: String,
        /// The server's detail and hint, if there are any.
        detail: Option<String>,
        /// Whether the server closed the connection with it.
        fatal: bool,
    },
    /// The server sent something that is not the protocol, or a value of another type than asked for.
    Protocol(String),
    /// The server accepts no writes: a standby, or a role or database that is set to read only.
    ReadOnly(String),
}

impl PgError {
    /// Whether the connection with which this happened is gone.
    pub fn is_connection_lost(&self) -> bool {
        match self {
            PgError::Unreachable(_)
            | PgError::TimedOut(_)
            | PgError::Closed(_)
            | PgError::Protocol(_) => true,
            // Class 08: connection exceptions, which poolers use for theirs.
            PgError::Server {
                sqlstate, fatal, ..
            } => *fatal || sqlstate.starts_with("08"),
            PgError::Authentication(_) | PgError::Tls(_) | PgError::ReadOnly(_) => false,
        }
    }

    /// The SQLSTATE, if the server gave this error.
    pub fn sqlstate(&self) -> Option<&str> {
        match self {
            PgError::Server { sqlstate, .. } => Some(sqlstate),
            _ => None,
        }
    }

    /// Tells a failed read or write on an existing connection.
    pub(super) fn from_io(error: &io::Error, peer: &str) -> PgError {
        // rustls wraps its own errors.
        if let Some(inner) = error
            .get_ref()
            .and_then(|e| e.downcast_ref::<rustls::Error>())
        {
            return super::tls::tell(inner, peer);
        }
        match error.kind() {
            io::ErrorKind::TimedOut => PgError::TimedOut(format!("{peer} did not answer in time")),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                PgError::Protocol(format!("{peer} sent what cannot be understood: {error}"))
            }
            io::ErrorKind::UnexpectedEof => {
                PgError::Closed(format!("{peer} closed the connection"))
            }
            _ => PgError::Closed(format!(
                "the connection to {peer} was lost: {}",
                reason(error)
            )),
        }
    }
}

impl Display for PgError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            PgError::Unreachable(text)
            | PgError::TimedOut(text)
            | PgError::Authentication(text)
            | PgError::Tls(text)
            | PgError::Closed(text)
            | PgError::Protocol(text)
            | PgError::ReadOnly(text) => f.write_str(text),
            PgError::Server {
                sqlstate,
                message,
                detail,
                ..
            } => {
                write!(f, "{message} (SQLSTATE {sqlstate})")?;
                match detail {
                    Some(detail) => write!(f, ": {detail}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for PgError {}

/// The system's own words for a failure, without the number.
pub(super) fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(errno) => crate::process::sys::errno_text(errno),
        None => one_line(error.to_string().as_bytes()),
    }
}

/// A text from elsewhere as one line: control characters escaped, too much of it cut off.
pub(super) fn one_line(text: &[u8]) -> String {
    let mut line = String::new();
    for c in String::from_utf8_lossy(text).trim().chars() {
        if line.len() >= TEXT_LIMIT {
            line.push('…');
            break;
        }
        match c {
            '\n' | '\t' => line.push(' '),
            // Marks that turn the direction of a line are no control characters to Rust.
            c if c.is_control()
                || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2028}' | '\u{2029}' | '\u{2066}'..='\u{2069}') =>
            {
                let _ = write!(line, "{}", c.escape_default());
            }
            c => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_from_elsewhere_stay_on_one_line() {
        assert_eq!(one_line(b" a\nb\x1b[31m\xff "), "a b\\u{1b}[31m\u{fffd}");
        assert_eq!(one_line("a\u{202e}b".as_bytes()), "a\\u{202e}b");
        let long = one_line("é".repeat(5000).as_bytes());
        assert!(long.len() < TEXT_LIMIT + 10 && long.ends_with('…'));
    }

    #[test]
    fn a_session_that_the_server_ended_is_lost() {
        let server = |sqlstate: &str, fatal| PgError::Server {
            sqlstate: sqlstate.to_owned(),
            message: String::new(),
            detail: None,
            fatal,
        };
        assert!(server("57P01", true).is_connection_lost());
        assert!(server("08P01", false).is_connection_lost());
        assert!(!server("42P01", false).is_connection_lost());
        assert!(PgError::Closed(String::new()).is_connection_lost());
        assert!(!PgError::ReadOnly(String::new()).is_connection_lost());
    }
}
