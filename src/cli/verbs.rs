//! The verbs and their options.

use super::options::{self, add_groups, global_args};
use clap::builder::OsStringValueParser;
use clap::{Arg, ArgAction, Command, ValueHint};

/// One verb.
#[derive(Debug)]
pub struct Verb {
    /// Its name.
    pub name: &'static str,
    /// One line for the help.
    pub about: &'static str,
    build: fn(Command) -> Command,
}

/// All verbs, in the order of the help.
pub const ALL: &[Verb] = &[
    Verb {
        name: "run",
        about: "Run a command once: replay it on a repeat",
        build: run,
    },
    Verb {
        name: "status",
        about: "Show operations, or one of them in full with what to do next",
        build: status,
    },
    Verb {
        name: "log",
        about: "Show the timeline of decisions",
        build: log,
    },
    Verb {
        name: "output",
        about: "Print a stored output without running anything",
        build: output,
    },
    Verb {
        name: "wait",
        about: "Wait until an operation is settled, then end like a waiter",
        build: wait,
    },
    Verb {
        name: "resolve",
        about: "Settle an operation whose outcome is unknown",
        build: resolve,
    },
    Verb {
        name: "approve",
        about: "Let a held command run once",
        build: approve,
    },
    Verb {
        name: "reject",
        about: "Keep a held command from running",
        build: reject,
    },
    Verb {
        name: "forget",
        about: "Delete records",
        build: forget,
    },
    Verb {
        name: "key",
        about: "Print the key that run would use for the same options",
        build: key,
    },
    Verb {
        name: "batch",
        about: "Print a batch's persistent random name",
        build: batch,
    },
    Verb {
        name: "task",
        about: "Open, show or end a task, whose steps share retries and time",
        build: task,
    },
    Verb {
        name: "breaker",
        about: "Show breakers, or move one",
        build: breaker,
    },
    Verb {
        name: "explain",
        about: "Show what is known about a tool, and how to ask for its effect",
        build: explain,
    },
    Verb {
        name: "stats",
        about: "Show counts, how long commands take, and suggested timeouts",
        build: stats,
    },
    Verb {
        name: "gc",
        about: "Delete what has expired and what is left over",
        build: gc,
    },
    Verb {
        name: "doctor",
        about: "Look for trouble with the store, and say what to do about it",
        build: doctor,
    },
    Verb {
        name: "init",
        about: "Make the tables of a store on a PostgreSQL server",
        build: init,
    },
    Verb {
        name: "sync",
        about: "Deliver results that a server has missed while it was away",
        build: sync,
    },
    Verb {
        name: "export",
        about: "Print records with their outputs as JSON lines",
        build: export,
    },
    Verb {
        name: "import",
        about: "Read the records of an export from stdin",
        build: import,
    },
    Verb {
        name: "completions",
        about: "Print shell completions",
        build: completions,
    },
    Verb {
        name: "man",
        about: "Print the manual page of idem or of a verb",
        build: man,
    },
];

/// A verb by its name.
pub fn by_name(name: &str) -> Option<&'static Verb> {
    ALL.iter().find(|verb| verb.name == name)
}

/// The command line of one verb.
pub fn command(verb: &'static Verb) -> Command {
    let command = Command::new(verb.name)
        .about(verb.about)
        .version(env!("CARGO_PKG_VERSION"))
        .disable_version_flag(true);
    let everyday = !matches!(verb.name, "run" | "key");
    (verb.build)(command).args(global_args(everyday))
}

const RUN_EXAMPLES: &str = "\
Examples:
  idem run --key 'backup-{day}' --ttl 48h -- pg_dump -f /srv/b.sql shop
  idem run --key deploy-v42 -t 10m --probe './is-live v42' -- ./deploy v42
  idem run --key pay-1234 --json --idempotent --retries 3 -- ./pay 1234";

fn run(command: Command) -> Command {
    add_groups(command, options::RUN_GROUPS)
        .arg(command_arg().required(true))
        .override_usage("idem run [OPTIONS] -- COMMAND [ARG]...")
        .after_help(RUN_EXAMPLES)
}

fn command_arg() -> Arg {
    Arg::new("command")
        .value_name("COMMAND")
        .num_args(1..)
        .trailing_var_arg(true)
        .value_parser(OsStringValueParser::new())
        .value_hint(ValueHint::CommandWithArguments)
        .help("The command and its arguments")
}

fn key(command: Command) -> Command {
    add_groups(command, options::RUN_GROUPS)
        .arg(command_arg())
        .override_usage("idem key [OPTIONS] -- COMMAND [ARG]...")
}

fn text(name: &'static str, value_name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name(value_name)
        .value_parser(OsStringValueParser::new())
        .help(help)
}

fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .action(ArgAction::SetTrue)
        .help(help)
}

fn key_arg() -> Arg {
    Arg::new("key")
        .value_name("KEY")
        .value_parser(OsStringValueParser::new())
}

fn scope_arg() -> Arg {
    text("scope", "NAME", "Name space of the key [env: IDEM_SCOPE]")
}

fn json_arg() -> Arg {
    switch("json", "Print JSON")
}

fn status(command: Command) -> Command {
    command
        .arg(
            key_arg()
                .value_name("KEY|GLOB")
                .help("One operation, or those that match"),
        )
        .arg(scope_arg())
        .arg(text(
            "state",
            "STATES",
            "Only these states, with commas: running,unknown,…",
        ))
        .arg(text("task", "NAME", "Only the steps of this task"))
        .arg(text("since", "DUR|TIME", "Only what changed since then"))
        .arg(text(
            "limit",
            "N",
            "At most this many [default: 50, with --json all]",
        ))
        .arg(switch("watch", "Show it anew whenever something changes").conflicts_with("exit-code"))
        .arg(switch("problems", "Only what a person must look at"))
        .arg(switch("exit-code", "End with 1 where there is any").requires("problems"))
        .arg(json_arg())
        .after_help(
            "A key with *, ? or [ in it is a glob, unless an operation has exactly that key.\n\
             The state is the one that is seen: what runs with nobody left is unknown.\n\
             Ends with 1 where the one operation asked for is not there.",
        )
}

fn log(command: Command) -> Command {
    command
        .arg(key_arg().help("Only this operation"))
        .arg(scope_arg())
        .arg(switch("follow", "Then print new events as they come"))
        .arg(json_arg())
}

fn output(command: Command) -> Command {
    command
        .arg(key_arg().required(true).help("The operation"))
        .arg(scope_arg())
        .arg(switch("stderr", "The standard error instead"))
        .arg(switch("both", "Both streams, each where it belongs").conflicts_with("stderr"))
        .arg(text(
            "attempt",
            "N|G.N",
            "Attempt N of the latest generation, or of G",
        ))
        .after_help(
            "Ends with the stored exit code; with 120 while it runs, 122 where its outcome\n\
             is unknown or it is held, 1 where there is no such operation or attempt. An\n\
             attempt that died of signal n ends with 128+n.",
        )
}

fn wait(command: Command) -> Command {
    command
        .arg(key_arg().required(true).help("The operation"))
        .arg(scope_arg())
        .arg(text(
            "wait",
            "DUR",
            "Wait at most this long, then end with 120",
        ))
        .arg(json_arg().help("Print one JSON object instead of the streams"))
        .after_help(
            "Prints the stored streams and ends with the stored exit code; with 122 where\n\
             the outcome is unknown or it is held, 1 where there is no such operation.",
        )
}

fn resolve(command: Command) -> Command {
    command
        .arg(key_arg().required(true).help("The operation"))
        .arg(scope_arg())
        .arg(switch("succeeded", "It happened: replay it from now on"))
        .arg(switch(
            "failed",
            "It did not, and it is final: replay the failure",
        ))
        .arg(switch("not-done", "It did not: the next call runs it"))
        .group(
            clap::ArgGroup::new("answer")
                .args(["succeeded", "failed", "not-done"])
                .required(true),
        )
        .arg(
            text("stdout", "FILE", "What a replay prints; - for stdin")
                .value_hint(ValueHint::FilePath)
                .requires("succeeded"),
        )
        .arg(
            text(
                "exit-code",
                "N",
                "What a replay ends with [default: 0, with --failed 1]",
            )
            .conflicts_with("not-done"),
        )
        .after_help(
            "Only an unknown outcome can be resolved. Ends with 120 while it runs, 122 where\n\
             it is held, 1 where it is not there, 125 where it is settled already.",
        )
}

fn approve(command: Command) -> Command {
    decision(command).after_help(
        "Shows the command, its directory and its preview, and asks. The approval holds\n\
         for exactly this command, directory and program, and is used up by the next\n\
         run. Needs a terminal or --yes.",
    )
}

fn reject(command: Command) -> Command {
    decision(command)
}

fn decision(command: Command) -> Command {
    command
        .arg(key_arg().required(true).help("The held operation"))
        .arg(scope_arg())
        .arg(switch("yes", "Do not ask: it has been looked at"))
        .arg(text("note", "TEXT", "Why, for the ledger"))
        .arg(text(
            "generation",
            "N",
            "Only this proposal, by the generation that status shows",
        ))
}

fn forget(command: Command) -> Command {
    command
        .arg(
            key_arg()
                .required(true)
                .num_args(1..)
                .help("Operations, or globs (quote them)"),
        )
        .arg(scope_arg())
        .arg(switch(
            "force",
            "Also those that are running, unknown or held",
        ))
        .after_help(
            "A glob stays within the scope. Whatever can be deleted is; ends with 125 where\n\
             something was kept for want of --force, 1 where something is not there.",
        )
}

fn batch(command: Command) -> Command {
    command
        .arg(
            Arg::new("name")
                .value_name("NAME")
                .required(true)
                .value_parser(OsStringValueParser::new())
                .help("The business name of the batch"),
        )
        .arg(switch("rotate", "Mint a new random name"))
}

fn task(command: Command) -> Command {
    command
        .arg(
            Arg::new("action")
                .value_name("ACTION")
                .required(true)
                .value_parser(["open", "show", "end"])
                .help("What to do"),
        )
        .arg(
            Arg::new("name")
                .value_name("NAME")
                .required(true)
                .value_parser(OsStringValueParser::new())
                .help("The task"),
        )
        .arg(scope_arg())
        .arg(text(
            "retries",
            "N",
            "With open: retries of all its steps together",
        ))
        .arg(text(
            "deadline",
            "DUR|TIME",
            "With open: when all of it must be over",
        ))
        .arg(switch("json", "With show: print JSON"))
        .after_help(
            "Without --retries each step makes as many as it allows itself.\n\
             Opening an open task again in the same way changes nothing; one that has ended\n\
             begins anew. After its end its steps are refused (123). Ends with 1 where there\n\
             is no such task.",
        )
}

fn breaker(command: Command) -> Command {
    command
        .arg(
            Arg::new("name")
                .value_name("NAME")
                .value_parser(OsStringValueParser::new())
                .help("One breaker [default: all of them]"),
        )
        .arg(switch("reset", "Close it: let everyone in"))
        .arg(switch("trip", "Open it: let nobody in for a while").conflicts_with("reset"))
        .arg(
            text(
                "cooldown",
                "DUR",
                "How long it then stays open [default: 30s]",
            )
            .requires("trip"),
        )
        .arg(json_arg())
        .after_help("Ends with 1 where there is no such breaker.")
}

fn explain(command: Command) -> Command {
    command
        .arg(json_arg())
        .arg(command_arg().required(true))
        .override_usage("idem explain [OPTIONS] -- COMMAND [ARG]...")
        .after_help(
            "Runs nothing. The arguments count, since they show how many requests are sent.\n\
             What idem would do about a call is told by idem run --dry-run.",
        )
}

fn stats(command: Command) -> Command {
    command
        .arg(scope_arg().help("Only this scope [env: IDEM_SCOPE]"))
        .arg(text(
            "since",
            "DUR|TIME",
            "Only since then, by the hour, 31 days back at most",
        ))
        .arg(json_arg())
        .arg(
            switch(
                "prometheus",
                "Print metrics in the text format of Prometheus",
            )
            .conflicts_with_all(["json", "since"]),
        )
        .after_help(
            "Commands are told apart by program and subcommand, over the 30 days of the\n\
             ledger. An attempt that was cut off counts with the time that it was given.",
        )
}

fn gc(command: Command) -> Command {
    command.arg(json_arg()).after_help(
        "Safe beside calls that run. Executions delete some of what has expired in\n\
         passing, so this is for stores that are seldom written, and for giving room\n\
         back. What runs, is unknown or held stays.",
    )
}

fn doctor(command: Command) -> Command {
    command.arg(json_arg()).after_help(
        "Ends with 1 where a person is needed, 0 where all is well or there is no store.",
    )
}

fn init(command: Command) -> Command {
    command
        .arg(
            Arg::new("print-sql")
                .long("print-sql")
                .action(ArgAction::SetTrue)
                .help("Print the statements instead, for whoever may execute them"),
        )
        .arg(
            Arg::new("role")
                .long("role")
                .value_name("ROLE")
                .value_parser(OsStringValueParser::new())
                .help("With --print-sql: also let this role use the tables"),
        )
        .after_help(
            "Once for each server, and again after an upgrade of idem. Repeating it changes\n\
             nothing. The embedded store needs none.",
        )
}

fn sync(command: Command) -> Command {
    command.arg(json_arg()).after_help(
        "A result that the server could not take is kept on this machine. Every call\n\
         from here delivers it first; this does it now, and says what became of each.\n\
         Ends with 1 while some still wait.",
    )
}

fn export(command: Command) -> Command {
    command
        .arg(
            key_arg()
                .num_args(1..)
                .value_name("KEY|GLOB")
                .help("Only these operations, or those that match (quote them)"),
        )
        .arg(scope_arg().help("Only this scope [env: IDEM_SCOPE]"))
        .after_help(
            "The lines hold tokens, commands and outputs: keep them as private as the store.\n\
             They are a backup that is safe while the store is in use. The ledger is not\n\
             part of it, nor are the outputs of earlier attempts.",
        )
}

fn import(command: Command) -> Command {
    command
        .arg(switch(
            "overwrite",
            "Replace records that are there, unless they are running",
        ))
        .arg(json_arg())
        .after_help(
            "Records get new generations and keep their tokens and the end of their time.\n\
             What was running is unknown here. An interrupted import can be repeated.",
        )
}

fn completions(command: Command) -> Command {
    command.arg(
        Arg::new("shell")
            .value_name("SHELL")
            .required(true)
            .value_parser(["bash", "zsh", "fish", "elvish", "powershell"])
            .help("The shell"),
    )
}

fn man(command: Command) -> Command {
    command
        .arg(
            Arg::new("verb")
                .value_name("VERB")
                .value_parser(OsStringValueParser::new())
                .help("A verb [default: idem itself]"),
        )
        .after_help("Read it with: idem man run | man -l -")
}
