//! Every option of every verb with values that it cannot have: exit 125, one line that names the option,
//! and nothing has happened. The options come from the definition itself, so a new one is tested too,
//! and one with a new kind of value fails here until its odd values are written down.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use idem::cli::options::{GLOBAL, Opt, RUN_GROUPS, Takes};
use idem::cli::parse::tree;

use crate::place::{Done, Place, end};

const NO_DURATION: &[&str] = &[
    "",
    " ",
    "-1s",
    "+1s",
    "1",
    "s",
    "1x",
    "NaN",
    "inf",
    "1e9s",
    "0x1s",
    "1s,2s",
    "1s..2s",
    "zebra",
    "99999999999999999999s",
    "1001y",
];
const ZERO_DURATION: &[&str] = &["0", "0s", "0h 0m", "0ms"];
const NO_MOMENT: &[&str] = &[
    "2026-11-30",
    "2026-11-30T17:00:00",
    "2026-13-01T00:00:00Z",
    "2026-02-30T00:00:00Z",
    "99999-01-01T00:00:00Z",
];
const NO_COUNT: &[&str] = &[
    "",
    " ",
    "-1",
    "+1",
    "1.5",
    "NaN",
    "inf",
    "0x10",
    "1e3",
    "1 2",
    "4294967296",
    "99999999999999999999",
];
const NO_SIZE: &[&str] = &[
    "",
    "0",
    "0MiB",
    "-1",
    "+1",
    "1.5MiB",
    "NaN",
    "inf",
    "MiB",
    "1XB",
    "9223372036854775808",
    "99999999999999999999TiB",
];
const NO_NAME: &[&str] = &["", "a\nb", "a\u{7f}", "\u{200b}"];
const NO_PARTS: &[&str] = &[
    "",
    ",",
    "argv,",
    "argv,,cwd",
    "zebra",
    "env:",
    "window:0m",
    "window:-1m",
    "window:NaN",
    "none,argv",
];
const NO_CONDITIONS: &[&str] = &[
    "",
    " ",
    ",",
    "exit:75,",
    "zebra",
    "75",
    "exit:",
    "exit:256",
    "exit:-1",
    "exit:NaN",
    "exit:110-100",
    "exit:99999999999999999999",
    "http:",
    "http:999",
    "http:5xx-4xx",
    "signal:ZEBRA",
    "signal:0",
    "signal:-9",
    "stderr:/",
    "stderr:/(/",
    "stderr://",
    "timeout:1s",
];
const NO_CODES: &[&str] = &[
    "",
    " ",
    ",",
    "0,",
    "0,,3",
    "zebra",
    "256",
    "-1",
    "NaN",
    "3-0",
    "99999999999999999999",
];
const NO_BACKOFF: &[&str] = &[
    "",
    "zebra",
    "exp",
    "exp:",
    "exp:1s",
    "exp:60s..1s",
    "exp:0s..0s",
    "exp:1s..60s*0",
    "exp:1s..60s*-1",
    "exp:1s..60s*NaN",
    "exp:1s..60s*inf",
    "linear:30s..1s",
    "const:",
    "const:-5s",
    "const:99999999999999999999s",
];
const NO_JITTER: &[&str] = &[
    "",
    "zebra",
    "-1%",
    "101%",
    "NaN%",
    "%",
    "20",
    "+",
    "+-1s",
    "+0",
    "+99999999999999999999s",
];
const NO_BREAKER: &[&str] = &[
    "",
    ":",
    "a:",
    ":failures=5",
    "a:failures=0",
    "a:failures=-1",
    "a:failures=NaN",
    "a:failures=99999999999999999999",
    "a:ratio=0%/20/1m",
    "a:ratio=101%/20/1m",
    "a:ratio=50%/0/1m",
    "a:ratio=50%/20/0s",
    "a:ratio=50%",
    "a:cooldown=0s",
    "a:cooldown=-1s",
    "a:probes=0",
    "a:zebra=1",
    "a:failures=5,failures=6",
    "a:failures=5,ratio=50%/20/1m",
    "a:failures=5,",
];
const NO_LIMIT: &[&str] = &[
    "",
    "a",
    "=",
    "a=",
    "=1",
    "a=0",
    "a=-1",
    "a=1.5",
    "a=NaN",
    "a=99999999999999999999",
    "a=1=2",
];
const NO_BUDGET: &[&str] = &[
    "",
    "a",
    "a=",
    "a=10",
    "=10/1m",
    "a=0/1m",
    "a=-1/1m",
    "a=10/0s",
    "a=10/-1m",
    "a=NaN/1m",
    "a=10/",
    "a=10/1m/1m",
    "a=99999999999999999999/1m",
];
const NO_PERIOD: &[&str] = &[
    "",
    " ",
    "0m",
    "-1m",
    "NaN",
    "zebra",
    "99999999999999999999m",
    "day,hour",
];
const NO_TEMPLATE: &[&str] = &[
    "",
    "a\nb",
    "{",
    "}",
    "{zebra}",
    "{day",
    "{env:}",
    "{env:NO_SUCH_VARIABLE}",
    "{arg:99}",
    "{arg:-1}",
    "{arg:NaN}",
    "{window:0m}",
    "{window:-1m}",
    "{sha256:/no/such/file}",
];
const NO_STATES: &[&str] = &["", ",", "zebra", "running,", "running,,unknown", "Running "];
const NO_ATTEMPT: &[&str] = &["", "0", "-1", "NaN", "1.", ".1", "1.0", "1.2.3", "zebra"];

const NO_GENERATION: &[&str] = &["", "-1", "+1", "1.5", "NaN", "99999999999999999999"];
const NO_WORD: &[&str] = &["", "zebra", "0", "-1", "NaN"];
const NO_FILE: &[&str] = &["", "/no/such/file", "/"];
const EMPTY: &[&str] = &[""];

/// The values that an option with this kind of value cannot have.
fn odd_values(option: &str, kind: &str) -> Vec<OsString> {
    let lists: &[&[&str]] = match (option, kind) {
        // No time for it is a time.
        ("wait" | "kill-after", "DUR") => &[NO_DURATION],
        (_, "DUR") => &[NO_DURATION, ZERO_DURATION],
        (_, "DUR|TIME") => &[NO_DURATION, ZERO_DURATION, NO_MOMENT],
        ("limit", "N") => &[NO_COUNT, &["0"]],
        ("exit-code", "N") => &[NO_COUNT, &["256"]],
        ("generation", "N") => &[NO_GENERATION],
        (_, "N") => &[NO_COUNT],
        (_, "N|G.N") => &[NO_ATTEMPT],
        (_, "SIZE") => &[NO_SIZE],
        ("classifier" | "profile", "NAME") => &[NO_WORD],
        (_, "NAME") => &[NO_NAME],
        (_, "PARTS") => &[NO_PARTS],
        ("success-codes", "LIST") => &[NO_CODES],
        (_, "LIST") => &[NO_CONDITIONS],
        ("backoff", "SPEC") => &[NO_BACKOFF],
        ("breaker", "SPEC") => &[NO_BREAKER],
        (_, "KIND") => &[NO_JITTER],
        (_, "NAME=N") => &[NO_LIMIT],
        (_, "NAME=N/DUR") => &[NO_BUDGET],
        (_, "PERIOD") => &[NO_PERIOD],
        (_, "TEMPLATE") => &[NO_TEMPLATE],
        (_, "STATES") => &[NO_STATES],
        ("config" | "key-file" | "stdout", _) => &[NO_FILE],
        (_, "CMD" | "FILE" | "PATH" | "TEXT" | "ROLE") => &[EMPTY],
        (_, words) if words.contains('|') => &[NO_WORD],
        _ => panic!("--{option}: which values of kind {kind} are odd?"),
    };
    let mut values: Vec<OsString> = lists.concat().iter().map(OsString::from).collect();
    if matches!(kind, "NAME" | "TEMPLATE") {
        values.push("x".repeat(300).into());
    }
    if !matches!(kind, "CMD" | "FILE" | "PATH") {
        values.push(OsStr::from_bytes(b"\xff\xfe").to_owned());
    }
    values
}

fn kind_of(option: &Opt) -> Option<String> {
    match option.takes {
        Takes::Nothing => None,
        Takes::Value(kind) | Takes::File(kind) => Some(kind.to_owned()),
        Takes::OneOf(words) => Some(words.join("|")),
    }
}

/// What else must be given for the option to be looked at.
fn company(option: &str) -> &'static [&'static str] {
    match option {
        "key" | "key-file" | "key-from" => &[],
        "task" => &["--step", "s"],
        "step" => &["--task", "t"],
        "call" => &["--task", "t", "--step", "s"],
        "preview" => &["--key", "k", "--hold"],
        _ => &["--key", "k"],
    }
}

#[test]
fn of_every_option_of_run() {
    let place = Place::new();
    place.configure("[profile.known]\n");
    let mut wrong = Vec::new();
    let options = RUN_GROUPS.iter().flat_map(|group| group.options);
    for option in options.chain(GLOBAL) {
        let Some(kind) = kind_of(option) else {
            continue;
        };
        for value in odd_values(option.long, &kind) {
            let mut command = place.idem(["run"]);
            command.args(company(option.long));
            command.arg(joined(option.long, &value));
            command.args(["--", "sh", "-c", "echo x >> n"]);
            wrong.extend(judge(end(command), option.long, &value));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert_eq!(place.lines("n"), 0, "something ran");
    assert!(!place.store().exists(), "a refused call has left a store");
}

#[test]
fn of_every_option_of_the_other_verbs() {
    let place = Place::new();
    end(place.run("--key k", "true")).code(0);
    let mut wrong = Vec::new();
    let tree = tree();
    for verb in tree
        .get_subcommands()
        .filter(|verb| verb.get_name() != "run")
    {
        let globals = GLOBAL.iter().map(|option| option.long);
        let of_run = RUN_GROUPS.iter().flat_map(|group| group.options);
        // What `run` has has been tested with it, except what the verb reads itself.
        let tested: Vec<&str> = match verb.get_name() {
            "key" => globals.chain(of_run.map(|option| option.long)).collect(),
            _ => globals.collect(),
        };
        for option in verb.get_opts() {
            let long = option.get_long().expect("a long name");
            if tested.contains(&long) {
                continue;
            }
            let kinds = option.get_value_names().unwrap_or_default();
            // A switch has none.
            for value in kinds.iter().flat_map(|kind| odd_values(long, kind)) {
                let mut command = place.idem([verb.get_name()]);
                command.args(needed(verb.get_name(), long));
                command.arg(joined(long, &value));
                wrong.extend(judge(end(command), long, &value));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// What is wrong with how a call with an odd value ended. What is no UTF-8 at all need not be named.
fn judge(done: Done, option: &str, value: &OsStr) -> Option<String> {
    let is_named = done.err.contains(option) || value.to_str().is_none();
    (!done.is_refused() || !is_named).then(|| done.to_string())
}

/// The arguments that a verb cannot do without.
fn needed(verb: &str, option: &str) -> &'static [&'static str] {
    match (verb, option) {
        ("status" | "log", "scope") => &[],
        ("status", _) => &["*"],
        ("resolve", "exit-code") => &["k", "--failed"],
        ("resolve", _) => &["k", "--succeeded"],
        ("task", _) => &["open", "t"],
        ("breaker", _) => &["b", "--trip"],
        ("approve" | "reject", _) => &["k", "--yes"],
        ("log" | "output" | "wait" | "forget", _) => &["k"],
        _ => &[],
    }
}

fn joined(option: &str, value: &OsStr) -> OsString {
    let mut joined = OsString::from(format!("--{option}="));
    joined.push(value);
    joined
}

#[test]
fn switches_take_no_value() {
    let place = Place::new();
    let options = RUN_GROUPS.iter().flat_map(|group| group.options);
    for option in options.filter(|option| option.takes == Takes::Nothing) {
        for value in ["", "yes", "false", "0"] {
            let mut command = place.idem(["run", "--key", "k"]);
            command.arg(joined(option.long, OsStr::new(value)));
            command.args(["--", "sh", "-c", "echo x >> n"]);
            end(command).refused().says(option.long);
        }
    }
    assert_eq!(place.lines("n"), 0);
}

#[test]
fn typos_are_answered_with_what_was_meant() {
    let place = Place::new();
    for (line, meant) in [
        ("rnu -- true", "idem run -- COMMAND"),
        ("statsu", "'status'"),
        ("run --timeuot 3s -- true", "'--timeout'"),
        ("run --if-running wiat -- true", "'wait'"),
        ("run --if-running zebra -- true", "wait, refuse, skip"),
        ("run --retires 3 -- true", "'--retries'"),
        ("completions bsh", "'bash'"),
        ("--stroe x status", "'--store'"),
    ] {
        end(place.line(line)).refused().says(meant);
    }
}

#[test]
fn a_duration_with_a_minus_is_told_as_one() {
    let place = Place::new();
    for line in [
        "run --key k --ttl -5m -- true",
        "run --key k --ttl=-5m -- true",
        "run --key k -t -1s -- true",
        "run --key k --per=-15m -- true",
        "run --key k --backoff const:-5s -- true",
        "status --since -1h",
    ] {
        let wanted = "a duration cannot be negative, as `-";
        end(place.line(line)).refused().says(wanted);
    }
}
