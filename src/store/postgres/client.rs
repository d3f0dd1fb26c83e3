//! One connection, and statements over it.

use std::time::Instant;

use postgres_protocol::message::backend::{Message, ParameterStatusBody};

use super::cancel::CancelToken;
use super::connect::{self, Route};
use super::error::PgError;
use super::params::{self, Param};
use super::rows::{Collected, Rows};
use super::target::Target;
use super::wire::{Told, Wire};

/// More warnings than these are not kept for one statement.
const WARNING_LIMIT: usize = 100;

/// A server reports a dozen or two.
const PARAMETER_LIMIT: usize = 200;

/// Longer replies than this, in bytes, are not kept.
const REPLY_LIMIT: usize = 1 << 30;

/// What the server said beside the reply to a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// `WARNING`, `NOTICE` and less.
    pub severity: String,
    /// The five characters of the SQL standard.
    pub sqlstate: String,
    pub message: String,
}

/// What the server has said about the session.
#[derive(Debug, Default)]
pub struct Session {
    parameters: Vec<(String, String)>,
    /// The process and the secret that cancelling needs.
    pub key: Option<(i32, i32)>,
}

impl Session {
    /// Notes a parameter's value; one that is not UTF-8 is left aside.
    pub fn set_parameter(&mut self, body: &ParameterStatusBody) {
        let (Ok(name), Ok(value)) = (body.name(), body.value()) else {
            return;
        };
        let room = self.parameters.len() < PARAMETER_LIMIT;
        match self.parameters.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => value.clone_into(known),
            None if room => {
                self.parameters.push((name.to_owned(), value.to_owned()));
            }
            None => {}
        }
    }
}

/// A connection to a server. Everything blocks until done or until the deadline that is given; once a
/// deadline has passed or a reply was lost, the connection is closed and every later call fails with
/// [`PgError::Closed`].
#[derive(Debug)]
pub struct Client {
    /// None once it is closed.
    wire: Option<Wire>,
    session: Session,
    warnings: Vec<Warning>,
    route: Route,
}

impl Client {
    /// Connects to the first of the target's servers that answers and accepts writes.
    pub fn connect(target: &Target, deadline: Instant) -> Result<Client, PgError> {
        connect::connect(target, deadline)
    }

    pub(super) fn new(wire: Wire, session: Session, route: Route) -> Client {
        Client {
            wire: Some(wire),
            session,
            warnings: Vec::new(),
            route,
        }
    }

    /// Executes one statement in one round trip, as the unnamed prepared statement, and returns its rows.
    /// Each `$n` has the type of its [`Param`]. Outside a transaction block it is its own transaction.
    pub fn query(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        deadline: Instant,
    ) -> Result<Rows, PgError> {
        let messages = params::statement(sql, params)?;
        self.exchange(&messages, deadline)
    }

    /// Executes several statements without parameters, separated by semicolons, in one transaction
    /// unless they contain their own. Rows are dropped.
    pub fn batch(&mut self, sql: &str, deadline: Instant) -> Result<(), PgError> {
        let messages = params::script(sql)?;
        self.exchange(&messages, deadline).map(drop)
    }

    /// What the server said beside the last reply. A cancelled wait for a synchronous standby is a
    /// success with the warning `01000`.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }

    /// A setting that the server reports by itself, such as `server_version` or `in_hot_standby`.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.session.parameters.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether the connection can still be used, as far as is known.
    pub fn is_open(&self) -> bool {
        self.wire.is_some()
    }

    /// Whether the connection is protected by TLS.
    pub fn is_tls(&self) -> bool {
        self.wire.as_ref().is_some_and(Wire::is_tls)
    }

    /// The number of the server's process, as the connection was told it: a pooler gives one of its own.
    pub fn process(&self) -> Option<i32> {
        self.session.key.map(|(process, _)| process)
    }

    /// What cancels the statement that this connection executes, from elsewhere. None where the server
    /// gave no key.
    pub fn cancel_token(&self) -> Option<CancelToken> {
        let key = self.session.key?;
        Some(CancelToken::new(self.route.clone(), self.is_tls(), key))
    }

    fn exchange(&mut self, messages: &[u8], deadline: Instant) -> Result<Rows, PgError> {
        self.warnings.clear();
        let Some(mut wire) = self.wire.take() else {
            return Err(PgError::Closed(
                "the connection to the PostgreSQL server was closed after an earlier failure"
                    .to_owned(),
            ));
        };
        wire.set_deadline(deadline);
        let reply = match wire.send(messages) {
            Ok(()) => self.reply(&mut wire),
            Err(error) => Err(self.last_words(&mut wire).unwrap_or(error)),
        };
        // What fails below a session that stands is no matter of whom to trust: the reply is lost.
        let reply = reply.map_err(|error| match error {
            PgError::Tls(text) => PgError::Closed(text),
            other => other,
        });
        // Only a reply that was read to its end leaves something to go on with.
        reply.and_then(|reply| {
            self.wire = Some(wire);
            reply
        })
    }

    /// Reads a reply to its end. The inner error is one after which the connection can be used.
    fn reply(&mut self, wire: &mut Wire) -> Result<Result<Rows, PgError>, PgError> {
        let mut collected = Collected::default();
        let mut failure = None;
        loop {
            let message = match (wire.receive(), &failure) {
                (Ok(message), _) => message,
                // The server's reason says more than that it went.
                (Err(PgError::Closed(_)), Some(_)) => return Err(failure.unwrap_or_else(lost)),
                (Err(error), _) => return Err(error),
            };
            match message {
                Message::ParseComplete
                | Message::BindComplete
                | Message::CloseComplete
                | Message::NoData
                | Message::EmptyQueryResponse
                | Message::NotificationResponse(_) => {}
                Message::RowDescription(body) => collected.describe(&body)?,
                Message::DataRow(body) => {
                    collected.push(body)?;
                    if collected.bytes() > REPLY_LIMIT {
                        return Err(wire.protocol("a reply that is too long"));
                    }
                }
                Message::CommandComplete(body) => collected.complete(body.tag().unwrap_or("")),
                Message::ParameterStatus(body) => self.session.set_parameter(&body),
                Message::NoticeResponse(body) => self.warn(Told::read(body.fields())),
                Message::ErrorResponse(body) => {
                    let error = Told::read(body.fields()).into_error();
                    if matches!(error, PgError::Server { fatal: true, .. }) {
                        return Err(error);
                    }
                    failure = Some(error);
                }
                Message::ReadyForQuery(_) => {
                    return Ok(failure.map_or_else(|| Ok(collected.rows()), Err));
                }
                _ => return Err(wire.protocol("an unexpected message in a reply")),
            }
        }
    }

    /// What a server that is gone had said before: that it was told to end this session.
    fn last_words(&mut self, wire: &mut Wire) -> Option<PgError> {
        loop {
            match wire.receive().ok()? {
                Message::ErrorResponse(body) => {
                    return Some(Told::read(body.fields()).into_error());
                }
                Message::NoticeResponse(body) => self.warn(Told::read(body.fields())),
                Message::ParameterStatus(_) => {}
                _ => return None,
            }
        }
    }

    fn warn(&mut self, told: Told) {
        if self.warnings.len() < WARNING_LIMIT {
            self.warnings.push(Warning {
                severity: told.severity,
                sqlstate: told.sqlstate,
                message: told.message,
            });
        }
    }
}

fn lost() -> PgError {
    PgError::Closed("the connection to the PostgreSQL server was lost".to_owned())
}

impl Drop for Client {
    /// Says goodbye where that is possible at once; the kernel closes the rest.
    fn drop(&mut self) {
        if let Some(wire) = &mut self.wire {
            wire.terminate();
        }
    }
}
