//! idem: makes shell commands safe to repeat.

pub mod domain;
pub mod policy;
pub mod process;
