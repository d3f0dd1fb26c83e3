//! The explanation as one JSON object.

use super::text::says;
use super::{Explanation, GuardView};
use crate::cli::operation_json::operation;
use crate::cli::when::rfc3339;
use crate::domain::time::{Ttl, UnixMs};
use crate::policy::classify::{Row, Tool};
use serde_json::{Value, json};
use std::time::Duration;

/// The object; every field is there, and null where there is nothing to tell.
pub fn object(explained: &Explanation<'_>) -> Value {
    let (plan, named) = (explained.plan, explained.named);
    let schedule = explained.schedule();
    let moment = |at: Option<UnixMs>| at.map_or(Value::Null, |at| rfc3339(at).into());
    let pauses: Vec<Value> = schedule
        .pauses
        .iter()
        .map(|(low, high)| json!({"shortest_ms": ms(*low), "longest_ms": ms(*high)}))
        .collect();
    let guards: Vec<Value> = explained.guards.iter().map(guard).collect();
    let given = explained.given.iter();
    let given: Vec<Value> = given
        .map(|one| json!({"option": one.option, "value": one.value, "origin": one.origin}))
        .collect();
    json!({
        "dry_run": true,
        "scope": named.name.scope.as_str(),
        "key": named.name.key.as_str(),
        "key_from": explained.key_from,
        "period_starts_at": moment(named.period.map(|(starts_at, _)| starts_at)),
        "period_ends_at": moment(named.period.map(|(_, ends_at)| ends_at)),
        "previous_runs": explained.previous_runs,
        "fingerprint": plan.request.fingerprint.hex(),
        "store": {"path": explained.store, "exists": explained.store_exists},
        "record": explained.found.as_ref().map(|found| operation(found, None)),
        "decision": {
            "would": explained.word(),
            "text": explained.would(),
            "because": explained.because(),
            "refused_by": explained.refused_by().iter().map(|guard| guard.kind).collect::<Vec<_>>(),
        },
        "most_executions": explained.most_executions(),
        "retry": {
            "retries": schedule.retries,
            "nested": plan.retry.nested,
            "pauses": pauses,
            "shortest_ms": ms(schedule.total.0),
            "longest_ms": ms(schedule.total.1),
        },
        "timeout_ms": plan.limits.timeout.map(ms),
        "deadline_ms": explained.deadline_left.map(ms),
        "kill_after_ms": ms(plan.limits.kill_after),
        "ttl_ms": kept(plan.ttl),
        "failed_ttl_ms": kept(plan.failed_ttl),
        "classifier": explained.classifier.map(classifier),
        "guards": guards,
        "options": given,
        "answers": {
            "what_is_the_key": explained.the_key(),
            "where_is_the_state": explained.the_place(),
            "what_happens_after_a_timeout": explained.after_timeout(),
        },
        "warnings": explained.warnings(),
    })
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn kept(ttl: Ttl) -> Option<u64> {
    match ttl {
        Ttl::For(ttl) => Some(ms(ttl)),
        Ttl::Forever => None,
    }
}

fn guard(guard: &GuardView) -> Value {
    json!({
        "kind": guard.kind,
        "name": guard.name,
        "stands": guard.stands,
        "refuses": guard.refuses,
    })
}

fn classifier(tool: &'static Tool) -> Value {
    let rows: Vec<Value> = tool.rows.iter().map(row).collect();
    json!({"tool": tool.name, "rows": rows})
}

fn row(row: &Row) -> Value {
    json!({
        "exits": row.exits,
        "condition": row.condition,
        "says": says(row.says),
        "verified": row.verified,
    })
}
