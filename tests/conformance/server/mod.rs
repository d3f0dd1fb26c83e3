//! The store on a PostgreSQL server: its places for the suite, and what only it has.

pub mod place;

pub use place::open;
