//! Pure policies: state, event, clock reading and random number in; decision out.

pub mod backoff;
pub mod breaker;
pub mod budget;
pub mod bulkhead;
pub mod classify;
pub mod conditions;
pub mod control;
pub mod deadline;
pub mod durations;
pub mod guard;
pub mod nested;
pub mod outcome;
pub mod patterns;
pub mod retry;
pub mod retry_after;
pub mod state;
pub mod task;
mod text;
