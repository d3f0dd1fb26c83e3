//! From a target to a session: which server, which protection, who we are.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Instant;

use bytes::BytesMut;
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;

use super::address::{Host, Place};
use super::auth::{authenticate, is_local};
use super::client::{Client, Session};
use super::error::{PgError, reason};
use super::names::resolve;
use super::socket::Socket;
use super::stream::Stream;
use super::target::{SessionAttrs, Target};
use super::tls::{Roots, TlsMode, handshake};
use super::wire::{Told, Wire};

/// One way to one server.
#[derive(Debug, Clone)]
pub struct Route {
    endpoint: Endpoint,
    /// What the certificate has to be for.
    host: String,
    /// The server's name in messages.
    peer: String,
    mode: TlsMode,
    roots: Roots,
}

#[derive(Debug, Clone)]
enum Endpoint {
    Network(SocketAddr),
    Socket(PathBuf),
}

/// What to do about TLS on one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    None,
    IfOffered,
    Must,
}

/// Connects to the first server of the target that answers and suits it.
///
/// Names are resolved by the C library, which keeps its own time limits (resolv.conf(5)).
pub fn connect(target: &Target, deadline: Instant) -> Result<Client, PgError> {
    let mut failures = Vec::new();
    for (i, host) in target.hosts.iter().enumerate() {
        // A server that does not answer must leave time for the next.
        let until = share(deadline, target.hosts.len() - i);
        match connect_host(target, host, until) {
            Ok(client) => return Ok(client),
            Err(error) if is_final(&error) => return Err(told(error, target)),
            Err(error) => failures.push(error),
        }
    }
    Err(told(all_of(failures), target))
}

/// An equal part of the time that is left.
fn share(deadline: Instant, parts: usize) -> Instant {
    let now = Instant::now();
    let left = deadline.saturating_duration_since(now);
    now + left / u32::try_from(parts).unwrap_or(u32::MAX).max(1)
}

/// Whether the other servers need not be asked: they would answer the same.
fn is_final(error: &PgError) -> bool {
    match error {
        PgError::Authentication(_) | PgError::Tls(_) => true,
        PgError::Server { sqlstate, .. } => !starting_or_full(sqlstate),
        _ => false,
    }
}

/// Whether a server cannot take this connection now: it starts or stops, or has too many.
fn starting_or_full(sqlstate: &str) -> bool {
    matches!(sqlstate, "57P01" | "57P03" | "53300") || sqlstate.starts_with("08")
}

/// Class 28 is about who may come in.
fn told(error: PgError, target: &Target) -> PgError {
    match error {
        PgError::Server {
            sqlstate, message, ..
        } if sqlstate.starts_with("28") => {
            let advice = match sqlstate.as_str() {
                "28P01" => {
                    "correct the user in the URL, or the password in PGPASSWORD or the passfile (~/.pgpass)"
                }
                _ => {
                    "correct the user in the URL, or have the server let it in (CREATE ROLE, pg_hba.conf)"
                }
            };
            PgError::Authentication(format!(
                "{target} does not let this user in: {message} (SQLSTATE {sqlstate}); {advice}"
            ))
        }
        other => other,
    }
}

/// The failures of several servers or addresses as one.
fn all_of(mut failures: Vec<PgError>) -> PgError {
    failures.dedup();
    match failures.len() {
        0 => PgError::Unreachable("there is no server to connect to".to_owned()),
        1 => failures.remove(0),
        _ => {
            let texts: Vec<String> = failures.iter().map(PgError::to_string).collect();
            let text = texts.join("; ");
            let all = |is: fn(&PgError) -> bool| failures.iter().all(is);
            if all(|e| matches!(e, PgError::TimedOut(_))) {
                PgError::TimedOut(text)
            } else if failures.iter().any(|e| matches!(e, PgError::ReadOnly(_))) {
                PgError::ReadOnly(text)
            } else {
                PgError::Unreachable(text)
            }
        }
    }
}

fn connect_host(target: &Target, host: &Host, deadline: Instant) -> Result<Client, PgError> {
    let routes = routes(target, host)?;
    let mut failures = Vec::new();
    for (i, route) in routes.iter().enumerate() {
        let mut until = share(deadline, routes.len() - i);
        if let Some(limit) = target.connect_timeout {
            until = deadline.min(Instant::now() + limit);
        }
        match connect_route(target, host, route, until) {
            Ok(client) => return Ok(client),
            Err(error) if is_final(&error) => return Err(error),
            Err(error) => failures.push(error),
        }
    }
    Err(all_of(failures))
}

/// All addresses of a host.
fn routes(target: &Target, host: &Host) -> Result<Vec<Route>, PgError> {
    let route = |endpoint, name: &str| Route {
        endpoint,
        host: name.to_owned(),
        peer: format!("the PostgreSQL server at {}", host.name()),
        mode: target.tls,
        roots: target.roots.clone(),
    };
    let Place::Network(name) = &host.place else {
        let path = host.socket_path().unwrap_or_default();
        let mut local = route(Endpoint::Socket(path), "localhost");
        // TLS is not spoken over sockets that are files, whatever is asked for.
        local.mode = TlsMode::Disable;
        return Ok(vec![local]);
    };
    let addresses = resolve(name, host.port).map_err(|error| {
        PgError::Unreachable(format!(
            "the host {name} is not known: {}; correct the name, or look at the name server",
            reason(&error)
        ))
    })?;
    Ok(addresses
        .into_iter()
        .map(|address| route(Endpoint::Network(address), name))
        .collect())
}

/// A start that failed, and whether it went through TLS.
struct Failed {
    error: PgError,
    tls: bool,
}

fn connect_route(
    target: &Target,
    host: &Host,
    route: &Route,
    deadline: Instant,
) -> Result<Client, PgError> {
    let (first, other) = match route.mode {
        TlsMode::Disable => (Protection::None, None),
        TlsMode::Allow => (Protection::None, Some(Protection::Must)),
        TlsMode::Prefer => (Protection::IfOffered, Some(Protection::None)),
        TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => (Protection::Must, None),
    };
    let started = start(target, host, route, first, deadline);
    let mut client = match (started, other) {
        (Ok(client), _) => client,
        (Err(failed), Some(other))
            if is_about_protection(&failed.error) && failed.tls == (other == Protection::None) =>
        {
            start(target, host, route, other, deadline).map_err(|_| failed.error)?
        }
        (Err(failed), _) => return Err(failed.error),
    };
    if must_write(target) && !can_write(&mut client, deadline)? {
        return Err(PgError::ReadOnly(format!(
            "{} accepts no writes: it is a standby, or set to read only",
            route.peer
        )));
    }
    Ok(client)
}

/// Whether a connection with the other protection may be let in.
fn is_about_protection(error: &PgError) -> bool {
    match error {
        PgError::Tls(_) => true,
        PgError::Server { sqlstate, .. } => sqlstate == "28000",
        _ => false,
    }
}

fn must_write(target: &Target) -> bool {
    match target.session {
        SessionAttrs::Any => false,
        SessionAttrs::ReadWrite => true,
        SessionAttrs::Usual => target.hosts.len() > 1,
    }
}

fn can_write(client: &mut Client, deadline: Instant) -> Result<bool, PgError> {
    let reported = ["in_hot_standby", "default_transaction_read_only"]
        .map(|name| client.parameter(name).map(|value| value == "on"));
    if reported.contains(&Some(true)) {
        return Ok(false);
    }
    // Servers before version 14, and poolers, do not report both.
    if !reported.contains(&None) {
        return Ok(true);
    }
    let rows = client.query("SHOW transaction_read_only", &[], deadline)?;
    let setting: &str = rows.only()?.get(0)?;
    Ok(setting == "off")
}

/// Connects, protects, and starts a session.
fn start(
    target: &Target,
    host: &Host,
    route: &Route,
    protection: Protection,
    deadline: Instant,
) -> Result<Client, Failed> {
    let stream = open(route, protection, deadline).map_err(|error| Failed {
        tls: matches!(error, PgError::Tls(_)) && protection != Protection::None,
        error,
    })?;
    let tls = stream.is_tls();
    let mut wire = Wire::new(stream, route.peer.clone());
    let session = begin(&mut wire, target, host, route.address());
    match session {
        Ok(session) => Ok(Client::new(wire, session, route.clone())),
        Err(error) => Err(Failed { error, tls }),
    }
}

impl Route {
    /// The server's name in messages.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    fn address(&self) -> Option<IpAddr> {
        match &self.endpoint {
            Endpoint::Network(address) => Some(address.ip()),
            Endpoint::Socket(_) => None,
        }
    }
}

/// A stream to the server, in the clear or protected; nothing is sent that belongs to a session.
pub fn open(route: &Route, protection: Protection, deadline: Instant) -> Result<Stream, PgError> {
    let peer = &route.peer;
    let connected = match &route.endpoint {
        Endpoint::Network(address) => Socket::tcp(address, deadline),
        Endpoint::Socket(path) => Socket::unix(path, deadline),
    };
    let mut socket = connected.map_err(|error| match error.kind() {
        std::io::ErrorKind::TimedOut => PgError::TimedOut(format!("{peer} did not answer in time")),
        _ => PgError::Unreachable(format!("{peer} cannot be connected to: {}", reason(&error))),
    })?;
    if protection == Protection::None {
        return Ok(Stream::Plain(socket));
    }
    match offers_tls(&mut socket, peer)? {
        true => handshake(socket, &route.host, route.mode, &route.roots, peer)
            .map(|stream| Stream::Tls(Box::new(stream))),
        false if protection == Protection::IfOffered => Ok(Stream::Plain(socket)),
        false => Err(PgError::Tls(format!(
            "{peer} does not speak TLS, which sslmode asks for"
        ))),
    }
}

fn offers_tls(socket: &mut Socket, peer: &str) -> Result<bool, PgError> {
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    // Exactly one byte is read: whatever came unprotected behind it must not be taken for the server's.
    let mut answer = [0];
    socket
        .write_all(&request)
        .and_then(|()| socket.read_exact(&mut answer))
        .map_err(|error| PgError::from_io(&error, peer))?;
    match answer {
        [b'S'] => Ok(true),
        [b'N'] => Ok(false),
        // An error that is not protected is nobody's word; its text is not shown.
        [b'E'] => Err(PgError::Unreachable(format!(
            "{peer} refused the connection before TLS; look at its log"
        ))),
        _ => Err(PgError::Protocol(format!(
            "{peer} does not speak PostgreSQL's protocol"
        ))),
    }
}

/// The start of a session up to the point where statements are taken.
fn begin(
    wire: &mut Wire,
    target: &Target,
    host: &Host,
    address: Option<IpAddr>,
) -> Result<Session, PgError> {
    let mut parameters = vec![
        ("user", target.user.as_str()),
        ("database", target.database.as_str()),
        ("application_name", target.application_name.as_str()),
        ("client_encoding", "UTF8"),
    ];
    // Only on the user's wish: poolers refuse it.
    if let Some(options) = &target.options {
        parameters.push(("options", options));
    }
    let mut message = BytesMut::new();
    frontend::startup_message(parameters, &mut message).map_err(|_| {
        PgError::Unreachable("a name of the connection has a NUL in it; correct it".to_owned())
    })?;
    wire.send(&message)?;
    authenticate(wire, target, host, is_local(host, address))?;
    let mut session = Session::default();
    loop {
        match wire.receive()? {
            Message::ReadyForQuery(_) => {
                wire.begin_session();
                return Ok(session);
            }
            Message::ParameterStatus(body) => session.set_parameter(&body),
            Message::BackendKeyData(body) => {
                session.key = Some((body.process_id(), body.secret_key()));
            }
            Message::NoticeResponse(_) => {}
            Message::ErrorResponse(body) => return Err(Told::read(body.fields()).into_error()),
            _ => return Err(wire.protocol("an unexpected message at the start")),
        }
    }
}
