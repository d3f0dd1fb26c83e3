//! Pure core: what an operation is, what a record says, what a call does about it.
//!
//! Nothing here knows a clock, randomness, a database or a process; all of that comes in as arguments.

pub mod decision;
pub mod name;
pub mod outcome;
pub mod owner;
pub mod record;
pub mod time;
