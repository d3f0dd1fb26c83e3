//! `require` of the configuration: the questions that a call must answer before anything runs.

use super::config::REQUIRE;
use super::layers::Layers;
use super::settings::UsageError;
use crate::policy::conditions::{Condition, Conditions};

/// What can be required.
pub const QUESTIONS: [&str; 3] = ["key", "timeout", "after-timeout"];

/// Refuses a call that leaves a required question open.
pub fn check(layers: &Layers<'_>) -> Result<(), UsageError> {
    let Some(required) = layers.get(REQUIRE) else {
        return Ok(());
    };
    let questions = required.value.to_string_lossy();
    let open: Vec<&str> = questions
        .split(',')
        .filter(|question| !question.is_empty() && !is_answered(layers, question))
        .map(how_to_answer)
        .collect();
    if open.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} leaves something open; give {}",
        layers.label(REQUIRE, &required.origin),
        open.join(", and ")
    ))
}

fn is_answered(layers: &Layers<'_>, question: &str) -> bool {
    let any = |names: &[&str]| names.iter().any(|name| layers.has(name));
    match question {
        "key" => any(&["key", "key-file", "key-from", "step"]),
        "timeout" => any(&["timeout", "deadline"]),
        _ => {
            any(&["probe", "if-unknown"]) || layers.flag("idempotent") || retries_a_timeout(layers)
        }
    }
}

fn retries_a_timeout(layers: &Layers<'_>) -> bool {
    let Some(given) = layers.get("retry-on") else {
        return false;
    };
    // A list that cannot be read is refused where it is used.
    let list = given.value.to_str().and_then(|text| text.parse().ok());
    list.is_some_and(|list: Conditions| {
        let mut items = list.items().iter();
        items.any(|item| matches!(item.condition, Condition::Timeout))
    })
}

fn how_to_answer(question: &str) -> &'static str {
    match question {
        "key" => "the operation's name (--key)",
        "timeout" => "how long it may take (--timeout or --deadline)",
        _ => {
            "what to do after a timeout (--probe, --idempotent, --if-unknown or --retry-on timeout)"
        }
    }
}
