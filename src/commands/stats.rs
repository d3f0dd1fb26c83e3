//! `idem stats`.

use super::context::{Context, Opened, text};
use super::{counting, status};
use crate::cli::render::stats::page;
use crate::cli::render::style::Style;
use crate::cli::stats::Stats;
use crate::cli::stdout::print;
use crate::cli::words::{Words, flag};
use crate::domain::name::{Generation, OpName, Scope};
use crate::domain::outcome::{Class, State};
use crate::domain::time::UnixMs;
use crate::engine::counts::{HOURS_KEPT, hour_of};
use crate::engine::event::{Event, EventKind};
use crate::engine::store::Filter;
use crate::policy::durations::{Durations, Summary};
use anyhow::{Result, anyhow};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// What a command is called whose arguments are not recorded.
const UNNAMED: &str = "(not recorded)";

/// Runs the verb.
pub fn run(words: &Words) -> Result<i32> {
    let context = Context::new(words)?;
    let since = text(words, "since")?
        .map(|text| status::since(text, context.now().wall))
        .transpose()?;
    if since.is_some_and(|since| hour_of(since) + HOURS_KEPT < hour_of(context.now().wall)) {
        return Err(anyhow!(
            "--since: counts are kept by the hour for 31 days; ask for less, or leave it out for all"
        ));
    }
    let mut stats = Stats {
        since,
        ..Stats::default()
    };
    if let Some(mut opened) = context.read()? {
        fill(&mut stats, &context, &mut opened)?;
    }
    if flag(words, "json") {
        print(format!("{}\n", stats.to_json()))?;
    } else if flag(words, "prometheus") {
        print(stats.to_prometheus())?;
    } else {
        print(page(&stats, Style::of_stdout()))?;
    }
    Ok(0)
}

fn fill(stats: &mut Stats, context: &Context, opened: &mut Opened) -> Result<()> {
    let sums = counting::totals(context, opened)?;
    let is_asked = |scope: &Scope| context.scope.as_ref().is_none_or(|asked| asked == scope);
    stats.scopes = sums.by_scope(stats.since.map(hour_of));
    stats.scopes.retain(|scope, _| is_asked(scope));
    stats.commands = durations(opened, context.scope.as_ref(), stats.since)?
        .into_iter()
        .collect();
    for (scope, state, count) in opened.store().count_states()? {
        if is_asked(&scope) && !matches!(state, State::Running | State::Unknown) {
            *stats.operations.entry(state.word()).or_default() += count;
        }
    }
    // Whether these run or are unknown is seen only by a look at their owners.
    let filter = Filter {
        scope: context.scope.clone(),
        states: vec![State::Running, State::Unknown],
        ..Filter::default()
    };
    for record in opened.store().list(&filter)? {
        let view = opened.view(record);
        *stats.operations.entry(view.state().word()).or_default() += 1;
        if view.state() == State::Unknown {
            let age = view.record.since.age(&context.now());
            stats.oldest_unknown = stats.oldest_unknown.max(Some(age));
        }
    }
    Ok(())
}

/// How long commands take, from the ledger: those of a scope, since a moment.
pub fn durations(
    opened: &mut Opened,
    scope: Option<&Scope>,
    since: Option<UnixMs>,
) -> Result<BTreeMap<String, Summary>> {
    let mut walk = Walk::default();
    opened.each_event(None, 0, |event| {
        let asked = scope.is_none_or(|scope| event.name.scope == *scope);
        if asked && since.is_none_or(|since| event.at >= since) {
            walk.take(event);
        }
        Ok(())
    })?;
    let all = walk.commands.into_iter();
    Ok(all
        .filter_map(|(command, durations)| Some((command, durations.summary()?)))
        .collect())
}

/// A walk through the ledger: claims name their commands, and attempts follow them.
#[derive(Default)]
struct Walk {
    claims: HashMap<(OpName, Generation), String>,
    commands: BTreeMap<String, Durations>,
}

impl Walk {
    fn take(&mut self, event: Event) {
        let detail = |name: &str| event.detail.get(name);
        let text = |name: &str| detail(name).and_then(Value::as_str);
        match event.kind {
            EventKind::Claimed => {
                let command = text("command").unwrap_or(UNNAMED).to_owned();
                let claim = (event.name, event.generation);
                self.claims.insert(claim, command);
            }
            EventKind::AttemptEnded => {
                let cut_off = matches!(text("cut"), Some("timeout" | "deadline"));
                let succeeded = text("class") == Some(Class::Success.word());
                let Some(ms) = detail("duration_ms").and_then(Value::as_u64) else {
                    return;
                };
                // What failed says nothing about how long it takes to succeed.
                if cut_off || succeeded {
                    let claim = (event.name, event.generation);
                    let command = self.claims.get(&claim).map_or(UNNAMED, String::as_str);
                    let durations = self.commands.entry(command.to_owned()).or_default();
                    durations.add(ms, cut_off);
                }
            }
            EventKind::Settled | EventKind::Superseded => {
                self.claims.remove(&(event.name, event.generation));
            }
            _ => {}
        }
    }
}
