//! Adapter to the operating system: processes, descriptors, terminals.

pub mod mirror;
pub mod replay;
pub mod split;
pub mod spool;
