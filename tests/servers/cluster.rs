//! A private PostgreSQL cluster: on the loopback and a Unix socket, not as root, deleted at the end.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use idem::store::postgres::{Client, Target};
use tempfile::TempDir;

use super::certificates;
use super::supervised::{self, LIMIT, Supervised, until};
use super::tools;

/// The superuser, who needs no password.
pub const SUPERUSER: &str = "idem";

/// How a cluster is set up beyond the usual.
#[derive(Default)]
pub struct Setup<'a> {
    /// Lines of pg_hba.conf that come before those that let everybody in.
    pub hba: &'a [&'a str],
    /// Lines of postgresql.conf.
    pub conf: &'a [&'a str],
    /// Whether it speaks TLS: with a certificate for localhost, which `authority.crt` vouches for.
    pub tls: bool,
}

/// A running server.
pub struct Cluster {
    server: Supervised,
    port: u16,
    databases: AtomicU32,
}

impl Cluster {
    /// Creates a cluster and starts its server.
    pub fn start(setup: &Setup<'_>) -> Cluster {
        let place = supervised::directory();
        let data = place.path().join("data");
        let (initdb, data_arg) = (tools::path("initdb"), data.to_str().unwrap());
        let init = "-A trust --no-locale -E UTF8 --no-sync -U";
        let mut command = vec![initdb.to_str().unwrap()];
        command.extend(init.split(' '));
        supervised::prepare(
            place.path(),
            &[&command[..], &[SUPERUSER, "-D", data_arg]].concat(),
        );
        let port = supervised::free_port();
        configure(&data, place.path(), port, setup);
        Cluster::launched(place, port)
    }

    /// Creates a standby that follows this server, asynchronously unless the primary names it in
    /// `synchronous_standby_names`, and starts it.
    pub fn start_standby(&self, name: &str) -> Cluster {
        let place = supervised::directory();
        let data = place.path().join("data");
        let (basebackup, data_arg) = (tools::path("pg_basebackup"), data.to_str().unwrap());
        let from = format!(
            "host=127.0.0.1 port={} user={SUPERUSER} application_name={name}",
            self.port
        );
        let mut command = vec![basebackup.to_str().unwrap(), "-D", data_arg, "-d", &from];
        command.extend([
            "-X",
            "stream",
            "-c",
            "fast",
            "--no-sync",
            "--write-recovery-conf",
        ]);
        supervised::prepare(place.path(), &command);
        let port = supervised::free_port();
        configure(&data, place.path(), port, &Setup::default());
        Cluster::launched(place, port)
    }

    /// Makes a standby a primary.
    pub fn promote(&self) {
        self.batch("postgres", "SELECT pg_promote()");
    }

    fn launched(place: TempDir, port: u16) -> Cluster {
        let data = place.path().join("data");
        let postgres = tools::path("postgres");
        let command = [postgres.to_str().unwrap(), "-D", data.to_str().unwrap()];
        let cluster = Cluster {
            server: Supervised::new(place, "QUIT", &command),
            port,
            databases: AtomicU32::new(0),
        };
        cluster.launch();
        cluster
    }

    fn launch(&self) {
        self.server.start();
        let status = self.data().join("postmaster.pid");
        until("the server starts", || {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let state = text.lines().nth(7).unwrap_or("").trim();
            assert!(
                !self.server.log().contains("FATAL:  could not"),
                "{}",
                self.server.log()
            );
            state == "ready" || state == "standby"
        });
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory of the Unix socket.
    pub fn socket_directory(&self) -> &Path {
        self.server.place()
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.server.place().join("data")
    }

    /// A certificate or key of a server with TLS; see [`certificates::make`].
    pub fn certificate(&self, file: &str) -> PathBuf {
        self.data().join(file)
    }

    /// The server's log so far.
    pub fn log(&self) -> String {
        self.server.log()
    }

    /// The superuser's URL of a database.
    pub fn url(&self, database: &str) -> String {
        self.url_as(SUPERUSER, database)
    }

    /// A user's URL of a database; the user can be `name:password`.
    pub fn url_as(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/{database}", self.port)
    }

    /// Creates a database of its own for a test, and returns its name.
    pub fn new_database(&self) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{number}");
        self.batch("postgres", &format!("CREATE DATABASE {name}"));
        name
    }

    /// Executes statements as the superuser.
    pub fn batch(&self, database: &str, sql: &str) {
        self.client(database)
            .batch(sql, Instant::now() + LIMIT)
            .unwrap();
    }

    /// A connection of the superuser.
    pub fn client(&self, database: &str) -> Client {
        let target = Target::parse(&self.url(database), &|_| None).unwrap();
        Client::connect(&target, Instant::now() + LIMIT).unwrap()
    }

    /// Kills the server and all its sessions as a crash would.
    pub fn kill9(&self) {
        let postmaster = self.server.pid();
        // Stopped, it starts no further session while the present ones are looked for.
        supervised::signal("STOP", postmaster);
        for child in children(postmaster) {
            // It may have ended just now.
            let _ = Command::new("kill")
                .args(["-9", &child.to_string()])
                .output();
        }
        supervised::signal("KILL", postmaster);
        self.server.wait();
        std::fs::remove_file(self.data().join("postmaster.pid")).unwrap();
    }

    /// Stops the server in an orderly way, though without waiting for its clients.
    pub fn stop(&self) {
        supervised::signal("INT", self.server.pid());
        self.server.wait();
    }

    /// Starts the server again after [`Cluster::kill9`] or [`Cluster::stop`].
    pub fn start_again(&self) {
        self.launch();
    }

    /// Stops and starts it, at the same port.
    pub fn restart(&self) {
        self.stop();
        self.start_again();
    }
}

fn configure(data: &Path, place: &Path, port: u16, setup: &Setup<'_>) {
    let mut conf = std::fs::read_to_string(data.join("postgresql.conf")).unwrap();
    conf.push_str(&format!(
        "port = {port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '{}'\n\
         max_connections = 50\nshared_buffers = 16MB\n",
        place.display()
    ));
    if setup.tls {
        conf.push_str(&protect(data));
    }
    for line in setup.conf {
        conf.push_str(line);
        conf.push('\n');
    }
    std::fs::write(data.join("postgresql.conf"), conf).unwrap();
    let everybody = "local all all trust\nhost all all 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 trust\n";
    let hba = setup.hba.iter().map(|line| format!("{line}\n"));
    std::fs::write(
        data.join("pg_hba.conf"),
        hba.collect::<String>() + everybody,
    )
    .unwrap();
}

/// Puts certificates where the server looks for them; of these only the server may read the keys.
fn protect(data: &Path) -> String {
    certificates::make(data);
    for entry in data.read_dir().unwrap().flatten() {
        if entry.path().extension().is_some_and(|kind| kind == "key") {
            supervised::hand_over(&entry.path());
            std::fs::set_permissions(entry.path(), Permissions::from_mode(0o600)).unwrap();
        }
    }
    "ssl = on\nssl_cert_file = 'localhost.crt'\nssl_key_file = 'localhost.key'\n".to_owned()
}

/// The processes whose parent is this one.
fn children(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name in parentheses can contain anything; behind it come the state and the parent.
        let mut fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
        fields.nth(1).and_then(|field| field.parse().ok()) == Some(parent)
    };
    numbers.filter(is_child).collect()
}
