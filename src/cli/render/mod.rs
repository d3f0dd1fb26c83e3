//! What people see: tables, the page of one operation, the timeline. Everything here is pure.

pub mod detail;
#[cfg(test)]
pub mod fixtures;
mod fold;
pub mod list;
pub mod next;
pub mod stats;
pub mod style;
pub mod table;
pub mod text;
pub mod timeline;
pub mod tree;
