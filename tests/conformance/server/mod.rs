//! The store on a PostgreSQL server: its places for the suite, and what only it has.

pub mod place;

pub mod bulk;
mod claims;
mod durability;
mod followers;
mod lost_replies;
mod permits;
mod proxy;
mod schema;
mod waiting;

pub use place::open;
