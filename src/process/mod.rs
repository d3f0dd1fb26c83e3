//! Adapter to the operating system: processes, descriptors, terminals.

pub mod mirror;
pub mod replay;
pub mod spool;
//! Adapter to the operating system: what the machine says about a call, and running it.

pub mod facts;
pub mod stdin_spool;
