//! Entry point: parse, call, exit.

use idem::cli::exit::OWN_FAILURE;
use idem::cli::parse::{Typed, parse};
use idem::cli::present::say_line;
use idem::cli::stdout::print;
use idem::commands::{self, completions::HIDDEN_VERB};
use std::ffi::OsString;
use std::fmt::Display;

fn main() {
    idem::process::entry::survive_file_size_limits();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.first().is_some_and(|verb| verb == HIDDEN_VERB) {
        commands::leave(commands::completions::complete(&arguments));
    }
    let code = match parse(&arguments) {
        Ok(Typed::Text(text)) => ended(print(text).map(|()| 0)),
        Ok(Typed::Verb { verb, matches }) => ended(commands::call(verb, &matches)),
        Err(usage) => ended(Err(usage)),
    };
    commands::leave(code)
}

/// The code to leave with; an error is one line for the user.
fn ended(done: Result<i32, impl Display>) -> i32 {
    match done {
        Ok(code) => code,
        Err(error) => {
            say_line(&format!("{error:#}"));
            OWN_FAILURE
        }
    }
}
