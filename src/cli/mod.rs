//! What was typed and what is shown.

pub mod json_out;
pub mod values;
pub mod when;
