//! `idem doctor`.

#[cfg(feature = "postgres")]
mod server;

use super::context::{Context, Opened};
use super::stats;
use crate::cli::quote;
use crate::cli::stdout::{print, reason};
use crate::cli::when::length;
use crate::cli::words::{Words, flag};
use crate::domain::outcome::State;
use crate::domain::program::label;
use crate::domain::record::Record;
use crate::engine::store::{Filter, StoreResult};
use crate::process::filesystem;
use crate::process::locks::LockFile;
use crate::store::location::Location;
use crate::store::sqlite::SqliteStore;
use anyhow::Result;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// With less than this a result may not fit.
const LITTLE_ROOM_BYTES: u64 = 64 * 1024 * 1024;

/// A log of this length is read again by every lone opener.
const LONG_WAL_BYTES: u64 = 4 * 1024 * 1024;

/// Counts that have come together without an execution to add them up.
const MANY_COUNTS_BYTES: u64 = 16 * 1024 * 1024;

/// Clocks of machines that write the same store may differ by this much.
const CLOCK_SLACK_MS: i64 = 5_000;

/// How many operations of a kind are named.
const MOST_NAMED: usize = 20;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// As it should be.
    Fine,
    /// Good to know; nobody is needed.
    Note,
    /// A person is needed.
    Problem,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Level::Fine => "ok",
            Level::Note => "note",
            Level::Problem => "problem",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug)]
struct Finding {
    check: &'static str,
    level: Level,
    what: String,
    remedy: Option<String>,
}

/// Everything found so far.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn fine(&mut self, check: &'static str, what: impl Into<String>) {
        self.add(check, Level::Fine, what.into(), None);
    }

    fn note(&mut self, check: &'static str, what: impl Into<String>, remedy: impl Into<String>) {
        self.add(check, Level::Note, what.into(), Some(remedy.into()));
    }

    fn problem(&mut self, check: &'static str, what: impl Into<String>, remedy: impl Into<String>) {
        self.add(check, Level::Problem, what.into(), Some(remedy.into()));
    }

    fn add(&mut self, check: &'static str, level: Level, what: String, remedy: Option<String>) {
        self.0.push(Finding {
            check,
            level,
            what,
            remedy,
        });
    }

    /// An error whose text says what to do.
    fn failed(&mut self, check: &'static str, error: &str) {
        let (what, remedy) = split_remedy(error);
        self.add(check, Level::Problem, what, remedy);
    }

    fn healthy(&self) -> bool {
        self.0.iter().all(|finding| finding.level != Level::Problem)
    }

    fn to_json(&self, location: &Location) -> Value {
        let findings: Vec<Value> = self
            .0
            .iter()
            .map(|finding| {
                json!({
                    "check": finding.check,
                    "level": finding.level.word(),
                    "finding": finding.what,
                    "remedy": finding.remedy,
                })
            })
            .collect();
        json!({
            "store": location.to_string(),
            "healthy": self.healthy(),
            "findings": findings,
        })
    }

    fn told(&self) -> String {
        let line = |finding: &Finding| {
            let remedy = finding.remedy.as_ref();
            let remedy = remedy.map_or(String::new(), |remedy| format!("; {remedy}"));
            let (level, check) = (finding.level.word(), finding.check);
            format!("{level:<7}  {check:<11}  {}{remedy}\n", finding.what)
        };
        self.0.iter().map(line).collect()
    }
}

/// Runs the verb.
pub fn run(words: &Words) -> Result<i32> {
    let context = Context::new(words)?;
    let mut findings = Findings::default();
    look(&mut findings, &context);
    print(match flag(words, "json") {
        true => format!("{}\n", findings.to_json(&context.location)),
        false => findings.told(),
    })?;
    Ok(i32::from(!findings.healthy()))
}

/// Looks at everything that there is.
fn look(findings: &mut Findings, context: &Context) {
    #[cfg(feature = "postgres")]
    if let Location::Server(place) = &context.location {
        if server::examine(findings, place) {
            open(findings, context);
        }
        server::waiting(findings, place);
        return;
    }
    open(findings, context);
}

/// Opens the store and looks at what is in it.
fn open(findings: &mut Findings, context: &Context) {
    match context.read() {
        Ok(Some(mut opened)) => {
            findings.fine("store", format!("{} can be opened", context.location));
            if let Err(error) = examine(findings, context, &mut opened) {
                findings.failed("store", &error.to_string());
            }
        }
        Ok(None) => {
            findings.fine(
                "store",
                format!("there is none at {} yet", context.location),
            );
            let nearest = nearest_directory(context.location.path());
            place(findings, nearest, &context.location);
        }
        Err(error) => findings.failed("store", &error.to_string()),
    }
}

fn split_remedy(text: &str) -> (String, Option<String>) {
    match text.rsplit_once("; ") {
        Some((what, remedy)) => (what.to_owned(), Some(remedy.to_owned())),
        None => (text.to_owned(), None),
    }
}

/// The directory that the store would be made in, as far as it is there.
fn nearest_directory(path: &Path) -> &Path {
    let above = path.ancestors().skip(1).find(|path| path.is_dir());
    above.unwrap_or(Path::new("/"))
}

fn examine(findings: &mut Findings, context: &Context, opened: &mut Opened) -> Result<()> {
    let paths = opened.any().paths().clone();
    place(findings, nearest_directory(&paths.db), &context.location);
    for path in [&paths.db, &paths.locks, &paths.wal(), &paths.counts()] {
        permissions(findings, path);
    }
    if let Some(store) = opened.any().sqlite() {
        integrity(findings, store)?;
        space(findings, store, &paths.counts())?;
        files(findings, store)?;
    }
    operations(findings, context, opened)
}

fn place(findings: &mut Findings, directory: &Path, location: &Location) {
    let shown = directory.display();
    // A server's store keeps the locks of this machine and what waits for the server here.
    let way = match location.is_shared() {
        true => "XDG_STATE_HOME",
        false => "--store or IDEM_STORE",
    };
    let found = match filesystem::of(directory) {
        Ok(found) => found,
        Err(error) => {
            let what = format!("the file system of {shown} cannot be looked at: {error}");
            findings.problem("file system", what, "look at the directory's permissions");
            return;
        }
    };
    let name = &found.name;
    if let Err(error) = filesystem::refuses_files(directory) {
        findings.problem(
            "file system",
            format!("nothing can be written in {shown}: {}", reason(&error)),
            format!("make it writable, or choose another place with {way}; until then nothing new can run"),
        );
    } else if found.network {
        findings.problem(
            "file system",
            format!("{shown} is on {name}, where locks and shared memory may not hold"),
            format!("put the store on a local disk with {way}"),
        );
    } else if found.volatile {
        findings.note(
            "file system",
            format!("{shown} is on {name}, which is empty after the next start"),
            format!("put the store on a disk with {way} if results must outlive it"),
        );
    } else {
        findings.fine("file system", format!("{shown} is on {name}"));
    }
    let free_mib = found.free_bytes / (1024 * 1024);
    match found.free_bytes < LITTLE_ROOM_BYTES {
        true => findings.problem(
            "room",
            format!("only {free_mib} MiB are free at {shown}"),
            "free some space: a result that cannot be recorded is unknown to later calls",
        ),
        false => findings.fine("room", format!("{free_mib} MiB are free")),
    }
}

/// The database and its directory have been checked by opening it; others may read what they must not.
fn permissions(findings: &mut Findings, path: &Path) {
    let Ok(meta) = std::fs::symlink_metadata(path) else {
        return;
    };
    let shown = path.display();
    if meta.file_type().is_symlink() {
        let remedy = format!("look at what it points to, then `rm {shown}`");
        findings.problem("permissions", format!("{shown} is a symbolic link"), remedy);
    } else if meta.mode() & 0o077 != 0 {
        let what = format!("others may use {shown} (mode {:o})", meta.mode() & 0o777);
        findings.problem("permissions", what, format!("`chmod 600 {shown}`"));
    }
}

fn integrity(findings: &mut Findings, store: &mut SqliteStore) -> StoreResult<()> {
    let broken = store.quick_check()?;
    match broken.first() {
        None => findings.fine("integrity", "the database is sound"),
        Some(first) => findings.problem(
            "integrity",
            format!("the database is damaged ({first})"),
            "save what can be read with `idem export`, move it away, and `idem import` that",
        ),
    }
    Ok(())
}

fn space(findings: &mut Findings, store: &mut SqliteStore, counts: &Path) -> StoreResult<()> {
    let space = store.space()?;
    let kib = |bytes: u64| bytes.div_ceil(1024);
    let what = format!(
        "the database takes {} KiB, its log {} KiB",
        kib(space.db_bytes),
        kib(space.wal_bytes)
    );
    let counted = std::fs::metadata(counts).map_or(0, |meta| meta.len());
    if space.wal_bytes > LONG_WAL_BYTES || space.free_bytes > space.db_bytes / 2 + LONG_WAL_BYTES {
        findings.note("size", what, "give room back with `idem gc`");
    } else if counted > MANY_COUNTS_BYTES {
        let what = format!("{} KiB of counts are not added up", kib(counted));
        findings.note("size", what, "add them up with `idem gc`");
    } else {
        findings.fine("size", what);
    }
    Ok(())
}

fn files(findings: &mut Findings, store: &mut SqliteStore) -> StoreResult<()> {
    let litter = store.litter()?.len();
    if litter > 0 {
        let what = format!("{litter} files are left over");
        findings.note("files", what, "delete them with `idem gc`");
    }
    let missing = store.missing_spool()?;
    if let Some(first) = missing.first() {
        findings.problem(
            "files",
            format!(
                "{} stored outputs are gone, {} first",
                missing.len(),
                first.display()
            ),
            "bring the files back, or `idem forget` what they belong to",
        );
    }
    if litter == 0 && missing.is_empty() {
        findings.fine("files", "every stored output is there, and nothing else");
    }
    Ok(())
}

fn operations(findings: &mut Findings, context: &Context, opened: &mut Opened) -> Result<()> {
    let filter = Filter {
        states: vec![State::Running, State::Unknown],
        ..Filter::default()
    };
    let locks = LockFile::open_to_observe(&opened.locks()).map(|locks| locks.identity());
    let records = opened.store().list(&filter)?;
    let before = findings.0.len();
    clock(findings, context, opened)?;
    if records.iter().any(|record| record.state == State::Running) {
        let limits = slow_limits(opened)?;
        for record in &records {
            running(findings, context, opened, record, &limits);
            let claimed = record.owner.as_ref().map(|owner| owner.lock_file);
            if record.state == State::Running
                && claimed.is_some()
                && claimed != locks.as_ref().ok().copied()
            {
                findings.problem(
                    "locks",
                    format!("the lock file of {} was replaced while it ran", record.name),
                    "never delete or copy the file that ends in -locks; wait for the operation's end",
                );
            }
        }
    }
    let unknown: Vec<&Record> = records
        .iter()
        .filter(|record| opened.view((*record).clone()).state() == State::Unknown)
        .collect();
    for record in unknown.iter().take(MOST_NAMED) {
        let age = length(record.since.age(&context.now()));
        findings.problem(
            "unknown",
            format!("the outcome of {} has been unknown for {age}", record.name),
            format!(
                "`idem status {}` says how to go on",
                quote::operation(&record.name)
            ),
        );
    }
    if unknown.len() > MOST_NAMED {
        let more = unknown.len() - MOST_NAMED;
        let what = format!("there are {more} more unknown outcomes");
        findings.problem(
            "unknown",
            what,
            "list them with `idem status --state unknown`",
        );
    }
    if findings.0.len() == before {
        findings.fine("operations", "none is stuck or unknown");
    }
    Ok(())
}

/// From when on each command takes suspiciously long.
pub fn slow_limits(opened: &mut Opened) -> Result<BTreeMap<String, Duration>> {
    let durations = stats::durations(opened, None, None)?;
    let limits = durations.into_iter();
    Ok(limits
        .map(|(command, summary)| (command, summary.suspicious()))
        .collect())
}

/// How long a command usually takes at most, if a record runs longer than twice that.
pub fn slow_limit(
    record: &Record,
    age: Duration,
    limits: &BTreeMap<String, Duration>,
) -> Option<Duration> {
    let command = record.command.argv.as_deref().and_then(label)?;
    limits.get(&command).copied().filter(|limit| age > *limit)
}

fn running(
    findings: &mut Findings,
    context: &Context,
    opened: &Opened,
    record: &Record,
    limits: &BTreeMap<String, Duration>,
) {
    let age = record.since.age(&context.now());
    let runs = opened.view(record.clone()).state() == State::Running;
    if let Some(limit) = slow_limit(record, age, limits).filter(|_| runs) {
        findings.problem(
            "stuck",
            format!(
                "{} has been running for {}, more than {} is unusual",
                record.name,
                length(age),
                length(limit)
            ),
            format!(
                "look at it with `idem status {}`",
                quote::operation(&record.name)
            ),
        );
    }
}

/// A record from the future: the clock was set back, or another machine's runs ahead.
fn clock(findings: &mut Findings, context: &Context, opened: &mut Opened) -> StoreResult<()> {
    let newest = Filter {
        limit: Some(1),
        ..Filter::default()
    };
    let records = opened.store().list(&newest)?;
    let Some(record) = records.first() else {
        return Ok(());
    };
    let ahead = record.since.wall.0.saturating_sub(context.now().wall.0);
    if ahead > CLOCK_SLACK_MS {
        let ahead = Duration::from_millis(ahead.unsigned_abs());
        findings.problem(
            "clock",
            format!("{} is from {} in the future", record.name, length(ahead)),
            "set the clock right: until then its time does not run",
        );
    }
    Ok(())
}
