//! Drives one operation: decide, claim, attempts, settle. It knows traits; adapters implement them.

pub mod claim;
pub mod counts;
pub mod detail;
pub mod ending;
pub mod environment;
pub mod event;
pub mod front;
pub mod guards;
pub mod hands;
pub mod holder;
pub mod keeper;
pub mod ledger;
pub mod plan;
pub mod propose;
pub mod store;

#[cfg(test)]
mod tests;
