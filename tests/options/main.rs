//! Black-box tests of what can be typed and configured: every option with values that it cannot have,
//! the configuration's layers, and who is told of a decision or of an unknown outcome.

mod configuration;
mod odd_values;
mod place;
mod telling;
