//! Pure core: what an operation is, what a record says, what a call does about it.
//!
//! Nothing here knows a clock, randomness, a database or a process; all of that comes in as arguments.

pub mod decision;
pub mod digest;
pub mod duration;
pub mod facts;
pub mod frames;
pub mod keyparts;
pub mod name;
pub mod nearest;
pub mod outcome;
pub mod owner;
pub mod period;
pub mod program;
pub mod record;
pub mod secret;
pub mod tally;
pub mod template;
pub mod time;
