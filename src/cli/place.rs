//! Where the store is, as far as options, environment and configuration tell.

use super::layers::Layers;
use super::settings::{UsageError, optional};
use super::values;
use std::path::PathBuf;
use std::time::Duration;

/// The store as the user gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GivenStore {
    /// The embedded store.
    File {
        /// Its file.
        path: PathBuf,
        /// Nobody has named it.
        default: bool,
    },
    /// A PostgreSQL server.
    Server {
        /// The URL, which can have a password.
        url: String,
        /// What gave it, for messages.
        from: String,
    },
}

/// Schemes of the URL of a PostgreSQL server.
const SERVER_SCHEMES: [&str; 2] = ["postgres", "postgresql"];

/// The store: as given, else `idem/idem.db` in the user's state directory.
pub fn store(layers: &Layers<'_>) -> Result<GivenStore, UsageError> {
    let Some(given) = layers.get("store") else {
        let path = state_directory(layers)?.join("idem.db");
        return Ok(GivenStore::File {
            path,
            default: true,
        });
    };
    let from = layers.label("store", &given.origin);
    if given.value.is_empty() {
        return Err(format!(
            "{from} is empty; name the store's file, or leave it out"
        ));
    }
    let text = given.value.to_string_lossy().into_owned();
    match text.split_once("://") {
        None => Ok(GivenStore::File {
            path: PathBuf::from(given.value.into_owned()),
            default: false,
        }),
        Some((scheme, _)) if SERVER_SCHEMES.contains(&scheme) => {
            Ok(GivenStore::Server { url: text, from })
        }
        Some((scheme, _)) => Err(format!(
            "{from}: there is no store of the kind {scheme}://; name a file, or a server as postgres://…"
        )),
    }
}

/// Where idem keeps what belongs to the user: `idem` in the state directory of the base directory
/// specification.
pub fn state_directory(layers: &Layers<'_>) -> Result<PathBuf, UsageError> {
    // That specification tells to ignore a relative path.
    let absolute = |name: &str| {
        let path = layers.variable(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    match state {
        Some(state) => Ok(state.join("idem")),
        None => Err("HOME is not set, so there is no place for the store's files; set it or XDG_STATE_HOME, or name a file with --store or IDEM_STORE".to_owned()),
    }
}

/// How long a lease may be: shorter ones run out in a pause of the network, longer ones leave the others
/// in the dark.
const LEASES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(24 * 60 * 60));

/// `--lease`: how long an owner of whom nothing is heard counts as alive.
pub fn lease(layers: &Layers<'_>) -> Result<Duration, UsageError> {
    let lease = optional(layers, "lease", |text| {
        let lease = values::duration(text).map_err(|e| e.to_string())?;
        match (LEASES.0..=LEASES.1).contains(&lease) {
            true => Ok(lease),
            false => Err("a lease is from 1s to 24h long".to_owned()),
        }
    })?;
    Ok(lease.unwrap_or(Duration::from_secs(60)))
}
