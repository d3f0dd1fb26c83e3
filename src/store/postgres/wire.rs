//! Messages over a stream.

use std::io::{self, Read, Write};
use std::time::Instant;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{ErrorFields, Header, Message};
use postgres_protocol::message::frontend;

use super::error::{PgError, one_line};
use super::stream::Stream;

/// A message that is longer than this is not read. PostgreSQL's values end at the same size.
const MESSAGE_LIMIT: usize = 1 << 30;

/// The same before the server has let us in: until then it can be anybody.
const GREETING_LIMIT: usize = 64 * 1024;

/// How much is read at once.
const CHUNK: usize = 32 * 1024;

/// One end of the protocol.
#[derive(Debug)]
pub struct Wire {
    stream: Stream,
    /// What has arrived and is not yet taken.
    input: BytesMut,
    chunk: Box<[u8]>,
    limit: usize,
    /// The server's name in messages.
    peer: String,
}

impl Wire {
    /// Begins with a stream on which no message has gone by.
    pub fn new(stream: Stream, peer: String) -> Wire {
        Wire {
            stream,
            input: BytesMut::new(),
            chunk: vec![0; CHUNK].into_boxed_slice(),
            limit: GREETING_LIMIT,
            peer,
        }
    }

    /// The server's name in messages.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Whether what is sent is protected from the network.
    pub fn is_tls(&self) -> bool {
        self.stream.is_tls()
    }

    /// From here on messages can be as long as values are.
    pub fn begin_session(&mut self) {
        self.limit = MESSAGE_LIMIT;
    }

    /// From here on everything ends at this moment.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.stream.set_deadline(deadline);
    }

    /// Sends whole messages.
    pub fn send(&mut self, messages: &[u8]) -> Result<(), PgError> {
        self.stream
            .write_all(messages)
            .and_then(|()| self.stream.flush())
            .map_err(|error| PgError::from_io(&error, &self.peer))
    }

    /// The next message.
    pub fn receive(&mut self) -> Result<Message, PgError> {
        loop {
            let header = Header::parse(&self.input).map_err(|error| self.malformed(&error))?;
            // Looked at before the parser, which makes room for as much as a header announces.
            if let Some(header) = header {
                let length = usize::try_from(header.len()).unwrap_or(usize::MAX);
                if length > self.limit {
                    return Err(self.protocol("a message that is too long"));
                }
                if self.input.len() > length
                    && let Some(message) =
                        Message::parse(&mut self.input).map_err(|error| self.malformed(&error))?
                {
                    return Ok(message);
                }
            }
            let read = self
                .stream
                .read(&mut self.chunk)
                .map_err(|error| PgError::from_io(&error, &self.peer))?;
            if read == 0 {
                return Err(PgError::Closed(format!(
                    "{} closed the connection",
                    self.peer
                )));
            }
            self.input
                .extend_from_slice(self.chunk.get(..read).unwrap_or(&[]));
        }
    }

    /// Says goodbye if that is possible at once.
    pub fn terminate(&mut self) {
        self.set_deadline(Instant::now());
        let mut message = BytesMut::new();
        frontend::terminate(&mut message);
        let _ = self.send(&message);
    }

    /// The parser's word for it: nothing failed but the message.
    pub fn malformed(&self, error: &io::Error) -> PgError {
        self.protocol(&format!("what cannot be understood: {error}"))
    }

    /// The server sent something that it must not send.
    pub fn protocol(&self, what: &str) -> PgError {
        PgError::Protocol(format!("{} sent {what}", self.peer))
    }
}

/// The fields of an error or a notice that are of use.
#[derive(Debug, Default)]
pub struct Told {
    /// In English, whatever the server's language.
    pub severity: String,
    pub sqlstate: String,
    pub message: String,
    pub detail: Option<String>,
}

impl Told {
    /// Reads the fields; what cannot be read stays empty.
    pub fn read(mut fields: ErrorFields<'_>) -> Told {
        let mut told = Told::default();
        let mut hint = None;
        while let Ok(Some(field)) = fields.next() {
            let text = one_line(field.value_bytes());
            match field.type_() {
                b'V' => told.severity = text,
                b'S' if told.severity.is_empty() => told.severity = text,
                b'C' => told.sqlstate = text,
                b'M' => told.message = text,
                b'D' => told.detail = Some(text),
                b'H' => hint = Some(text),
                _ => {}
            }
        }
        told.detail = match (told.detail, hint) {
            (Some(detail), Some(hint)) => Some(format!("{detail} {hint}")),
            (detail, hint) => detail.or(hint),
        };
        told
    }

    /// As an error.
    pub fn into_error(self) -> PgError {
        match self.sqlstate.as_str() {
            "25006" => PgError::ReadOnly(format!(
                "the server accepts no writes: {}; connect to the primary, or set the role and the database to read and write",
                self.message
            )),
            _ => PgError::Server {
                fatal: matches!(self.severity.as_str(), "FATAL" | "PANIC"),
                sqlstate: self.sqlstate,
                message: self.message,
                detail: self.detail,
            },
        }
    }
}
