use super::schema::APPLICATION_ID;
use super::*;
use crate::domain::name::{Fingerprint, Key, Nonce, Scope};
use crate::domain::outcome::{Class, State};
use crate::domain::owner::{LockFileId, OwnerRef, ProcessRef};
use crate::domain::record::{CommandLine, Source};
use crate::domain::time::{BootId, Ttl, UnixMs};
use crate::engine::store::{Claiming, NewClaim, NewOutput, NewRecord, OutputBody, TokenChoice};
use crate::process::locks::LockFile;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use tempfile::TempDir;

mod versions;

struct Home {
    dir: TempDir,
}

impl Home {
    fn new() -> Home {
        Home {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("state/s.db")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn name(key: &str) -> OpName {
    OpName {
        scope: Scope::default(),
        key: Key::new(key).unwrap(),
    }
}

fn stamp(ms: i64) -> Stamp {
    Stamp {
        wall: UnixMs(ms),
        boot_ms: ms,
        boot: BootId("boot".to_owned()),
    }
}

fn new_claim(nonce: u8) -> NewClaim {
    let nonce = Nonce([nonce; 16]);
    NewClaim {
        record: NewRecord {
            nonce,
            token: TokenChoice::Mint("token".to_owned()),
            fingerprint: Fingerprint([1; 32]),
            command: CommandLine {
                argv: Some(vec![b"true".to_vec()]),
                cwd: b"/".to_vec(),
            },
            ttl: Ttl::For(Duration::from_secs(1)),
            failed_ttl: Ttl::Forever,
            source: Source::default(),
            dirty: true,
            at: stamp(0),
            events: Vec::new(),
        },
        owner: OwnerRef {
            keeper: ProcessRef {
                pid: 1,
                start_ticks: 2,
            },
            boot_id: BootId("boot".to_owned()),
            pid_namespace: 3,
            lock_file: LockFileId {
                device: 4,
                inode: 5,
            },
            keeper_byte: 6,
            tree_byte: 7,
            child: None,
            nonce,
            lease: None,
        },
        starts_attempt: true,
    }
}

fn claim(store: &mut SqliteStore, key: &str, nonce: u8) -> StoreResult<ClaimId> {
    let (claimed, record) = store.claim(&name(key), &mut |_| {
        Ok(Claiming::Claim(Box::new(new_claim(nonce))))
    })?;
    assert_eq!(claimed, Claimed::Won);
    Ok(ClaimId {
        name: name(key),
        generation: record.unwrap().generation,
        nonce: Nonce([nonce; 16]),
    })
}

fn settlement(body: OutputBody) -> Settlement {
    Settlement {
        state: State::Succeeded,
        class: Some(Class::Success),
        reason: None,
        exit_code: Some(0),
        retry_at: None,
        output: Some(NewOutput {
            number: 1,
            body,
            stdout_bytes: 0,
            stderr_bytes: 0,
            truncated: false,
            lost: false,
        }),
        dirty: true,
        at: stamp(0),
        events: Vec::new(),
    }
}

fn settle(store: &mut SqliteStore, claim: &ClaimId, body: OutputBody) -> StoreResult<Fenced> {
    store.settle(claim, &settlement(body), &mut |_| Ok(()))
}

fn refused<T>(result: StoreResult<T>) -> StoreError {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error,
    }
}

#[test]
fn everything_is_created_private() {
    let home = Home::new();
    let mut store = SqliteStore::open_write(&home.path()).unwrap();
    claim(&mut store, "k", 1).unwrap();
    assert_eq!(mode(&home.file("state")), 0o700);
    let files: Vec<_> = fs::read_dir(home.file("state"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .collect();
    assert_eq!(files.len(), 4, "{files:?}");
    for file in files {
        assert_eq!(mode(&file.path()), 0o600, "{file:?}");
    }
}

#[test]
fn reading_creates_nothing() {
    let home = Home::new();
    assert!(SqliteStore::open_read(&home.path()).unwrap().is_none());
    assert!(!home.file("state").exists());
    let plain = home.file("none.db");
    assert!(SqliteStore::open_read(&plain).unwrap().is_none());
    assert!(!plain.exists());
    // Someone is just creating it.
    fs::write(&plain, b"").unwrap();
    assert!(SqliteStore::open_read(&plain).unwrap().is_none());
    assert_eq!(fs::metadata(&plain).unwrap().len(), 0);
}

#[test]
fn a_place_that_others_can_write_is_refused() {
    let home = Home::new();
    for shared in [0o770, 0o707, 0o1777, 0o720] {
        let dir = home.file(&format!("d{shared:o}"));
        fs::create_dir(&dir).unwrap();
        set_mode(&dir, shared);
        let path = dir.join("s.db");
        let error = refused(SqliteStore::open_write(&path));
        assert!(matches!(error, StoreError::Place(_)), "{error}");
        assert!(error.to_string().contains("chmod go-w"), "{error}");
        assert!(matches!(
            SqliteStore::open_read(&path),
            Err(StoreError::Place(_))
        ));
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    }
    let path = home.path();
    drop(SqliteStore::open_write(&path).unwrap());
    set_mode(&path, 0o620);
    let error = refused(SqliteStore::open_write(&path));
    assert!(error.to_string().contains("s.db"), "{error}");
    assert!(matches!(
        SqliteStore::open_read(&path),
        Err(StoreError::Place(_))
    ));
}

#[test]
fn a_symbolic_link_is_refused_and_a_linked_directory_is_not() {
    let home = Home::new();
    drop(SqliteStore::open_write(&home.path()).unwrap());
    let link = home.file("link.db");
    symlink(home.path(), &link).unwrap();
    let error = refused(SqliteStore::open_write(&link));
    assert!(error.to_string().contains("symbolic link"), "{error}");
    assert!(matches!(
        SqliteStore::open_read(&link),
        Err(StoreError::Place(_))
    ));
    symlink(home.file("elsewhere.db"), home.file("dangling.db")).unwrap();
    assert!(SqliteStore::open_write(&home.file("dangling.db")).is_err());
    assert!(!home.file("elsewhere.db").exists());
    symlink(home.file("state"), home.file("way")).unwrap();
    let store = SqliteStore::open_write(&home.file("way/s.db")).unwrap();
    assert_eq!(store.paths().db, home.path().canonicalize().unwrap());
    // A link in the place of the lock file would have another file locked.
    fs::remove_file(home.file("state/s.db-locks")).unwrap();
    symlink(home.file("other"), home.file("state/s.db-locks")).unwrap();
    assert!(SqliteStore::open_write(&home.path()).is_err());
}

#[test]
fn a_store_of_another_user_is_refused() {
    let home = Home::new();
    drop(SqliteStore::open_write(&home.path()).unwrap());
    let another = system::effective_user() + 1;
    // Only root can give files away.
    if std::os::unix::fs::chown(home.file("state"), Some(another), None).is_err() {
        return;
    }
    drop(SqliteStore::open_write(&home.path()).unwrap());
    std::os::unix::fs::chown(home.path(), Some(another), None).unwrap();
    for error in [
        refused(SqliteStore::open_write(&home.path())),
        refused(SqliteStore::open_read(&home.path())),
    ] {
        assert!(matches!(error, StoreError::Place(_)), "{error}");
        assert!(error.to_string().contains("another user"), "{error}");
    }
}

#[test]
fn what_is_no_file_or_no_name_is_refused() {
    let home = Home::new();
    let dir = home.file("dir.db");
    fs::create_dir(&dir).unwrap();
    assert!(matches!(
        SqliteStore::open_write(&dir),
        Err(StoreError::Place(_))
    ));
    assert!(matches!(
        SqliteStore::open_read(&dir),
        Err(StoreError::Place(_))
    ));
    for path in ["/", "..", ""] {
        let error = refused(SqliteStore::open_write(Path::new(path)));
        assert!(matches!(error, StoreError::Place(_)), "{error}");
    }
}

#[test]
fn a_foreign_file_is_refused_untouched_and_named() {
    let home = Home::new();
    let junk = [0x5a_u8; 5000];
    for (file, content) in [
        ("junk.db", &junk[..]),
        ("short.db", b"hi"),
        ("zero.db", &[0; 4096]),
    ] {
        let path = home.file(file);
        fs::write(&path, content).unwrap();
        set_mode(&path, 0o600);
        for error in [
            refused(SqliteStore::open_write(&path)),
            refused(SqliteStore::open_read(&path)),
        ] {
            assert!(matches!(error, StoreError::Foreign(_)), "{error}");
            assert!(error.to_string().contains(file), "{error}");
        }
        assert_eq!(fs::read(&path).unwrap(), content);
    }
    for (file, sql) in [
        ("table.db", "CREATE TABLE t(a)"),
        ("other.db", "PRAGMA application_id = 7; CREATE TABLE t(a)"),
        ("version.db", "PRAGMA user_version = 1"),
    ] {
        let path = home.file(file);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        set_mode(&path, 0o600);
        let before = fs::read(&path).unwrap();
        assert!(
            matches!(SqliteStore::open_write(&path), Err(StoreError::Foreign(_))),
            "{file}"
        );
        assert!(
            matches!(SqliteStore::open_read(&path), Err(StoreError::Foreign(_))),
            "{file}"
        );
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[test]
fn a_damaged_page_is_told_and_not_replayed() {
    let home = Home::new();
    let mut store = SqliteStore::open_write(&home.path()).unwrap();
    claim(&mut store, "k", 1).unwrap();
    checkpoint_now(&mut store.conn).unwrap();
    drop(store);
    let mut bytes = fs::read(home.path()).unwrap();
    bytes[4096..].fill(0x77);
    fs::write(home.path(), bytes).unwrap();
    let found =
        SqliteStore::open_read(&home.path()).and_then(|store| store.unwrap().find(&name("k")));
    let error = refused(found);
    assert!(matches!(error, StoreError::Foreign(_)), "{error}");
    assert!(error.to_string().contains("s.db"), "{error}");
}

#[test]
fn the_library_is_built_as_correctness_needs_it() {
    let home = Home::new();
    let store = SqliteStore::open_write(&home.path()).unwrap();
    let mut statement = store.conn.prepare("PRAGMA compile_options").unwrap();
    let options: Vec<String> = statement
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    // Connections are used by one thread each, but threads exist.
    assert!(options.iter().any(|o| o == "THREADSAFE=1"), "{options:?}");
    assert!(
        !options
            .iter()
            .any(|o| o.starts_with("OMIT_AUTOVACUUM") || o.starts_with("OMIT_WAL"))
    );
    let value = |pragma: &str| -> String {
        let sql = format!("SELECT CAST({pragma} AS TEXT) FROM pragma_{pragma}");
        store.conn.query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(value("journal_mode"), "wal");
    assert_eq!(value("synchronous"), "2");
    assert_eq!(value("auto_vacuum"), "2");
    assert_eq!(value("application_id"), APPLICATION_ID.to_string());
    // The log with the worst bug of recent years is behind us: fixed in 3.51.3.
    assert!(rusqlite::version_number() >= 3_051_003);
}

#[test]
fn a_connection_for_reading_writes_nothing() {
    let home = Home::new();
    drop(SqliteStore::open_write(&home.path()).unwrap());
    let mut store = SqliteStore::open_read(&home.path()).unwrap().unwrap();
    let error = refused(claim(&mut store, "k", 1));
    assert!(matches!(error, StoreError::ReadOnly(_)), "{error}");
    assert_eq!(store.find(&name("k")).unwrap(), None);
}

#[test]
fn a_store_whose_maker_died_is_finished_by_the_next() {
    let home = Home::new();
    let half = Connection::open(home.file("half")).unwrap();
    // More than the cache holds, so that the open transaction is written to the file before its end.
    let sql = "CREATE TABLE t(x); PRAGMA cache_size = 1; BEGIN; \
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400) \
        INSERT INTO t SELECT randomblob(900) FROM n";
    half.execute_batch(sql).unwrap();
    fs::create_dir(home.path().parent().unwrap()).unwrap();
    fs::copy(home.file("half"), home.path()).unwrap();
    fs::copy(home.file("half-journal"), home.file("state/s.db-journal")).unwrap();
    // It holds a table of someone else's: that is seen only by who can undo what was half written.
    let error = SqliteStore::open_read(&home.path()).unwrap_err();
    assert!(matches!(error, StoreError::Foreign(_)), "{error}");
}

fn wal_frames(paths: &Paths) -> u64 {
    frames_in(wal_bytes(paths))
}

#[test]
fn a_process_that_commits_on_and_on_folds_its_log_in() {
    let home = Home::new();
    let mut store = SqliteStore::open_write(&home.path()).unwrap();
    let paths = store.paths().clone();
    let mut longest = 0;
    for (n, nonce) in (0..=u8::MAX).cycle().take(300).enumerate() {
        claim(&mut store, &format!("k{n}"), nonce).unwrap();
        longest = wal_frames(&paths).max(longest);
    }
    // A commit adds few frames, and the log starts anew after the one that folds it in.
    let fits = LONGEST_WAL_FRAMES..LONGEST_WAL_FRAMES + 32;
    assert!(fits.contains(&longest), "{longest} frames");
}

#[test]
fn closing_for_a_fork_closes_and_leaves_the_log() {
    let home = Home::new();
    let mut store = SqliteStore::open_write(&home.path()).unwrap();
    claim(&mut store, "k", 1).unwrap();
    let paths = store.paths().clone();
    let frames = wal_frames(&paths);
    assert!(frames > 0);
    store.close_for_fork().unwrap();
    assert_eq!(wal_frames(&paths), frames);
    let mut open_files = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    assert!(!open_files.any(|file| file.starts_with(paths.directory())));
    let mut reader = SqliteStore::open_read(&home.path()).unwrap().unwrap();
    assert!(reader.find(&name("k")).unwrap().is_some());
    reader.close_for_fork().unwrap();
}

#[test]
fn only_a_long_log_is_folded_in() {
    let home = Home::new();
    let mut store = SqliteStore::open_write(&home.path()).unwrap();
    store.pragma("PRAGMA wal_autocheckpoint = 0").unwrap();
    let paths = store.paths().clone();
    claim(&mut store, "first", 0).unwrap();
    let short = wal_frames(&paths);
    store.checkpoint_if_long().unwrap();
    assert_eq!(wal_frames(&paths), short);
    let mut n = 0;
    while wal_frames(&paths) <= LONG_WAL_FRAMES {
        n += 1;
        claim(&mut store, &format!("k{n}"), n).unwrap();
    }
    // A reader that still needs the log is not waited for.
    let reader = SqliteStore::open_read(&home.path()).unwrap().unwrap();
    let snapshot = reader.conn.unchecked_transaction().unwrap();
    tx::find(&snapshot, &name("first")).unwrap();
    claim(&mut store, "last", 200).unwrap();
    store.checkpoint_if_long().unwrap();
    assert!(wal_frames(&paths) > LONG_WAL_FRAMES);
    drop(snapshot);
    store.checkpoint_if_long().unwrap();
    assert_eq!(wal_frames(&paths), 0);
    assert!(store.find(&name("last")).unwrap().is_some());
}

#[test]
fn in_a_crowd_the_log_may_be_longer_than_alone() {
    let home = Home::new();
    let mut store = SqliteStore::open_write(&home.path()).unwrap();
    let mut other = SqliteStore::open_write(&home.path()).unwrap();
    let paths = store.paths().clone();
    let mut n = 0;
    while wal_frames(&paths) <= QUIET_WAL_FRAMES {
        n += 1;
        claim(&mut store, &format!("k{n}"), n).unwrap();
    }
    claim(&mut other, "other", 200).unwrap();
    let frames = wal_frames(&paths);
    assert!(frames <= LONG_WAL_FRAMES);
    store.checkpoint_if_long().unwrap();
    assert_eq!(wal_frames(&paths), frames, "the other one is still there");
    other.checkpoint_if_long().unwrap();
    assert_eq!(wal_frames(&paths), 0, "nobody came after it");
}

#[test]
fn bytes_of_the_lock_file_are_no_part_of_the_queue() {
    let home = Home::new();
    let paths = SqliteStore::prepare_place(&home.path()).unwrap();
    let locks = LockFile::open(&paths.locks).unwrap();
    let _held = [locks.hold(0).unwrap(), locks.hold(1 << 61).unwrap()];
    let mut store = SqliteStore::open_write(&home.path()).unwrap();
    let queue = Queue::open(&paths.locks).unwrap();
    claim(&mut store, "k", 1).unwrap();
    assert!(
        turn(&queue, QUEUE_GLANCE).is_some(),
        "the turn was given back"
    );
}

#[test]
fn a_holder_that_is_stopped_does_not_stop_the_others() {
    let home = Home::new();
    let mut store = SqliteStore::open_write(&home.path()).unwrap();
    let queue = Queue::open(&store.paths().locks).unwrap();
    let _stopped = turn(&queue, QUEUE_GLANCE).unwrap();
    claim(&mut store, "k", 1).unwrap();
    store.checkpoint_if_long().unwrap();
}

#[test]
fn a_busy_store_is_told_and_works_again_later() {
    let home = Home::new();
    let mut store = SqliteStore::open_write(&home.path()).unwrap();
    let other = SqliteStore::open_write(&home.path()).unwrap();
    let writing = Transaction::new_unchecked(&other.conn, TransactionBehavior::Immediate).unwrap();
    store.conn.busy_handler(None::<fn(i32) -> bool>).unwrap();
    let error = refused(claim(&mut store, "k", 1));
    assert!(matches!(error, StoreError::Busy(_)), "{error}");
    assert!(error.to_string().contains("s.db"), "{error}");
    drop(writing);
    claim(&mut store, "k", 1).unwrap();
}

/// Allows the database so many more pages than it has.
fn limit_pages(store: &SqliteStore, more: i64) {
    let pages: i64 = store
        .conn
        .query_row("PRAGMA page_count", [], |row| row.get(0))
        .unwrap();
    let sql = format!("PRAGMA max_page_count = {}", pages + more);
    let _: i64 = store.conn.query_row(&sql, [], |row| row.get(0)).unwrap();
}

#[test]
fn without_room_nothing_is_claimed_and_a_smaller_settle_still_works() {
    let home = Home::new();
    let mut store = SqliteStore::open_write(&home.path()).unwrap();
    let id = claim(&mut store, "k", 1).unwrap();
    limit_pages(&store, 0);
    let mut big = new_claim(2);
    big.record.command.argv = Some(vec![vec![b'x'; 40_000]]);
    let result = store.claim(&name("big"), &mut |_| {
        Ok(Claiming::Claim(Box::new(big.clone())))
    });
    let error = refused(result);
    assert!(matches!(error, StoreError::Full(_)), "{error}");
    assert!(error.to_string().contains("free some space"), "{error}");
    assert_eq!(store.find(&name("big")).unwrap(), None);
    let error = refused(settle(&mut store, &id, OutputBody::Inline(vec![7; 16_000])));
    assert!(matches!(error, StoreError::Full(_)), "{error}");
    assert_eq!(
        store.find(&name("k")).unwrap().unwrap().state,
        State::Running
    );
    let fenced = settle(&mut store, &id, OutputBody::Nothing).unwrap();
    assert_eq!(fenced, Fenced::Done);
    limit_pages(&store, 100);
    assert!(
        store
            .claim(&name("big"), &mut |_| Ok(Claiming::Claim(Box::new(
                big.clone()
            ))))
            .is_ok()
    );
}

#[test]
fn many_free_pages_go_back_to_the_file_system() {
    let home = Home::new();
    let mut store = SqliteStore::open_write(&home.path()).unwrap();
    for n in 0..100 {
        let id = claim(&mut store, &format!("k{n}"), n).unwrap();
        settle(&mut store, &id, OutputBody::Inline(vec![n; 16_000])).unwrap();
    }
    let pages = |store: &SqliteStore| -> i64 {
        let sql = "PRAGMA page_count";
        store.conn.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let before = pages(&store);
    while store
        .purge(&stamp(10_000), 16, Duration::ZERO)
        .unwrap()
        .records
        > 0
    {}
    let after = pages(&store);
    assert!(
        after < before - PAGES_A_BATCH_AT_LEAST,
        "{before} pages, then {after}"
    );
    claim(&mut store, "k", 1).unwrap();
}

/// One batch, as the housekeeping gives them back.
const PAGES_A_BATCH_AT_LEAST: i64 = 60;
