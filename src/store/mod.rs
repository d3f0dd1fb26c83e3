//! Adapters: the implementations of the engine's store port.

pub mod glob;
pub mod sqlite;
