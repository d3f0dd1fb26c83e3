//! Several machines and one server: all verbs, and everything that can go wrong between them. Real servers,
//! a proxy that cuts, holds and delays at every message, and hosts that do not see each other's processes.
//! What is checked is always what the commands did: each appends a line where it runs.
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

mod away;
mod crowd;
mod doctor;
mod failover;
mod guards;
mod host;
mod hosts;
mod leases;
mod proxy;
mod secrets;
mod steps;
mod transfer;
mod verbs;
mod world;
