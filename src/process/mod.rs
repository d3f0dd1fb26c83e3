//! Adapter to the operating system: what idem found at its start, children behind a gate, locks that
//! tell who lives, live output and recorded output, and the end of a whole tree.
//!
//! The program has one thread whenever it forks. Everything between a fork and an exec is prepared
//! before the fork and calls nothing that is not async-signal-safe, signal-safety(7).

mod arguments;
pub mod child;
pub mod clock;
pub mod counts;
pub mod entry;
mod erasing;
mod exec;
mod expand;
pub mod facts;
pub mod filesystem;
pub mod front;
pub mod hands;
pub mod identity;
pub mod leaving;
mod listening;
pub mod liveness;
pub mod locks;
pub mod mirror;
pub mod notice;
pub mod outer;
mod outputs;
pub mod permits;
pub mod proc;
pub mod queue;
pub mod random;
pub mod replay;
pub mod screen;
pub mod session;
pub mod signal;
pub mod spawn;
pub mod split;
pub mod spool;
pub mod stdin;
pub mod stdin_spool;
pub mod sys;
pub mod terminal;
pub mod terminate;
#[cfg(test)]
mod testing;
pub mod wait;
pub mod waiting;
pub mod waiting_line;
