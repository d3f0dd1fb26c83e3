//! The bytes of a connection, in the clear or through TLS.

use std::io::{self, Read, Write};
use std::time::Instant;

use rustls::{ClientConnection, StreamOwned};

use super::socket::Socket;

/// A connected stream.
#[derive(Debug)]
pub enum Stream {
    Plain(Socket),
    Tls(Box<StreamOwned<ClientConnection, Socket>>),
}

impl Stream {
    /// From here on every read and write ends at this moment.
    pub fn set_deadline(&mut self, deadline: Instant) {
        match self {
            Stream::Plain(socket) => socket.deadline = deadline,
            Stream::Tls(tls) => tls.sock.deadline = deadline,
        }
    }

    /// Whether what is sent is protected from the network.
    pub fn is_tls(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            Stream::Tls(tls) => tls.flush(),
        }
    }
}
