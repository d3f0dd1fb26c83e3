//! Whom to connect to, and how.

use std::ffi::OsString;
use std::fmt::{self, Debug, Display, Formatter};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use super::address::{Host, Place};
use super::parameters::{Environment, Parameters, Refused};
use super::tls::{Roots, TlsMode};
use super::url::{self, encode};
use crate::domain::digest::PartsDigest;
use crate::process::sys::effective_user;

/// The schema of the tables where the URL names none.
const DEFAULT_SCHEMA: &str = "idem";

/// The longest name that PostgreSQL keeps whole, in bytes.
const NAME_LIMIT: usize = 63;

/// The shortest limit that libpq allows for one address.
const SHORTEST_CONNECT: Duration = Duration::from_secs(2);

/// What a session must be able to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionAttrs {
    /// Write where there are several servers to choose from; the only one is taken as it is.
    Usual,
    /// Anything.
    Any,
    /// Write.
    ReadWrite,
}

/// A server, a database in it, and a user. Neither its text nor its debug text has the password.
#[derive(Clone)]
pub struct Target {
    pub(super) hosts: Vec<Host>,
    pub(super) user: String,
    pub(super) password: Option<String>,
    pub(super) passfile: Option<PathBuf>,
    pub(super) database: String,
    pub(super) schema: String,
    pub(super) application_name: String,
    pub(super) options: Option<String>,
    pub(super) tls: TlsMode,
    pub(super) roots: Roots,
    pub(super) connect_timeout: Option<Duration>,
    pub(super) session: SessionAttrs,
}

impl Target {
    /// Whether a text is meant as a URL of PostgreSQL.
    pub fn is_url(text: &str) -> bool {
        url::is_url(text)
    }

    /// Reads a URL (`postgres://` or `postgresql://`). What it leaves open comes from the `PG*` variables
    /// and then from libpq's defaults. `schema=NAME` is idem's own parameter: the schema of its tables.
    ///
    /// Fails where something is malformed, unknown or not supported; the text says what to do.
    pub fn parse(text: &str, environment: Environment<'_>) -> Result<Target, Refused> {
        let mut parameters = url::parse(text)?;
        parameters.complete(environment)?;
        refuse_unmet_wishes(&mut parameters)?;
        let hosts = Host::parse_list(
            parameters.take("host").as_deref(),
            parameters.take("port").as_deref(),
        )?;
        let user = match parameters.take("user") {
            Some(user) => user,
            None => system_user(environment)?,
        };
        let home = environment("HOME")
            .filter(|home| !home.is_empty())
            .map(PathBuf::from);
        let (tls, roots) = TlsMode::parse(
            parameters.take("sslmode").as_deref(),
            parameters.take("sslrootcert"),
            environment,
        )?;
        let passfile = parameters.take("passfile").map(PathBuf::from);
        let name = parameters.take("application_name");
        let fallback = parameters.take("fallback_application_name");
        Ok(Target {
            hosts,
            password: parameters.take("password"),
            passfile: passfile.or_else(|| home.map(|home| home.join(".pgpass"))),
            database: parameters.take("dbname").unwrap_or_else(|| user.clone()),
            user,
            schema: parse_schema(parameters.take("schema"))?,
            application_name: name.or(fallback).unwrap_or_else(|| "idem".to_owned()),
            options: parameters.take("options"),
            tls,
            roots,
            connect_timeout: parse_timeout(parameters.take("connect_timeout"))?,
            session: parse_session(parameters.take("target_session_attrs").as_deref())?,
        })
    }

    /// The schema of idem's tables: lower-case letters, digits and underscores, at most 63.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// 16 hexadecimal digits that stay the same for the same servers, database, schema and user.
    pub fn digest(&self) -> String {
        let mut parts = PartsDigest::new();
        for host in &self.hosts {
            let (kind, place) = match &host.place {
                Place::Network(name) => ("network", name.as_bytes()),
                Place::Directory(directory) => ("directory", directory.as_os_str().as_bytes()),
                Place::Usual => ("usual", &b""[..]),
            };
            parts.part(kind, &[place, &host.port.to_be_bytes()]);
        }
        parts.part(
            "in",
            &[&self.database, &self.schema, &self.user].map(String::as_bytes),
        );
        let mut digest = parts.finish().hex();
        digest.truncate(16);
        digest
    }
}

/// A URL of the same server, database, schema and user, without the password.
impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self.hosts.iter().map(Host::url).collect();
        write!(
            f,
            "postgres://{}@{}/{}",
            encode(&self.user),
            hosts.join(","),
            encode(&self.database)
        )?;
        if self.schema == DEFAULT_SCHEMA {
            return Ok(());
        }
        write!(f, "?schema={}", self.schema)
    }
}

impl Debug for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

/// Wishes for protection or an encoding that are no more than what happens anyway are met; others not.
fn refuse_unmet_wishes(parameters: &mut Parameters) -> Result<(), Refused> {
    let wishes: [(&str, &[&str]); 4] = [
        ("channel_binding", &["disable", "prefer"]),
        ("gssencmode", &["disable", "prefer"]),
        ("sslnegotiation", &["postgres"]),
        (
            "client_encoding",
            &["UTF8", "utf8", "UTF-8", "utf-8", "auto"],
        ),
    ];
    for (name, met) in wishes {
        if let Some(value) = parameters.take(name)
            && !met.contains(&value.as_str())
        {
            return Err(Refused::new(format!(
                "only {name}={} is supported; correct it in the URL or the environment",
                met.join(" or ")
            )));
        }
    }
    Ok(())
}

/// The name of this process's user, as in /etc/passwd; the name service would load libraries.
fn system_user(environment: Environment<'_>) -> Result<String, Refused> {
    let passwd = std::fs::read("/etc/passwd").unwrap_or_default();
    let id = effective_user().to_string();
    let line = passwd
        .split(|b| *b == b'\n')
        .map(|line| line.split(|b| *b == b':').collect::<Vec<_>>())
        .find(|fields| fields.get(2) == Some(&id.as_bytes()));
    let known = line.and_then(|fields| String::from_utf8(fields.first()?.to_vec()).ok());
    let variable = |name| {
        environment(name)
            .and_then(|value: OsString| value.into_string().ok())
            .filter(|value| !value.is_empty())
    };
    known
        .or_else(|| variable("LOGNAME"))
        .or_else(|| variable("USER"))
        .ok_or_else(|| {
            Refused::new(
                "the URL names no user and this one has no name; write postgres://USER@… or set PGUSER"
                    .to_owned(),
            )
        })
}

fn parse_schema(schema: Option<String>) -> Result<String, Refused> {
    let Some(schema) = schema else {
        return Ok(DEFAULT_SCHEMA.to_owned());
    };
    let fits = schema.len() <= NAME_LIMIT
        && schema
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !schema.starts_with(|c: char| c.is_ascii_digit())
        && !schema.starts_with("pg_");
    if fits {
        Ok(schema)
    } else {
        Err(Refused::new(format!(
            "a schema has up to {NAME_LIMIT} lower-case letters, digits and underscores, begins with no digit and not with pg_; correct schema= in the URL"
        )))
    }
}

fn parse_timeout(seconds: Option<String>) -> Result<Option<Duration>, Refused> {
    let Some(seconds) = seconds else {
        return Ok(None);
    };
    match seconds.trim().parse::<i32>() {
        Ok(seconds) if seconds <= 0 => Ok(None),
        Ok(seconds) => {
            let limit = Duration::from_secs(seconds.unsigned_abs().into());
            Ok(Some(limit.max(SHORTEST_CONNECT)))
        }
        Err(_) => Err(Refused::new(
            "connect_timeout is a whole number of seconds; correct it in the URL or the environment"
                .to_owned(),
        )),
    }
}

fn parse_session(attrs: Option<&str>) -> Result<SessionAttrs, Refused> {
    match attrs {
        None => Ok(SessionAttrs::Usual),
        Some("any") => Ok(SessionAttrs::Any),
        Some("read-write" | "primary") => Ok(SessionAttrs::ReadWrite),
        Some(_) => Err(Refused::new(
            "only target_session_attrs=read-write, primary or any is supported: idem has to write"
                .to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests;
