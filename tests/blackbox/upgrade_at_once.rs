//! Old and new programs at once on one store: a newer one comes while a call of this one is under way,
//! and this one comes while a call of an older one is under way. The other program is played by the test.

use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, params};
use serde_json::Value;

use crate::command::Running;
use crate::env::{IDEM, TestEnv, text, upto};
use crate::procs;
use crate::upgrade::{self, CRASHES, Program};

/// What a newer version may do to the tables: this version still finds all it knows, or nothing of it.
const CHANGES: [&str; 2] = [
    "ALTER TABLE guard ADD COLUMN extra INTEGER",
    "ALTER TABLE operation RENAME TO operation_of_before",
];

/// A connection of another program. Like idem, it leaves without folding the log into the database.
fn connect(t: &TestEnv) -> Connection {
    let db = Connection::open(t.store()).expect("the store");
    db.busy_timeout(crate::env::LIMIT).expect("a limit");
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .expect("no checkpoint");
    db
}

fn number(db: &Connection, sql: &str) -> i64 {
    db.query_row(sql, [], |row| row.get(0)).expect("a number")
}

/// A newer idem meets the store.
fn newer_comes(t: &TestEnv, change: &str) {
    let db = connect(t);
    let next = number(&db, "PRAGMA user_version") + 1;
    db.execute_batch(&format!(
        "BEGIN IMMEDIATE; {change}; PRAGMA user_version = {next}; COMMIT"
    ))
    .expect("a migration");
}

#[track_caller]
fn sound(t: &TestEnv) {
    let db = connect(t);
    let said: String = db
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("a check");
    assert_eq!(said, "ok");
}

/// What the store itself says about an operation, whatever its tables are called by now.
fn kept_state(t: &TestEnv, key: &str) -> String {
    let db = connect(t);
    let renamed = "SELECT count(*) FROM sqlite_schema WHERE name = 'operation_of_before'";
    let table = match number(&db, renamed) {
        0 => "operation",
        _ => "operation_of_before",
    };
    let sql = format!("SELECT state FROM {table} WHERE key = ?1");
    db.query_row(&sql, [key], |row| row.get(0)).expect("a row")
}

/// This program says what to do, and runs nothing.
#[track_caller]
fn all_verbs_refuse(t: &TestEnv, script: &str) {
    let before = t.lines("n");
    let calls = [
        t.run("--key k", script),
        t.run("--key k --if-unknown rerun", script),
        t.run("--key other", "echo x >> n"),
        t.idem("status"),
        t.idem("status k"),
        t.idem("log k"),
        t.idem("output k"),
        t.idem("wait k"),
        t.idem("resolve k --not-done"),
        t.idem("forget k --force"),
    ];
    for call in calls {
        let done = call.end();
        done.code(125).out("").one_line();
        done.says("newer idem").says("upgrade idem");
    }
    assert_eq!(t.lines("n"), before, "it ran");
}

#[test]
fn a_call_that_a_newer_program_overtakes_ends_clearly_and_is_not_forgotten() {
    for change in CHANGES {
        for code in [0, 3] {
            let t = TestEnv::new();
            t.fifo("go");
            let script = format!("echo x >> n; echo out; read x <go; echo y >> done; exit {code}");
            let call = t.run("--key k", &script).start();
            t.upto_lines("n", 1);
            newer_comes(&t, change);
            t.open_fifo("go");
            let done = call.end();
            done.code(code).out("out\n").one_line();
            done.says("could not be recorded").says("upgrade idem");
            t.upto_quiet();
            assert_eq!((t.lines("n"), t.lines("done")), (1, 1), "{change}");
            all_verbs_refuse(&t, &script);
            assert_eq!(
                kept_state(&t, "k"),
                "running",
                "the newer one finds it unknown"
            );
            sound(&t);
            t.upto_quiet();
        }
    }
}

#[test]
fn json_tells_that_the_result_of_an_overtaken_call_is_not_recorded() {
    let t = TestEnv::new();
    t.fifo("go");
    let script = "echo x >> n; read x <go; echo out";
    let call = t.run("--key k --json --report report", script).start();
    t.upto_lines("n", 1);
    newer_comes(&t, CHANGES[1]);
    t.open_fifo("go");
    let said = call.end().code(0).json();
    assert_eq!(text(&said["stdout"]), "out\n", "{said}");
    let report: Value = serde_json::from_str(&t.read("report")).expect("a report");
    for told in [&said, &report] {
        let reason = text(&told["reason"]);
        assert!(reason.contains("could not be recorded"), "{reason}");
        assert!(reason.contains("upgrade idem"), "{reason}");
    }
    t.upto_quiet();
}

/// A large output is a file by then, and that is not lost with the record.
#[test]
fn a_large_output_reaches_the_caller_of_an_overtaken_call() {
    let t = TestEnv::new();
    t.fifo("go");
    let script = "echo x >> n; read x <go; yes | head -c 300000";
    let call = t.run("--key k", script).start();
    t.upto_lines("n", 1);
    newer_comes(&t, CHANGES[0]);
    t.open_fifo("go");
    let done = call.end();
    done.code(0).says("could not be recorded");
    assert_eq!(done.stdout.len(), 300_000);
    assert_eq!(kept_state(&t, "k"), "running");
    t.upto_quiet();
}

#[test]
fn an_overtaken_call_starts_no_retry() {
    for change in CHANGES {
        let t = TestEnv::new();
        t.fifo("go");
        let script = "echo x >> n; read x <go; exit 9";
        let options = "--key k --retries 3 --backoff const:10ms";
        let call = t.run(options, script).start();
        t.upto_lines("n", 1);
        newer_comes(&t, change);
        t.open_fifo("go");
        let done = call.end();
        assert_ne!(done.code, 0, "{done}");
        done.says("no further attempt was made")
            .says("upgrade idem")
            .says("later calls will find it unknown")
            .never_says("tries again");
        assert_eq!(t.lines("n"), 1, "{change}: {done}");
        assert_eq!(kept_state(&t, "k"), "running");
        t.upto_quiet();
        sound(&t);
    }
}

#[test]
fn whoever_waits_for_an_overtaken_call_executes_nothing() {
    for change in CHANGES {
        let t = TestEnv::new();
        t.fifo("go");
        let script = "echo x >> n; read x <go; echo out";
        let call = t.run("--key k", script).start();
        t.upto_lines("n", 1);
        let waiters = [
            t.run("--key k", script).start(),
            t.run("--key k --if-unknown rerun", script).start(),
            t.run("--key k --idempotent", script).start(),
            t.idem("wait k").start(),
        ];
        for waiter in &waiters {
            waiter.upto_waiting();
        }
        newer_comes(&t, change);
        t.open_fifo("go");
        call.end()
            .code(0)
            .out("out\n")
            .says("could not be recorded");
        for waiter in waiters {
            let done = waiter.end();
            done.code(125).out("").one_line();
            done.says("upgrade idem");
        }
        t.upto_quiet();
        assert_eq!(t.lines("n"), 1, "{change}");
        sound(&t);
    }
}

/// A store of version 1 in a world of its own.
fn version_1() -> TestEnv {
    let t = TestEnv::new();
    upgrade::put(&t, &upgrade::fixtures().join("version-1"));
    t
}

fn program(t: &TestEnv) -> Program<'_> {
    Program {
        t,
        file: Path::new(IDEM),
    }
}

/// A description of the lock file that holds this byte, for a process to inherit.
fn held(path: &Path, offset: i64) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    let file = options.open(path).expect("the lock file");
    // SAFETY: all zeros are a valid flock.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::c_short::try_from(libc::F_WRLCK).expect("a kind");
    lock.l_whence = libc::c_short::try_from(libc::SEEK_SET).expect("a kind");
    lock.l_start = offset;
    lock.l_len = 1;
    // SAFETY: the lock is complete and outlives the call.
    let got = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    assert_eq!(got, 0, "{}", std::io::Error::last_os_error());
    file
}

fn inherit(fd: RawFd) -> std::io::Result<()> {
    // SAFETY: fcntl has no memory preconditions here.
    match unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// A process that lives until it is killed, and holds the byte for as long.
fn lives_with(t: &TestEnv, byte: File) -> Running {
    let fd = byte.as_raw_fd();
    let process = t.command("sleep").arg("300").own_group();
    process.before(move || inherit(fd)).start()
}

fn start_ticks(pid: i32) -> i64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let (_, rest) = stat.rsplit_once(')').expect("a name");
    let ticks = rest.split_whitespace().nth(19).expect("a start");
    ticks.parse().expect("a number")
}

/// A keeper and its child of an older program, which run the operation `crashed` of the store.
fn older_runs(t: &TestEnv) -> (Running, Running) {
    let db = connect(t);
    let byte = |name: &str| {
        let sql = format!("SELECT {name} FROM operation WHERE key = 'crashed'");
        number(&db, &sql)
    };
    let path = t.store_dir().join("idem.db-locks");
    let keeper = lives_with(t, held(&path, byte("keeper_byte")));
    let child = lives_with(t, held(&path, byte("tree_byte")));
    let file = fs::metadata(&path).expect("the lock file");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
    let namespace = fs::metadata("/proc/self/ns/pid")
        .expect("a namespace")
        .ino();
    let changed = db.execute(
        "UPDATE operation SET owner_pid = ?1, owner_start = ?2, child_pid = ?3, child_start = ?4, \
         owner_boot = ?5, owner_pid_ns = ?6, lock_dev = ?7, lock_inode = ?8 WHERE key = 'crashed'",
        params![
            keeper.pid(),
            start_ticks(keeper.pid()),
            child.pid(),
            start_ticks(child.pid()),
            boot.trim(),
            namespace.cast_signed(),
            file.dev().cast_signed(),
            file.ino().cast_signed(),
        ],
    );
    assert_eq!(changed.expect("a record"), 1);
    (keeper, child)
}

/// What an older program says to the store when its child has ended, and when it claims.
const OF_VERSION_1: [&str; 2] = [
    "UPDATE operation SET state = 'succeeded', class = 'success', exit_code = 0 WHERE key = 'crashed'",
    "INSERT INTO operation(scope, key, state, generation, nonce, token, minted_by) \
     VALUES('', 'other', 'running', 99, x'00', 'token', 99)",
];

#[test]
fn what_an_older_program_still_runs_is_not_run_again() {
    let t = version_1();
    let p = program(&t);
    let (keeper, child) = older_runs(&t);
    let older = connect(&t);
    assert_eq!(
        number(&older, "SELECT count(*) FROM operation WHERE token = ''"),
        0
    );
    let refused = "--key crashed --if-running refuse";

    p.sh(refused, CRASHES).end().code(120).says("idem: ");
    assert_eq!(number(&older, "PRAGMA user_version"), 2);
    let status = t.status("crashed");
    assert_eq!(text(&status["state"]), "running", "{status}");
    assert_eq!(status["owner"]["alive"], true, "{status}");
    assert_eq!(status["owner"]["pid"], keeper.pid(), "{status}");
    p.sh(
        "--key crashed --if-unknown rerun --if-running refuse",
        CRASHES,
    )
    .end()
    .code(120);
    p.sh("--key crashed", "echo >> begun").end().code(121);
    t.idem("resolve crashed --not-done").end().code(120);
    for sql in OF_VERSION_1 {
        older.execute(sql, []).expect_err("the tables are others");
    }
    let waiter = p.sh("--key crashed", CRASHES).start();
    let looker = t.idem("wait crashed").start();
    waiter.upto_waiting();
    looker.upto_waiting();

    // Its keeper is gone, and what it had started works on.
    keeper.kill();
    p.sh(refused, CRASHES)
        .end()
        .code(120)
        .says(&child.pid().to_string());
    assert!(procs::alive(child.pid()));
    waiter.upto_waiting();

    child.kill();
    for call in [waiter, looker] {
        call.end().code(122).says("idem resolve");
    }
    p.sh("--key crashed", CRASHES).end().code(122);
    let status = t.status("crashed");
    assert_eq!(text(&status["state"]), "unknown", "{status}");
    assert_eq!(text(&status["next"]), "ask_human", "{status}");
    assert_eq!(t.lines("begun"), 0, "it ran again");
    t.idem("resolve crashed --succeeded").end().code(0);
    p.sh("--key crashed", CRASHES).end().code(0);
    assert_eq!(t.lines("begun"), 0, "it ran again");
    drop(older);
    sound(&t);
    t.upto_quiet();
}

/// The operations of saved answers that never expire, with their outputs.
fn lasting(answers: &Value) -> Value {
    let operations = answers["operations"].as_object().expect("operations");
    let mut kept = operations.clone();
    kept.retain(|_, operation| operation["expires_at"].is_null());
    let mut outputs = answers["outputs"].as_object().expect("outputs").clone();
    outputs.retain(|name, _| {
        name.split(' ')
            .next()
            .is_some_and(|key| kept.contains_key(key))
    });
    serde_json::json!({"operations": kept, "outputs": outputs})
}

/// All that lasts in the store of version 1 is told as it was by the program that wrote it.
#[track_caller]
fn nothing_is_lost(t: &TestEnv) {
    let before = lasting(&upgrade::saved(&upgrade::fixtures().join("version-1")));
    assert!(
        before["operations"]
            .as_object()
            .is_some_and(|all| all.len() > 8)
    );
    let mut found = Vec::new();
    upgrade::missing(&before, &upgrade::answers(&program(t)), "", &mut found);
    assert!(found.is_empty(), "{found:#?}");
    let p = program(t);
    let spooled = "yes | head -c 16500";
    assert_eq!(
        p.sh("--key spooled", spooled).end().code(0).stdout.len(),
        16500
    );
    p.sh("--key permanent --scope prod", "printf '\\376'; exit 3")
        .end()
        .code(3)
        .out(b"\xfe");
}

/// How often the tables were changed: every statement that changes them counts.
fn changes(t: &TestEnv) -> i64 {
    number(&connect(t), "PRAGMA schema_version")
}

#[test]
fn twenty_callers_migrate_once_and_execute_each_key_once() {
    let alone = version_1();
    let before = changes(&alone);
    alone.idem("status").end().code(0);
    let once = changes(&alone);
    assert!(once > before);

    let t = version_1();
    let script = |key: usize| format!("echo {key} >> n; echo out {key}");
    let callers: Vec<(usize, Running)> = (0..20)
        .map(|caller| caller % 5)
        .map(|key| {
            (
                key,
                t.run(&format!("--key new-{key}"), &script(key)).start(),
            )
        })
        .collect();
    for (key, caller) in callers {
        caller.end().code(0).out(format!("out {key}\n"));
    }
    let mut ran: Vec<String> = t.words("n").split(' ').map(str::to_owned).collect();
    ran.sort();
    assert_eq!(ran, ["0", "1", "2", "3", "4"]);
    assert_eq!(changes(&t), once, "migrated once");
    assert_eq!(number(&connect(&t), "PRAGMA user_version"), 2);
    nothing_is_lost(&t);
    sound(&t);
    t.upto_quiet();
}

fn has_open(pid: i32, file: &Path) -> bool {
    let links = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    links
        .flatten()
        .any(|link| fs::read_link(link.path()).is_ok_and(|target| target == file))
}

#[test]
fn a_look_and_a_run_at_once_both_find_the_migrated_store() {
    let t = version_1();
    // An older program is in the middle of a change, so that both come before the migration.
    let older = connect(&t);
    older.execute_batch("BEGIN IMMEDIATE").expect("a turn");
    let look = t.idem("status --json --limit 1000").start();
    let run = t.run("--key new", "echo x >> n; echo out").start();
    for call in [&look, &run] {
        upto("the store is open", || has_open(call.pid(), &t.store()));
    }
    let sql = "UPDATE operation SET reason = 'said last' WHERE key = 'unknown'";
    older.execute(sql, []).expect("a change");
    older.execute_batch("COMMIT").expect("the end");

    let list = look.end().code(0).json();
    let found = list.as_array().map_or(0, Vec::len);
    assert!((15..=16).contains(&found), "{list}");
    run.end().code(0).out("out\n");
    t.run("--key new", "echo x >> n; echo out")
        .end()
        .code(0)
        .out("out\n");
    assert_eq!(t.lines("n"), 1);
    assert_eq!(text(&t.status("unknown")["reason"]), "said last");
    assert_eq!(number(&older, "PRAGMA user_version"), 2);
    sound(&t);
    t.upto_quiet();
}

/// An older program that lists the store meanwhile sees all of it as it was.
#[test]
fn an_older_reader_keeps_its_view_and_holds_nobody_up() {
    let t = version_1();
    let older = connect(&t);
    let count = "SELECT count(*) FROM operation WHERE token != ''";
    older.execute_batch("BEGIN").expect("a view");
    let before = number(&older, count);
    assert_eq!(before, 15);
    let look = t.idem("status").start();
    let run = t.run("--key new", "echo x >> n").start();
    look.end().code(0);
    run.end().code(0);
    assert_eq!(t.lines("n"), 1);
    assert_eq!(number(&older, count), before);
    older.execute_batch("COMMIT").expect("the end");
    let later = older.query_row(count, [], |row| row.get::<_, i64>(0));
    later.expect_err("the tables are others");
    nothing_is_lost(&t);
    sound(&t);
    t.upto_quiet();
}
