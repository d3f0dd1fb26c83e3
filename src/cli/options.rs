//! The options of `idem run`, as data: one row an option, from which parsing, both helps, the manual
//! page and the completions all come.

use clap::builder::OsStringValueParser;
use clap::{Arg, ArgAction, Command, ValueHint};

/// The one option with a second name.
pub const BULKHEAD: &str = "bulkhead";
pub const BULKHEAD_ALIAS: &str = "limit";

/// How an option takes its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// No value; given or not.
    Nothing,
    /// One value of any bytes.
    Value(&'static str),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A file name.
    File(&'static str),
}

/// One option.
#[derive(Debug, Clone, Copy)]
pub struct Opt {
    /// The long name, which is also the identifier.
    pub long: &'static str,
    /// The one-letter name.
    pub short: Option<char>,
    /// Its value.
    pub takes: Takes,
    /// Shown by `-h` as well.
    pub everyday: bool,
    /// One line for both helps.
    pub help: &'static str,
}

/// A heading of `--help` with its options.
pub struct Group {
    /// The heading.
    pub heading: &'static str,
    /// Its options in the order shown.
    pub options: &'static [Opt],
}

const fn opt(long: &'static str, takes: Takes, help: &'static str) -> Opt {
    Opt {
        long,
        short: None,
        takes,
        everyday: false,
        help,
    }
}

const fn everyday(
    long: &'static str,
    short: Option<char>,
    takes: Takes,
    help: &'static str,
) -> Opt {
    Opt {
        long,
        short,
        takes,
        everyday: true,
        help,
    }
}

/// Options that name the operation.
pub const IDENTITY: Group = Group {
    heading: "Identity",
    options: &[
        everyday(
            "key",
            Some('k'),
            Takes::Value("TEMPLATE"),
            "The operation's name, e.g. backup-{day} [env: IDEM_KEY]",
        ),
        opt(
            "key-file",
            Takes::File("FILE"),
            "Read the key from a file (one final newline is dropped)",
        ),
        opt(
            "key-from",
            Takes::Value("PARTS"),
            "Derive the key from parts, e.g. argv,cwd or file:PATH,git:head",
        ),
        everyday(
            "per",
            None,
            Takes::Value("PERIOD"),
            "Once per local hour, day, week, month or e.g. 15m",
        ),
        opt(
            "scope",
            Takes::Value("NAME"),
            "Name space of the key [env: IDEM_SCOPE]",
        ),
        opt(
            "task",
            Takes::Value("NAME"),
            "The task that this is a step of [env: IDEM_TASK]",
        ),
        opt("step", Takes::Value("NAME"), "The step of the task"),
        opt("call", Takes::Value("NAME"), "The call within the step"),
        opt(
            "fingerprint",
            Takes::Value("PARTS"),
            "What a repeat must have the same: parts or none [default: argv]",
        ),
        everyday(
            "ttl",
            None,
            Takes::Value("DUR"),
            "How long a result is replayed, or forever [default: 24h]",
        ),
        opt(
            "failed-ttl",
            Takes::Value("DUR"),
            "The same for a final failure [default: as --ttl]",
        ),
    ],
};

/// Options that say what to do about a record that is already there.
pub const MEETING: Group = Group {
    heading: "Meeting a record",
    options: &[
        everyday(
            "if-running",
            None,
            Takes::OneOf(&["wait", "refuse", "skip"]),
            "While it runs elsewhere [default: wait]",
        ),
        opt(
            "wait",
            Takes::Value("DUR"),
            "Longest wait for another caller, a permit or an approval",
        ),
        opt(
            "if-unknown",
            Takes::OneOf(&["refuse", "rerun"]),
            "When nobody knows whether it happened [default: refuse]",
        ),
        opt(
            "if-failed",
            Takes::OneOf(&["replay", "rerun"]),
            "About a final failure of before [default: replay]",
        ),
        everyday(
            "probe",
            None,
            Takes::Value("CMD"),
            "Ask whether it happened: exit 0 yes, 1 no",
        ),
        opt(
            "settle",
            Takes::Value("DUR"),
            "A probe's no counts only this long after the attempt's end",
        ),
        opt(
            "probe-first",
            Takes::Nothing,
            "Ask the probe even when there is no record",
        ),
        opt(
            "cleanup",
            Takes::Value("CMD"),
            "Undo a half-done attempt before the next one; must exit 0",
        ),
        opt(
            "idempotent",
            Takes::Nothing,
            "The command is safe to repeat (implies --if-unknown rerun)",
        ),
    ],
};

/// Options about time.
pub const TIME: Group = Group {
    heading: "Time",
    options: &[
        everyday(
            "timeout",
            Some('t'),
            Takes::Value("DUR"),
            "End an attempt after this long: its outcome is unknown",
        ),
        opt(
            "deadline",
            Takes::Value("DUR|TIME"),
            "End the whole call after this long, or at this RFC 3339 time",
        ),
        opt(
            "kill-after",
            Takes::Value("DUR"),
            "From SIGTERM to SIGKILL at a timeout [default: 10s]",
        ),
    ],
};

/// Options about trying again.
pub const RETRY: Group = Group {
    heading: "Retry",
    options: &[
        everyday(
            "retries",
            Some('r'),
            Takes::Value("N"),
            "Try a failure again, at most N times [default: 0]",
        ),
        opt(
            "backoff",
            Takes::Value("SPEC"),
            "Pauses: exp, linear or const [default: exp:1s..60s]",
        ),
        opt(
            "jitter",
            Takes::Value("KIND"),
            "full, equal, decorrelated, none, e.g. 20% or +2s [default: full]",
        ),
        opt(
            "retry-on",
            Takes::Value("LIST"),
            "What may be tried again, e.g. exit:75,http:5xx,timeout",
        ),
        opt(
            "stop-on",
            Takes::Value("LIST"),
            "What is final, in the words of --retry-on",
        ),
        opt(
            "success-codes",
            Takes::Value("LIST"),
            "Exit codes that mean success [default: 0]",
        ),
        opt(
            "classifier",
            Takes::Value("NAME"),
            "Whose errors it reads: auto, none or a tool's name [default: auto]",
        ),
        opt(
            "budget",
            Takes::Value("NAME=N/DUR"),
            "Retries of all calls with this name together, e.g. api=10/1m",
        ),
        opt(
            "retry-layer",
            Takes::Nothing,
            "Retry although an outer idem already does",
        ),
    ],
};

/// Options that protect what the command talks to.
pub const PROTECTION: Group = Group {
    heading: "Protection",
    options: &[
        opt(
            "breaker",
            Takes::Value("SPEC"),
            "Refuse while calls under this name keep failing",
        ),
        Opt {
            long: "bulkhead",
            short: None,
            takes: Takes::Value("NAME=N"),
            everyday: false,
            help: "At most N at once under this name [alias: --limit]",
        },
        opt(
            "fallback",
            Takes::Value("CMD"),
            "Answer with this when a guard refuses or the last try failed",
        ),
        opt(
            "hold",
            Takes::Nothing,
            "Record a proposal; run only what a person has approved",
        ),
        opt(
            "preview",
            Takes::Value("CMD"),
            "What shows the person who decides what would happen",
        ),
        opt(
            "auxiliary",
            Takes::Nothing,
            "A nice-to-have: no retries, no breaker's test, gives way to others",
        ),
    ],
};

/// Options about input, output and what is said.
pub const INPUT_OUTPUT: Group = Group {
    heading: "Input and output",
    options: &[
        opt(
            "stdin",
            Takes::OneOf(&["inherit", "null", "buffer"]),
            "What the command reads [default: inherit]",
        ),
        opt(
            "max-output",
            Takes::Value("SIZE"),
            "Store at most this much output [default: 16MiB]",
        ),
        opt("no-store-output", Takes::Nothing, "Store no output at all"),
        opt(
            "redact-args",
            Takes::Nothing,
            "Store the arguments only as a digest",
        ),
        opt(
            "on-replay",
            Takes::OneOf(&["print", "silent"]),
            "Whether a replay prints the output [default: print]",
        ),
        opt(
            "on-caller-loss",
            Takes::OneOf(&["finish", "kill"]),
            "What to do when the caller goes away [default: finish]",
        ),
        opt("detach", Takes::Nothing, "Return once the claim is on disk"),
        opt(
            "lease",
            Takes::Value("DUR"),
            "On a server: how long a silent owner counts as alive [default: 60s]",
        ),
        opt(
            "tty",
            Takes::Nothing,
            "Give the command a terminal for its output",
        ),
        opt(
            "expand",
            Takes::Nothing,
            "Fill {token}, {key} and {attempt} in the arguments",
        ),
        everyday(
            "json",
            None,
            Takes::Nothing,
            "Print one JSON object instead of the streams",
        ),
        opt(
            "report",
            Takes::File("FILE"),
            "Write that object to a file, without the streams",
        ),
        opt(
            "log",
            Takes::File("FILE"),
            "Append one JSON line about the decision to a file",
        ),
        opt(
            "on-unknown",
            Takes::Value("CMD"),
            "Run this when an outcome has become unknown",
        ),
        Opt {
            long: "quiet",
            short: Some('q'),
            takes: Takes::Nothing,
            everyday: false,
            help: "Say nothing but refusals",
        },
        Opt {
            long: "verbose",
            short: Some('v'),
            takes: Takes::Nothing,
            everyday: false,
            help: "Say every decision",
        },
        opt(
            "dry-run",
            Takes::Nothing,
            "Explain what would be done, and do nothing",
        ),
    ],
};

/// All groups of `idem run`, in the order of its help.
pub const RUN_GROUPS: &[&Group] = &[
    &IDENTITY,
    &MEETING,
    &TIME,
    &RETRY,
    &PROTECTION,
    &INPUT_OUTPUT,
];

/// Configuration: options that every verb takes, also before its name.
pub const GLOBAL: &[Opt] = &[
    opt(
        "store",
        Takes::File("PATH"),
        "The store's file, or postgres://… [env: IDEM_STORE]",
    ),
    opt(
        "config",
        Takes::File("FILE"),
        "The configuration, or /dev/null for none",
    ),
    opt(
        "profile",
        Takes::Value("NAME"),
        "Use this profile of the configuration",
    ),
];

/// What `--help` and the manual page say beyond the one line.
const MORE: &[(&str, &str)] = &[
    (
        "key",
        "{day} {hour} {week} {month} {window:15m} {host} {user} {cwd}\n\
         {env:NAME} {arg:N} {git:head} {sha256:FILE} {stdin} {batch:NAME}\n\
         are filled in; {{ and }} are braces.",
    ),
    (
        "key-from",
        "The parts: argv, cwd, stdin, env:NAME, file:PATH, window:1d,\n\
         git:head, host. Without any key option: argv,cwd.",
    ),
    ("fingerprint", "The parts are those of --key-from."),
    (
        "ttl",
        "Counted from completion. Unknown outcomes never expire.",
    ),
    (
        "probe",
        "A shell command that only reads. Exit 0: it happened, and what the\n\
         probe prints is the result. 1 with nothing on stderr: it did not.\n\
         75: still under way, ask again. Anything else: not known.",
    ),
    ("idempotent", "A --probe is still asked first."),
    (
        "backoff",
        "exp:1s..60s, exp:1s..60s*3, linear:1s..30s or const:5s.",
    ),
    (
        "retry-on",
        "exit:75, exit:100-110, http:429, http:5xx, timeout, signal,\n\
         signal:SEGV, stdout:/RE/, stderr:/RE/, or any: every failed exit.",
    ),
    (
        "breaker",
        "NAME:failures=5,cooldown=30s,probes=1, or with ratio=50%/20/1m: half\n\
         of at least 20 calls within a minute.",
    ),
    (
        "log",
        "Key, decision, reason, exit code, generation and source, in one write.",
    ),
    (
        "detach",
        "Prints the key, also where another call runs it already; idem wait\n\
         and idem output have the result.",
    ),
    (
        "on-unknown",
        "A shell command, told of each once by IDEM_OPERATION,\n\
         IDEM_GENERATION and IDEM_REASON, for at most 30 seconds.",
    ),
    (
        "store",
        "The default is $XDG_STATE_HOME/idem/idem.db, and\n\
         ~/.local/state/idem/idem.db without that variable. A server's\n\
         password belongs in ~/.pgpass or IDEM_STORE: what is typed here\n\
         can be seen by others for a moment.",
    ),
    (
        "config",
        "The default is $XDG_CONFIG_HOME/idem/config.toml, and\n\
         ~/.config/idem/config.toml without that variable. [defaults] and\n\
         [profile.NAME] have the long names of these options.",
    ),
];

/// The options that every verb takes; `everyday` shows them in `-h` too.
pub fn global_args(everyday: bool) -> impl Iterator<Item = Arg> {
    GLOBAL.iter().map(move |option| {
        let option = Opt {
            everyday,
            ..*option
        };
        to_arg("Configuration", &option)
    })
}

/// Adds the options of `groups` to a command.
pub fn add_groups(command: Command, groups: &[&Group]) -> Command {
    groups.iter().fold(command, |command, group| {
        let options = group.options.iter();
        command.args(options.map(|option| to_arg(group.heading, option)))
    })
}

fn to_arg(heading: &'static str, option: &Opt) -> Arg {
    let mut arg = Arg::new(option.long)
        .long(option.long)
        .help(option.help)
        .help_heading(heading)
        .hide_short_help(!option.everyday);
    if let Some((_, more)) = MORE.iter().find(|(long, _)| *long == option.long) {
        arg = arg.long_help(format!("{}\n{more}", option.help));
    }
    if let Some(short) = option.short {
        arg = arg.short(short);
    }
    if option.long == BULKHEAD {
        arg = arg.alias(BULKHEAD_ALIAS);
    }
    match option.takes {
        Takes::Nothing => arg.action(ArgAction::SetTrue),
        Takes::Value(name) => arg
            .value_name(name)
            .value_parser(OsStringValueParser::new()),
        Takes::OneOf(words) => arg
            .value_name(words.join("|"))
            .hide_possible_values(true)
            .value_parser(clap::builder::PossibleValuesParser::new(words)),
        Takes::File(name) => arg
            .value_name(name)
            .value_parser(OsStringValueParser::new())
            .value_hint(ValueHint::FilePath),
    }
}
