//! The verbs, one a file. Each returns the process's exit code; only here and in `main` errors are
//! `anyhow`'s.

mod keeping;
pub mod run;

use clap::ArgMatches;
use std::io::Write;

/// Calls a verb; returns the process's exit code. The error is one line for the user.
pub fn call(verb: &str, matches: &ArgMatches) -> anyhow::Result<i32> {
    match verb {
        "run" => run::run(matches),
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
