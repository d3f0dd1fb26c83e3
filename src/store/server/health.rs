//! What a server says about itself, as far as the store's promises depend on it.

use super::fault::{Fault, Tried};
use super::{CALL_LIMIT, ServerPlace, ServerStore, pending, schema};
use crate::engine::store::StoreResult;
use crate::process::clock;
use crate::store::paths::Paths;
use crate::store::postgres::{Client, Rows};
use std::time::{Duration, Instant};

/// The oldest version that the statements are for, as the server writes it in `server_version_num`.
pub const OLDEST_VERSION: i64 = 120_000;

/// A server and the way to it.
#[derive(Debug, Clone)]
pub struct Health {
    /// The time of a statement that does nothing.
    pub round_trip: Duration,
    /// The connection is protected.
    pub tls: bool,
    /// The connection does not leave this machine, as far as the server can tell.
    pub local: bool,
    /// A pooler stands in between.
    pub pooled: bool,
    /// The version as a number, 150018 for 15.18.
    pub version_number: i64,
    /// The version as a text.
    pub version: String,
    /// The version of idem's tables; none where they are not there.
    pub schema: Option<i64>,
    /// The database's encoding.
    pub encoding: String,
    /// `synchronous_commit`, as it is for this role in this database.
    pub synchronous_commit: String,
    /// `fsync`.
    pub fsync: bool,
    /// `full_page_writes`.
    pub full_page_writes: bool,
    /// It is a standby, or is being restored.
    pub in_recovery: bool,
    /// Sessions of this role start read-only.
    pub read_only: bool,
    /// `synchronous_standby_names`.
    pub synchronous_standbys: String,
    /// The standbys that are connected.
    pub standbys: usize,
    /// How far this machine's clock is ahead of the server's, in milliseconds.
    pub clock_ahead_ms: i64,
}

const SETTINGS: &str = "SELECT current_setting('server_version_num')::bigint, \
    current_setting('server_version'), current_setting('server_encoding'), \
    current_setting('synchronous_commit'), current_setting('fsync') = 'on', \
    current_setting('full_page_writes') = 'on', pg_is_in_recovery(), \
    current_setting('default_transaction_read_only') = 'on', \
    current_setting('synchronous_standby_names'), \
    (SELECT count(*) FROM pg_stat_replication WHERE state IS DISTINCT FROM 'backup'), \
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint, pg_backend_pid(), \
    coalesce(inet_client_addr() <<= inet '127.0.0.0/8' OR inet_client_addr() = inet '::1', true)";

impl Health {
    /// Asks the server.
    pub fn look(place: &ServerPlace) -> StoreResult<Health> {
        let until = Instant::now() + CALL_LIMIT;
        ask(place, until).map_err(|fault| fault.tell(&place.target.to_string()))
    }
}

fn ask(place: &ServerPlace, until: Instant) -> Tried<Health> {
    let mut client = Client::connect(&place.target, until)?;
    let before = clock::local().wall.0;
    let settings = client.query(SETTINGS, &[], until)?;
    let middle = before + (clock::local().wall.0 - before) / 2;
    let began = Instant::now();
    client.query("SELECT 1", &[], until)?;
    let round_trip = began.elapsed();
    let schema = schema::applied(&mut client, place.target.schema(), until)?;
    read(&settings, &client, middle, round_trip, schema)
}

fn read(
    settings: &Rows,
    client: &Client,
    middle: i64,
    round_trip: Duration,
    schema: Option<i64>,
) -> Result<Health, Fault> {
    let row = settings.only()?;
    let now: i64 = row.get(10)?;
    let process: i32 = row.get(11)?;
    let pooled = client.process().is_some_and(|told| told != process);
    Ok(Health {
        round_trip,
        tls: client.is_tls(),
        local: row.get::<bool>(12)? && !pooled,
        pooled,
        version_number: row.get(0)?,
        version: row.get(1)?,
        schema,
        encoding: row.get(2)?,
        synchronous_commit: row.get(3)?,
        fsync: row.get(4)?,
        full_page_writes: row.get(5)?,
        in_recovery: row.get(6)?,
        read_only: row.get(7)?,
        synchronous_standbys: row.get(8)?,
        standbys: usize::try_from(row.get::<i64>(9)?).unwrap_or(usize::MAX),
        clock_ahead_ms: middle - now,
    })
}

impl ServerStore {
    /// How many results wait on this machine for this server.
    pub fn waiting(place: &ServerPlace) -> StoreResult<usize> {
        let paths = Paths::new(place.local.clone());
        let waiting = pending::list(&paths);
        waiting
            .map(|files| files.len())
            .map_err(|error| pending::unreadable(paths.directory(), &error))
    }
}
