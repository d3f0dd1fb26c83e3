//! Entry point: parse, call, exit.

use idem::cli::exit::OWN_FAILURE;
use idem::cli::parse::{Typed, parse};
use idem::cli::present::say_line;
use idem::commands;
use std::ffi::OsString;
use std::io::Write;

fn main() {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let code = match parse(&arguments) {
        Ok(Typed::Text(text)) => print(&text),
        Ok(Typed::Verb { verb, matches }) => match commands::call(verb, &matches) {
            Ok(code) => code,
            Err(error) => {
                say_line(&format!("{error:#}"));
                OWN_FAILURE
            }
        },
        Err(usage) => {
            say_line(&usage);
            OWN_FAILURE
        }
    };
    commands::leave(code)
}

fn print(text: &str) -> i32 {
    // A reader that has seen enough is no failure.
    let _ = std::io::stdout().write_all(text.as_bytes());
    0
}
