//! Through a pooler in transaction mode, which gives each transaction any of its few connections.

use std::thread;

use idem::store::postgres::Param;

use crate::servers::pooler::Pooler;
use crate::{connect, shared, soon};

/// Clients, statements of each, and connections that they share.
const CLIENTS: i64 = 8;
const STATEMENTS: i64 = 50;
const POOL: usize = 2;

#[test]
fn many_clients_share_two_connections() {
    let Some(cluster) = shared() else { return };
    let database = cluster.new_database();
    cluster.batch(
        &database,
        "CREATE TABLE sums (client int8, n int8, body text, PRIMARY KEY (client, n))",
    );
    let pooler = Pooler::start(cluster, POOL);
    let url = pooler.url(&database);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let url = &url;
            scope.spawn(move || {
                let mut connection = connect(url).unwrap();
                for n in 0..STATEMENTS {
                    // Different statements and types, so that a mix-up of unnamed ones would show.
                    let insert = "INSERT INTO sums VALUES ($1, $2, $3) RETURNING pg_backend_pid()";
                    let body = format!("{client}/{n}");
                    let params = [client.into(), n.into(), body.as_str().into()];
                    connection
                        .query(insert, &params, soon())
                        .unwrap()
                        .only()
                        .unwrap();
                    let select = "SELECT body, n FROM sums WHERE body = $1 AND n = ANY($2)";
                    let params = [body.as_str().into(), Param::Int8Array(vec![Some(n)])];
                    let rows = connection.query(select, &params, soon()).unwrap();
                    let row = rows.only().unwrap();
                    assert_eq!(
                        (row.get::<&str>(0), row.get::<i64>(1)),
                        (Ok(body.as_str()), Ok(n))
                    );
                }
            });
        }
    });
    let mut observer = cluster.client(&database);
    let rows = observer
        .query("SELECT count(*) FROM sums", &[], soon())
        .unwrap();
    assert_eq!(rows.only().unwrap().get(0), Ok(CLIENTS * STATEMENTS));
    let sql =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()";
    let rows = observer
        .query(sql, &[Param::from(database.as_str())], soon())
        .unwrap();
    assert!(rows.only().unwrap().get::<i64>(0).unwrap() <= POOL.try_into().unwrap());
}

#[test]
fn a_pooler_without_a_server_says_so() {
    let Some(cluster) = shared() else { return };
    let pooler = Pooler::start(cluster, 1);
    let error = connect(&pooler.url("no_such_database"))
        .map(drop)
        .unwrap_err();
    assert!(
        error.sqlstate().is_some() || error.is_connection_lost(),
        "{error:?}"
    );
    let url = format!("{}?target_session_attrs=read-write", pooler.url("postgres"));
    assert!(
        connect(&url)
            .unwrap()
            .query("SELECT 1", &[], soon())
            .is_ok()
    );
}
