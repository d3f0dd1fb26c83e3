//! `idem breaker`.

use super::context::{Context, text};
use crate::cli::stdout::print;
use crate::cli::when::rfc3339;
use crate::cli::words::{Words, flag, value};
use crate::cli::{exit, guard_text, present::say_line, values};
use crate::domain::name::Key;
use crate::domain::time::{Stamp, UnixMs};
use crate::engine::store::GuardKind;
use crate::policy::breaker::{Breaker, DEFAULT_COOLDOWN, Phase};
use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// A breaker's name and phase.
type Shown = (String, Phase);

/// Runs the verb.
pub fn run(words: &Words) -> Result<i32> {
    let context = Context::new(words)?;
    let name = value(words, "name")
        .map(|given| Key::new(given.as_bytes()))
        .transpose()
        .map_err(|e| anyhow!("the breaker's name {e}; give another"))?;
    let name = name.as_ref().map(Key::as_str);
    let (reset, trip) = (flag(words, "reset"), flag(words, "trip"));
    let cooldown = text(words, "cooldown")?
        .map(|given| values::duration(given).map_err(|e| anyhow!("--cooldown: {e}")))
        .transpose()?;
    match name {
        None if reset || trip => Err(anyhow!("--reset and --trip need the name of one breaker")),
        Some(name) if trip => {
            let breaker = Breaker::tripped(&context.now(), cooldown.unwrap_or(DEFAULT_COOLDOWN));
            write(&context, name, &breaker)?;
            Ok(0)
        }
        Some(name) if reset => reset_one(&context, name),
        Some(name) => show_one(words, &context, name),
        None => show_all(words, &context),
    }
}

fn write(context: &Context, name: &str, breaker: &Breaker) -> Result<()> {
    let state = breaker.to_json();
    Ok(context.write()?.store().with_guards(&mut |guards| {
        guards.set_guard(GuardKind::Breaker, name, Some(state.clone()))
    })?)
}

/// Closes a breaker, whatever its state looks like.
fn reset_one(context: &Context, name: &str) -> Result<i32> {
    let states = states(context)?;
    if !states.iter().any(|(found, _)| found == name) {
        return Ok(not_there(name));
    }
    write(context, name, &Breaker::closed(&context.now()))?;
    Ok(0)
}

fn not_there(name: &str) -> i32 {
    say_line(&format!(
        "there is no breaker {name}; list those that are there with `idem breaker`"
    ));
    exit::NOT_FOUND
}

fn states(context: &Context) -> Result<Vec<(String, Value)>> {
    Ok(match context.read()? {
        Some(mut opened) => opened.store().list_guards(GuardKind::Breaker)?,
        None => Vec::new(),
    })
}

fn shown(context: &Context, (name, state): (String, Value)) -> Result<Shown> {
    let breaker = Breaker::from_json(&state).map_err(|e| {
        anyhow!("breaker {name} {e}; upgrade idem, or close it with `idem breaker {name} --reset`")
    })?;
    Ok((name, breaker.phase(&context.now())))
}

fn show_one(words: &Words, context: &Context, name: &str) -> Result<i32> {
    let found = states(context)?
        .into_iter()
        .find(|(found, _)| found == name);
    let Some(found) = found else {
        return Ok(not_there(name));
    };
    let shown = shown(context, found)?;
    print(match flag(words, "json") {
        true => format!("{}\n", object(&shown, &context.now())),
        false => line(&shown),
    })?;
    Ok(0)
}

fn show_all(words: &Words, context: &Context) -> Result<i32> {
    let all: Result<Vec<Shown>> = states(context)?
        .into_iter()
        .map(|state| shown(context, state))
        .collect();
    let all = all?;
    print(match flag(words, "json") {
        true => {
            let objects: Vec<String> = all
                .iter()
                .map(|shown| object(shown, &context.now()).to_string())
                .collect();
            format!("[{}]\n", objects.join(",\n"))
        }
        false => all.iter().map(line).collect(),
    })?;
    Ok(0)
}

fn line((name, phase): &Shown) -> String {
    format!("{name} {}\n", guard_text::breaker(*phase))
}

fn object((name, phase): &Shown, now: &Stamp) -> Value {
    let mut object = json!({
        "name": name, "phase": "closed", "failures": null, "open_until": null, "left_ms": null,
        "successes": null, "leases": null,
    });
    match *phase {
        Phase::Closed { failures } => object["failures"] = failures.into(),
        Phase::Open(left) => {
            object["phase"] = "open".into();
            object["open_until"] = rfc3339(UnixMs(now.wall.0.saturating_add(ms(left)))).into();
            object["left_ms"] = ms(left).into();
        }
        Phase::HalfOpen { successes, leases } => {
            object["phase"] = "half_open".into();
            object["successes"] = successes.into();
            object["leases"] = leases.into();
        }
    }
    object
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
