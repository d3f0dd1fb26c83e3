//! Asking a server to give up a statement.

use std::io::{Read, Write};
use std::time::Instant;

use bytes::BytesMut;
use postgres_protocol::message::frontend;

use super::connect::{Protection, Route, open};
use super::error::PgError;

/// What cancels a connection's statement, over a connection of its own.
#[derive(Debug, Clone)]
pub struct CancelToken {
    route: Route,
    tls: bool,
    key: (i32, i32),
}

impl CancelToken {
    pub(super) fn new(route: Route, tls: bool, key: (i32, i32)) -> CancelToken {
        CancelToken { route, tls, key }
    }

    /// Asks the server, and returns when it has taken notice. Whether the statement ends by it shows in
    /// its own reply: SQLSTATE 57014, or success where it was quicker.
    pub fn cancel(&self, deadline: Instant) -> Result<(), PgError> {
        let protection = match self.tls {
            true => Protection::Must,
            false => Protection::None,
        };
        let mut stream = open(&self.route, protection, deadline)?;
        let mut request = BytesMut::new();
        frontend::cancel_request(self.key.0, self.key.1, &mut request);
        let sent = stream
            .write_all(&request)
            .and_then(|()| stream.flush())
            .map_err(|error| PgError::from_io(&error, self.route.peer()));
        // The server closes without a word, in whatever way.
        sent.map(|()| drop(stream.read(&mut [0])))
    }
}
