//! `sslmode` and `sslrootcert` against servers with right and wrong certificates.

use std::sync::{Mutex, OnceLock, PoisonError};

use idem::store::postgres::{Client, PgError};

use crate::servers::cluster::{Cluster, Setup};
use crate::servers::supervised::until;
use crate::servers::tools;
use crate::{connect, shared, soon};

/// A server that speaks TLS.
struct Protected {
    cluster: Cluster,
    /// Held while a test has its certificate in place.
    turn: Mutex<()>,
}

const HBA: [&str; 4] = [
    "hostssl all only_tls all trust",
    "host all only_tls all reject",
    "hostnossl all only_clear all trust",
    "host all only_clear all reject",
];

fn start() -> Protected {
    let cluster = Cluster::start(&Setup {
        hba: &HBA,
        tls: true,
        ..Setup::default()
    });
    cluster.batch(
        "postgres",
        "CREATE ROLE only_tls LOGIN; CREATE ROLE only_clear LOGIN",
    );
    Protected {
        cluster,
        turn: Mutex::new(()),
    }
}

/// Runs a test while the server has this certificate.
fn with_certificate(name: &str, test: impl FnOnce(&Protected)) {
    static SERVER: OnceLock<Option<Protected>> = OnceLock::new();
    let Some(server) = SERVER.get_or_init(|| tools::present().then(start)) else {
        return;
    };
    let _turn = server.turn.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = &server.cluster;
    for kind in ["cert", "key"] {
        let file = kind.replace("cert", "crt");
        cluster.batch(
            "postgres",
            &format!("ALTER SYSTEM SET ssl_{kind}_file = '{name}.{file}'"),
        );
    }
    cluster.batch("postgres", "SELECT pg_reload_conf()");
    until("the certificate is in use", || {
        // A new session has what the server had when it began.
        let mut client = connect(&format!("{}?sslmode=disable", cluster.url("postgres"))).unwrap();
        let rows = client.query("SHOW ssl_cert_file", &[], soon()).unwrap();
        rows.only().unwrap().get::<&str>(0).unwrap() == format!("{name}.crt")
    });
    test(server);
}

impl Protected {
    fn connect(&self, user: &str, host: &str, parameters: &str) -> Result<Client, PgError> {
        let port = self.cluster.port();
        connect(&format!(
            "postgres://{user}@{host}:{port}/postgres?{parameters}"
        ))
    }

    /// With one of the authorities as `sslrootcert`.
    fn verify(&self, host: &str, mode: &str, root: &str) -> Result<Client, PgError> {
        let root = self.cluster.certificate(root);
        self.connect(
            "idem",
            host,
            &format!("sslmode={mode}&sslrootcert={}", root.display()),
        )
    }

    #[track_caller]
    fn accepts(&self, host: &str, mode: &str, root: &str) {
        let client = self.verify(host, mode, root);
        assert!(protected(client), "{host} {mode} {root}");
    }

    #[track_caller]
    fn refuses(&self, host: &str, mode: &str, root: &str, why: &str) {
        refused(self.verify(host, mode, root), why);
    }

    /// Without a root there is nothing to compare with.
    #[track_caller]
    fn accepts_without_a_root(&self) {
        let client = self.connect("idem", "localhost", "sslmode=require");
        assert!(protected(client));
    }
}

/// Whether the server sees the connection as protected.
#[track_caller]
fn protected(client: Result<Client, PgError>) -> bool {
    let mut client = client.unwrap();
    let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let seen = client
        .query(sql, &[], soon())
        .unwrap()
        .only()
        .unwrap()
        .get(0)
        .unwrap();
    assert_eq!(client.is_tls(), seen);
    seen
}

#[track_caller]
fn refused(client: Result<Client, PgError>, why: &str) {
    match client.map(drop) {
        Err(PgError::Tls(text)) => assert!(text.contains(why), "{text}"),
        other => panic!("{other:?} where the certificate must be refused"),
    }
}

#[test]
fn the_mode_says_whether_the_connection_is_protected() {
    with_certificate("localhost", |server| {
        for (mode, expected) in [
            ("disable", false),
            ("allow", false),
            ("prefer", true),
            ("require", true),
        ] {
            let client = server.connect("idem", "127.0.0.1", &format!("sslmode={mode}"));
            assert_eq!(protected(client), expected, "{mode}");
        }
        assert!(protected(server.connect("idem", "127.0.0.1", "")));
    });
}

#[test]
fn allow_and_prefer_try_the_other_way_where_one_is_not_let_in() {
    with_certificate("localhost", |server| {
        assert!(protected(server.connect(
            "only_tls",
            "127.0.0.1",
            "sslmode=allow"
        )));
        assert!(!protected(server.connect(
            "only_clear",
            "127.0.0.1",
            "sslmode=prefer"
        )));
        for (user, mode) in [("only_tls", "disable"), ("only_clear", "require")] {
            let error = server
                .connect(user, "127.0.0.1", &format!("sslmode={mode}"))
                .map(drop);
            assert!(
                matches!(error, Err(PgError::Authentication(_))),
                "{error:?}"
            );
        }
    });
}

#[test]
fn a_server_without_tls_is_left_alone_by_who_needs_it() {
    let Some(cluster) = shared() else { return };
    for mode in ["disable", "allow", "prefer"] {
        assert!(!protected(connect(&format!(
            "{}?sslmode={mode}",
            cluster.url("postgres")
        ))));
    }
    refused(
        connect(&format!("{}?sslmode=require", cluster.url("postgres"))),
        "does not speak TLS",
    );
}

#[test]
fn the_right_certificate_is_let_through() {
    with_certificate("localhost", |server| {
        server.accepts("localhost", "verify-full", "authority.crt");
        server.accepts("localhost", "verify-ca", "authority.crt");
        server.accepts("127.0.0.1", "verify-ca", "authority.crt");
    });
}

#[test]
fn a_certificate_for_another_name_is_refused_where_names_count() {
    with_certificate("elsewhere", |server| {
        server.refuses("localhost", "verify-full", "authority.crt", "another name");
        server.accepts("localhost", "verify-ca", "authority.crt");
        server.accepts("localhost", "require", "authority.crt");
    });
    with_certificate("localhost", |server| {
        server.refuses("127.0.0.1", "verify-full", "authority.crt", "another name");
    });
}

#[test]
fn a_strangers_certificate_is_refused() {
    with_certificate("localhost", |server| {
        for mode in ["verify-full", "verify-ca", "require"] {
            server.refuses("localhost", mode, "stranger.crt", "not signed by");
        }
        server.accepts_without_a_root();
        refused(
            server.connect("idem", "localhost", "sslmode=verify-full"),
            "set sslrootcert",
        );
        refused(
            server.connect("idem", "localhost", "sslrootcert=system"),
            "",
        );
    });
}

#[test]
fn an_expired_certificate_is_refused() {
    with_certificate("expired", |server| {
        server.refuses("localhost", "verify-full", "authority.crt", "expired");
        server.accepts_without_a_root();
    });
}

#[test]
fn a_server_s_own_certificate_as_root_is_enough() {
    with_certificate("selfsigned", |server| {
        server.accepts("localhost", "verify-full", "selfsigned.crt");
        server.refuses("127.0.0.1", "verify-full", "selfsigned.crt", "another name");
        server.refuses("localhost", "verify-full", "authority.crt", "not signed by");
        server.accepts_without_a_root();
    });
}

#[test]
fn a_root_that_is_none_is_told() {
    with_certificate("localhost", |server| {
        server.refuses("localhost", "verify-ca", "nothing.crt", "cannot be read");
        server.refuses("localhost", "verify-ca", "localhost.key", "no certificate");
    });
}

#[test]
fn big_values_and_cancelling_work_through_tls() {
    with_certificate("localhost", |server| {
        let mut client = server
            .verify("localhost", "verify-full", "authority.crt")
            .unwrap();
        let big = "x".repeat(3 << 20);
        let rows = client
            .query("SELECT $1 || $1", &[big.as_str().into()], soon())
            .unwrap();
        assert_eq!(rows.only().unwrap().get::<&str>(0).unwrap().len(), 6 << 20);
        crate::endings::cancelled(client, &server.cluster);
    });
}
