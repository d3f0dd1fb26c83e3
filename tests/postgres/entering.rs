//! Who is let in, and over what.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::sync::Once;

use idem::store::postgres::{Client, PgError, Target};

use crate::servers::cluster::Cluster;
use crate::{connect, shared, soon, target};

/// The lines that ask these users for a password.
pub const HBA: [&str; 4] = [
    "host all by_scram all scram-sha-256",
    "host all by_md5 all md5",
    "host all by_password all password",
    "local all by_scram scram-sha-256",
];

/// Not ASCII, and not the same before and after its normalisation.
const PASSWORD: &str = "p:ä\u{aa} 'ss\\w@rd";

/// The users are there.
fn cluster() -> Option<&'static Cluster> {
    static USERS: Once = Once::new();
    let cluster = shared()?;
    USERS.call_once(|| {
        let quoted = PASSWORD.replace('\'', "''");
        let role = |name: &str| format!("CREATE ROLE {name} LOGIN PASSWORD '{quoted}';");
        let sql = format!(
            "SET password_encryption = 'md5'; {}; RESET password_encryption; {} {}\
             CREATE ROLE full_house LOGIN CONNECTION LIMIT 0;
             CREATE ROLE reader LOGIN; ALTER ROLE reader SET default_transaction_read_only = on",
            role("by_md5"),
            role("by_scram"),
            role("by_password")
        );
        cluster.batch("postgres", &sql);
    });
    Some(cluster)
}

fn as_user(url: &str, variables: &[(&str, &str)]) -> Result<Client, PgError> {
    let find = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| OsString::from(value))
    };
    Client::connect(&Target::parse(url, &find).unwrap(), soon())
}

fn who(client: Result<Client, PgError>) -> String {
    let mut client = client.unwrap();
    let rows = client
        .query("SELECT session_user::text", &[], soon())
        .unwrap();
    rows.only().unwrap().get(0).unwrap()
}

fn refused(client: Result<Client, PgError>) -> String {
    match client.map(drop) {
        Err(error @ PgError::Authentication(_)) => error.to_string(),
        other => panic!("{other:?} where nobody must be let in"),
    }
}

const USERS: [&str; 3] = ["by_scram", "by_md5", "by_password"];

#[test]
fn every_kind_of_password_lets_in_and_a_wrong_one_does_not() {
    let Some(cluster) = cluster() else { return };
    for user in USERS {
        let url = cluster.url_as(user, "postgres");
        assert_eq!(who(as_user(&url, &[("PGPASSWORD", PASSWORD)])), user);
        let text = refused(as_user(&url, &[("PGPASSWORD", "wr0ng")]));
        assert!(text.contains("28P01") && !text.contains("wr0ng"), "{text}");
        assert!(refused(as_user(&url, &[])).contains("none is given"));
    }
    let url = cluster.url_as("by_scram:p%3A%C3%A4%C2%AA%20%27ss%5Cw%40rd", "postgres");
    assert_eq!(who(connect(&url)), "by_scram");
}

#[test]
fn the_passfile_is_asked_and_must_be_private() {
    let Some(cluster) = cluster() else { return };
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(".pgpass");
    let escaped = PASSWORD.replace('\\', "\\\\").replace(':', "\\:");
    let line = format!("127.0.0.1:{}:postgres:by_scram:{escaped}\n", cluster.port());
    std::fs::write(&file, line).unwrap();
    let set_mode = |mode| std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
    let url = cluster.url_as("by_scram", "postgres");
    let home = home.path().to_str().unwrap();
    set_mode(0o600);
    assert_eq!(who(as_user(&url, &[("HOME", home)])), "by_scram");
    assert_eq!(
        who(as_user(&url, &[("PGPASSFILE", file.to_str().unwrap())])),
        "by_scram"
    );
    set_mode(0o644);
    assert!(refused(as_user(&url, &[("HOME", home)])).contains("chmod 0600"));
    set_mode(0o600);
    let other = cluster.url_as("by_md5", "postgres");
    assert!(refused(as_user(&other, &[("HOME", home)])).contains("none is given"));
}

#[test]
fn a_unix_socket_works_by_every_spelling() {
    let Some(cluster) = cluster() else { return };
    let (directory, port) = (cluster.socket_directory().to_str().unwrap(), cluster.port());
    let encoded = directory.replace('/', "%2F");
    for url in [
        format!("postgres://idem@/postgres?host={directory}&port={port}"),
        format!("postgres://idem@{encoded}:{port}/postgres"),
        // TLS is not for sockets that are files.
        format!("postgres://idem@{encoded}:{port}/postgres?sslmode=require"),
    ] {
        assert_eq!(who(connect(&url)), "idem", "{url}");
    }
    let url = format!("postgres://by_scram@{encoded}:{port}/postgres");
    assert_eq!(who(as_user(&url, &[("PGPASSWORD", PASSWORD)])), "by_scram");
    let variables = [
        ("PGHOST", directory),
        ("PGPORT", &port.to_string()),
        ("PGUSER", "idem"),
    ];
    assert_eq!(who(as_user("postgres:///postgres", &variables)), "idem");
}

#[test]
fn a_name_with_several_addresses_is_tried_at_each() {
    let Some(cluster) = cluster() else { return };
    // The server listens at one of the addresses that localhost can have.
    let url = format!("postgres://idem@localhost:{}/postgres", cluster.port());
    assert_eq!(who(connect(&url)), "idem");
    let url = format!(
        "postgres://idem@no-such-host.invalid:{}/postgres",
        cluster.port()
    );
    let error = connect(&url).unwrap_err();
    assert!(matches!(error, PgError::Unreachable(_)), "{error:?}");
}

#[test]
fn what_the_server_refuses_has_its_code() {
    let Some(cluster) = cluster() else { return };
    let error = connect(&cluster.url("no_such_database")).unwrap_err();
    assert_eq!(error.sqlstate(), Some("3D000"));
    let error = connect(&cluster.url_as("full_house", "postgres")).unwrap_err();
    assert_eq!(error.sqlstate(), Some("53300"));
    let text = refused(connect(&cluster.url_as("no_such_role", "postgres")));
    assert!(text.contains("no_such_role"), "{text}");
}

#[test]
fn who_may_not_write_is_told_so() {
    let Some(cluster) = cluster() else { return };
    let url = cluster.url_as("reader", "postgres");
    let error = connect(&format!("{url}?target_session_attrs=read-write")).unwrap_err();
    assert!(matches!(error, PgError::ReadOnly(_)), "{error:?}");
    let mut client = connect(&url).unwrap();
    let error = client.query("CREATE TABLE t ()", &[], soon()).unwrap_err();
    assert!(matches!(error, PgError::ReadOnly(_)), "{error:?}");
    assert!(client.is_open());
}

#[test]
fn a_session_says_whose_it_is() {
    let Some(cluster) = cluster() else { return };
    let url = cluster.url("postgres");
    for (url, expected) in [
        (url.clone(), "idem"),
        (
            format!("{url}?application_name=night%20shift"),
            "night shift",
        ),
    ] {
        let mut client = Client::connect(&target(&url), soon()).unwrap();
        let rows = client.query("SHOW application_name", &[], soon()).unwrap();
        assert_eq!(rows.only().unwrap().get::<&str>(0), Ok(expected));
    }
    let mut client = connect(&format!("{url}?options=-c%20statement_timeout%3D7s")).unwrap();
    let rows = client.query("SHOW statement_timeout", &[], soon()).unwrap();
    assert_eq!(rows.only().unwrap().get::<&str>(0), Ok("7s"));
}
