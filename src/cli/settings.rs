//! What the typed options, the environment and the defaults mean together: one frozen plan.

use super::layers::{Layers, Origin};
use super::place::{self, GivenStore};
use super::values::{self, Deadline};
use super::words::{COMMAND, Words, value};
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
    /// `--log`.
    pub log: Option<PathBuf>,
    /// `-q`.
    pub quiet: bool,
    /// `-v`.
    pub verbose: bool,
    /// `--on-replay silent`.
    pub silent_replay: bool,
}

/// The command typed, the program's name first.
pub fn command(words: &Words) -> Vec<OsString> {
    words.all(COMMAND).to_vec()
}

/// How the call speaks.
pub fn speech(layers: &Layers<'_>) -> Result<Speech, UsageError> {
    let file = |name| bytes(layers, name).map(|file| file.map(PathBuf::from));
    let (mut quiet, mut verbose) = (layers.switched_on("quiet"), layers.switched_on("verbose"));
    match (quiet, verbose) {
        // What was typed beats what the configuration says.
        (Some(Origin::Option), Some(origin)) if origin != Origin::Option => verbose = None,
        (Some(origin), Some(Origin::Option)) if origin != Origin::Option => quiet = None,
        (Some(_), Some(_)) => {
            return Err("--quiet and --verbose contradict each other; leave one out".to_owned());
        }
        _ => {}
    }
    Ok(Speech {
        json: layers.flag("json"),
        report: file("report")?,
        log: file("log")?,
        quiet: quiet.is_some(),
        verbose: verbose.is_some(),
        silent_replay: layers.is("on-replay", "silent"),
    })
}

/// The operation's name.
pub fn named(
    layers: &Layers<'_>,
    around: &Surroundings<'_>,
    facts: &mut dyn Facts,
) -> Result<Named, UsageError> {
    let at = Timestamp::from_millisecond(around.now.wall.0)
        .map_err(|e| format!("the clock is out of range: {e}"))?;
    let scope = scope(layers)?;
    let (key, source) = key(layers, facts, at)?;
    let Some(period) = optional(layers, "per", Period::parse)? else {
        return Ok(Named {
            name: OpName { scope, key },
            previous: None,
            period: None,
            source,
        });
    };
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

/// Two teams that share a server must not share a key by chance.
pub const SCOPE_NEEDED: &str = "a store on a server needs a scope, which others who use it do not have; give --scope NAME, or set IDEM_SCOPE";

/// `--scope`, else `IDEM_SCOPE`, else the configuration's, else the empty scope.
pub fn scope(layers: &Layers<'_>) -> Result<Scope, UsageError> {
    let shared = || matches!(place::store(layers), Ok(GivenStore::Server { .. }));
    let given = match layers.get("scope") {
        Some(given) if !given.value.is_empty() => given,
        _ if shared() => return Err(SCOPE_NEEDED.to_owned()),
        Some(given) => given,
        None => return Ok(Scope::default()),
    };
    let from = layers.label("scope", &given.origin);
    // An empty variable is as good as none.
    if given.value.is_empty() && !matches!(given.origin, Origin::Environment(_)) {
        return Err(format!("{from} is empty; give a name or leave it out"));
    }
    Scope::new(given.value.as_bytes()).map_err(|e| format!("{from} {e}; give another name"))
}

fn key(
    layers: &Layers<'_>,
    facts: &mut dyn Facts,
    at: Timestamp,
) -> Result<(Key, KeySource), UsageError> {
    let words = layers.words();
    let ways = ["key", "key-file", "key-from", "step"]
        .into_iter()
        .filter(|name| value(words, name).is_some());
    let ways: Vec<&str> = ways.collect();
    if let [first, second, ..] = ways[..] {
        return Err(format!(
            "--{first} and --{second} both name the key; give one of them"
        ));
    }
    if value(words, "call").is_some() && ways.first() != Some(&"step") {
        return Err("--call needs --task and --step".to_owned());
    }
    if value(words, "task").is_some() && ways.first() != Some(&"step") {
        return Err("--task needs --step, which names the operation in it".to_owned());
    }
    let key = match ways.first() {
        Some(&"key") => from_template("--key", required(words, "key"), facts, at)?,
        Some(&"key-file") => from_template(
            "--key-file",
            &key_file(required(words, "key-file"))?,
            facts,
            at,
        )?,
        Some(&"key-from") => Parts::parse(required(words, "key-from").as_bytes())
            .map_err(|e| format!("--key-from: {e}"))?
            .key(facts, at)
            .map_err(|e| format!("--key-from: {e}"))?,
        Some(_) => step_key(layers)?,
        None => match layers.get("key") {
            Some(given) => {
                let from = layers.label("key", &given.origin);
                from_template(&from, &given.value, facts, at)?
            }
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

fn required<'a>(words: &'a Words, name: &str) -> &'a OsStr {
    value(words, name).map_or(OsStr::new(""), OsString::as_os_str)
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

fn step_key(layers: &Layers<'_>) -> Result<Key, UsageError> {
    let task = layers.get("task");
    let task = task.ok_or("--step needs --task (or IDEM_TASK), which it is a step of")?;
    let words = layers.words();
    let call = value(words, "call").map(|call| call.as_bytes());
    let step = required(words, "step").as_bytes();
    task_key(task.value.as_bytes(), step, call).map_err(|e| e.to_string())
}

/// The digest of what must be the same on a repeat.
pub fn fingerprint(
    layers: &Layers<'_>,
    around: &Surroundings<'_>,
    facts: &mut dyn Facts,
) -> Result<Fingerprint, UsageError> {
    let at = Timestamp::from_millisecond(around.now.wall.0).map_err(|e| e.to_string())?;
    let given = layers.get("fingerprint");
    let origin = given.as_ref().map_or(Origin::Option, |given| given.origin);
    let from = layers.label("fingerprint", &origin);
    let parts = match &given {
        Some(given) => Parts::parse_fingerprint(given.value.as_bytes()),
        None => Ok(Parts::default_fingerprint()),
    };
    parts
        .map_err(|e| format!("{from}: {e}"))?
        .fingerprint(facts, at)
        .map_err(|e| format!("{from}: {e}"))
}

/// Everything else of the plan.
pub fn plan(
    layers: &Layers<'_>,
    around: &Surroundings<'_>,
    named: &Named,
    fingerprint: Fingerprint,
) -> Result<Plan, UsageError> {
    let argv = command(layers.words());
    check_headers(&argv)?;
    check_detach(layers)?;
    let retry = retry(layers, around)?;
    let helpers = helpers(layers)?;
    let ttl = ttl(layers, around, named)?;
    let failed_ttl = optional(layers, "failed-ttl", values::ttl)?.unwrap_or(ttl);
    let request = Request {
        fingerprint,
        if_running: match layers.word("if-running").as_deref() {
            Some("refuse") => IfRunning::Refuse,
            Some("skip") => IfRunning::Skip,
            _ => IfRunning::Wait,
        },
        rerun_unknown: retry.rerun_unknown || retry.idempotent,
        rerun_failed: layers.is("if-failed", "rerun"),
        probe: helpers.probe.is_some(),
        probe_first: layers.flag("probe-first"),
        hold: layers.flag("hold"),
        waits_for_approval: layers.has("wait"),
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
            argv: (!layers.flag("redact-args")).then_some(stored),
            cwd: around.cwd.clone(),
        },
        running: running(layers, argv)?,
        ttl,
        failed_ttl,
        limits: limits(layers, around)?,
        retry,
        helpers,
        guards: guards(layers)?,
        source: Source::default(),
        ancestry: around.ancestry.clone(),
    })
}

/// `--ttl`. With `--per` and no `--ttl` the result is kept at least until the period is over, since it
/// would otherwise not be once per period.
fn ttl(layers: &Layers<'_>, around: &Surroundings<'_>, named: &Named) -> Result<Ttl, UsageError> {
    let given = optional(layers, "ttl", values::ttl)?;
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

fn limits(layers: &Layers<'_>, around: &Surroundings<'_>) -> Result<Limits, UsageError> {
    let own = optional(layers, "deadline", values::deadline)?.map(|deadline| match deadline {
        Deadline::After(duration) => duration,
        Deadline::At(_) => until(deadline.moment(around.now.wall), around),
    });
    let inherited = inherited_deadline(around).map(|moment| until(moment, around));
    Ok(Limits {
        timeout: optional(layers, "timeout", values::duration)?,
        deadline: tighter(own, inherited).map(|left| around.monotonic.saturating_add(left)),
        kill_after: optional(layers, "kill-after", values::duration_or_zero)?
            .unwrap_or(DEFAULT_KILL_AFTER),
        wait: optional(layers, "wait", values::duration_or_zero)?,
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

fn retry(layers: &Layers<'_>, around: &Surroundings<'_>) -> Result<RetryPlan, UsageError> {
    let retries = optional(layers, "retries", |text| {
        values::whole_number(text)
            .ok_or_else(|| format!("cannot read the number `{text}`: write one like 3"))
    })?;
    Ok(RetryPlan {
        // A nice-to-have must not add load to what is in trouble.
        retries: if layers.flag("auxiliary") {
            0
        } else {
            retries.unwrap_or(0)
        },
        retries_given: retries.is_some_and(|n| n > 0),
        nested: !around.ancestry.is_empty() && !layers.flag("retry-layer"),
        backoff: optional(layers, "backoff", str::parse)?.unwrap_or_default(),
        jitter: optional(layers, "jitter", str::parse)?.unwrap_or_default(),
        retry_on: optional(layers, "retry-on", str::parse)?,
        stop_on: optional(layers, "stop-on", str::parse)?,
        success_codes: optional(layers, "success-codes", str::parse)?,
        classifier: optional(layers, "classifier", str::parse)?.unwrap_or_default(),
        idempotent: layers.flag("idempotent"),
        rerun_unknown: layers.is("if-unknown", "rerun"),
    })
}

fn helpers(layers: &Layers<'_>) -> Result<Helpers, UsageError> {
    let helpers = Helpers {
        probe: bytes(layers, "probe")?,
        settle: optional(layers, "settle", values::duration)?,
        cleanup: bytes(layers, "cleanup")?,
        fallback: bytes(layers, "fallback")?,
        preview: bytes(layers, "preview")?,
        on_unknown: bytes(layers, "on-unknown")?,
    };
    let previewed = layers.get("preview").map(|given| given.origin);
    if previewed == Some(Origin::Option) && !layers.flag("hold") {
        return Err("--preview needs --hold, which records what it shows".to_owned());
    }
    if helpers.probe.is_none() {
        let settle = layers.get("settle").map(|given| given.origin);
        let first = layers.switched_on("probe-first");
        for (name, origin) in [("settle", settle), ("probe-first", first)] {
            // A configuration may well say how to ask where somebody asks.
            if origin == Some(Origin::Option) {
                return Err(format!("--{name} needs --probe, which is what is asked"));
            }
        }
    }
    Ok(helpers)
}

fn guards(layers: &Layers<'_>) -> Result<GuardPlan, UsageError> {
    let of_task = layers.has("step");
    let task = layers.get("task").filter(|_| of_task);
    Ok(GuardPlan {
        breaker: optional(layers, "breaker", str::parse)?,
        bulkhead: optional(layers, "bulkhead", str::parse)?,
        budget: optional(layers, "budget", str::parse)?,
        task: task.map(|task| task.value.to_string_lossy().into_owned()),
        auxiliary: layers.flag("auxiliary"),
    })
}

fn check_detach(layers: &Layers<'_>) -> Result<(), UsageError> {
    if !layers.flag("detach") {
        return Ok(());
    }
    if layers.is("on-caller-loss", "kill") {
        return Err("--detach lets the caller go, so --on-caller-loss kill would end the command at once; leave one out".to_owned());
    }
    if layers.flag("tty") {
        return Err(
            "--detach has no terminal to show the output of --tty on; leave one out".to_owned(),
        );
    }
    Ok(())
}

fn running(layers: &Layers<'_>, argv: Vec<OsString>) -> Result<Running, UsageError> {
    Ok(Running {
        argv,
        expand: layers.flag("expand"),
        stdin: match layers.word("stdin").as_deref() {
            Some("null") => StdinMode::Null,
            Some("buffer") => StdinMode::Buffer,
            _ => StdinMode::Inherit,
        },
        tty: layers.flag("tty"),
        max_output: optional(layers, "max-output", values::size)?
            .unwrap_or(DEFAULT_MAX_OUTPUT_BYTES),
        store_output: !layers.flag("no-store-output"),
        kill_on_caller_loss: layers.is("on-caller-loss", "kill"),
        detach: layers.flag("detach"),
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
pub(super) fn optional<T, E: std::fmt::Display>(
    layers: &Layers<'_>,
    name: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, UsageError> {
    let Some(given) = layers.get(name) else {
        return Ok(None);
    };
    let from = layers.label(name, &given.origin);
    match given.value.to_str() {
        None => Err(format!(
            "{from}: the value is not UTF-8; write it in plain text"
        )),
        Some("") => Err(format!("{from} is empty; give a value or leave it out")),
        Some(text) => parse(text).map(Some).map_err(|e| format!("{from}: {e}")),
    }
}

/// A value of any bytes, such as a command or a file's name.
fn bytes(layers: &Layers<'_>, name: &str) -> Result<Option<OsString>, UsageError> {
    let Some(given) = layers.get(name) else {
        return Ok(None);
    };
    if given.value.is_empty() {
        let from = layers.label(name, &given.origin);
        return Err(format!("{from} is empty; give a value or leave it out"));
    }
    Ok(Some(given.value.into_owned()))
}
