//! Black-box tests: every behaviour is tested through real processes of the built program.

mod command;
mod env;
mod procs;

mod caller_loss;
mod capture;
mod cli_input;
mod completions;
mod decision;
mod disk;
mod json;
mod keys;
mod liveness;
mod replay;
mod single_flight;
mod store;
mod templates;
mod verbs;
