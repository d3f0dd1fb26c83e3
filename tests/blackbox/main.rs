//! Black-box tests: every behaviour is tested through real processes of the built program.

mod command;
mod env;
mod procs;

mod caller_loss;
mod capture;
mod cli_input;
mod completions;
mod decision;
mod detach;
mod disk;
mod ending;
mod inherit;
mod json;
mod keys;
mod liveness;
mod pty;
mod replay;
mod signals;
mod single_flight;
mod stdin;
mod store;
mod streams;
mod templates;
mod terminal;
mod tty_option;
mod verbs;
