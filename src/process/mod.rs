//! Adapter to the operating system: processes, descriptors, terminals, and what the machine says
//! about a call.

pub mod facts;
pub mod mirror;
pub mod replay;
pub mod split;
pub mod spool;
pub mod stdin_spool;
