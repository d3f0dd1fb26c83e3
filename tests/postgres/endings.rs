//! Connections that end, and servers that do not answer.

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use idem::store::postgres::{Client, Param, PgError};

use crate::servers::cluster::{Cluster, Setup};
use crate::servers::supervised::{free_port, until};
use crate::servers::tools;
use crate::{after, connect, shared, soon, target};

/// Much longer than any of the deadlines here, and much shorter than the statements that they end.
const SLACK: Duration = Duration::from_secs(20);

fn pid(client: &mut Client) -> i32 {
    let rows = client
        .query("SELECT pg_backend_pid()", &[], soon())
        .unwrap();
    rows.only().unwrap().get(0).unwrap()
}

/// Waits until a session executes a statement that sleeps.
fn until_asleep(cluster: &Cluster, pid: i32) {
    let mut observer = cluster.client("postgres");
    let sql = "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'";
    until("the statement is executed", || {
        !observer
            .query(sql, &[Param::from(pid)], soon())
            .unwrap()
            .is_empty()
    });
}

fn sleeping(mut client: Client) -> thread::JoinHandle<(Client, PgError)> {
    thread::spawn(move || {
        let error = client
            .query("SELECT pg_sleep(600)", &[], soon())
            .unwrap_err();
        (client, error)
    })
}

fn is_dead(client: &mut Client) -> bool {
    let next = client.query("SELECT 1", &[], soon());
    !client.is_open() && matches!(next, Err(PgError::Closed(_)))
}

/// The connection's statement is cancelled, and the connection goes on.
pub fn cancelled(mut client: Client, cluster: &Cluster) {
    let (pid, token) = (pid(&mut client), client.cancel_token().unwrap());
    let sleeper = sleeping(client);
    until_asleep(cluster, pid);
    token.cancel(soon()).unwrap();
    let (mut client, error) = sleeper.join().unwrap();
    assert_eq!(error.sqlstate(), Some("57014"));
    assert!(client.query("SELECT 1", &[], soon()).is_ok());
}

#[test]
fn a_statement_is_cancelled_from_elsewhere() {
    let Some(cluster) = shared() else { return };
    cancelled(cluster.client("postgres"), cluster);
}

#[test]
fn a_statement_ends_with_its_deadline_and_the_connection_with_it() {
    let Some(cluster) = shared() else { return };
    let mut client = cluster.client("postgres");
    let begun = Instant::now();
    let error = client
        .query("SELECT pg_sleep(600)", &[], after(200))
        .unwrap_err();
    assert!(matches!(error, PgError::TimedOut(_)), "{error:?}");
    assert!(begun.elapsed() >= Duration::from_millis(200) && begun.elapsed() < SLACK);
    assert!(is_dead(&mut client));
}

#[test]
fn a_session_that_is_ended_says_why() {
    let Some(cluster) = shared() else { return };
    let mut client = cluster.client("postgres");
    let pid = pid(&mut client);
    let sleeper = sleeping(client);
    until_asleep(cluster, pid);
    cluster.batch("postgres", &format!("SELECT pg_terminate_backend({pid})"));
    let (mut client, error) = sleeper.join().unwrap();
    assert_eq!(error.sqlstate(), Some("57P01"));
    assert!(error.is_connection_lost() && is_dead(&mut client));
}

#[test]
fn a_session_that_was_ended_while_idle_is_lost_at_the_next_statement() {
    let Some(cluster) = shared() else { return };
    let mut client = cluster.client("postgres");
    let pid = pid(&mut client);
    let mut observer = cluster.client("postgres");
    observer
        .query(
            "SELECT pg_terminate_backend($1)",
            &[Param::from(pid)],
            soon(),
        )
        .unwrap();
    let sql = "SELECT 1 FROM pg_stat_activity WHERE pid = $1";
    until("the session is over", || {
        observer
            .query(sql, &[Param::from(pid)], soon())
            .unwrap()
            .is_empty()
    });
    let error = client.query("SELECT 1", &[], soon()).unwrap_err();
    assert!(error.is_connection_lost(), "{error:?}");
    assert!(is_dead(&mut client));
}

#[test]
fn a_client_that_is_dropped_ends_its_session() {
    let Some(cluster) = shared() else { return };
    let mut observer = cluster.client("postgres");
    let sql = "SELECT 1 FROM pg_stat_activity WHERE pid = $1";
    let mut client = cluster.client("postgres");
    let pid = pid(&mut client);
    drop(client);
    until("the session is over", || {
        observer
            .query(sql, &[Param::from(pid)], soon())
            .unwrap()
            .is_empty()
    });
}

#[test]
fn a_server_that_dies_is_lost_and_comes_back() {
    if !tools::present() {
        return;
    }
    let cluster = Cluster::start(&Setup::default());
    cluster.batch("postgres", "CREATE TABLE kept (n int4)");
    let mut idle = cluster.client("postgres");
    let mut client = cluster.client("postgres");
    client
        .query(
            "INSERT INTO kept VALUES ($1)",
            &[Param::from(1_i32)],
            soon(),
        )
        .unwrap();
    let pid = pid(&mut client);
    let sleeper = sleeping(client);
    until_asleep(&cluster, pid);
    cluster.kill9();
    let (mut client, error) = sleeper.join().unwrap();
    assert!(matches!(error, PgError::Closed(_)), "{error:?}");
    assert!(is_dead(&mut client));
    assert!(
        idle.query("SELECT 1", &[], soon())
            .unwrap_err()
            .is_connection_lost()
    );
    let error = connect(&cluster.url("postgres")).unwrap_err();
    assert!(matches!(error, PgError::Unreachable(_)), "{error:?}");
    cluster.start_again();
    let rows = cluster
        .client("postgres")
        .query("SELECT n FROM kept", &[], soon())
        .unwrap();
    assert_eq!(rows.only().unwrap().get::<i32>(0), Ok(1));
}

#[test]
fn a_standby_is_passed_over() {
    let Some(primary) = shared() else { return };
    let standby = primary.start_standby("follower");
    let alone = standby.url("postgres");
    assert_eq!(
        connect(&alone).unwrap().parameter("in_hot_standby"),
        Some("on")
    );
    for url in [
        format!("{alone}?target_session_attrs=read-write"),
        format!(
            "postgres://idem@127.0.0.1:{0},127.0.0.1:{0}/postgres",
            standby.port()
        ),
    ] {
        let error = connect(&url).unwrap_err();
        assert!(matches!(error, PgError::ReadOnly(_)), "{error:?}");
    }
    let both = format!(
        "postgres://idem@127.0.0.1:{},127.0.0.1:{}/postgres",
        standby.port(),
        primary.port()
    );
    assert_eq!(
        connect(&both).unwrap().parameter("in_hot_standby"),
        Some("off")
    );
    standby.promote();
    let promoted = format!("{alone}?target_session_attrs=read-write");
    until("the standby is a primary", || connect(&promoted).is_ok());
}

#[test]
fn a_cancelled_wait_for_a_standby_is_a_success_with_a_warning() {
    if !tools::present() {
        return;
    }
    let setup = Setup {
        conf: &["synchronous_standby_names = 'nobody'"],
        ..Setup::default()
    };
    let cluster = Cluster::start(&setup);
    let mut client = cluster.client("postgres");
    let (pid, token) = (pid(&mut client), client.cancel_token().unwrap());
    let committer = thread::spawn(move || {
        let done = client.query("CREATE TABLE waited ()", &[], soon());
        (done.map(drop), client.take_warnings())
    });
    let mut observer = cluster.client("postgres");
    let sql = "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'SyncRep'";
    until("the commit waits", || {
        !observer
            .query(sql, &[Param::from(pid)], soon())
            .unwrap()
            .is_empty()
    });
    token.cancel(soon()).unwrap();
    let (done, warnings) = committer.join().unwrap();
    assert_eq!(done, Ok(()));
    let warned = warnings
        .iter()
        .any(|w| w.severity == "WARNING" && w.sqlstate == "01000");
    assert!(warned, "{warnings:?}");
}

#[test]
fn a_port_where_nobody_listens_is_known_at_once() {
    let begun = Instant::now();
    let error = connect(&format!("postgres://u@127.0.0.1:{}/d", free_port())).unwrap_err();
    assert!(matches!(error, PgError::Unreachable(_)), "{error:?}");
    let error = connect("postgres://u@/d?host=/no/such/directory").unwrap_err();
    assert!(matches!(error, PgError::Unreachable(_)), "{error:?}");
    assert!(begun.elapsed() < SLACK);
}

#[test]
fn a_server_that_never_answers_is_not_waited_for() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    for mode in ["disable", "prefer", "verify-full"] {
        let url = format!("postgres://u@127.0.0.1:{port}/d?sslmode={mode}");
        let begun = Instant::now();
        let error = Client::connect(&target(&url), after(200)).unwrap_err();
        assert!(matches!(error, PgError::TimedOut(_)), "{error:?}");
        assert!(begun.elapsed() >= Duration::from_millis(200) && begun.elapsed() < SLACK);
    }
    let url = format!("postgres://u@127.0.0.1:{port}/d?connect_timeout=1");
    let begun = Instant::now();
    let error = connect(&url).unwrap_err();
    assert!(matches!(error, PgError::TimedOut(_)), "{error:?}");
    assert!(begun.elapsed() >= Duration::from_secs(2) && begun.elapsed() < SLACK);
}

#[test]
fn an_address_that_swallows_everything_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // SAFETY: listen(2) takes a descriptor, which `listener` keeps open, and a number.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        waiting.push(stream);
        assert!(waiting.len() < 100, "the backlog never fills");
    }
    let silent = format!("127.0.0.1:{}", address.port());
    let begun = Instant::now();
    let url = format!("postgres://u@{silent}/d");
    let error = Client::connect(&target(&url), after(300)).unwrap_err();
    assert!(matches!(error, PgError::TimedOut(_)), "{error:?}");
    assert!(begun.elapsed() >= Duration::from_millis(300) && begun.elapsed() < SLACK);
    let Some(cluster) = shared() else { return };
    let url = format!(
        "postgres://idem@{silent},127.0.0.1:{}/postgres",
        cluster.port()
    );
    assert!(Client::connect(&target(&url), Instant::now() + Duration::from_secs(8)).is_ok());
}
