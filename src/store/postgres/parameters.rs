//! The parameters of a connection, by libpq's names, from the URL and from the environment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::{self, Display, Formatter};

use super::error::one_line;

/// Reads one variable of the environment.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Why a target is none; one line, without a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(String);

impl Refused {
    pub(super) fn new(text: String) -> Refused {
        Refused(text)
    }
}

impl Display for Refused {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// What is understood, and the variable that stands in for it.
const KNOWN: [(&str, Option<&str>); 18] = [
    ("host", Some("PGHOST")),
    ("port", Some("PGPORT")),
    ("user", Some("PGUSER")),
    ("password", Some("PGPASSWORD")),
    ("dbname", Some("PGDATABASE")),
    ("passfile", Some("PGPASSFILE")),
    ("sslmode", Some("PGSSLMODE")),
    ("sslrootcert", Some("PGSSLROOTCERT")),
    ("connect_timeout", Some("PGCONNECT_TIMEOUT")),
    ("application_name", Some("PGAPPNAME")),
    ("fallback_application_name", None),
    ("options", Some("PGOPTIONS")),
    ("target_session_attrs", Some("PGTARGETSESSIONATTRS")),
    ("channel_binding", Some("PGCHANNELBINDING")),
    ("gssencmode", Some("PGGSSENCMODE")),
    ("sslnegotiation", Some("PGSSLNEGOTIATION")),
    ("client_encoding", None),
    ("schema", None),
];

/// What asks for something that this client does not do, and what to do instead. Left aside, it would
/// mean a connection to elsewhere, or one that is less protected than asked for.
const REFUSED: [(&str, &str, &str); 8] = [
    ("service", "PGSERVICE", "write its parameters into the URL"),
    ("hostaddr", "PGHOSTADDR", "write the address as the host"),
    ("sslcert", "PGSSLCERT", "use a password"),
    ("sslkey", "PGSSLKEY", "use a password"),
    ("sslcrl", "PGSSLCRL", "leave it out"),
    ("sslcrldir", "PGSSLCRLDIR", "leave it out"),
    ("require_auth", "PGREQUIREAUTH", "use sslmode=verify-full"),
    (
        "ssl_min_protocol_version",
        "PGSSLMINPROTOCOLVERSION",
        "leave it out: TLS 1.2 and 1.3 are spoken",
    ),
];

/// Values by name.
#[derive(Default)]
pub struct Parameters(BTreeMap<&'static str, String>);

impl Parameters {
    /// Sets one of the URL; the last of several counts.
    pub fn set(&mut self, name: &str, value: String) -> Result<(), Refused> {
        if let Some((known, _)) = KNOWN.iter().find(|(known, _)| *known == name) {
            self.0.insert(known, value);
            return Ok(());
        }
        let name = one_line(name.as_bytes());
        match REFUSED.iter().find(|(refused, ..)| *refused == name) {
            Some((_, _, instead)) => Err(Refused::new(format!(
                "the parameter {name} of the URL is not supported; {instead}"
            ))),
            None => Err(Refused::new(format!(
                "the URL has an unknown parameter {name}; correct it or leave it out"
            ))),
        }
    }

    /// Adds from the environment what is not set. An empty variable is none.
    pub fn complete(&mut self, environment: Environment<'_>) -> Result<(), Refused> {
        let given = |name: &str| environment(name).filter(|value| !value.is_empty());
        for (_, variable, instead) in REFUSED {
            if given(variable).is_some() {
                return Err(Refused::new(format!(
                    "{variable} is set and not supported; unset it and {instead}"
                )));
            }
        }
        for (name, variable) in KNOWN {
            if self.0.contains_key(name) {
                continue;
            }
            let Some((variable, value)) = variable.and_then(|v| Some((v, given(v)?))) else {
                continue;
            };
            let value = value
                .into_string()
                .map_err(|_| Refused::new(format!("{variable} is not UTF-8; correct it")))?;
            self.0.insert(name, value);
        }
        Ok(())
    }

    /// Takes a value out; an empty one is none.
    pub fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).filter(|value| !value.is_empty())
    }
}
