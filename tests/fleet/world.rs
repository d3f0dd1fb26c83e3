//! A server that the tests share, and hosts.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;

use tempfile::TempDir;

use crate::command::{Cmd, Done};
use crate::env::{IDEM, TestEnv, root_or_leave};
use crate::servers::cluster::{Cluster, Setup};
use crate::servers::tools;

/// Hosts must not be seen by each other: as on another machine no process of one is there for the other.
pub fn can_hide() -> bool {
    root_or_leave("hosts with PID namespaces of their own")
}

/// Room for many calls that hang at once.
pub const CONF: [&str; 1] = ["max_connections = 300"];

/// A cluster of a test's own, for those that stop it; none where the programs are missing.
pub fn own_cluster() -> Option<Cluster> {
    let setup = Setup {
        conf: &CONF,
        ..Setup::default()
    };
    tools::present().then(|| Cluster::start(&setup))
}

/// The cluster of the tests that do not disturb it.
pub fn shared() -> Option<&'static Cluster> {
    static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
    SHARED.get_or_init(own_cluster).as_ref()
}

/// A database with idem's tables, and the place where commands tell that they ran.
pub struct World {
    pub database: String,
    log: TempDir,
}

impl World {
    pub fn new(cluster: &Cluster) -> World {
        let world = World {
            database: cluster.new_database(),
            log: TempDir::with_prefix("idem-log.").expect("a directory"),
        };
        world.init(cluster);
        world
    }

    /// Makes the tables.
    pub fn init(&self, cluster: &Cluster) {
        let t = TestEnv::new();
        let url = cluster.url(&self.database);
        t.idem("init").env("IDEM_STORE", &url).end().code(0);
    }

    /// A host that uses the database by this URL.
    pub fn host(&self, url: &str) -> Host {
        Host {
            t: TestEnv::new(),
            url: url.to_owned(),
            log: self.log.path().to_owned(),
            hidden: false,
        }
    }

    /// A host whose processes nobody else sees, and who sees nobody's.
    pub fn hidden_host(&self, url: &str) -> Host {
        Host {
            hidden: true,
            ..self.host(url)
        }
    }

    /// How often the command of a key ran.
    pub fn runs(&self, key: &str) -> usize {
        let log = std::fs::read_to_string(self.log.path().join(key));
        log.unwrap_or_default().lines().count()
    }

    /// A file beside the logs, for commands that wait for it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.log.path().join(name)
    }

    /// Makes such a file.
    pub fn touch(&self, name: &str) {
        std::fs::write(self.file(name), "").expect("a file");
    }
}

/// One machine: a home, a lock file, and what it keeps for the server of its own.
pub struct Host {
    pub t: TestEnv,
    url: String,
    log: PathBuf,
    hidden: bool,
}

impl Host {
    /// `idem` with arguments split at blanks.
    pub fn idem(&self, args: &str) -> Cmd {
        self.shell("\"$0\" \"$@\"; exit $?")
            .args(args.split_whitespace())
    }

    /// A script, whose `$0` is `idem`.
    pub fn shell(&self, script: &str) -> Cmd {
        let command = match self.hidden {
            // The shell stays, since the end of a namespace's first process is the end of all.
            true => self
                .t
                .command("unshare")
                .args(["--pid", "--fork", "--mount-proc", "sh", "-c"]),
            false => self.t.command("sh").arg("-c"),
        };
        self.with_store(command.args([script, IDEM]))
    }

    /// Any command, with this host's store.
    pub fn with_store(&self, command: Cmd) -> Cmd {
        command
            .env("IDEM_STORE", &self.url)
            .env("IDEM_SCOPE", "fleet")
            .env("LOG", &self.log)
    }

    /// `idem run` of a command that tells that it ran, and then executes a script.
    pub fn run(&self, key: &str, options: &str, script: &str) -> Cmd {
        let tells = "echo x >>\"$LOG/$KEY\"";
        self.idem("run --fingerprint none --key")
            .env("KEY", key)
            .arg(key)
            .args(options.split_whitespace())
            .args(["--", "sh", "-c", &format!("{tells}; {script}")])
    }

    /// Runs it to its end.
    pub fn ran(&self, key: &str, options: &str, script: &str) -> Done {
        self.run(key, options, script).end()
    }

    /// The operation's state, or `none`.
    pub fn state(&self, key: &str) -> String {
        let done = self.idem("status --json").arg(key).end();
        match done.code {
            1 => "none".to_owned(),
            _ => crate::env::text(&done.code(0).json()["state"]),
        }
    }

    /// The keeper's PID, of a host that is not hidden.
    pub fn keeper(&self, key: &str) -> i32 {
        let status = self.idem("status --json").arg(key).end();
        crate::env::pid(&status.code(0).json()["owner"]["pid"])
    }
}

/// Shell code that waits until a file beside the logs exists.
pub fn gate(name: &str) -> String {
    format!("until test -e \"$LOG/{name}\"; do sleep 0.02; done")
}

/// Does something for each of many at once.
pub fn at_once<T: Send, R: Send>(many: Vec<T>, act: impl Fn(T) -> R + Sync) -> Vec<R> {
    let act = &act;
    thread::scope(|scope| {
        let threads: Vec<_> = many
            .into_iter()
            .map(|one| scope.spawn(move || act(one)))
            .collect();
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// The directory where a host keeps things for its server.
pub fn kept(host: &Host) -> Vec<PathBuf> {
    let state = host.t.store_dir();
    let all = |path: &Path| -> Vec<PathBuf> {
        let entries = path.read_dir().into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    all(&state).iter().flat_map(|place| all(place)).collect()
}
