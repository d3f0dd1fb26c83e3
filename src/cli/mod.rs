//! What was typed, what it means, and how it is said. Only this layer prints.

pub mod attempts;
pub mod completion;
pub mod config;
pub mod decision_log;
pub mod exit;
pub mod explain;
pub mod guard_text;
pub mod json_out;
pub mod layers;
pub mod operation_json;
pub mod options;
pub mod parse;
pub mod present;
pub mod quote;
pub mod render;
pub mod require;
pub mod run_json;
pub mod say;
pub mod settings;
pub mod stats;
pub mod stdout;
pub mod transfer;
pub mod values;
pub mod verbs;
pub mod view;
pub mod when;
