//! Black-box tests: every behaviour is tested through real processes of the built program.

mod command;
mod env;
mod procs;

mod caller_loss;
mod capture;
mod cli_input;
mod completions;
mod curl;
mod decision;
mod detach;
mod disk;
mod ending;
mod guards;
mod hold;
mod inherit;
mod json;
mod keys;
mod liveness;
mod nested;
mod probe;
mod pty;
mod pump;
mod replay;
mod retries;
mod signals;
mod single_flight;
mod stdin;
mod store;
mod streams;
mod templates;
mod terminal;
mod tty_option;
mod upkeep;
mod verbs;
mod watching;
