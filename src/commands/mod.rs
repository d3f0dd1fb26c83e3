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

use crate::cli::words::Words;
use std::io::Write;

/// Calls a verb; returns the process's exit code. The error is one line for the user.
pub fn call(verb: &str, words: &Words) -> anyhow::Result<i32> {
    match verb {
        "run" => run::run(words),
        "status" => status::run(words),
        "log" => log::run(words),
        "output" => output::run(words),
        "wait" => wait::run(words),
        "resolve" => resolve::run(words),
        "approve" => approve::approve(words),
        "reject" => approve::reject(words),
        "forget" => forget::run(words),
        "explain" => explain::run(words),
        "stats" => stats::run(words),
        "gc" => gc::run(words),
        "doctor" => doctor::run(words),
        "init" => init::run(words),
        "sync" => sync::run(words),
        "export" => export::run(words),
        "import" => import::run(words),
        "key" => key::run(words),
        "batch" => batch::run(words),
        "task" => task::run(words),
        "breaker" => breaker::run(words),
        "completions" => completions::run(words),
        "man" => man::run(words),
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
