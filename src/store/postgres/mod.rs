//! The client for PostgreSQL: blocking, with one deadline a call, and nothing but what the store needs.
//!
//! Not the crates `postgres` and `tokio-postgres`: they bring procedural macros, threads and a runtime
//! for one connection; a call of theirs has no deadline; and they know neither `sslmode=verify-full`,
//! nor `sslrootcert`, the `PG*` variables or the passfile. So `postgres-protocol` (messages and
//! authentication, without IO) speaks over a plain socket, and `rustls` over its *ring* provider, which
//! is handed over explicitly: no C library has to be found, and the program stays one static file.
//!
//! - [`Target`]: whom to connect to, from a URL and the environment, completed as libpq does.
//! - [`Client`]: one connection. Every statement is a single round trip with the unnamed prepared
//!   statement, which a pooler in transaction mode lets pass. No state is kept in the session.
//! - [`PgError`]: what went wrong, by kind. After a timeout or a half-read reply the connection is
//!   closed and never used again.
//!
//! Nothing here runs, starts a thread or keeps global state before somebody connects.

mod address;
mod auth;
mod cancel;
mod client;
mod connect;
mod error;
mod names;
mod parameters;
mod params;
mod passfile;
mod rows;
mod socket;
mod stream;
mod target;
mod tls;
mod url;
mod wire;

pub use cancel::CancelToken;
pub use client::{Client, Warning};
pub use error::PgError;
pub use params::Param;
pub use rows::{FromSql, Row, Rows};
pub use target::Target;

#[cfg(test)]
mod tests;
