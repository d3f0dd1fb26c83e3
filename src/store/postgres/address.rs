//! Where a server listens.

use super::parameters::Refused;
use super::url::encode;
use std::path::{Path, PathBuf};

const DEFAULT_PORT: u16 = 5432;

/// Where packages and the original put the socket, in the order in which they are looked at.
const SOCKET_DIRECTORIES: [&str; 3] = ["/var/run/postgresql", "/run/postgresql", "/tmp"];

/// One server of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub place: Place,
    pub port: u16,
}

/// What a host is reached by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A name or an address.
    Network(String),
    /// The directory of a Unix socket.
    Directory(PathBuf),
    /// A Unix socket in one of the usual directories.
    Usual,
}

impl Host {
    /// Reads `host` and `port`, each one or a list with commas.
    pub fn parse_list(hosts: Option<&str>, ports: Option<&str>) -> Result<Vec<Host>, Refused> {
        let hosts: Vec<&str> = hosts.unwrap_or("").split(',').collect();
        let ports: Vec<&str> = ports.unwrap_or("").split(',').collect();
        if ports.len() != 1 && ports.len() != hosts.len() {
            return Err(Refused::new(format!(
                "there are {} ports for {} hosts; give one for all, or one each",
                ports.len(),
                hosts.len()
            )));
        }
        let port = |i: usize| ports.get(i).or(ports.first()).copied().unwrap_or("");
        let parsed = hosts.iter().enumerate().map(|(i, host)| {
            Ok(Host {
                place: parse_place(host)?,
                port: parse_port(port(i))?,
            })
        });
        parsed.collect()
    }

    /// How the passfile names this host.
    pub fn passfile_name(&self) -> &str {
        match &self.place {
            Place::Network(name) => name,
            Place::Directory(directory)
                if !SOCKET_DIRECTORIES.iter().any(|d| directory == Path::new(d)) =>
            {
                directory.to_str().unwrap_or("")
            }
            Place::Directory(_) | Place::Usual => "localhost",
        }
    }

    /// The path of the socket, where it is one.
    pub fn socket_path(&self) -> Option<PathBuf> {
        let name = format!(".s.PGSQL.{}", self.port);
        match &self.place {
            Place::Network(_) => None,
            Place::Directory(directory) => Some(directory.join(name)),
            Place::Usual => {
                let paths = SOCKET_DIRECTORIES.map(|directory| Path::new(directory).join(&name));
                let present = paths.iter().find(|path| path.exists());
                present.or(paths.first()).cloned()
            }
        }
    }

    /// For messages: what the user calls this server.
    pub fn name(&self) -> String {
        match (&self.place, self.socket_path()) {
            (Place::Network(name), _) if name.contains(':') => format!("[{name}]:{}", self.port),
            (Place::Network(name), _) => format!("{name}:{}", self.port),
            (_, Some(path)) => path.display().to_string(),
            (_, None) => String::new(),
        }
    }

    /// As a part of a URL.
    pub fn url(&self) -> String {
        let place = match &self.place {
            Place::Network(name) if name.contains(':') => format!("[{name}]"),
            Place::Network(name) => encode(name),
            Place::Directory(directory) => encode(&directory.to_string_lossy()),
            Place::Usual => String::new(),
        };
        match self.port {
            DEFAULT_PORT => place,
            port => format!("{place}:{port}"),
        }
    }
}

fn parse_place(host: &str) -> Result<Place, Refused> {
    match host.as_bytes().first() {
        None => Ok(Place::Usual),
        Some(b'/') => Ok(Place::Directory(PathBuf::from(host))),
        Some(b'@') => Err(Refused::new(
            "sockets without a file are not supported; give a directory or a host".to_owned(),
        )),
        Some(_) if host.chars().any(|c| c.is_control() || c.is_whitespace()) => Err(Refused::new(
            "the host has a blank or a control character in it; correct it".to_owned(),
        )),
        Some(_) => Ok(Place::Network(host.to_owned())),
    }
}

fn parse_port(port: &str) -> Result<u16, Refused> {
    if port.is_empty() {
        return Ok(DEFAULT_PORT);
    }
    match port.parse() {
        Ok(port) if port != 0 => Ok(port),
        _ => Err(Refused::new(
            "a port is a number from 1 to 65535".to_owned(),
        )),
    }
}
