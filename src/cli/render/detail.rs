//! The page of one operation: what it is, how it went, and what to do next.

use super::fold::{self, Place};
use super::list::expires;
use super::next;
use super::style::{Style, Tone};
use super::table::{Cell, Column, table};
use super::text::{command, printable, printable_bytes, width};
use super::timeline::source_text;
use crate::cli::attempts::Attempt;
use crate::cli::view::View;
use crate::cli::when::{age, length, rfc3339};
use crate::domain::outcome::State;
use crate::domain::record::{self, OutputRef, Record};
use crate::domain::time::{Stamp, UnixMs};
use crate::engine::ledger::source_value;
use std::time::Duration;

/// The most bytes of a preview that the page shows.
const SHOWN_PREVIEW_BYTES: usize = 2000;

/// The page. Commands and reasons are never cut, but folded: they are there to be read and pasted. `overdue` is how
/// long its command may take, if it has run for longer than that.
pub fn page(
    view: &View,
    attempts: &[Attempt],
    overdue: Option<Duration>,
    now: &Stamp,
    style: Style,
) -> String {
    let mut out = String::new();
    let state = view.state();
    let title = printable(view.record.name.key.as_str());
    let headline = headline(view, now);
    let columns = style.columns.unwrap_or(usize::MAX);
    let gap = match width(&title) + 2 + width(&headline) <= columns {
        true => "  ",
        false => "\n  ",
    };
    let title = fold::prose(&title, place(style, 0, 2));
    out.push_str(&format!(
        "{}{gap}{}\n",
        style.paint(Tone::Bold, &title),
        style.paint(Tone::of(state), &headline)
    ));
    push_facts(&mut out, &facts(view, overdue, now), style);
    if !attempts.is_empty() {
        out.push_str(&format!("\n{}\n", style.paint(Tone::Bold, "attempts")));
        push_attempts(&mut out, attempts, style);
    }
    push_preview(&mut out, &view.record, style);
    push_steps(&mut out, view, now, style);
    out
}

fn headline(view: &View, now: &Stamp) -> String {
    let record = &view.record;
    let state = view.state().word();
    let ending = match (view.state(), record.exit_code) {
        (State::Succeeded | State::Failed, Some(code)) => format!(", exit {code}"),
        _ => String::new(),
    };
    format!("{state}{ending}, {}", age(record.since.age(now)))
}

type Fact = (&'static str, String);

/// The fact that is a command.
const COMMAND: &str = "command";

fn place(style: Style, first: usize, indent: usize) -> Place {
    Place {
        columns: style.columns,
        first,
        indent,
    }
}

fn facts(view: &View, overdue: Option<Duration>, now: &Stamp) -> Vec<Fact> {
    let record = &view.record;
    let mut facts: Vec<Fact> = Vec::new();
    let mut put = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    let scope = record.name.scope.as_str();
    put("reason", view.reason());
    put("overdue", overdue.map(unusual));
    put("scope", (!scope.is_empty()).then(|| scope.to_owned()));
    put(COMMAND, Some(argv(record)));
    put("directory", Some(printable_bytes(&record.command.cwd)));
    put("output", record.output.as_ref().map(output));
    let began = match record.state {
        State::Held => "proposed",
        _ => "started",
    };
    put(began, Some(moment(record.created_at)));
    put("ended", view.settled_at().map(moment));
    put("expires", expiry(view, now));
    put("retry at", record.retry_at.map(moment));
    put("owner", owner(view));
    put("caller", caller(record));
    put("decided by", record.decided_by.clone());
    put(
        "verdict",
        record
            .proposal
            .as_ref()
            .map(|proposal| proposal.verdict.word().to_owned()),
    );
    put("generation", Some(record.generation.to_string()));
    put("fingerprint", Some(record.fingerprint.hex()));
    facts
}

fn unusual(limit: Duration) -> String {
    format!(
        "longer than {}, twice what 99 of 100 such commands take at most",
        length(limit)
    )
}

fn argv(record: &Record) -> String {
    match &record.command.argv {
        Some(argv) => command(argv),
        None => "not stored, only its digest".to_owned(),
    }
}

fn moment(at: UnixMs) -> String {
    rfc3339(at)
}

fn output(output: &OutputRef) -> String {
    let mut text = format!(
        "{} bytes of stdout, {} of stderr",
        output.stdout_bytes, output.stderr_bytes
    );
    let stored =
        output.place != record::Place::Nowhere || output.stdout_bytes + output.stderr_bytes == 0;
    text.push_str(match (output.lost, output.truncated, stored) {
        (true, _, _) => ", which could not be stored",
        (false, _, false) => ", not stored",
        (false, true, true) => "; the stored copy is cut there",
        (false, false, true) => "",
    });
    text
}

fn expiry(view: &View, now: &Stamp) -> Option<String> {
    let left = expires(view, now);
    match (left.as_str(), view.record.expires_at()) {
        ("-", _) => None,
        ("expired", Some(at)) => Some(format!("{} (expired)", moment(at))),
        (_, Some(at)) => Some(format!("{} (in {left})", moment(at))),
        (_, None) => Some(left),
    }
}

fn owner(view: &View) -> Option<String> {
    let owner = view.record.owner.as_ref()?;
    if view.state() == State::Succeeded || view.state() == State::Failed {
        return None;
    }
    let keeper = format!("pid {}", owner.keeper.pid);
    Some(match (view.owner_alive(), view.survivors()) {
        (true, _) => keeper,
        (false, Some([])) => format!("{keeper}, gone; something of it is still at work"),
        (false, Some(pids)) => {
            let pids: Vec<String> = pids.iter().map(i32::to_string).collect();
            format!("{keeper}, gone; still at work: pid {}", pids.join(", "))
        }
        (false, None) => format!("{keeper}, gone"),
    })
}

fn caller(record: &Record) -> Option<String> {
    source_value(&record.source).as_object().map(source_text)
}

fn push_facts(out: &mut String, facts: &[Fact], style: Style) {
    let widest = facts.iter().map(|(name, _)| width(name)).max().unwrap_or(0);
    for (name, value) in facts {
        let padded = format!("{name:widest$}");
        let place = place(style, widest + 4, widest + 4);
        let value = match *name {
            COMMAND => fold::command(value, place),
            _ => fold::prose(&printable(value), place),
        };
        out.push_str(&format!(
            "  {}  {value}\n",
            style.paint(Tone::Faint, &padded)
        ));
    }
}

const ATTEMPT_COLUMNS: [Column; 5] = [
    Column::fixed("  number"),
    Column::leaving("started", 0),
    Column::leaving("took", 1),
    Column::fixed("end"),
    Column::cut("what it tells"),
];

fn push_attempts(out: &mut String, attempts: &[Attempt], style: Style) {
    let rows: Vec<Vec<Cell>> = attempts.iter().map(attempt_cells).collect();
    out.push_str(&table(&ATTEMPT_COLUMNS, &rows, style));
}

/// An attempt's number as `idem output --attempt` takes it: generation and number.
fn attempt_cells(attempt: &Attempt) -> Vec<Cell> {
    let took = attempt
        .duration_ms
        .map(|ms| length(Duration::from_millis(ms)));
    let class = attempt.class.map(|class| class.word());
    let tells: Vec<&str> = class.into_iter().chain(attempt.reason.as_deref()).collect();
    vec![
        format!("  {}.{}", attempt.generation, attempt.number).into(),
        attempt.started_at.map_or("-".to_owned(), moment).into(),
        took.unwrap_or_else(|| "-".to_owned()).into(),
        ending(attempt).into(),
        printable(&tells.join(": ")).into(),
    ]
}

fn ending(attempt: &Attempt) -> String {
    match (attempt.exit_code, attempt.signal) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "-".to_owned(),
    }
}

fn push_preview(out: &mut String, record: &Record, style: Style) {
    let Some(proposal) = record.proposal.as_ref().filter(|p| !p.preview.is_empty()) else {
        return;
    };
    out.push_str(&format!("\n{}\n", style.paint(Tone::Bold, "preview")));
    let end = proposal.preview.len().min(SHOWN_PREVIEW_BYTES);
    let shown = String::from_utf8_lossy(proposal.preview.get(..end).unwrap_or_default());
    for line in shown.lines() {
        let line = fold::prose(&printable(line), place(style, 2, 4));
        out.push_str(&format!("  {line}\n"));
    }
    if end < proposal.preview.len() {
        out.push_str("  … (whole in --json)\n");
    }
}

fn push_steps(out: &mut String, view: &View, now: &Stamp, style: Style) {
    out.push_str(&format!("\n{}\n", style.paint(Tone::Bold, "next")));
    for step in next::steps(view, now) {
        match step.command {
            Some(command) => {
                let command = fold::command(&command, place(style, 4, 6));
                out.push_str(&format!("  {}:\n    {command}\n", step.about));
            }
            None => out.push_str(&format!("  {}\n", step.about)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{attempt, failed, now, running, succeeded, view};
    use super::*;
    use crate::domain::outcome::Class;
    use crate::domain::owner::Liveness;

    fn shown(record: Record, liveness: Liveness, attempts: &[Attempt]) -> String {
        let view = view(record, liveness);
        page(&view, attempts, None, &now(), Style::PLAIN)
    }

    #[test]
    fn what_takes_too_long_is_said() {
        let view = view(running(), Liveness::OwnerAlive);
        let limit = Some(Duration::from_secs(90));
        let page = page(&view, &[], limit, &now(), Style::PLAIN);
        assert!(
            page.contains("  overdue      longer than 1m 30s, "),
            "{page}"
        );
    }

    #[test]
    fn the_page_of_a_success() {
        let wanted = format!(
            r"job/good  succeeded, exit 0, 1h ago
  reason       it returned 0
  command      echo $'\xff'
  directory    /srv/app
  output       4 bytes of stdout, 0 of stderr
  started      2026-11-30T11:59:58.000Z
  ended        2026-11-30T12:00:00.000Z
  expires      2026-12-01T12:00:00.000Z (in 23h)
  caller       deploy@web-1, pid 40, from cron
  generation   3
  fingerprint  {}

attempts
  number  started                   took  end     what it tells
  3.1     2026-11-30T11:59:58.000Z  2s    exit 0  success: it returned 0

next
  see its output again:
    idem output job/good
  make the next call run it again:
    idem forget job/good
",
            "ab".repeat(32)
        );
        assert_eq!(shown(succeeded(), Liveness::Gone, &[attempt(3, 1)]), wanted);
    }

    #[test]
    fn what_runs_without_its_keeper_says_so() {
        let page = shown(running(), Liveness::TreeAlive { pids: vec![7, 9] }, &[]);
        assert!(page.starts_with("job/now  running, 1h ago\n"), "{page}");
        assert!(
            page.contains("owner        pid 41, gone; still at work: pid 7, 9"),
            "{page}"
        );
        let page = shown(running(), Liveness::Gone, &[]);
        assert!(page.contains("job/now  unknown, 1h ago"), "{page}");
        assert!(page.contains("owner        pid 41, gone\n"), "{page}");
    }

    #[test]
    fn a_failure_that_stays_says_how_to_run_again() {
        let page = shown(failed(Class::Permanent, 7), Liveness::Gone, &[]);
        assert!(page.contains("failed, exit 7"), "{page}");
        assert!(page.contains("expires      never"), "{page}");
        assert!(
            page.contains(r"idem run --key=job/bad --if-failed rerun -- echo $'\xff'"),
            "{page}"
        );
    }

    #[test]
    fn controls_in_what_is_stored_are_written_out() {
        let mut record = succeeded();
        record.reason = Some("a\nb\u{1b}c".into());
        record.command.cwd = b"/a\nb".to_vec();
        record.source.parent = "\u{7}".into();
        let page = shown(record, Liveness::Gone, &[]);
        let odd = page.chars().filter(|c| c.is_control() && *c != '\n');
        assert_eq!(odd.count(), 0, "{page}");
        assert!(page.contains(r"a\nb\u{1b}c"), "{page}");
    }
}
