//! Real servers for tests, of a run's own. For a suite of another directory:
//! `#[path = "../servers/mod.rs"] mod servers;`
#![allow(dead_code, reason = "each suite uses its part")]

pub mod certificates;
pub mod cluster;
pub mod pooler;
pub mod supervised;
pub mod tools;
