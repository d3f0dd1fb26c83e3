//! Pure policies: state, event, clock reading and random number in; decision out.

pub mod backoff;
pub mod conditions;
pub mod outcome;
pub mod retry;
mod text;
