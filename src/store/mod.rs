//! Adapters: the implementations of the engine's store port.

pub mod glob;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod sqlite;
