//! idem: makes shell commands safe to repeat.

pub mod domain;
pub mod engine;
pub mod policy;
