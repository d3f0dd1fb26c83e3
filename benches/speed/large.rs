//! Stores with very many operations.

use rusqlite::Connection;
use std::path::Path;

/// Copies the one operation of a store under as many other keys, `key-1` and on. Nobody may have the store
/// open.
pub fn fill(db: &Path, operations: u64) {
    let conn = Connection::open(db).expect("the store");
    // Nothing is lost if it breaks off, and a log would be as large as the store.
    let pragmas =
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -200000";
    conn.execute_batch(pragmas).expect("no log");
    let tx = conn.unchecked_transaction().expect("a transaction");
    let series =
        "WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series LIMIT ?1)";
    // The nonces come in order, which keeps the pages full and the filling short.
    let nonce = "CAST(printf('%016d', n) AS BLOB)";
    for sql in [
        format!(
            "{series} INSERT INTO operation(scope, key, state, generation, nonce, minted_by, since_at, \
             expires_at, body) SELECT scope, 'key-' || n, state, generation, {nonce}, minted_by, \
             since_at, expires_at, body FROM series, (SELECT * FROM operation LIMIT 1)"
        ),
        format!(
            "{series} INSERT INTO output(nonce, number, bytes) SELECT {nonce}, number, bytes \
             FROM series, (SELECT * FROM output LIMIT 1)"
        ),
    ] {
        tx.execute(&sql, [operations.cast_signed()]).expect("rows");
    }
    tx.commit().expect("room");
    let wal = conn.query_row("PRAGMA journal_mode = WAL", [], |row| {
        row.get::<_, String>(0)
    });
    assert_eq!(wal.as_deref(), Ok("wal"));
}
