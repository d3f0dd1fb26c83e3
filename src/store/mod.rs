//! Adapters: the implementations of the engine's store port.

pub mod glob;
pub mod litter;
pub mod location;
pub mod paths;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "postgres")]
pub mod server;
pub mod sqlite;
mod transitions;
