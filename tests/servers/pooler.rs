//! pgbouncer in front of a cluster, in transaction mode.

use std::net::TcpStream;

use super::cluster::Cluster;
use super::supervised::{self, Supervised, until};
use super::tools;

/// A running pooler.
pub struct Pooler {
    _server: Supervised,
    port: u16,
}

impl Pooler {
    /// Starts one that has at most so many connections to each database.
    pub fn start(cluster: &Cluster, pool_size: usize) -> Pooler {
        let place = supervised::directory();
        let port = supervised::free_port();
        let users = place.path().join("users");
        std::fs::write(&users, "\"idem\" \"\"\n").unwrap();
        let conf = place.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\n\
             default_pool_size = {pool_size}\nmax_client_conn = 200\n",
            cluster.port(),
            users.display()
        );
        std::fs::write(&conf, text).unwrap();
        let pgbouncer = tools::path("pgbouncer");
        let command = [pgbouncer.to_str().unwrap(), conf.to_str().unwrap()];
        let server = Supervised::new(place, "KILL", &command);
        server.start();
        until("the pooler starts", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Pooler {
            _server: server,
            port,
        }
    }

    /// The superuser's URL of a database, through the pooler.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://idem@127.0.0.1:{}/{database}", self.port)
    }
}
