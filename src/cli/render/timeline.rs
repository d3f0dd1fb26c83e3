//! The ledger as lines for people and as JSON.

use super::style::{Style, Tone};
use super::text::printable;
use crate::cli::attempts::{small_number, text};
use crate::cli::when::{length, rfc3339};
use crate::domain::outcome::State;
use crate::engine::event::{Event, EventKind};
use serde_json::{Map, Value, json};
use std::time::Duration;

type Detail = Map<String, Value>;

/// One line: when, which operation (where several are shown), its generation, and what happened.
pub fn line(event: &Event, with_name: bool, style: Style) -> String {
    let at = style.paint(Tone::Faint, &rfc3339(event.at));
    let name = match with_name {
        true => format!("  {}", printable(&event.name.to_string())),
        false => String::new(),
    };
    let what = what(event);
    let what = printable(&what);
    format!(
        "{at}{name}  g{}  {}\n",
        event.generation,
        style.paint(tone(event), &what)
    )
}

fn tone(event: &Event) -> Tone {
    match event.kind {
        EventKind::Settled | EventKind::Resolved | EventKind::OwnerLost => {
            let state = text(&event.detail, "state").and_then(State::from_word);
            state.map_or(Tone::Plain, Tone::of)
        }
        EventKind::Paused | EventKind::AttemptStarted => Tone::Faint,
        EventKind::Guarded | EventKind::Superseded | EventKind::Proposed => Tone::Alert,
        _ => Tone::Plain,
    }
}

/// What happened, in words.
fn what(event: &Event) -> String {
    let detail = &event.detail;
    let number = event.attempt.unwrap_or(1);
    match event.kind {
        EventKind::Claimed => format!("claimed{}{}", because(detail, "why"), by(detail)),
        EventKind::AttemptStarted => format!("attempt {number} started{}", pid(detail)),
        EventKind::AttemptEnded => attempt_ended(number, detail),
        EventKind::Paused => format!("waiting {}", duration(detail, "delay_ms")),
        EventKind::Probed => helper("probe", detail),
        EventKind::Cleaned => helper("cleanup", detail),
        EventKind::Settled => settled("settled as", detail),
        EventKind::OwnerLost => settled("found", detail),
        EventKind::Resolved => settled("resolved as", detail),
        EventKind::Proposed => format!("held for approval{}", by(detail)),
        EventKind::Approved => format!("approved{}{}", decided_by(detail), because(detail, "note")),
        EventKind::Rejected => format!("rejected{}{}", decided_by(detail), because(detail, "note")),
        EventKind::Forgotten => forgotten(detail),
        EventKind::Superseded => settled("came too late to be recorded:", detail),
        EventKind::Guarded => format!(
            "refused by {}{}",
            text(detail, "guard").unwrap_or("a guard"),
            because(detail, "reason")
        ),
        EventKind::Imported => settled("imported as", detail),
        EventKind::Told => told(detail),
    }
}

fn because(detail: &Detail, name: &str) -> String {
    match text(detail, name) {
        Some(reason) => format!(": {reason}"),
        None => String::new(),
    }
}

/// Who called.
fn by(detail: &Detail) -> String {
    let Some(source) = detail.get("source").and_then(Value::as_object) else {
        return String::new();
    };
    format!(" ({})", source_text(source))
}

/// `user@host, pid 12, from cron, label nightly`; what is not known is left out.
pub fn source_text(source: &Detail) -> String {
    let part = |name| text(source, name).filter(|part| !part.is_empty());
    let mut parts = vec![match (part("user"), part("host")) {
        (Some(user), Some(host)) => format!("{user}@{host}"),
        (user, host) => user.or(host).unwrap_or("someone").to_owned(),
    }];
    parts.extend(small_number(source, "pid").map(|pid| format!("pid {pid}")));
    parts.extend(part("parent").map(|parent| format!("from {parent}")));
    parts.extend(part("label").map(|label| format!("label {label}")));
    parts.join(", ")
}

fn decided_by(detail: &Detail) -> String {
    match text(detail, "decided_by") {
        Some(who) => format!(" by {who}"),
        None => String::new(),
    }
}

fn pid(detail: &Detail) -> String {
    match small_number(detail, "pid") {
        Some(pid) => format!(" (pid {pid})"),
        None => String::new(),
    }
}

fn duration(detail: &Detail, name: &str) -> String {
    let ms = detail.get(name).and_then(Value::as_u64).unwrap_or(0);
    length(Duration::from_millis(ms))
}

/// `exit 3`, `signal 9`, or nothing where the command was not started.
fn ending(detail: &Detail) -> Option<String> {
    let code = small_number(detail, "exit_code").map(|code| format!("exit {code}"));
    code.or_else(|| small_number(detail, "signal").map(|signal| format!("signal {signal}")))
}

fn attempt_ended(number: u32, detail: &Detail) -> String {
    let ending = ending(detail).map_or(String::new(), |ending| format!(", {ending}"));
    let class = text(detail, "class").map_or(String::new(), |class| format!(", {class}"));
    // What the command itself wrote to IDEM_CONTROL.
    let note = text(detail, "note").map_or(String::new(), |note| format!("; note: {note}"));
    format!(
        "attempt {number} ended after {}{ending}{class}{}{note}",
        duration(detail, "duration_ms"),
        because(detail, "reason")
    )
}

/// A probe or a cleanup.
fn helper(what: &str, detail: &Detail) -> String {
    let answer = text(detail, "answer").unwrap_or("no answer");
    let ending = ending(detail).map_or(String::new(), |ending| format!(" ({ending})"));
    let command = text(detail, "command").map_or(String::new(), |command| format!(" `{command}`"));
    let trouble = because(detail, "trouble");
    format!("{what}{command}: {answer}{ending}{trouble}")
}

/// Somebody was told of an unknown outcome.
fn told(detail: &Detail) -> String {
    let command = text(detail, "command").map_or(String::new(), |command| format!(" `{command}`"));
    let ending = ending(detail).map_or(String::new(), |ending| format!(", {ending}"));
    format!("on-unknown{command}{ending}{}", because(detail, "trouble"))
}

fn settled(verb: &str, detail: &Detail) -> String {
    let state = text(detail, "state").unwrap_or("settled");
    let ending = ending(detail).map_or(String::new(), |ending| format!(", {ending}"));
    format!(
        "{verb} {state}{ending}{}{}",
        decided_by(detail),
        because(detail, "reason")
    )
}

fn forgotten(detail: &Detail) -> String {
    let state = text(detail, "state").map_or(String::new(), |state| format!(" (was {state})"));
    format!(
        "forgotten{state}{}{}",
        decided_by(detail),
        because(detail, "reason")
    )
}

/// One event as one object. Where an output lies is the store's own business and left out.
pub fn json(event: &Event) -> Value {
    let mut object = json!({
        "at": rfc3339(event.at),
        "scope": event.name.scope.as_str(),
        "key": event.name.key.as_str(),
        "generation": event.generation.0,
        "event": event.kind.word(),
        "source": event.detail.get("source"),
        "attempt": event.attempt,
    });
    if let Some(fields) = object.as_object_mut() {
        for (name, value) in &event.detail {
            fields.insert(name.clone(), public(name, value));
        }
    }
    object
}

fn public(name: &str, value: &Value) -> Value {
    match (name, value.as_object()) {
        ("output", Some(output)) => {
            let mut output = output.clone();
            for private in ["place", "nonce", "number"] {
                output.shift_remove(private);
            }
            output.into()
        }
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{NOON_MS, name};
    use super::*;
    use crate::domain::name::Generation;
    use crate::domain::time::UnixMs;

    fn event(kind: EventKind, detail: Value) -> Event {
        Event {
            id: 1,
            at: UnixMs(NOON_MS),
            name: name("k"),
            generation: Generation(7),
            kind,
            attempt: Some(2),
            detail: detail.as_object().cloned().unwrap_or_default(),
        }
    }

    #[test]
    fn lines_tell_what_happened_and_why() {
        let source =
            json!({"host": "web-1", "user": "deploy", "pid": 4, "parent": "cron", "label": null});
        let said = |kind, detail: Value| what(&event(kind, detail));
        assert_eq!(
            said(
                EventKind::Claimed,
                json!({"why": "there is no record", "source": source})
            ),
            "claimed: there is no record (deploy@web-1, pid 4, from cron)"
        );
        assert_eq!(
            said(EventKind::AttemptStarted, json!({"pid": 5})),
            "attempt 2 started (pid 5)"
        );
        assert_eq!(
            said(
                EventKind::AttemptEnded,
                json!({"duration_ms": 61_000, "signal": 9, "class": "uncertain", "reason": "signal 9 ended it"})
            ),
            "attempt 2 ended after 1m 1s, signal 9, uncertain: signal 9 ended it"
        );
        assert_eq!(
            said(
                EventKind::AttemptEnded,
                json!({"duration_ms": 5, "exit_code": 0, "class": "success", "note": "id 7"})
            ),
            "attempt 2 ended after 5ms, exit 0, success; note: id 7"
        );
        assert_eq!(
            said(
                EventKind::Resolved,
                json!({"state": "failed", "exit_code": 1, "decided_by": "a@b"})
            ),
            "resolved as failed, exit 1 by a@b"
        );
        assert_eq!(
            said(EventKind::Forgotten, json!({"state": "unknown"})),
            "forgotten (was unknown)"
        );
        assert_eq!(
            said(
                EventKind::Probed,
                json!({"command": "./ask", "answer": "it happened", "exit_code": 0})
            ),
            "probe `./ask`: it happened (exit 0)"
        );
        assert_eq!(
            said(
                EventKind::Told,
                json!({"command": "./page", "exit_code": 1})
            ),
            "on-unknown `./page`, exit 1"
        );
        assert_eq!(
            said(
                EventKind::Told,
                json!({"command": "./page", "trouble": "ended after 30 s"})
            ),
            "on-unknown `./page`: ended after 30 s"
        );
    }

    #[test]
    fn every_kind_has_words_even_without_details() {
        for kind in EventKind::ALL {
            assert!(what(&event(kind, json!({}))).len() > 5, "{kind:?}");
        }
    }

    #[test]
    fn a_line_is_one_line() {
        let event = event(EventKind::Claimed, json!({"why": "a\nb\u{1b}[1m"}));
        assert_eq!(
            line(&event, true, Style::PLAIN),
            "2026-11-30T12:00:00.000Z  k  g7  claimed: a\\nb\\u{1b}[1m\n"
        );
    }

    #[test]
    fn the_json_keeps_the_details_but_not_where_outputs_lie() {
        let output = json!({"place": "inline", "nonce": "00", "number": 1, "stdout_bytes": 3});
        let object = json(&event(
            EventKind::Settled,
            json!({"state": "failed", "output": output}),
        ));
        assert_eq!(object["event"], "settled");
        assert_eq!(object["source"], Value::Null);
        assert_eq!(object["output"], json!({"stdout_bytes": 3}));
    }
}
