//! The verbs, one a file. Each returns the process's exit code; only here and in `main` errors are
//! `anyhow`'s.

pub mod approve;
pub mod batch;
pub mod breaker;
pub mod completions;
mod context;
mod counting;
pub mod doctor;
mod dry_run;
pub mod explain;
pub mod export;
pub mod forget;
pub mod gc;
mod handing;
pub mod import;
pub mod init;
mod keeping;
pub mod key;
pub mod log;
pub mod man;
mod notice;
pub mod output;
pub mod resolve;
pub mod run;
pub mod stats;
pub mod status;
pub mod sync;
pub mod task;
pub mod wait;

use clap::ArgMatches;
use std::io::Write;

/// Calls a verb; returns the process's exit code. The error is one line for the user.
pub fn call(verb: &str, matches: &ArgMatches) -> anyhow::Result<i32> {
    match verb {
        "run" => run::run(matches),
        "status" => status::run(matches),
        "log" => log::run(matches),
        "output" => output::run(matches),
        "wait" => wait::run(matches),
        "resolve" => resolve::run(matches),
        "approve" => approve::approve(matches),
        "reject" => approve::reject(matches),
        "forget" => forget::run(matches),
        "explain" => explain::run(matches),
        "stats" => stats::run(matches),
        "gc" => gc::run(matches),
        "doctor" => doctor::run(matches),
        "init" => init::run(matches),
        "sync" => sync::run(matches),
        "export" => export::run(matches),
        "import" => import::run(matches),
        "key" => key::run(matches),
        "batch" => batch::run(matches),
        "task" => task::run(matches),
        "breaker" => breaker::run(matches),
        "completions" => completions::run(matches),
        "man" => man::run(matches),
        other => Err(anyhow::anyhow!(
            "there is no verb '{other}'; see idem --help"
        )),
    }
}

/// Ends the process without closing the database: whoever closes it last pays for another's checkpoint.
pub fn leave(code: i32) -> ! {
    // What cannot be flushed cannot be told either.
    let _ = std::io::stdout().flush();
    crate::process::leaving::leave(code, Vec::new())
}
