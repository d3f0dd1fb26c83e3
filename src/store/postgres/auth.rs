//! Who we are: the server's questions after the start.

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{AuthenticationSaslBody, Message};
use postgres_protocol::message::frontend;

use super::address::{Host, Place};
use super::error::PgError;
use super::passfile::{Found, Wanted, look_up};
use super::target::Target;
use super::wire::{Told, Wire};

/// Answers until the server is content. `local` says that the bytes do not leave this machine.
pub fn authenticate(
    wire: &mut Wire,
    target: &Target,
    host: &Host,
    local: bool,
) -> Result<(), PgError> {
    loop {
        match wire.receive()? {
            Message::AuthenticationOk => return Ok(()),
            Message::AuthenticationCleartextPassword if !local && !wire.is_tls() => {
                return Err(refuse(
                    wire,
                    "asks for the password itself over a connection that is not protected; use sslmode=require or stronger",
                ));
            }
            Message::AuthenticationCleartextPassword => {
                let password = password(wire, target, host)?;
                send_password(wire, password.as_bytes())?;
            }
            Message::AuthenticationMd5Password(body) => {
                let password = password(wire, target, host)?;
                let hash = md5_hash(target.user.as_bytes(), password.as_bytes(), body.salt());
                send_password(wire, hash.as_bytes())?;
            }
            Message::AuthenticationSasl(body) => {
                scram(wire, &body, &password(wire, target, host)?)?;
            }
            Message::ErrorResponse(body) => return Err(Told::read(body.fields()).into_error()),
            Message::NoticeResponse(_) => {}
            Message::AuthenticationKerberosV5
            | Message::AuthenticationGss
            | Message::AuthenticationSspi
            | Message::AuthenticationScmCredential => {
                return Err(refuse(
                    wire,
                    "asks for a kind of authentication that is not supported (GSSAPI, SSPI or older); let this user in by a password",
                ));
            }
            _ => return Err(wire.protocol("an unexpected message in the authentication")),
        }
    }
}

fn refuse(wire: &Wire, why: &str) -> PgError {
    PgError::Authentication(format!("{} {why}", wire.peer()))
}

/// The password: given, or from the passfile.
fn password(wire: &Wire, target: &Target, host: &Host) -> Result<String, PgError> {
    if let Some(password) = &target.password {
        return Ok(password.clone());
    }
    let wanted = Wanted {
        host: host.passfile_name(),
        port: host.port,
        database: &target.database,
        user: &target.user,
    };
    let found = match &target.passfile {
        Some(passfile) => look_up(passfile, wanted),
        None => Found::Nothing,
    };
    match found {
        Found::Password(password) => Ok(password),
        Found::Nothing => Err(refuse(
            wire,
            "asks for a password and none is given; set PGPASSWORD or add a line to the passfile (~/.pgpass)",
        )),
        Found::Ignored(why) => Err(refuse(
            wire,
            &format!("asks for a password and none is given; {why}"),
        )),
    }
}

fn send_password(wire: &mut Wire, password: &[u8]) -> Result<(), PgError> {
    let mut message = BytesMut::new();
    frontend::password_message(password, &mut message)
        .map_err(|_| refuse(wire, "cannot be sent a password with a NUL in it"))?;
    wire.send(&message)
}

/// SCRAM-SHA-256 (RFC 7677), without channel binding. The server, too, must prove that it knows the
/// password: it is not let through before.
fn scram(wire: &mut Wire, body: &AuthenticationSaslBody, password: &str) -> Result<(), PgError> {
    let offered = body
        .mechanisms()
        .any(|mechanism| Ok(mechanism == SCRAM_SHA_256));
    if !offered.unwrap_or(false) {
        return Err(refuse(
            wire,
            "offers no kind of authentication that is supported; SCRAM-SHA-256 is",
        ));
    }
    let mut scram = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
    let mut message = BytesMut::new();
    frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), &mut message)
        .map_err(|error| wire.malformed(&error))?;
    wire.send(&message)?;
    let challenge = match wire.receive()? {
        Message::AuthenticationSaslContinue(body) => body,
        Message::ErrorResponse(body) => return Err(Told::read(body.fields()).into_error()),
        _ => return Err(wire.protocol("an unexpected message in the authentication")),
    };
    scram
        .update(challenge.data())
        .map_err(|error| wire.malformed(&error))?;
    message.clear();
    frontend::sasl_response(scram.message(), &mut message)
        .map_err(|error| wire.malformed(&error))?;
    wire.send(&message)?;
    match wire.receive()? {
        Message::AuthenticationSaslFinal(body) => scram.finish(body.data()).map_err(|_| {
            refuse(
                wire,
                "could not prove that it knows the password; it may be another server than meant",
            )
        }),
        Message::ErrorResponse(body) => Err(Told::read(body.fields()).into_error()),
        _ => Err(wire.protocol("an unexpected message in the authentication")),
    }
}

/// Whether the bytes to this host stay on this machine.
pub fn is_local(host: &Host, address: Option<std::net::IpAddr>) -> bool {
    match host.place {
        Place::Network(_) => address.is_some_and(|address| address.is_loopback()),
        Place::Directory(_) | Place::Usual => true,
    }
}
