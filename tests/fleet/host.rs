//! A store on a server of the tests' own, and hosts that use it.

use crate::command::Cmd;
use crate::env::{IDEM, TestEnv};
use crate::servers::cluster::{Cluster, Setup};
use crate::servers::tools;
use std::sync::OnceLock;

/// Who has to give a password.
pub const STRANGER: &str = "stranger";
pub const PASSWORD: &str = "swordfish-7";

/// The cluster that the tests of this binary share; none where the programs are missing.
pub fn cluster() -> Option<&'static Cluster> {
    static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
    let start = || {
        tools::present().then(|| {
            let password = format!("host all {STRANGER} 127.0.0.1/32 scram-sha-256");
            let cluster = Cluster::start(&Setup {
                hba: &[&password],
                ..Setup::default()
            });
            let role = format!("CREATE ROLE {STRANGER} SUPERUSER LOGIN PASSWORD '{PASSWORD}'");
            cluster.batch("postgres", &role);
            cluster
        })
    };
    SHARED.get_or_init(start).as_ref()
}

/// A database of a test's own, with the tables in it.
pub struct Fleet {
    pub cluster: &'static Cluster,
    pub database: String,
}

impl Fleet {
    pub fn new() -> Option<Fleet> {
        let fleet = Fleet::bare()?;
        fleet.host().idem("init").end().code(0);
        Some(fleet)
    }

    /// Without tables.
    pub fn bare() -> Option<Fleet> {
        let cluster = cluster()?;
        Some(Fleet {
            database: cluster.new_database(),
            cluster,
        })
    }

    pub fn url(&self) -> String {
        self.cluster.url(&self.database)
    }

    /// A host of its own: nothing on its disk is another's. All see the same processes, as containers do
    /// that share their PID namespace.
    pub fn host(&self) -> TestEnv {
        let mut host = TestEnv::new();
        host.set("IDEM_STORE", self.url());
        host.set("IDEM_SCOPE", "fleet");
        host
    }
}

/// `idem` on a host that sees no process of the others, as another machine.
pub fn out_of_sight(host: &TestEnv, args: &[&str]) -> Cmd {
    let unshare = ["--pid", "--fork", "--kill-child", "--mount-proc", IDEM];
    host.command("unshare").args(unshare).args(args)
}

/// `idem run OPTIONS -- sh -c SCRIPT` on such a host, the options split at blanks.
pub fn run_out_of_sight(host: &TestEnv, options: &str, script: &str) -> Cmd {
    let mut args = vec!["run"];
    args.extend(options.split_whitespace());
    args.extend(["--", "sh", "-c", script]);
    out_of_sight(host, &args)
}
