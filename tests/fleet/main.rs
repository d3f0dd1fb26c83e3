//! All verbs on a store that several machines share: real processes of several hosts, and a real server.
#![cfg(feature = "postgres")]

// The tools of the black-box tests; each binary uses what it needs of them.
#[allow(dead_code)]
#[path = "../blackbox/command.rs"]
mod command;
#[allow(dead_code)]
#[path = "../blackbox/env.rs"]
mod env;
#[allow(dead_code)]
#[path = "../blackbox/procs.rs"]
mod procs;
#[path = "../servers/mod.rs"]
mod servers;

mod doctor;
mod host;
mod hosts;
mod secrets;
mod transfer;
mod verbs;
