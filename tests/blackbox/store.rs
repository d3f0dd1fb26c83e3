//! The embedded store: who may use it, what is refused, and that it stays whole and small.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::command::Done;
use crate::env::{TestEnv, root_or_leave, upto};
use crate::procs;

/// Runs `echo x >> n` with this store.
fn run_in(t: &TestEnv, store: &Path) -> Done {
    t.run("--key k", "echo x >> n")
        .env("IDEM_STORE", store)
        .end()
}

/// The store is refused with one line that names it, and nothing runs.
#[track_caller]
fn refused(t: &TestEnv, store: &Path) -> Done {
    let before = t.lines("n");
    let done = run_in(t, store);
    done.code(125).out("").one_line();
    let dir = store.parent().expect("a directory").to_string_lossy();
    assert!(done.err_text().contains(&*dir), "which store?\n{done}");
    assert_eq!(t.lines("n"), before, "it ran");
    done
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("the file").permissions().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
}

/// Everything in a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("the directory");
    entries
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

/// A store with a few results that no process uses.
fn used(t: &TestEnv) -> PathBuf {
    t.run("--key first", "echo out").end().code(0);
    t.run("--key big", "yes | head -c 100000").end().code(0);
    t.upto_quiet();
    t.store()
}

#[test]
fn everything_is_for_the_owner_only() {
    let t = TestEnv::new();
    for umask in ["000", "022", "077", "777"] {
        let store = t.root().join(format!("state-{umask}"));
        let script = format!(
            "export XDG_STATE_HOME={}; mkdir -m 755 \"$XDG_STATE_HOME\"; umask {umask}
             idem run --key k -- sh -c 'umask 022; yes | head -c 100000' >/dev/null",
            store.display()
        );
        t.bash(&script).end().code(0);
        assert_eq!(mode(&store.join("idem")), 0o700, "umask {umask}");
        for file in files(&store.join("idem")) {
            let wanted = if file.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(
                mode(&file),
                wanted,
                "{} under umask {umask}",
                file.display()
            );
        }
    }
}

#[test]
fn the_default_place_follows_the_base_directories() {
    let t = TestEnv::new();
    t.run("--key k", "true").end().code(0);
    assert!(t.store().exists());
    t.run("--key k", "true")
        .unset("XDG_STATE_HOME")
        .end()
        .code(0);
    assert!(t.home().join(".local/state/idem/idem.db").exists());
    t.run("--key k", "true")
        .env("XDG_STATE_HOME", "")
        .env("HOME", t.root().join("tmp"))
        .end()
        .code(0);
    assert!(t.root().join("tmp/.local/state/idem/idem.db").exists());
    t.run("--key k", "echo x >> n")
        .env("IDEM_STORE", t.path("env.db"))
        .end()
        .code(0);
    let own = t
        .run("--store own.db --key k", "echo x >> n")
        .env("IDEM_STORE", t.path("env.db"));
    own.end().code(0);
    assert!(t.path("env.db").exists() && t.path("own.db").exists());
    assert_eq!(t.lines("n"), 2);
}

#[test]
fn a_store_that_others_could_write_is_refused() {
    let t = TestEnv::new();
    for (dir, bits) in [("all", 0o777), ("group", 0o770), ("others", 0o702)] {
        let dir = t.path(dir);
        fs::create_dir(&dir).expect("a directory");
        chmod(&dir, bits);
        refused(&t, &dir.join("s.db"));
        assert_eq!(files(&dir).len(), 0);
    }
    let store = used(&t);
    for bits in [0o666, 0o660, 0o602] {
        chmod(&store, bits);
        refused(&t, &store);
    }
    chmod(&store, 0o600);
    run_in(&t, &store).code(0);
}

#[test]
fn another_users_store_is_refused() {
    if !root_or_leave("another user's file") {
        return;
    }
    let t = TestEnv::new();
    let store = used(&t);
    std::os::unix::fs::chown(&store, Some(65534), None).expect("chown");
    refused(&t, &store);
}

#[test]
fn a_link_in_place_of_the_store_is_refused() {
    let t = TestEnv::new();
    symlink(t.path("elsewhere.db"), t.path("dangling.db")).expect("a link");
    refused(&t, &t.path("dangling.db"));
    assert!(!t.path("elsewhere.db").exists());
    let store = used(&t);
    symlink(&store, t.path("link.db")).expect("a link");
    refused(&t, &t.path("link.db"));
    let whole = t.path("whole");
    symlink(t.store_dir(), &whole).expect("a link");
    let done = t
        .run("--key first", "echo out")
        .env("IDEM_STORE", whole.join("idem.db"))
        .end();
    done.code(0).out("out\n");
}

#[test]
fn what_is_no_store_is_refused_and_left_alone() {
    let t = TestEnv::new();
    let noise: Vec<u8> = (0..5000u32).map(|i| (i * 7919 % 251) as u8).collect();
    let header = [b"SQLite format 3\0".as_slice(), &noise].concat();
    for (name, bytes) in [
        ("junk.db", noise),
        ("header.db", header),
        ("text.db", b"hello\n".to_vec()),
    ] {
        t.write(name, &bytes);
        chmod(&t.path(name), 0o600);
        refused(&t, &t.path(name));
        assert_eq!(
            fs::read(t.path(name)).expect("the file"),
            bytes,
            "{name} was changed"
        );
    }
    fs::create_dir(t.path("dir.db")).expect("a directory");
    refused(&t, &t.path("dir.db"));
}

#[test]
fn another_programs_database_is_refused_and_left_alone() {
    let t = TestEnv::new();
    let path = t.path("foreign.db");
    for setup in [
        "CREATE TABLE notes(text); INSERT INTO notes VALUES('mine')",
        "CREATE TABLE operations(id); PRAGMA user_version=1",
        "CREATE TABLE t(x); PRAGMA application_id=12345",
    ] {
        fs::remove_file(&path).ok();
        Connection::open(&path)
            .and_then(|db| db.execute_batch(setup))
            .expect("a database");
        chmod(&path, 0o600);
        let before = fs::read(&path).expect("the file");
        refused(&t, &path);
        assert_eq!(
            fs::read(&path).expect("the file"),
            before,
            "changed: {setup}"
        );
    }
}

#[test]
fn a_newer_store_is_refused() {
    let t = TestEnv::new();
    let store = used(&t);
    let set = |version: i64| {
        let db = Connection::open(&store).expect("the store");
        db.pragma_update(None, "user_version", version)
            .expect("a version");
    };
    let db = Connection::open(&store).expect("the store");
    let version: i64 = db
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .expect("a version");
    drop(db);
    assert!(version > 0);
    set(version + 1);
    refused(&t, &store).says("newer");
    for verb in [
        "status",
        "status first",
        "output first",
        "log first",
        "forget first",
        "wait first",
    ] {
        t.idem(verb)
            .end()
            .code(125)
            .out("")
            .one_line()
            .says("newer");
    }
    set(i64::from(i32::MAX));
    refused(&t, &store);
    set(-1);
    refused(&t, &store);
    set(version);
    run_in(&t, &store).code(0);
    t.run("--key first", "echo out").end().code(0).out("out\n");
}

#[test]
fn a_damaged_store_is_refused_or_still_tells_the_truth() {
    let t = TestEnv::new();
    let store = used(&t);
    drop(
        Connection::open(&store)
            .and_then(|db| db.pragma_update(None, "wal_checkpoint", "TRUNCATE")),
    );
    let whole = fs::read(&store).expect("the store");
    let side = |name: &str| PathBuf::from(format!("{}{name}", store.display()));
    for (what, from, to) in [
        ("head", 20, 60),
        ("root page", 100, 4096),
        ("all but the first", 4096, whole.len()),
    ] {
        let mut broken = whole.clone();
        broken[from..to].fill(0xa5);
        fs::write(&store, &broken).expect("the store");
        for name in ["-wal", "-shm"] {
            fs::remove_file(side(name)).ok();
        }
        let done = t.run("--key first", "echo out; echo x >> n").end();
        done.code(125).says("idem: ");
        assert_eq!(t.lines("n"), 0, "{what} damaged");
    }
    fs::write(&store, &whole[..whole.len() / 2]).expect("the store");
    t.run("--key k", "echo x >> n").end().code(125).one_line();
    assert_eq!(t.lines("n"), 0);
}

#[test]
fn an_empty_file_becomes_a_store() {
    let t = TestEnv::new();
    t.write("s.db", "");
    chmod(&t.path("s.db"), 0o600);
    run_in(&t, &t.path("s.db")).code(0);
    run_in(&t, &t.path("s.db")).code(0);
    assert_eq!(t.lines("n"), 1);
}

#[test]
fn forty_first_opens_at_once() {
    let t = TestEnv::new();
    let callers: Vec<_> = (0..40)
        .map(|i| t.run(&format!("--key k{i}"), "echo x >> n").start())
        .collect();
    for caller in callers {
        caller.end().code(0).err("");
    }
    assert_eq!(t.lines("n"), 40);
    assert_eq!(
        t.idem("status --json --limit 100")
            .end()
            .code(0)
            .json()
            .as_array()
            .map(Vec::len),
        Some(40)
    );
}

#[test]
fn a_store_whose_directory_is_missing_is_made() {
    let t = TestEnv::new();
    run_in(&t, &t.path("a/b/s.db")).code(0);
    assert_eq!(mode(&t.path("a/b")), 0o700);
    t.run("--key k --store rel.db", "true").end().code(0);
    assert!(t.path("rel.db").exists());
}

#[test]
fn a_killed_users_wal_is_taken_over() {
    let t = TestEnv::new();
    t.run("--key done", "echo out").end().code(0);
    let running = t.run("--key k", "echo x >> n; exec sleep 300").start();
    t.upto_lines("n", 1);
    drop(running);
    procs::kill_home(&t.home());
    assert!(fs::metadata(format!("{}-wal", t.store().display())).is_ok_and(|m| m.len() > 0));
    t.run("--key done", "echo out").end().code(0).out("out\n");
    t.run("--key k", "echo x >> n; exec sleep 300")
        .end()
        .code(122);
    let copy = t.path("copy");
    fs::create_dir(&copy).expect("a directory");
    chmod(&copy, 0o700);
    for name in ["idem.db", "idem.db-wal"] {
        fs::copy(t.store_dir().join(name), copy.join(name)).expect("a copy");
    }
    let done = t
        .run("--key done", "echo out")
        .env("IDEM_STORE", copy.join("idem.db"))
        .end();
    done.code(0).out("out\n");
}

#[test]
fn expired_results_are_purged_by_later_runs() {
    let t = TestEnv::new();
    for i in 0..30 {
        t.run(&format!("--key old{i} --ttl 1s"), "yes | head -c 40000")
            .end()
            .code(0);
    }
    let count = |pattern: &str| {
        let list = t.idem("status --json --limit 1000").end().code(0).json();
        let keys = list.as_array().expect("a list").iter();
        keys.filter(|op| {
            op["key"]
                .as_str()
                .is_some_and(|key| key.starts_with(pattern))
        })
        .count()
    };
    // Only the spooled outputs: the ledger of the runs that this test makes meanwhile grows.
    let bytes = || -> u64 {
        let all: Vec<PathBuf> = files(&t.store_dir());
        let spooled = |path: &&PathBuf| path.to_string_lossy().contains("-out-");
        let size = |path: &PathBuf| path.metadata().map_or(0, |m| m.len());
        all.iter().filter(spooled).map(size).sum()
    };
    assert!(bytes() > 1_000_000, "{} bytes", bytes());
    let mut round = 0;
    upto("the old results go", || {
        round += 1;
        t.run(&format!("--key new{round} --ttl 1h"), "true")
            .end()
            .code(0);
        count("old") == 0
    });
    upto("their files go", || {
        round += 1;
        t.run(&format!("--key new{round} --ttl 1h"), "true")
            .end()
            .code(0);
        bytes() < 300_000
    });
    t.run("--key new1 --ttl 1h", "true").end().code(0);
}

#[test]
fn the_wal_stays_short() {
    let t = TestEnv::new();
    t.says("for i in $(seq 120); do idem run --key k$i -- echo out$i; done >/dev/null");
    let wal = fs::metadata(format!("{}-wal", t.store().display())).map_or(0, |m| m.len());
    assert!(wal < 200 * 4120, "{wal} bytes of WAL after 120 runs");
    t.says("for i in $(seq 60); do idem run --key k$i -- echo out$i; done >/dev/null");
    let after = fs::metadata(format!("{}-wal", t.store().display())).map_or(0, |m| m.len());
    assert!(after <= wal, "replays wrote to the WAL: {wal} then {after}");
}

#[test]
fn a_spool_file_that_is_gone_is_said_and_not_invented() {
    let t = TestEnv::new();
    let script = "echo x >> n; yes | head -c 100000";
    t.run("--key k", script).end().code(0);
    let mut gone = 0;
    for dir in files(&t.store_dir()).into_iter().filter(|p| p.is_dir()) {
        for file in files(&dir) {
            fs::remove_file(file).expect("a spool file");
            gone += 1;
        }
    }
    if gone == 0 {
        let spools = files(&t.store_dir()).into_iter();
        for file in spools.filter(|f| {
            f.metadata()
                .is_ok_and(|m| (90_000..200_000).contains(&m.size()))
        }) {
            fs::remove_file(file).expect("a spool file");
            gone += 1;
        }
    }
    assert!(gone > 0, "no spool file in {:?}", files(&t.store_dir()));
    let again = t.run("--key k", script).end();
    again.says("idem: ").out("");
    assert_eq!(t.lines("n"), 1, "{again}");
}

#[test]
fn a_forgotten_result_leaves_no_output_behind() {
    let t = TestEnv::new();
    t.run(
        "--key k",
        "printf forgotten-; echo marker; yes | head -c 100000",
    )
    .end()
    .code(0);
    t.idem("forget k").end().code(0);
    t.upto_quiet();
    let mut round = 0;
    upto("its spool file goes", || {
        round += 1;
        t.run(&format!("--key new{round}"), "true").end().code(0);
        let all = files(&t.store_dir());
        let below: Vec<PathBuf> = all
            .iter()
            .filter(|p| p.is_dir())
            .flat_map(|dir| files(dir))
            .collect();
        let spooled = |f: &PathBuf| {
            f.metadata()
                .is_ok_and(|m| m.is_file() && (100_000..150_000).contains(&m.len()))
        };
        !all.iter().chain(&below).any(spooled)
    });
}

#[test]
fn the_database_is_whole_after_a_storm_of_kills() {
    let t = TestEnv::new();
    for round in 0..4 {
        let callers: Vec<_> = (0..12)
            .map(|i| {
                t.run(
                    &format!("--key r{round}k{i}"),
                    "echo x >> n; yes | head -c 30000",
                )
                .start()
            })
            .collect();
        t.upto_lines("n", round * 4 + 1);
        for (pid, _) in t.running() {
            procs::signal(pid, libc::SIGKILL);
        }
        drop(callers);
    }
    procs::kill_home(&t.home());
    let db = Connection::open(t.store()).expect("the store");
    let check: String = db
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("a check");
    assert_eq!(check, "ok");
    drop(db);
    let list = t.idem("status --json --limit 1000").end().code(0).json();
    for op in list.as_array().expect("a list") {
        assert!(
            ["succeeded", "unknown"].contains(&op["state"].as_str().unwrap_or("")),
            "{op}"
        );
    }
    t.run("--key after", "echo out").end().code(0).out("out\n");
}

/// Something that writes to the store for as long as the connection lives.
fn writer(t: &TestEnv) -> Connection {
    let store = Connection::open(t.store()).expect("the store");
    store
        .execute_batch("BEGIN IMMEDIATE")
        .expect("the write lock");
    store
}

#[test]
fn a_store_that_stays_busy_is_told_and_nothing_runs() {
    let t = TestEnv::new();
    t.run("--key done", "echo out").end().code(0);
    t.run("--key held --hold", "echo x >> n").end().code(122);
    t.make_unknown("lost", "kill -9 $$");
    t.upto_quiet();
    let export = t.idem("export done").end().code(0).stdout.clone();
    let writer = writer(&t);
    let refused = [
        t.run("--key k", "echo x >> n"),
        t.run("--key d --detach", "echo x >> n"),
        t.run("--key {batch:b}", "echo x >> n"),
        t.idem("approve held --yes"),
        t.idem("resolve lost --not-done"),
        t.idem("forget done"),
        t.idem("task open t"),
        t.idem("batch b"),
        t.idem("import").input(export),
    ]
    .map(|call| call.start());
    // Who only reads is not kept waiting.
    t.run("--key done", "echo out").end().code(0).out("out\n");
    assert_eq!(t.state("lost"), "unknown");
    for call in refused {
        let done = call.end();
        done.code(125).out("").one_line();
        for told in ["busy", "try again", "fuser", "idem.db"] {
            assert!(done.err_text().contains(told), "no {told}\n{done}");
        }
    }
    assert_eq!(t.lines("n"), 0);
    drop(writer);
    t.upto_quiet();
    for (key, state) in [
        ("k", "none"),
        ("d", "none"),
        ("held", "held"),
        ("lost", "unknown"),
    ] {
        assert_eq!(t.state(key), state, "{key}");
    }
    t.run("--key k", "echo x >> n").end().code(0);
    t.idem("approve held --yes").end().code(0);
    t.run("--key held --hold", "echo x >> n").end().code(0);
    assert_eq!(t.lines("n"), 2);
    // It was not forgotten.
    t.run("--key done", "echo new").end().code(121);
}

#[test]
fn a_store_that_is_busy_for_a_while_is_waited_for() {
    let t = TestEnv::new();
    t.run("--key warm", "true").end().code(0);
    t.upto_quiet();
    let writer = writer(&t);
    let call = t.run("--key k", "echo x >> n; echo out").start();
    let minted = t.idem("batch b").start();
    upto("the keeper is there", || t.running().len() >= 3);
    drop(writer);
    call.end().code(0).out("out\n");
    assert_eq!(minted.end().code(0).stdout, t.idem("batch b").end().stdout);
    assert_eq!(t.lines("n"), 1);
}
