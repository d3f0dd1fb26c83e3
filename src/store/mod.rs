//! Adapters: the implementations of the engine's store port.

pub mod glob;
pub mod location;
pub mod paths;
pub mod sqlite;
mod transitions;
