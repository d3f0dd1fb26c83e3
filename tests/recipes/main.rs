//! The recipes of the README, run exactly as they are printed there. The tools that they call are
//! stand-ins that say and return what the real ones do; what they do is counted.

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

mod agents;
mod ci;
mod cron;
mod publishing;
mod readme;
mod services;
mod world;
