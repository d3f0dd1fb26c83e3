//! What the typed options, the environment and the defaults mean together: one frozen plan.

use super::parse::{flag, value, word};
use super::values::{self, Deadline};
use crate::domain::decision::{IfRunning, Request};
use crate::domain::facts::Facts;
use crate::domain::keyparts::{Parts, task_key};
use crate::domain::name::{Fingerprint, Key, OpName, Scope};
use crate::domain::period::Period;
use crate::domain::record::{CommandLine, Source};
use crate::domain::template::Template;
use crate::domain::time::{Stamp, Ttl, UnixMs};
use crate::engine::environment::Ancestor;
use crate::engine::plan::{GuardPlan, Helpers, Limits, Plan, RetryPlan, Running, StdinMode};
use crate::policy::deadline::tighter;
use clap::ArgMatches;
use jiff::Timestamp;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

const DEFAULT_TTL: Ttl = Ttl::For(Duration::from_secs(24 * 60 * 60));
const DEFAULT_KILL_AFTER: Duration = Duration::from_secs(10);
const DEFAULT_MAX_OUTPUT_BYTES: u64 = 16 * 1024 * 1024;

/// Why the options cannot be used: one line without `idem: `.
pub type UsageError = String;

/// What a call must know of its surroundings besides its options.
pub struct Surroundings<'a> {
    /// One variable of the environment.
    pub env: &'a dyn Fn(&str) -> Option<OsString>,
    /// The moment.
    pub now: Stamp,
    /// The monotonic clock at the same moment.
    pub monotonic: Duration,
    /// The claims that this call runs under, as far as their keepers live.
    pub ancestry: Vec<Ancestor>,
    /// The working directory; empty if it has been deleted.
    pub cwd: Vec<u8>,
}

/// How the key came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySource {
    /// The caller gave it.
    Given,
    /// It was derived, since no option names one.
    Derived,
}

/// The operation's name, and the period that is part of it.
#[derive(Debug, Clone)]
pub struct Named {
    /// The operation.
    pub name: OpName,
    /// Its name in the previous period.
    pub previous: Option<OpName>,
    /// When its period ends.
    pub period: Option<(UnixMs, UnixMs)>,
    /// How the key came about.
    pub source: KeySource,
}

/// How a call speaks.
#[derive(Debug, Clone)]
pub struct Speech {
    /// `--json`.
    pub json: bool,
    /// `--report`.
    pub report: Option<PathBuf>,
    /// `-q`.
    pub quiet: bool,
    /// `-v`.
    pub verbose: bool,
    /// `--on-replay silent`.
    pub silent_replay: bool,
}

/// The command typed, the program's name first.
pub fn command(matches: &ArgMatches) -> Vec<OsString> {
    matches
        .get_many::<OsString>("command")
        .map(|all| all.cloned().collect())
        .unwrap_or_default()
}

/// How the call speaks.
pub fn speech(matches: &ArgMatches) -> Result<Speech, UsageError> {
    if flag(matches, "quiet") && flag(matches, "verbose") {
        return Err("--quiet and --verbose contradict each other; leave one out".to_owned());
    }
    Ok(Speech {
        json: flag(matches, "json"),
        report: value(matches, "report")
            .map(|file| non_empty("report", file).map(PathBuf::from))
            .transpose()?,
        quiet: flag(matches, "quiet"),
        verbose: flag(matches, "verbose"),
        silent_replay: word(matches, "on-replay") == Some("silent"),
    })
}

/// The operation's name.
pub fn named(
    matches: &ArgMatches,
    around: &Surroundings<'_>,
    facts: &mut dyn Facts,
) -> Result<Named, UsageError> {
    let at = Timestamp::from_millisecond(around.now.wall.0)
        .map_err(|e| format!("the clock is out of range: {e}"))?;
    let scope = scope(matches, around)?;
    let (key, source) = key(matches, around, facts, at)?;
    let Some(period) = value(matches, "per") else {
        return Ok(Named {
            name: OpName { scope, key },
            previous: None,
            period: None,
            source,
        });
    };
    let period = Period::parse(text("per", period)?).map_err(|e| format!("--per: {e}"))?;
    let zone = facts.zone().map_err(|e| format!("--per: {e}"))?;
    let window = period
        .window(at, &zone)
        .map_err(|e| format!("--per: {e}"))?;
    let previous = period
        .previous(&window, &zone)
        .map_err(|e| format!("--per: {e}"))?;
    let with = |window: &crate::domain::period::Window| {
        window
            .key(&key)
            .map_err(|e| format!("the key with its period {e}; give a shorter key"))
    };
    Ok(Named {
        name: OpName {
            scope: scope.clone(),
            key: with(&window)?,
        },
        previous: Some(OpName {
            scope,
            key: with(&previous)?,
        }),
        period: Some((window.starts_at, window.ends_at)),
        source,
    })
}

/// `--scope`, else `IDEM_SCOPE`, else the empty scope.
pub fn scope(matches: &ArgMatches, around: &Surroundings<'_>) -> Result<Scope, UsageError> {
    let given = value(matches, "scope")
        .cloned()
        .map(|value| ("--scope", value));
    let Some((from, name)) =
        given.or_else(|| (around.env)("IDEM_SCOPE").map(|value| ("IDEM_SCOPE", value)))
    else {
        return Ok(Scope::default());
    };
    if name.is_empty() && from == "--scope" {
        return Err("--scope is empty; give a name or leave it out".to_owned());
    }
    Scope::new(name.as_bytes()).map_err(|e| format!("{from} {e}; give another name"))
}

fn key(
    matches: &ArgMatches,
    around: &Surroundings<'_>,
    facts: &mut dyn Facts,
    at: Timestamp,
) -> Result<(Key, KeySource), UsageError> {
    let ways = ["key", "key-file", "key-from", "step"]
        .into_iter()
        .filter(|name| value(matches, name).is_some());
    let ways: Vec<&str> = ways.collect();
    if let [first, second, ..] = ways[..] {
        return Err(format!(
            "--{first} and --{second} both name the key; give one of them"
        ));
    }
    if value(matches, "call").is_some() && ways.first() != Some(&"step") {
        return Err("--call needs --task and --step".to_owned());
    }
    if value(matches, "task").is_some() && ways.first() != Some(&"step") {
        return Err("--task needs --step, which names the operation in it".to_owned());
    }
    let key = match ways.first() {
        Some(&"key") => from_template("--key", required(matches, "key"), facts, at)?,
        Some(&"key-file") => from_template(
            "--key-file",
            &key_file(required(matches, "key-file"))?,
            facts,
            at,
        )?,
        Some(&"key-from") => Parts::parse(required(matches, "key-from").as_bytes())
            .map_err(|e| format!("--key-from: {e}"))?
            .key(facts, at)
            .map_err(|e| format!("--key-from: {e}"))?,
        Some(_) => step_key(matches, around)?,
        None => match (around.env)("IDEM_KEY") {
            Some(template) => from_template("IDEM_KEY", &template, facts, at)?,
            None => {
                let key = Parts::default_key()
                    .key(facts, at)
                    .map_err(|e| e.to_string())?;
                return Ok((key, KeySource::Derived));
            }
        },
    };
    Ok((key, KeySource::Given))
}

fn required<'a>(matches: &'a ArgMatches, name: &str) -> &'a OsStr {
    value(matches, name).map_or(OsStr::new(""), OsString::as_os_str)
}

fn from_template(
    from: &str,
    template: &OsStr,
    facts: &mut dyn Facts,
    at: Timestamp,
) -> Result<Key, UsageError> {
    if template.is_empty() {
        return Err(format!(
            "{from}: the key is empty; give one, or leave {from} out to derive it"
        ));
    }
    Template::parse(template.as_bytes())
        .and_then(|template| template.fill(facts, at))
        .map_err(|e| format!("{from}: {e}"))
}

/// A key file's content; one final newline is not part of it.
fn key_file(path: &OsStr) -> Result<OsString, UsageError> {
    let shown = PathBuf::from(path);
    let mut bytes = std::fs::read(path).map_err(|e| {
        format!(
            "--key-file: {} cannot be read: {e}; give a file that can",
            shown.display()
        )
    })?;
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    if bytes.is_empty() {
        return Err(format!(
            "--key-file: {} is empty, and so is the key; write one into it",
            shown.display()
        ));
    }
    Ok(OsStr::from_bytes(&bytes).to_owned())
}

fn step_key(matches: &ArgMatches, around: &Surroundings<'_>) -> Result<Key, UsageError> {
    let task =
        task(matches, around).ok_or("--step needs --task (or IDEM_TASK), which it is a step of")?;
    let call = value(matches, "call").map(|call| call.as_bytes());
    task_key(task.as_bytes(), required(matches, "step").as_bytes(), call).map_err(|e| e.to_string())
}

fn task(matches: &ArgMatches, around: &Surroundings<'_>) -> Option<OsString> {
    value(matches, "task")
        .cloned()
        .or_else(|| (around.env)("IDEM_TASK"))
}

/// The digest of what must be the same on a repeat.
pub fn fingerprint(
    matches: &ArgMatches,
    around: &Surroundings<'_>,
    facts: &mut dyn Facts,
) -> Result<Fingerprint, UsageError> {
    let at = Timestamp::from_millisecond(around.now.wall.0).map_err(|e| e.to_string())?;
    let parts = match value(matches, "fingerprint") {
        Some(parts) => {
            Parts::parse_fingerprint(parts.as_bytes()).map_err(|e| format!("--fingerprint: {e}"))?
        }
        None => Parts::default_fingerprint(),
    };
    parts
        .fingerprint(facts, at)
        .map_err(|e| format!("--fingerprint: {e}"))
}

/// Everything else of the plan.
pub fn plan(
    matches: &ArgMatches,
    around: &Surroundings<'_>,
    named: &Named,
    fingerprint: Fingerprint,
) -> Result<Plan, UsageError> {
    let argv = command(matches);
    check_headers(&argv)?;
    check_detach(matches)?;
    let retry = retry(matches, around)?;
    let helpers = helpers(matches)?;
    let ttl = ttl(matches, around, named)?;
    let failed_ttl = optional(matches, "failed-ttl", values::ttl)?.unwrap_or(ttl);
    let request = Request {
        fingerprint,
        if_running: match word(matches, "if-running") {
            Some("refuse") => IfRunning::Refuse,
            Some("skip") => IfRunning::Skip,
            _ => IfRunning::Wait,
        },
        rerun_unknown: retry.rerun_unknown || retry.idempotent,
        rerun_failed: word(matches, "if-failed") == Some("rerun"),
        probe: helpers.probe.is_some(),
        probe_first: flag(matches, "probe-first"),
        hold: flag(matches, "hold"),
        waits_for_approval: value(matches, "wait").is_some(),
        identity: None,
        ancestry: around
            .ancestry
            .iter()
            .map(|ancestor| ancestor.nonce)
            .collect(),
    };
    let stored = argv.iter().map(|arg| arg.as_bytes().to_vec()).collect();
    Ok(Plan {
        name: named.name.clone(),
        previous: named.previous.clone(),
        request,
        command: CommandLine {
            argv: (!flag(matches, "redact-args")).then_some(stored),
            cwd: around.cwd.clone(),
        },
        running: running(matches, argv)?,
        ttl,
        failed_ttl,
        limits: limits(matches, around)?,
        retry,
        helpers,
        guards: guards(matches, around)?,
        source: Source::default(),
        ancestry: around.ancestry.clone(),
    })
}

/// `--ttl`. With `--per` and no `--ttl` the result is kept at least until the period is over, since it
/// would otherwise not be once per period.
fn ttl(matches: &ArgMatches, around: &Surroundings<'_>, named: &Named) -> Result<Ttl, UsageError> {
    let given = optional(matches, "ttl", values::ttl)?;
    Ok(match (given, named.period) {
        (Some(given), _) => given,
        (None, Some((_, ends_at))) => {
            let left = u64::try_from(ends_at.0.saturating_sub(around.now.wall.0)).unwrap_or(0);
            match DEFAULT_TTL {
                Ttl::For(least) => Ttl::For(least.max(Duration::from_millis(left))),
                Ttl::Forever => Ttl::Forever,
            }
        }
        (None, None) => DEFAULT_TTL,
    })
}

fn limits(matches: &ArgMatches, around: &Surroundings<'_>) -> Result<Limits, UsageError> {
    let own = optional(matches, "deadline", values::deadline)?.map(|deadline| match deadline {
        Deadline::After(duration) => duration,
        Deadline::At(_) => until(deadline.moment(around.now.wall), around),
    });
    let inherited = inherited_deadline(around).map(|moment| until(moment, around));
    Ok(Limits {
        timeout: optional(matches, "timeout", values::duration)?,
        deadline: tighter(own, inherited).map(|left| around.monotonic.saturating_add(left)),
        kill_after: optional(matches, "kill-after", values::duration_or_zero)?
            .unwrap_or(DEFAULT_KILL_AFTER),
        wait: optional(matches, "wait", values::duration_or_zero)?,
    })
}

fn until(moment: UnixMs, around: &Surroundings<'_>) -> Duration {
    let left = moment.0.saturating_sub(around.now.wall.0);
    Duration::from_millis(u64::try_from(left).unwrap_or(0))
}

/// The deadline of an outer call. A server that was once started under idem keeps the variable for ever,
/// so it counts only while an ancestor lives.
fn inherited_deadline(around: &Surroundings<'_>) -> Option<UnixMs> {
    if around.ancestry.is_empty() {
        return None;
    }
    (around.env)("IDEM_DEADLINE")?
        .to_str()?
        .parse()
        .ok()
        .map(UnixMs)
}

fn retry(matches: &ArgMatches, around: &Surroundings<'_>) -> Result<RetryPlan, UsageError> {
    let retries = optional(matches, "retries", |text| {
        text.parse::<u32>()
            .map_err(|_| format!("cannot read the number `{text}`: write one like 3"))
    })?;
    Ok(RetryPlan {
        // A nice-to-have must not add load to what is in trouble.
        retries: if flag(matches, "auxiliary") {
            0
        } else {
            retries.unwrap_or(0)
        },
        retries_given: retries.is_some_and(|n| n > 0),
        nested: !around.ancestry.is_empty() && !flag(matches, "retry-layer"),
        backoff: optional(matches, "backoff", str::parse)?.unwrap_or_default(),
        jitter: optional(matches, "jitter", str::parse)?.unwrap_or_default(),
        retry_on: optional(matches, "retry-on", str::parse)?,
        stop_on: optional(matches, "stop-on", str::parse)?,
        success_codes: optional(matches, "success-codes", str::parse)?,
        classifier: optional(matches, "classifier", str::parse)?.unwrap_or_default(),
        idempotent: flag(matches, "idempotent"),
        rerun_unknown: word(matches, "if-unknown") == Some("rerun"),
    })
}

fn helpers(matches: &ArgMatches) -> Result<Helpers, UsageError> {
    let command = |name: &str| {
        value(matches, name)
            .map(|text| non_empty(name, text))
            .transpose()
    };
    let helpers = Helpers {
        probe: command("probe")?,
        settle: optional(matches, "settle", values::duration)?,
        cleanup: command("cleanup")?,
        fallback: command("fallback")?,
        preview: command("preview")?,
    };
    if helpers.preview.is_some() && !flag(matches, "hold") {
        return Err("--preview needs --hold, which records what it shows".to_owned());
    }
    if helpers.probe.is_none() {
        for name in ["settle", "probe-first"] {
            if value_or_flag(matches, name) {
                return Err(format!("--{name} needs --probe, which is what is asked"));
            }
        }
    }
    Ok(helpers)
}

fn guards(matches: &ArgMatches, around: &Surroundings<'_>) -> Result<GuardPlan, UsageError> {
    let task = match value(matches, "step") {
        Some(_) => task(matches, around),
        None => None,
    };
    Ok(GuardPlan {
        breaker: optional(matches, "breaker", str::parse)?,
        bulkhead: optional(matches, "bulkhead", str::parse)?,
        budget: optional(matches, "budget", str::parse)?,
        task: task.map(|task| task.to_string_lossy().into_owned()),
        auxiliary: flag(matches, "auxiliary"),
    })
}

fn value_or_flag(matches: &ArgMatches, name: &str) -> bool {
    match name {
        "settle" => value(matches, name).is_some(),
        _ => flag(matches, name),
    }
}

fn check_detach(matches: &ArgMatches) -> Result<(), UsageError> {
    if !flag(matches, "detach") {
        return Ok(());
    }
    if word(matches, "on-caller-loss") == Some("kill") {
        return Err("--detach lets the caller go, so --on-caller-loss kill would end the command at once; leave one out".to_owned());
    }
    if flag(matches, "tty") {
        return Err(
            "--detach has no terminal to show the output of --tty on; leave one out".to_owned(),
        );
    }
    Ok(())
}

fn running(matches: &ArgMatches, argv: Vec<OsString>) -> Result<Running, UsageError> {
    Ok(Running {
        argv,
        expand: flag(matches, "expand"),
        stdin: match word(matches, "stdin") {
            Some("null") => StdinMode::Null,
            Some("buffer") => StdinMode::Buffer,
            _ => StdinMode::Inherit,
        },
        tty: flag(matches, "tty"),
        max_output: optional(matches, "max-output", values::size)?
            .unwrap_or(DEFAULT_MAX_OUTPUT_BYTES),
        store_output: !flag(matches, "no-store-output"),
        kill_on_caller_loss: word(matches, "on-caller-loss") == Some("kill"),
        detach: flag(matches, "detach"),
    })
}

/// An idempotency key that the outer shell expanded to nothing would let the service take every call for
/// a new one.
fn check_headers(argv: &[OsString]) -> Result<(), UsageError> {
    for arg in argv {
        let text = arg.as_bytes().to_ascii_lowercase();
        let header = [&b"-h"[..], b"--header=", b"--header"]
            .iter()
            .find_map(|p| text.strip_prefix(*p))
            .unwrap_or(&text);
        if let Some(rest) = header.trim_ascii().strip_prefix(b"idempotency-key:")
            && rest.trim_ascii().is_empty()
        {
            return Err("an Idempotency-Key header has no value, since the outer shell expanded \"$IDEM_TOKEN\" before idem set it; write {token} and give --expand".to_owned());
        }
    }
    Ok(())
}

/// The parsed value of an option, if it was given.
fn optional<T, E: std::fmt::Display>(
    matches: &ArgMatches,
    name: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, UsageError> {
    let Some(given) = value(matches, name) else {
        return Ok(None);
    };
    let given = text(name, given)?;
    if given.is_empty() {
        return Err(format!("--{name} is empty; give a value or leave it out"));
    }
    parse(given).map(Some).map_err(|e| format!("--{name}: {e}"))
}

fn text<'a>(name: &str, given: &'a OsStr) -> Result<&'a str, UsageError> {
    given
        .to_str()
        .ok_or_else(|| format!("--{name}: the value is not UTF-8; write it in plain text"))
}

fn non_empty(name: &str, given: &OsString) -> Result<OsString, UsageError> {
    if given.is_empty() {
        return Err(format!("--{name} is empty; give a value or leave it out"));
    }
    Ok(given.clone())
}

/// The store's file: `--store`, else `IDEM_STORE`, else `idem/idem.db` in the user's state directory.
/// The second value tells that it is the default.
pub fn store_path(
    matches: &ArgMatches,
    env: &dyn Fn(&str) -> Option<OsString>,
) -> Result<(PathBuf, bool), UsageError> {
    let given = value(matches, "store")
        .cloned()
        .map(|path| ("--store", path));
    if let Some((from, path)) = given.or_else(|| env("IDEM_STORE").map(|path| ("IDEM_STORE", path)))
    {
        if path.is_empty() {
            return Err(format!(
                "{from} is empty; name the store's file, or leave it out"
            ));
        }
        if let Some((scheme, _)) = path.to_string_lossy().split_once("://") {
            return Err(format!(
                "{from}: there is no store of the kind {scheme}://; name a file"
            ));
        }
        return Ok((PathBuf::from(path), false));
    }
    // The base directory specification tells to ignore a relative path.
    let state = env("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let home = || {
        env("HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let state = state.or_else(|| home().map(|home| home.join(".local/state")));
    match state {
        Some(state) => Ok((state.join("idem/idem.db"), true)),
        None => Err("HOME is not set, so there is no place for the store; name one with --store or IDEM_STORE".to_owned()),
    }
}
