//! Versions of the schema, and programs of several on one store.

use super::*;

#[test]
fn a_newer_store_is_refused() {
    let home = Home::new();
    let store = SqliteStore::open_write(&home.path()).unwrap();
    store.pragma("PRAGMA user_version = 99").unwrap();
    for error in [
        refused(SqliteStore::open_write(&home.path())),
        refused(SqliteStore::open_read(&home.path())),
    ] {
        assert!(
            matches!(error, StoreError::Newer { found: 99, .. }),
            "{error}"
        );
        assert!(error.to_string().contains("upgrade idem"), "{error}");
    }
}

/// A migration that a later version might have.
const LATER: Migration = Migration::Sql("ALTER TABLE guard ADD COLUMN extra INTEGER");

#[test]
fn migrations_are_applied_once_each() {
    let home = Home::new();
    drop(SqliteStore::open_write(&home.path()).unwrap());
    let mut later = MIGRATIONS.to_vec();
    later.push(LATER);
    for _ in 0..2 {
        let store = SqliteStore::write_migrated(&home.path(), &later).unwrap();
        schema::migrate(&store.conn, &later).unwrap();
        assert_eq!(schema::kind(&store.conn, &later).unwrap(), Kind::Ready);
        assert_eq!(
            schema::kind(&store.conn, MIGRATIONS).unwrap(),
            Kind::Newer(3)
        );
    }
    let blank = Home::new();
    let mut store = SqliteStore::write_migrated(&blank.path(), &later).unwrap();
    assert_eq!(schema::kind(&store.conn, &later).unwrap(), Kind::Ready);
    claim(&mut store, "k", 1).unwrap();
}

/// The tables and indices of a database, as they were defined.
fn tables(conn: &Connection) -> Vec<(String, String)> {
    let sql = "SELECT name, coalesce(sql, '') FROM sqlite_schema ORDER BY name";
    let mut statement = conn.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

/// Whoever changes the tables without a new version, or adds one without a fixture, learns it here.
#[test]
fn every_version_has_a_fixture_with_its_tables() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/blackbox/fixtures");
    for version in 1..=MIGRATIONS.len() {
        let home = Home::new();
        let copy = home.file("copy.db");
        fs::copy(fixtures.join(format!("version-{version}/idem.db")), &copy).unwrap();
        let kept = Connection::open(&copy).unwrap();
        assert_eq!(
            schema::version(&kept).unwrap(),
            schema::version_of(&MIGRATIONS[..version])
        );
        let new = SqliteStore::write_migrated(&home.path(), &MIGRATIONS[..version]).unwrap();
        assert_eq!(tables(&kept), tables(&new.conn), "version {version}");
        schema::migrate(&kept, MIGRATIONS).unwrap();
        let newest = Home::new();
        let newest = SqliteStore::open_write(&newest.path()).unwrap();
        assert_eq!(
            tables(&kept),
            tables(&newest.conn),
            "from version {version}"
        );
    }
}

/// A migration that fails leaves everything as it was.
#[test]
fn a_migration_is_done_as_a_whole_or_not_at_all() {
    let home = Home::new();
    let store = SqliteStore::write_migrated(&home.path(), &MIGRATIONS[..1]).unwrap();
    let before = tables(&store.conn);
    let fails = Migration::Code(|_| Err(Fault::Damaged("on purpose")));
    let mut broken = MIGRATIONS.to_vec();
    broken.push(fails);
    let error = refused(SqliteStore::write_migrated(&home.path(), &broken));
    assert!(error.to_string().contains("on purpose"), "{error}");
    assert_eq!(tables(&store.conn), before);
    assert_eq!(schema::version(&store.conn).unwrap(), 1);
    drop(SqliteStore::open_write(&home.path()).unwrap());
    assert_ne!(tables(&store.conn), before);
}

#[test]
fn an_older_store_is_brought_up_to_date_also_for_reading() {
    let home = Home::new();
    claim(&mut SqliteStore::open_write(&home.path()).unwrap(), "k", 1).unwrap();
    let mut later = MIGRATIONS.to_vec();
    later.push(LATER);
    let mut store = SqliteStore::read_migrated(&home.path(), &later)
        .unwrap()
        .unwrap();
    assert_eq!(schema::kind(&store.conn, &later).unwrap(), Kind::Ready);
    assert!(store.find(&name("k")).unwrap().is_some());
}

#[test]
fn a_connection_that_was_open_when_a_newer_program_came_says_so() {
    let newer = |error: StoreError| {
        assert!(
            matches!(
                error,
                StoreError::Newer {
                    found: 3,
                    known: 2,
                    ..
                }
            ),
            "{error}"
        );
    };
    let renamed = Migration::Sql("ALTER TABLE operation RENAME COLUMN body TO packed");
    for (change, still_read) in [(LATER, true), (renamed, false)] {
        let home = Home::new();
        let mut store = SqliteStore::open_write(&home.path()).unwrap();
        let mut reader = SqliteStore::open_read(&home.path()).unwrap().unwrap();
        let id = claim(&mut store, "k", 1).unwrap();
        assert!(reader.find(&name("k")).unwrap().is_some());
        let mut later = MIGRATIONS.to_vec();
        later.push(change);
        drop(SqliteStore::write_migrated(&home.path(), &later).unwrap());
        newer(refused(settle(&mut store, &id, OutputBody::Nothing)));
        newer(refused(claim(&mut store, "other", 2)));
        match reader.find(&name("k")) {
            Ok(Some(record)) => assert!(still_read && record.state == State::Running),
            Ok(None) => panic!("it is there"),
            Err(error) => newer(error),
        }
        newer(refused(SqliteStore::open_read(&home.path())));
    }
}

#[test]
fn tables_that_do_not_fit_the_version_are_damage() {
    let home = Home::new();
    let mut store = SqliteStore::open_write(&home.path()).unwrap();
    store
        .pragma("ALTER TABLE operation RENAME COLUMN body TO packed")
        .unwrap();
    let error = refused(store.find(&name("k")));
    assert!(matches!(error, StoreError::Foreign(_)), "{error}");
    assert!(error.to_string().contains("its version"), "{error}");
}
