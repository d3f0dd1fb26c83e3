//! The shared store's places: schemas of one database in a private cluster, reached directly or through a
//! pooler in transaction mode.

use crate::Place;
use crate::servers::cluster::Cluster;
use crate::servers::pooler::Pooler;
use crate::servers::supervised::{LIMIT, until};
use crate::servers::tools;
use idem::domain::name::Nonce;
use idem::engine::store::Store;
use idem::store::paths::Paths;
use idem::store::postgres::{Client, Param, Target};
use idem::store::server::{ServerPlace, ServerStore};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The lease of claims, far beyond what a test takes.
pub const LEASE: Duration = Duration::from_secs(60);

/// Connections that all clients behind the pooler share.
const POOL: usize = 2;

const DATABASE: &str = "postgres";

/// The cluster that the tests of this binary share; none where the programs are missing.
pub fn shared() -> Option<&'static Cluster> {
    static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
    let start = || tools::present().then(|| Cluster::start(&Default::default()));
    SHARED.get_or_init(start).as_ref()
}

fn pooler() -> Option<&'static Pooler> {
    static POOLER: OnceLock<Option<Pooler>> = OnceLock::new();
    let start = || shared().map(|cluster| Pooler::start(cluster, POOL));
    POOLER.get_or_init(start).as_ref()
}

/// A place on the shared cluster.
pub fn direct() -> Option<PostgresPlace> {
    shared().map(|cluster| PostgresPlace::new(&cluster.url(DATABASE)))
}

/// A place on the shared cluster, behind the pooler.
pub fn pooled() -> Option<PostgresPlace> {
    pooler().map(|pooler| PostgresPlace::new(&pooler.url(DATABASE)))
}

/// A schema of its own, and a directory for what a machine keeps beside it.
pub struct PostgresPlace {
    home: TempDir,
    url: String,
    schema: String,
    made: OnceLock<()>,
}

impl PostgresPlace {
    /// In a database that is there.
    pub fn new(url: &str) -> PostgresPlace {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let schema = format!("s{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("state")).unwrap();
        PostgresPlace {
            url: format!("{url}?schema={schema}"),
            home,
            schema,
            made: OnceLock::new(),
        }
    }

    pub fn schema(&self) -> &str {
        &self.schema
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    fn local(&self) -> PathBuf {
        self.home.path().join("state/store")
    }

    pub fn paths(&self) -> Paths {
        Paths::new(self.local())
    }

    /// What opens it, after the tables are there.
    pub fn server_place(&self) -> ServerPlace {
        let place = server_place(&self.url, &self.local());
        self.made.get_or_init(|| {
            ServerStore::init(&place).unwrap();
        });
        place
    }

    pub fn connect(&self) -> ServerStore {
        ServerStore::open(&self.server_place()).unwrap()
    }

    /// A connection of a test's own.
    pub fn client(&self) -> Client {
        Client::connect(&self.server_place().target, soon()).unwrap()
    }

    /// A statement of a test's own with the schema in place of `@`; returns one column of its rows.
    pub fn ask(&self, sql: &str, params: &[Param<'_>]) -> Vec<i64> {
        let sql = sql.replace('@', &format!("{}.", self.schema));
        let rows = self.client().query(&sql, params, soon()).unwrap();
        rows.iter().map(|row| row.get(0).unwrap()).collect()
    }
}

/// Far beyond what a loaded machine needs.
pub fn soon() -> Instant {
    Instant::now() + LIMIT
}

pub fn server_place(url: &str, local: &Path) -> ServerPlace {
    ServerPlace {
        target: Target::parse(url, &|_| None).unwrap(),
        local: local.to_owned(),
        lease: LEASE,
    }
}

/// Opens what [`Place::location`] names.
pub fn open(location: &str) -> Option<Box<dyn Store>> {
    let (url, local) = location.split_once('\n')?;
    let place = server_place(url, Path::new(local));
    ServerStore::init(&place).unwrap();
    Some(Box::new(ServerStore::open(&place).unwrap()))
}

impl Place for PostgresPlace {
    fn open(&self) -> Box<dyn Store> {
        Box::new(self.connect())
    }

    fn location(&self) -> OsString {
        format!("{}\n{}", self.url, self.local().display()).into()
    }

    fn spool(&self, nonce: &Nonce, number: u32) -> PathBuf {
        self.paths().spool(nonce, number)
    }

    fn keeps_files(&self) -> bool {
        false
    }

    fn check(&self) {
        // A statement goes on for a moment after its client has died.
        let marks = format!("%\"{}\".%", self.schema);
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' AND query LIKE $1 \
            AND pid <> pg_backend_pid()";
        until("statements end", || {
            self.ask(sql, &[marks.as_str().into()]) == [0]
        });
    }
}
