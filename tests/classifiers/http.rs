//! Just enough of HTTP/1.1 to count requests and to answer them badly.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::system;

/// A request that arrived as a whole.
#[derive(Debug, Clone)]
pub struct Request {
    /// For example `POST /a HTTP/1.1`.
    pub line: String,
    /// Names in lowercase.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn method(&self) -> &str {
        self.line.split(' ').next().unwrap_or_default()
    }

    /// The path with its query.
    pub fn target(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(n, _)| n == name);
        named.next().map(|(_, value)| value.as_str())
    }
}

/// What the server does about a request.
#[derive(Debug, Clone)]
pub enum Answer {
    Reply(Reply),
    /// These bytes and the end.
    Bytes(Vec<u8>),
    /// A reply that ends before its announced length.
    Cut,
    /// The end, without a word.
    Close,
    Reset,
    /// Nothing, until the client leaves.
    Hang,
}

/// A whole reply.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// A reply of this status.
pub fn status(status: u16) -> Reply {
    Reply {
        status,
        headers: Vec::new(),
        body: b"{}\n".to_vec(),
    }
}

impl Reply {
    pub fn with(mut self, name: &str, value: &str) -> Reply {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut head = format!(
            "HTTP/1.1 {} {}\r\nContent-Length: {}\r\nConnection: close\r\n",
            self.status,
            reason(self.status),
            self.body.len()
        );
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        [head.as_bytes(), &self.body].concat()
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        302 => "Found",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        409 => "Conflict",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Whatever",
    }
}

impl Answer {
    /// Sends it and ends the connection. A client that has left already is nobody's fault.
    pub fn give(&self, mut stream: TcpStream) {
        let sent = match self {
            Answer::Reply(reply) => stream.write_all(&reply.bytes()),
            Answer::Bytes(bytes) => stream.write_all(bytes),
            Answer::Cut => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"),
            Answer::Close | Answer::Hang => Ok(()),
            Answer::Reset => return system::reset_on_close(&stream),
        };
        if sent.is_ok() && !matches!(self, Answer::Hang) {
            let _ = stream.shutdown(Shutdown::Write);
        }
        // Unread bytes would make the close a reset, and the client lose the reply.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    }
}

/// The next request; nothing when the client leaves before its end.
pub fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let line = text_line(&mut reader)?;
    let mut headers = Vec::new();
    loop {
        let header = text_line(&mut reader)?;
        let Some((name, value)) = header.split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request {
        line,
        headers,
        body: Vec::new(),
    };
    let length = request.header("content-length");
    let length: usize = length.and_then(|l| l.parse().ok()).unwrap_or(0);
    request.body.resize(length, 0);
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}

fn text_line(reader: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line).ok()?;
    line.ends_with(b"\n")
        .then(|| String::from_utf8_lossy(&line).trim_end().to_owned())
}
