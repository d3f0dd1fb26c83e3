//! Drives one operation: decide, claim, attempts, settle. It knows traits; adapters implement them.

pub mod event;
pub mod store;
