//! idem: makes shell commands safe to repeat.

pub mod cli;
pub mod commands;
pub mod domain;
pub mod engine;
pub mod policy;
pub mod process;
pub mod store;
