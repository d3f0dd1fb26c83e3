//! The policies through real processes: many at once, some of them killed, against small models.

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

mod breaker;
mod bulkhead;
mod dry_run;
mod log;
mod nested;
mod random;
mod shared;
mod task;
mod timers;
