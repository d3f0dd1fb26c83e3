//! What was counted: as JSON and as metrics.

use super::when::rfc3339;
use crate::domain::name::Scope;
use crate::domain::outcome::State;
use crate::domain::tally::{Count, Tally};
use crate::domain::time::UnixMs;
use crate::policy::durations::Summary;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Everything that `idem stats` knows.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// From when on; nothing for all that was ever counted.
    pub since: Option<UnixMs>,
    /// Counts by scope.
    pub scopes: BTreeMap<Scope, Tally>,
    /// How long commands take, by what they are called.
    pub commands: Vec<(String, Summary)>,
    /// Operations by the state that is seen.
    pub operations: BTreeMap<&'static str, u64>,
    /// How long the oldest outcome that nobody knows has been so.
    pub oldest_unknown: Option<Duration>,
}

/// A counter: its name, what it counts, and its value.
pub type Counter = (&'static str, &'static str, fn(&Tally) -> u64);

/// The counters by their names in JSON, and what they count. Refusals come by reason beside them.
pub const COUNTERS: [Counter; 9] = [
    ("executions", "Claims that were won.", |t| {
        t.of(Count::Execution)
    }),
    ("replays", "Stored results that were handed out.", |t| {
        t.of(Count::Replay)
    }),
    (
        "waits",
        "Calls that got the result of an execution they waited for.",
        |t| t.of(Count::Wait),
    ),
    (
        "conflicts",
        "Calls that were refused or skipped because another one was running.",
        Tally::conflicts,
    ),
    (
        "mismatches",
        "Calls that were refused because the key was used for a different command.",
        |t| t.of(Count::Mismatch),
    ),
    ("retries", "Further attempts of an execution.", |t| {
        t.of(Count::Retry)
    }),
    (
        "timeouts",
        "Attempts that were cut off by their timeout or the deadline.",
        |t| t.of(Count::Timeout),
    ),
    (
        "unknowns",
        "Executions whose outcome became unknown.",
        |t| t.of(Count::Unknown),
    ),
    (
        "races_lost",
        "Calls that wanted to execute and found that another one had claimed first.",
        |t| t.of(Count::RaceLost),
    ),
];

impl Stats {
    /// All scopes together.
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        for tally in self.scopes.values() {
            total.add_all(tally);
        }
        total
    }

    /// One object.
    pub fn to_json(&self) -> Value {
        let mut object = counts_json(&self.total());
        let scopes = self.scopes.iter();
        let scopes = scopes.map(|(scope, tally)| {
            let counts = Value::Object(counts_json(tally));
            (scope.as_str().to_owned(), counts)
        });
        let commands: Vec<Value> = self.commands.iter().map(command_json).collect();
        let seconds = self.oldest_unknown.map(|age| age.as_secs());
        for (name, value) in [
            ("scopes", Value::Object(scopes.collect())),
            ("commands", commands.into()),
            ("operations", json!(self.operations)),
            ("oldest_unknown_seconds", json!(seconds)),
            ("since", json!(self.since.map(rfc3339))),
        ] {
            object.insert(name.to_owned(), value);
        }
        Value::Object(object)
    }

    /// The text format of Prometheus, version 0.0.4.
    pub fn to_prometheus(&self) -> String {
        let mut out = String::new();
        let mut scopes = self.scopes.clone();
        // An alert on a counter that has never been there does not fire.
        scopes.entry(Scope::default()).or_default();
        for (name, help, count) in COUNTERS {
            let name = format!("idem_{name}_total");
            head(&mut out, &name, help, "counter");
            for (scope, tally) in &scopes {
                sample(&mut out, &name, &[scope_label(scope)], count(tally));
            }
        }
        let name = "idem_refusals_total";
        head(
            &mut out,
            name,
            "Calls that were refused, by reason.",
            "counter",
        );
        for (scope, tally) in &scopes {
            for refusal in Count::ALL.into_iter().filter(|count| count.is_refusal()) {
                let labels = [scope_label(scope), ("reason", refusal.word())];
                sample(&mut out, name, &labels, tally.of(refusal));
            }
        }
        self.gauges(&mut out);
        out
    }

    fn gauges(&self, out: &mut String) {
        let name = "idem_operations";
        head(out, name, "Operations by the state that is seen.", "gauge");
        for state in State::ALL {
            let count = self.operations.get(state.word()).copied().unwrap_or(0);
            sample(out, name, &[("state", state.word())], count);
        }
        let name = "idem_oldest_unknown_seconds";
        let help = "For how long the oldest unknown outcome has been so, 0 where there is none.";
        head(out, name, help, "gauge");
        sample(
            out,
            name,
            &[],
            self.oldest_unknown.map_or(0, |age| age.as_secs()),
        );
        if self.commands.is_empty() {
            return;
        }
        let name = "idem_command_duration_seconds";
        let help = "How long attempts of a command take, by percentile.";
        head(out, name, help, "gauge");
        for (command, summary) in &self.commands {
            for (percentile, ms) in [
                ("50", summary.p50_ms),
                ("90", summary.p90_ms),
                ("99", summary.p99_ms),
            ] {
                let labels = [("command", command.as_str()), ("percentile", percentile)];
                let seconds = format!("{}.{:03}", ms / 1000, ms % 1000);
                sample(out, name, &labels, seconds);
            }
        }
    }
}

fn counts_json(tally: &Tally) -> Map<String, Value> {
    let mut object = Map::new();
    for (name, _, count) in COUNTERS {
        object.insert(name.to_owned(), count(tally).into());
        if name == "unknowns" {
            let refusals = tally.refusals();
            let refusals = refusals.map(|(reason, times)| (reason.to_owned(), times.into()));
            object.insert("refusals".to_owned(), Value::Object(refusals.collect()));
        }
    }
    object
}

/// How long a command takes, as an object.
pub fn command_json((command, summary): &(String, Summary)) -> Value {
    let timeout_ms = u64::try_from(summary.suggested_timeout.as_millis()).unwrap_or(u64::MAX);
    json!({
        "command": command,
        "samples": summary.samples,
        "cut_off": summary.cut_off,
        "p50_ms": summary.p50_ms,
        "p90_ms": summary.p90_ms,
        "p99_ms": summary.p99_ms,
        "suggested_timeout": humantime::format_duration(summary.suggested_timeout).to_string(),
        "suggested_timeout_ms": timeout_ms,
    })
}

fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    out.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
}

fn scope_label(scope: &Scope) -> (&'static str, &str) {
    ("scope", scope.as_str())
}

/// One line. A label without a value is the same as none, and is left out.
fn sample(out: &mut String, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
    let labels: Vec<String> = labels
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect();
    out.push_str(name);
    if !labels.is_empty() {
        out.push_str(&format!("{{{}}}", labels.join(",")));
    }
    out.push_str(&format!(" {value}\n"));
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::policy::durations::Durations;

    /// Something of everything.
    pub fn some() -> Stats {
        let mut tally = Tally::default();
        tally.add(Count::Replay, 40);
        tally.add(Count::Mismatch, 1);
        let mut durations = Durations::default();
        (0..9).for_each(|_| durations.add(1_500, false));
        durations.add(9_000, true);
        let scope = Scope::new("a\"\\b").unwrap();
        Stats {
            since: None,
            scopes: [(Scope::default(), tally.clone()), (scope, tally)].into(),
            commands: vec![("git push".to_owned(), durations.summary().unwrap())],
            operations: [("unknown", 2)].into(),
            oldest_unknown: Some(Duration::from_secs(90)),
        }
    }

    #[test]
    fn json_has_totals_scopes_and_commands() {
        let json = some().to_json();
        assert_eq!(json["replays"], 80);
        assert_eq!(json["refusals"], json!({"mismatch": 2}));
        assert_eq!(json["scopes"][""]["replays"], 40);
        assert_eq!(json["commands"][0]["p50_ms"], 1_500);
        assert_eq!(json["commands"][0]["suggested_timeout"], "18s");
        assert_eq!(json["oldest_unknown_seconds"], 90);
        let fields: Vec<&String> = json.as_object().unwrap().keys().collect();
        let wanted = "executions replays waits conflicts mismatches retries timeouts unknowns refusals \
            races_lost scopes commands operations oldest_unknown_seconds since";
        assert_eq!(fields, wanted.split_whitespace().collect::<Vec<_>>());
    }

    #[test]
    fn metrics_have_heads_and_escaped_labels() {
        let text = some().to_prometheus();
        for line in [
            "# TYPE idem_replays_total counter",
            "idem_replays_total 40",
            r#"idem_replays_total{scope="a\"\\b"} 40"#,
            r#"idem_refusals_total{reason="breaker"} 0"#,
            r#"idem_operations{state="unknown"} 2"#,
            r#"idem_command_duration_seconds{command="git push",percentile="99"} 9.000"#,
            "idem_oldest_unknown_seconds 90",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.ends_with('\n'));
    }
}
