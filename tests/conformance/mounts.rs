//! The embedded store on file systems that are read-only or full, each in a mount namespace of its own.

use crate::sample::{claim, mint, name, new_claim, settle};
use idem::domain::outcome::State;
use idem::engine::store::{Claimed, Claiming, Fenced, Store, StoreError, StoreResult};
use idem::store::sqlite::SqliteStore;
use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HOME: &str = "CONFORMANCE_HOME";

/// Runs one of the ignored tests below after a script has prepared the mounts under its home. Left out
/// where the system does not let this user mount anything.
fn in_own_mounts(home: &Path, script: &str, test: &str) {
    let ways: [&[&str]; 2] = [&["--mount"], &["--mount", "--map-root-user"]];
    let probe = "mount -t tmpfs tmpfs \"$CONFORMANCE_HOME\"";
    let works = |way: &&&[&str]| unshared(way, home, probe).is_ok_and(|o| o.status.success());
    let Some(way) = ways.iter().find(works) else {
        eprintln!("left out: this user cannot mount");
        return;
    };
    let command = format!("{script}\nexec \"$0\" --ignored --exact mounts::{test} --nocapture");
    let output = unshared(way, home, &command).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn unshared(way: &[&str], home: &Path, command: &str) -> std::io::Result<Output> {
    Command::new("unshare")
        .args(way)
        .args(["sh", "-ec", command])
        .arg(env::current_exe()?)
        .env(HOME, home)
        .output()
}

fn refused<T>(result: StoreResult<T>) -> StoreError {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error,
    }
}

fn try_claim(store: &mut dyn Store, key: &str) -> StoreResult<Claimed> {
    let new = new_claim(2, mint("t"));
    let done = store.claim(&name(key), &mut |_| {
        Ok(Claiming::Claim(Box::new(new.clone())))
    })?;
    Ok(done.0)
}

#[test]
fn a_read_only_mount_is_read() {
    let home = tempfile::tempdir().unwrap();
    for dir in ["kept", "closed", "lost"] {
        let path = home.path().join(dir).join("s.db");
        let mut store = SqliteStore::open_write(&path).unwrap();
        claim(&mut store, dir, 1);
        store.close_for_fork().unwrap();
        let beside = |suffix: &str| home.path().join(dir).join(format!("s.db-{suffix}"));
        match dir {
            // As another program leaves it that closes last.
            "closed" => {
                drop(
                    rusqlite::Connection::open(&path)
                        .map(|conn| conn.execute_batch("PRAGMA user_version")),
                );
                assert!(!beside("wal").exists() && !beside("shm").exists());
            }
            "lost" => fs::remove_file(beside("shm")).unwrap(),
            _ => assert!(beside("wal").exists() && beside("shm").exists()),
        }
    }
    let script = "mount --bind \"$CONFORMANCE_HOME\" \"$CONFORMANCE_HOME\"
        mount -o remount,bind,ro \"$CONFORMANCE_HOME\"";
    in_own_mounts(home.path(), script, "on_a_read_only_mount");
}

#[test]
#[ignore = "run by another test, in a mount namespace of its own"]
fn on_a_read_only_mount() {
    let Some(home) = env::var_os(HOME).map(PathBuf::from) else {
        return;
    };
    for dir in ["kept", "closed"] {
        let path = home.join(dir).join("s.db");
        let mut store = SqliteStore::open_read(&path).unwrap().unwrap();
        let found = store.find(&name(dir)).unwrap();
        assert_eq!(found.unwrap().state, State::Running, "{dir}");
        let error = refused(
            SqliteStore::open_write(&path).and_then(|mut store| try_claim(&mut store, "new")),
        );
        assert!(matches!(error, StoreError::ReadOnly(_)), "{dir}: {error}");
    }
    // A log whose index is gone cannot be read, and its content is not passed over.
    let error = refused(SqliteStore::open_read(&home.join("lost/s.db")));
    assert!(error.to_string().contains("s.db"), "{error}");
}

#[test]
fn a_full_file_system_claims_nothing() {
    let home = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=512k,mode=700 tmpfs \"$CONFORMANCE_HOME\"";
    in_own_mounts(home.path(), script, "on_a_full_file_system");
}

#[test]
#[ignore = "run by another test, in a mount namespace of its own"]
fn on_a_full_file_system() {
    let Some(home) = env::var_os(HOME).map(PathBuf::from) else {
        return;
    };
    let path = home.join("s.db");
    let mut store = SqliteStore::open_write(&path).unwrap();
    let id = claim(&mut store, "k", 1);
    let filler = home.join("filler");
    let mut file = File::create(&filler).unwrap();
    while file.write_all(&[0; 512]).is_ok() {}
    let mut claimed = 0;
    // What room the log still has is used up by some.
    let error = loop {
        match try_claim(&mut store, &format!("k{claimed}")) {
            Ok(_) => claimed += 1,
            Err(error) => break error,
        }
        assert!(claimed < 200);
    };
    assert!(matches!(error, StoreError::Full(_)), "{error}");
    assert_eq!(store.find(&name(&format!("k{claimed}"))).unwrap(), None);
    let mut reader = SqliteStore::open_read(&path).unwrap().unwrap();
    assert!(reader.find(&name("k")).unwrap().is_some());
    // A new store finds no room either, and says so.
    let error = refused(SqliteStore::open_write(&home.join("other.db")));
    assert!(matches!(error, StoreError::Full(_)), "{error}");
    drop(file);
    fs::remove_file(&filler).unwrap();
    assert_eq!(settle(&mut store, &id, State::Succeeded), Fenced::Done);
    claim(&mut store, "later", 3);
    SqliteStore::open_write(&home.join("other.db")).unwrap();
}
