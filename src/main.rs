//! Entry point: parse, call, exit.
#![no_main]

use idem::cli::exit::OWN_FAILURE;
use idem::cli::failure::Listeners;
use idem::cli::parse::{Typed, parse};
use idem::cli::present::say_line;
use idem::cli::stdout::print;
use idem::commands::{self, completions::HIDDEN_VERB};
use idem::process::entry;
use std::ffi::{c_char, c_int};
use std::fmt::Display;
use std::time::Duration;

/// Called by the C library: Rust's own start takes longer than all that it would be good for here.
#[unsafe(no_mangle)]
extern "C" fn main(argc: c_int, argv: *const *const c_char) -> c_int {
    // SAFETY: these are the arguments that the C library was started with.
    let arguments = match unsafe { entry::begin(argc, argv) } {
        Ok(arguments) => arguments,
        Err(error) => commands::leave(ended(Err(format!("/dev/null cannot be opened: {error}")))),
    };
    entry::survive_file_size_limits();
    if arguments.first().is_some_and(|verb| verb == HIDDEN_VERB) {
        commands::leave(commands::completions::complete(&arguments));
    }
    // Nothing is freed on the way out.
    match parse(&arguments) {
        Ok(Typed::Text(text)) => commands::leave(ended(print(text).map(|()| 0))),
        Ok(Typed::Verb { verb, words }) => {
            commands::leave(ended(commands::call(verb, &words)));
        }
        Err(usage) => {
            Listeners::of_line(&arguments).tell(None, &usage.to_string(), Duration::ZERO);
            commands::leave(ended(Err(usage)));
        }
    }
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
