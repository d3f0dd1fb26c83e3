//! The shared store: rows in a PostgreSQL database, for more than one machine.
//!
//! Nothing is locked between two statements and no state is kept in the session, so that it works behind
//! a pooler in transaction mode: see [`buffer`]. Times are those of the server's clock: see
//! [`crate::process::clock::follow`]. A claim is held by a lease that its keeper renews: see [`lease`].

mod body;
mod buffer;
mod fault;
mod health;
mod lease;
mod output;
mod pending;
mod permit;
mod purge;
mod read;
mod rows;
mod schema;
mod write;

pub use health::{Health, OLDEST_VERSION};
pub use lease::RENEWALS_A_LEASE;
pub use schema::{grants, known as newest, script};

use crate::domain::name::{Generation, Nonce, OpName, Scope};
use crate::domain::outcome::State;
use crate::domain::record::{OutputRef, Record};
use crate::domain::time::{Stamp, UnixMs};
use crate::engine::event::Event;
use crate::engine::store::{
    Change, ClaimId, Claimed, DecideClaim, Fenced, Filter, GuardKind, Guards, Import, Imported,
    OpenOutput, PastResult, Permit, PermitWish, Purged, Settlement, Step, Store, StoreResult,
};
use crate::process::clock;
use crate::store::litter::{self, Known, Litter};
use crate::store::paths::Paths;
use crate::store::postgres::{Client, Param, PgError, Rows, Target};
use fault::{Fault, Tried};
use lease::Heart;
use serde_json::Value;
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// How long one call of the port may take. A claim that is not answered by then does not take place.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// How long a server may take to take notice that a statement is given up.
const CANCEL_LIMIT: Duration = Duration::from_secs(1);

/// The first and the longest pause between two tries to reach a server that went away.
const RECONNECT_PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// How long a keeper tries to settle where the call has no deadline: a server that restarts is back by
/// then.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(60);

/// How a store on a server is used.
#[derive(Debug, Clone)]
pub struct ServerPlace {
    /// The server, database, schema and role.
    pub target: Target,
    /// The path on this machine that the lock file, spool files and counts are named after.
    pub local: PathBuf,
    /// How long a claim is taken for alive by those who cannot see its keeper.
    pub lease: Duration,
}

/// One user's connection to the shared store.
#[derive(Debug)]
pub struct ServerStore {
    place: ServerPlace,
    shown: String,
    paths: Paths,
    client: Option<Client>,
    /// When the present call must be over.
    until: Instant,
    /// Until when settling is tried, if the call has a deadline.
    deadline: Option<Instant>,
    heart: Option<Heart>,
    /// When the server was last asked for what it then acknowledged: the claim, or its renewal.
    held_at: Duration,
    /// Outputs that are on the server already.
    uploaded: HashSet<(Nonce, u32)>,
    /// Spool files of this machine that are not needed any more.
    spent: Vec<PathBuf>,
}

impl ServerStore {
    /// Connects. Fails where the server cannot be reached, or idem's tables are not there.
    pub fn open(place: &ServerPlace) -> StoreResult<ServerStore> {
        let mut store = ServerStore::unconnected(place);
        store.begin(CALL_LIMIT);
        let connected = store.connect();
        store.told(connected)?;
        Ok(store)
    }

    fn unconnected(place: &ServerPlace) -> ServerStore {
        ServerStore {
            shown: place.target.to_string(),
            paths: Paths::new(place.local.clone()),
            place: place.clone(),
            client: None,
            until: Instant::now(),
            deadline: None,
            heart: None,
            held_at: Duration::ZERO,
            uploaded: HashSet::new(),
            spent: Vec::new(),
        }
    }

    /// Makes or updates the tables. Returns the version found, none where there was nothing.
    pub fn init(place: &ServerPlace) -> StoreResult<Option<i64>> {
        let shown = place.target.to_string();
        let until = Instant::now() + DEFAULT_PATIENCE;
        let done = Client::connect(&place.target, until)
            .map_err(Fault::from)
            .and_then(|mut client| schema::init(&mut client, place.target.schema(), &shown, until));
        done.map_err(|fault| fault.tell(&shown))
    }

    /// The names of its files on this machine.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// The server as a user would name it.
    pub fn place(&self) -> &str {
        &self.shown
    }

    /// Until when settling is tried while the server is away.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = Some(deadline);
    }

    fn patience(&self) -> Duration {
        self.deadline.map_or(DEFAULT_PATIENCE, |deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            left.max(CALL_LIMIT)
        })
    }

    /// Files on this machine that nobody needs any more: outputs and control files of claims that are over.
    pub fn litter(&mut self) -> StoreResult<Vec<Litter>> {
        let unreadable = |error| pending::unreadable(self.paths.directory(), &error);
        let files = litter::list(&self.paths).map_err(unreadable)?;
        let waiting = pending::nonces(&self.paths).map_err(unreadable)?;
        let mut running = self.look(ServerStore::open_nonces)?;
        running.extend(waiting);
        let known = Known {
            // What the server has needs no file here.
            spooled: HashSet::new(),
            running,
            now: SystemTime::now(),
        };
        let paths = &self.paths;
        Ok(files
            .into_iter()
            .filter(|file| !known.needs(paths, file))
            .collect())
    }

    /// Bytes that the tables and their indexes take on the server.
    pub fn taken_bytes(&mut self) -> StoreResult<u64> {
        self.look(|store| {
            let tables = ["operation", "output", "event", "guard", "permit"];
            let names: Vec<String> = tables
                .map(|table| store.within(&format!("@{table}")))
                .into();
            let sql = "SELECT coalesce(sum(pg_total_relation_size(name::regclass)), 0)::bigint \
                FROM unnest($1) AS t(name)";
            let names = Param::TextArray(names.iter().map(|name| Some(name.as_str())).collect());
            let bytes: i64 = store.ask(sql, &[names])?.only()?.get(0)?;
            Ok(bytes.cast_unsigned())
        })
    }

    /// Deletes the spool files whose content is on the server.
    pub fn drop_spent(&mut self) {
        for path in self.spent.drain(..) {
            // What stays behind is found by the housekeeping.
            let _ = std::fs::remove_file(path);
        }
    }

    fn begin(&mut self, limit: Duration) {
        self.until = Instant::now() + limit;
    }

    /// When one statement of the present call must be answered. A connection that has gone dead without a
    /// word is given up while there is time for another.
    fn statement_end(&self) -> Instant {
        self.until.min(Instant::now() + CALL_LIMIT)
    }

    fn told<T>(&self, tried: Tried<T>) -> StoreResult<T> {
        tried.map_err(|fault| fault.tell(&self.shown))
    }

    fn within(&self, sql: &str) -> String {
        schema::within(self.place.target.schema(), sql)
    }

    fn lease_seconds(&self) -> f64 {
        self.place.lease.as_secs_f64()
    }

    /// Connects, sets this process's idea of the time, and looks whether the tables are of this version.
    fn connect(&mut self) -> Tried<()> {
        let until = self.statement_end();
        let mut client = Client::connect(&self.place.target, until)?;
        let sql = self.within(
            "SELECT version, (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM @meta",
        );
        let before = clock::local().wall;
        let rows = match client.query(&sql, &[], until) {
            Err(error) if schema::is_missing(&error) => {
                return Err(Fault::Told(fault::missing(&self.shown)));
            }
            rows => rows?,
        };
        let after = clock::local().wall;
        let row = rows.only()?;
        schema::check(row.get(0)?, &self.shown)?;
        // The server read its clock somewhere in between.
        let middle = UnixMs(before.0 + (after.0 - before.0) / 2);
        clock::follow(UnixMs(row.get(1)?), middle);
        self.client = Some(client);
        Ok(())
    }

    /// Connects again if need be, for as long as this call may take.
    fn client(&mut self) -> Tried<&mut Client> {
        let mut pause = RECONNECT_PAUSES.0;
        while !self.client.as_ref().is_some_and(Client::is_open) {
            match self.connect() {
                Err(fault) if fault.is_connection_lost() => {
                    if Instant::now() + pause >= self.until {
                        return Err(fault);
                    }
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(RECONNECT_PAUSES.1);
                }
                connected => connected?,
            }
        }
        self.client.as_mut().ok_or(Fault::Damaged("no connection"))
    }

    /// Reads, or makes a change that can be repeated. A connection that is gone is made anew.
    fn ask(&mut self, sql: &str, params: &[Param<'_>]) -> Tried<Rows> {
        loop {
            match self.query(sql, params) {
                Err(fault) if fault.is_connection_lost() => {
                    self.client = None;
                    if Instant::now() >= self.until {
                        return Err(fault);
                    }
                }
                // Under a stricter isolation than the usual one, and in a deadlock.
                Err(Fault::Pg(error))
                    if fault::is_collision(&error) && Instant::now() < self.until => {}
                rows => return rows,
            }
        }
    }

    /// Writes, once. Returns the first column of the only row, and whether the standby that must have it
    /// as well has it.
    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Tried<(bool, bool)> {
        let rows = self.query(sql, params)?;
        Ok((rows.only()?.get(0)?, self.is_confirmed()))
    }

    /// Whether the last statement's commit was not only done here: see [`buffer::NOT_CONFIRMED`].
    fn is_confirmed(&mut self) -> bool {
        let warnings = self.client.as_mut().map(Client::take_warnings);
        let unconfirmed = |state: &str| state == buffer::NOT_CONFIRMED;
        !warnings.is_some_and(|all| all.iter().any(|one| unconfirmed(&one.sqlstate)))
    }

    /// One statement, once. One that is not answered in time is cancelled: it could wait for a lock or a
    /// standby for ever, and hold what everybody else needs.
    fn query(&mut self, sql: &str, params: &[Param<'_>]) -> Tried<Rows> {
        self.client()?;
        let until = self.statement_end();
        let client = self.client()?;
        let token = client.cancel_token();
        let rows = client.query(sql, params, until);
        if let (Err(PgError::TimedOut(_)), Some(token)) = (&rows, token) {
            // A server that does not hear this either is gone.
            let _ = token.cancel(Instant::now() + CANCEL_LIMIT);
        }
        Ok(rows?)
    }

    /// Reads, for the port.
    fn look<T>(&mut self, read: impl FnOnce(&mut ServerStore) -> Tried<T>) -> StoreResult<T> {
        self.begin(CALL_LIMIT);
        let done = read(self);
        self.told(done)
    }

    fn next_generation(&mut self) -> Tried<Generation> {
        let rows = self.ask(&self.within("SELECT nextval('@generation')"), &[])?;
        Ok(Generation(rows.only()?.get(0)?))
    }
}

impl Store for ServerStore {
    fn find(&mut self, name: &OpName) -> StoreResult<Option<Record>> {
        self.look(|store| store.find_record(name))
    }

    fn claim(
        &mut self,
        name: &OpName,
        decide: &mut DecideClaim<'_>,
    ) -> StoreResult<(Claimed, Option<Record>)> {
        self.claim_leased(name, decide)
    }

    fn step(&mut self, claim: &ClaimId, step: &Step) -> StoreResult<Fenced> {
        self.step_once(claim, step)
    }

    fn still_holds(&mut self, claim: &ClaimId) -> StoreResult<bool> {
        self.hold_on(claim)
    }

    fn settle(
        &mut self,
        claim: &ClaimId,
        settlement: &Settlement,
        guards: &mut dyn FnMut(&mut dyn Guards) -> StoreResult<()>,
    ) -> StoreResult<Fenced> {
        self.settle_patiently(claim, settlement, guards)
    }

    fn change(
        &mut self,
        name: &OpName,
        decide: &mut dyn FnMut(Option<&Record>) -> Change,
    ) -> StoreResult<Option<Record>> {
        self.change_record(name, decide)
    }

    fn with_guards(
        &mut self,
        body: &mut dyn FnMut(&mut dyn Guards) -> StoreResult<()>,
    ) -> StoreResult<()> {
        self.change_guards(body)
    }

    fn list(&mut self, filter: &Filter) -> StoreResult<Vec<Record>> {
        self.look(|store| store.list_records(filter))
    }

    fn names(&mut self, filter: &Filter) -> StoreResult<Vec<OpName>> {
        self.look(|store| store.list_names(filter))
    }

    fn import(&mut self, import: &Import) -> StoreResult<Imported> {
        self.import_record(import)
    }

    fn count_states(&mut self) -> StoreResult<Vec<(Scope, State, u64)>> {
        self.look(ServerStore::read_counts)
    }

    fn list_guards(&mut self, kind: GuardKind) -> StoreResult<Vec<(String, Value)>> {
        self.look(|store| store.read_guards(kind))
    }

    fn events(
        &mut self,
        name: Option<&OpName>,
        after_id: i64,
        limit: u32,
    ) -> StoreResult<Vec<Event>> {
        self.look(|store| store.read_events(name, after_id, limit))
    }

    fn past_result(
        &mut self,
        name: &OpName,
        generation: Generation,
    ) -> StoreResult<Option<PastResult>> {
        self.look(|store| store.read_past(name, generation))
    }

    fn open_output(&mut self, output: &OutputRef) -> StoreResult<OpenOutput> {
        self.look(|store| store.download(output))
    }

    fn purge(&mut self, now: &Stamp, limit: u32, keep_events: Duration) -> StoreResult<Purged> {
        self.look(|store| store.purge_batch(now, limit, keep_events))
    }

    fn permit(&mut self, wish: &PermitWish<'_>) -> StoreResult<Permit> {
        self.look(|store| store.take_permit(wish))
    }

    fn give_back_permit(&mut self, nonce: &Nonce) -> StoreResult<()> {
        self.look(|store| store.drop_permit(nonce))
    }
}
