//! Stores of every version that was ever released: they are opened, and say what they said.
//!
//! `fixtures/version-N` holds a store of that version of the schema with the answers of the program that
//! wrote it. A new version brings one more, written by
//! `IDEM_FIXTURE=N cargo test --test blackbox a_fixture_is_written -- --ignored`, or with
//! `IDEM_FIXTURE_FROM=PROGRAM` by another build.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::command::Cmd;
use crate::env::{IDEM, TestEnv, pid, text};
use crate::procs;

pub const CRASHES: &str = "echo >> begun; exec sleep 100";
const ANSWERS: &str = "answers.json";

/// What depends on the moment of asking.
const PASSING: [&str; 3] = ["left_ms", "deadline_left_ms", "oldest_unknown_seconds"];

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/blackbox/fixtures")
}

/// The versions that there are fixtures of, oldest first.
fn versions() -> Vec<PathBuf> {
    let count = fs::read_dir(fixtures()).expect("fixtures").count();
    let dirs = (1..=count).map(|number| fixtures().join(format!("version-{number}")));
    dirs.collect()
}

/// A program that is called in a test's world.
pub struct Program<'a> {
    pub t: &'a TestEnv,
    pub file: &'a Path,
}

impl Program<'_> {
    fn call(&self, args: &str) -> Cmd {
        self.t.command(self.file).args(args.split_whitespace())
    }

    pub fn sh(&self, options: &str, script: &str) -> Cmd {
        let run = self.call(&format!("run --ttl forever --failed-ttl forever {options}"));
        run.args(["--", "sh", "-c", script])
    }

    fn status(&self, name: &str) -> Value {
        self.call(&format!("status {name} --json"))
            .end()
            .code(0)
            .json()
    }
}

/// Records of every state, with outputs in the database and beside it, bytes that are no text, what was
/// left by a crash, guards, a ledger and counters.
fn fill(p: &Program<'_>) {
    let not_text = std::ffi::OsStr::from_bytes(b"\xff\x80 x");
    p.sh("--key inline", "echo out; echo err >&2; printf '\\377\\0'")
        .arg(not_text)
        .end()
        .code(0);
    p.sh("--key spooled", "yes | head -c 16500").end().code(0);
    p.sh("--key permanent --scope prod", "printf '\\376'; exit 3")
        .end()
        .code(3);
    for _ in 0..2 {
        p.sh(
            "--key retried --retries 1 --backoff const:10ms",
            "echo $IDEM_ATTEMPT; exit 9",
        )
        .end()
        .code(9);
    }
    p.sh("--key unknown", "echo half; kill -9 $$").end();
    p.sh("--key resolved", "kill -9 $$").end();
    p.t.write("answer", b"done\xfe");
    p.call("resolve resolved --succeeded --exit-code 0 --stdout answer")
        .end()
        .code(0);
    p.call("run --key absent -- no-such-program")
        .end()
        .code(127);
    p.call("run --key redacted --redact-args --ttl 3650d -- true secret")
        .end()
        .code(0);
    p.call("run --key forgotten -- true").end().code(0);
    p.call("forget forgotten").end().code(0);
    hold(p);
    guard(p);
    crash(p);
    // Folds the log into the database; what is counted after that stays beside it.
    p.call("gc").end().code(0);
    p.sh("--key spooled", "yes | head -c 16500").end().code(0);
}

fn hold(p: &Program<'_>) {
    for key in ["held", "approved", "rejected", "consumed"] {
        p.call(&format!("run --ttl forever --key {key} --hold --preview"))
            .args(["printf 'plan\\375'", "--", "true"])
            .end()
            .code(122);
    }
    p.call("approve approved --yes").end().code(0);
    p.call("approve consumed --yes").end().code(0);
    p.call("run --ttl forever --key consumed -- true")
        .end()
        .code(0);
    p.call("reject rejected --yes --note no").end().code(0);
}

fn guard(p: &Program<'_>) {
    p.sh(
        "--key broken --retry-on any --breaker api:failures=1,cooldown=3650d --budget b=5/1h",
        "exit 1",
    )
    .end()
    .code(1);
    p.call("task open release --retries 2").end().code(0);
    p.sh(
        "--task release --step build --retries 1 --backoff const:10ms",
        "exit 9",
    )
    .end()
    .code(9);
    p.call("batch nightly").end().code(0);
}

/// A call that is killed with all that it had started: its record says running for ever.
fn crash(p: &Program<'_>) {
    let call = p.sh("--key crashed", CRASHES).start();
    p.t.upto_lines("begun", 1);
    let status = p.status("crashed");
    procs::signal(pid(&status["owner"]["pid"]), libc::SIGKILL);
    procs::signal(pid(&status["attempts"][0]["pid"]), libc::SIGKILL);
    call.end();
    p.t.upto_quiet();
}

/// Everything that a program says about a store.
pub fn answers(p: &Program<'_>) -> Value {
    let lines = |args: &str| -> Vec<Value> {
        let done = p.call(args).end();
        let text = done.code(0).out_text();
        text.lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    };
    let list = p.call("status --json --limit 1000").end().code(0).json();
    let mut operations = Map::new();
    let mut outputs = Map::new();
    for found in list.as_array().expect("a list") {
        let key = text(&found["key"]);
        let name = match text(&found["scope"]).as_str() {
            "" => key.clone(),
            scope => format!("{key} --scope {scope}"),
        };
        let status = p.status(&name);
        let last = status["attempts"].as_array().map_or(0, Vec::len);
        for attempt in 0..=last {
            let number = match attempt {
                0 => String::new(),
                number => format!(" --attempt {number}"),
            };
            let done = p.call(&format!("output {name}{number} --both")).end();
            let both = [&done.stdout[..], b"|", &done.stderr[..]].concat();
            let both: String = both.into_iter().map(char::from).collect();
            outputs.insert(format!("{key}{number}"), json!([done.code, both]));
        }
        operations.insert(key, status);
    }
    let mut answers = json!({
        "operations": operations,
        "outputs": outputs,
        "export": lines("export"),
        "events": lines("log --json"),
        "breakers": p.call("breaker --json").end().code(0).json(),
        "task": p.call("task show release --json").end().code(0).json(),
        "batch": p.call("batch nightly").end().code(0).out_text(),
        "stats": p.call("stats --json").end().code(0).json(),
    });
    drop_passing(&mut answers);
    answers
}

fn drop_passing(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|name, _| !PASSING.contains(&name.as_str()));
            object.values_mut().for_each(drop_passing);
        }
        Value::Array(array) => array.iter_mut().for_each(drop_passing),
        _ => {}
    }
}

/// Where what was said before is not said any more. More may be said.
pub fn missing(before: &Value, now: &Value, at: &str, found: &mut Vec<String>) {
    match (before, now) {
        (Value::Object(before), Value::Object(now)) => {
            for (name, value) in before {
                let at = format!("{at}/{name}");
                missing(value, now.get(name).unwrap_or(&Value::Null), &at, found);
            }
        }
        (Value::Array(before), Value::Array(now)) if before.len() == now.len() => {
            for (number, (before, now)) in before.iter().zip(now).enumerate() {
                missing(before, now, &format!("{at}/{number}"), found);
            }
        }
        _ if before == now => {}
        _ => found.push(format!("{at}: {before}, now {now}")),
    }
}

pub fn put(t: &TestEnv, fixture: &Path) {
    fs::create_dir(t.store_dir()).expect("a place for the store");
    fs::set_permissions(t.store_dir(), Permissions::from_mode(0o700)).expect("private");
    for entry in fs::read_dir(fixture).expect("a fixture") {
        let from = entry.expect("a file").path();
        let name = from.file_name().expect("a name");
        if name != ANSWERS {
            let to = t.store_dir().join(name);
            fs::copy(&from, &to).expect("a copy");
            fs::set_permissions(&to, Permissions::from_mode(0o600)).expect("private");
        }
    }
}

pub fn saved(fixture: &Path) -> Value {
    let text = fs::read(fixture.join(ANSWERS)).expect("saved answers");
    serde_json::from_slice(&text).expect("JSON")
}

#[test]
fn stores_of_every_version_say_what_they_said() {
    assert!(versions().len() >= 2);
    for fixture in versions() {
        let t = TestEnv::new();
        put(&t, &fixture);
        let p = Program {
            t: &t,
            file: Path::new(IDEM),
        };
        let mut found = Vec::new();
        missing(&saved(&fixture), &answers(&p), "", &mut found);
        assert!(found.is_empty(), "{}: {found:#?}", fixture.display());
        // And they are used like any other.
        let health = t.idem("doctor").end().out_text();
        assert!(health.contains("the database is sound"), "{health}");
        assert!(
            health.contains("every stored output is there, and nothing else"),
            "{health}"
        );
        p.sh("--key spooled", "yes | head -c 16500").end().code(0);
        p.sh("--key inline", "exit 1").end().code(121);
        p.sh("--key crashed", CRASHES).end().code(122);
        t.idem("resolve unknown --not-done").end().code(0);
        p.sh("--key unknown", "echo half; kill -9 $$").end();
        p.sh("--key new", "echo new").end().code(0).out("new\n");
        p.sh("--key new", "echo new").end().code(0).out("new\n");
        assert_eq!(
            t.status("new")["attempts"].as_array().map(Vec::len),
            Some(1)
        );
    }
}

/// What does not differ from run to run.
fn shape(answers: &Value) -> BTreeMap<String, Value> {
    let mut shape = BTreeMap::new();
    for (key, operation) in answers["operations"].as_object().expect("operations") {
        let fields = ["state", "reason", "next", "generation", "argv", "exit_code"];
        let more = ["stdout_bytes", "stderr_bytes", "truncated", "preview"];
        let pick = |name: &&str| (name.to_owned().to_owned(), operation[name].clone());
        let picked: Map<String, Value> = fields.iter().chain(&more).map(pick).collect();
        shape.insert(format!("operation {key}"), picked.into());
    }
    for (key, output) in answers["outputs"].as_object().expect("outputs") {
        shape.insert(format!("output {key}"), output.clone());
    }
    let events = answers["events"].as_array().expect("events");
    let kinds = events
        .iter()
        .map(|event| json!([event["key"], event["event"], event["attempt"]]));
    shape.insert("events".to_owned(), kinds.collect());
    shape.insert("stats".to_owned(), answers["stats"]["scopes"].clone());
    shape
}

#[test]
fn this_version_writes_what_its_fixture_holds() {
    let t = TestEnv::new();
    let p = Program {
        t: &t,
        file: Path::new(IDEM),
    };
    fill(&p);
    let newest = versions().pop().expect("a fixture");
    assert_eq!(shape(&answers(&p)), shape(&saved(&newest)));
}

#[test]
#[ignore = "writes into the tree"]
fn a_fixture_is_written() {
    let number = std::env::var("IDEM_FIXTURE").expect("the version's number");
    let file = std::env::var_os("IDEM_FIXTURE_FROM").map_or(IDEM.into(), PathBuf::from);
    let fixture = fixtures().join(format!("version-{number}"));
    let t = TestEnv::new();
    let p = Program { t: &t, file: &file };
    fill(&p);
    fs::create_dir_all(&fixture).expect("a place");
    for entry in fs::read_dir(t.store_dir()).expect("a store") {
        let from = entry.expect("a file").path();
        let name = from
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        match name.strip_prefix("idem.db") {
            Some("-wal") => assert_eq!(fs::metadata(&from).expect("a log").len(), 0),
            Some("-locks" | "-shm") => {}
            _ => drop(fs::copy(&from, fixture.join(&name)).expect("a copy")),
        }
    }
    // Asked of a copy, since an answer can change what is counted.
    let asked = TestEnv::new();
    put(&asked, &fixture);
    let said = answers(&Program {
        t: &asked,
        file: &file,
    });
    let text = serde_json::to_string(&said).expect("text");
    fs::write(fixture.join(ANSWERS), text + "\n").expect("written");
}
