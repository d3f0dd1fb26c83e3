//! `idem sync`.

use super::context::Context;
use crate::cli::stdout::print;
use crate::cli::words::{Words, flag};
use crate::store::location::{Delivered, Delivery};
use anyhow::Result;
use serde_json::{Value, json};

/// Runs the verb.
pub fn run(words: &Words) -> Result<i32> {
    let context = Context::new(words)?;
    let deliveries = context.location.deliver()?;
    let waits = deliveries
        .iter()
        .any(|delivery| matches!(delivery.fate, Delivered::NotYet(_)));
    print(match flag(words, "json") {
        true => format!(
            "{}\n",
            Value::Array(deliveries.iter().map(object).collect())
        ),
        false => told(&deliveries),
    })?;
    Ok(i32::from(waits))
}

fn object(delivery: &Delivery) -> Value {
    let (fate, why) = match &delivery.fate {
        Delivered::Now => ("delivered", None),
        Delivered::TooLate => ("superseded", None),
        Delivered::NotYet(why) => ("waiting", Some(why.to_string())),
    };
    json!({
        "scope": delivery.name.scope.as_str(),
        "key": delivery.name.key.as_str(),
        "result": fate,
        "reason": why,
    })
}

fn told(deliveries: &[Delivery]) -> String {
    if deliveries.is_empty() {
        return "nothing waits\n".to_owned();
    }
    let line = |delivery: &Delivery| {
        let name = &delivery.name;
        match &delivery.fate {
            Delivered::Now => format!("{name}: delivered\n"),
            Delivered::TooLate => format!(
                "{name}: the record has moved on meanwhile; this result is only in `idem log`\n"
            ),
            Delivered::NotYet(why) => format!("{name}: waits ({why})\n"),
        }
    };
    deliveries.iter().map(line).collect()
}
