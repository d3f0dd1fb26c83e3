//! Black-box tests: every behaviour is tested through real processes of the built program.

mod command;
mod env;
mod procs;

mod caller_loss;
mod decision;
mod keys;
mod liveness;
mod replay;
mod single_flight;
mod templates;
