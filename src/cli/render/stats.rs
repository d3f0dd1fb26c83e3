//! What was counted, as tables.

use super::style::{Style, Tone};
use super::table::{Cell, Column, table};
use super::text::printable;
use crate::cli::stats::{COUNTERS, Stats};
use crate::cli::when::{length, rfc3339};
use crate::domain::tally::Tally;
use crate::policy::durations::Summary;
use std::time::Duration;

/// The counters, with a column for each scope where there are several, then the commands.
pub fn page(stats: &Stats, style: Style) -> String {
    let mut out = String::new();
    if let Some(since) = stats.since {
        out.push_str(&format!("since {}\n\n", rfc3339(since)));
    }
    out.push_str(&counters(&stats.total(), style));
    if stats.scopes.len() > 1 {
        out.push('\n');
        out.push_str(&scopes(stats, style));
    }
    if !stats.commands.is_empty() {
        out.push('\n');
        out.push_str(&commands(&stats.commands, style));
    }
    out
}

fn counters(total: &Tally, style: Style) -> String {
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for (name, help, count) in COUNTERS {
        let cells = [
            name.replace('_', " "),
            count(total).to_string(),
            lower(help),
        ];
        rows.push(cells.map(Cell::from).to_vec());
    }
    for (reason, times) in total.refusals() {
        let name = format!("refused: {}", reason.replace('_', " "));
        rows.push(vec![name.into(), times.to_string().into(), "".into()]);
    }
    let columns = [
        Column::fixed("counter"),
        Column::fixed("count"),
        Column {
            leaves: Some(0),
            ..Column::cut("meaning")
        },
    ];
    table(&columns, &rows, style)
}

/// As a fragment: the first letter small, no full stop.
fn lower(text: &str) -> String {
    let mut text = text.trim_end_matches('.').to_owned();
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    text
}

fn scopes(stats: &Stats, style: Style) -> String {
    let columns = [
        Column::cut("scope"),
        Column::fixed("executions"),
        Column::fixed("replays"),
        Column::leaving("waits", 2),
        Column::leaving("conflicts", 3),
        Column::leaving("mismatches", 4),
        Column::leaving("retries", 0),
        Column::leaving("timeouts", 1),
        Column::fixed("unknowns"),
        Column::leaving("races lost", 0),
    ];
    let rows: Vec<Vec<Cell>> = stats
        .scopes
        .iter()
        .map(|(scope, tally)| {
            let name = match scope.as_str() {
                "" => "(default)".into(),
                name => printable(name),
            };
            let counts = COUNTERS
                .iter()
                .map(|(_, _, count)| count(tally).to_string());
            std::iter::once(Cell::from(name))
                .chain(counts.map(Cell::from))
                .collect()
        })
        .collect();
    table(&columns, &rows, style)
}

fn commands(commands: &[(String, Summary)], style: Style) -> String {
    let columns = [
        Column::cut("command"),
        Column::fixed("samples"),
        Column::leaving("p50", 0),
        Column::leaving("p90", 1),
        Column::fixed("p99"),
        Column::leaving("cut off", 2),
        Column::fixed("suggested"),
    ];
    let ms = |ms| Cell::from(length(Duration::from_millis(ms)));
    let rows: Vec<Vec<Cell>> = commands
        .iter()
        .map(|(command, summary)| {
            let timeout = humantime::format_duration(summary.suggested_timeout).to_string();
            vec![
                printable(command).into(),
                summary.samples.to_string().into(),
                ms(summary.p50_ms),
                ms(summary.p90_ms),
                ms(summary.p99_ms),
                Cell::toned(summary.cut_off.to_string(), cut_tone(summary)),
                format!("--timeout {}", timeout.replace(' ', "")).into(),
            ]
        })
        .collect();
    let mut out = table(&columns, &rows, style);
    for (command, summary) in commands
        .iter()
        .filter(|(_, summary)| summary.is_cut_short())
    {
        out.push_str(&format!(
            "{}: {} of {} attempts were cut off, so it takes longer than this shows\n",
            printable(command),
            summary.cut_off,
            summary.samples
        ));
    }
    out
}

fn cut_tone(summary: &Summary) -> Tone {
    match summary.is_cut_short() {
        true => Tone::Alert,
        false => Tone::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::stats::tests::some;

    #[test]
    fn everything_is_shown_and_fits() {
        let wide = page(&some(), Style::PLAIN);
        for part in [
            "replays            80     stored results",
            "refused: mismatch  2",
            "(default)",
            "git push  10       1s   1s   9s   1        --timeout 18s",
            "git push: 1 of 10 attempts were cut off",
        ] {
            assert!(wide.contains(part), "{part}\n{wide}");
        }
        let narrow = Style {
            colour: false,
            columns: Some(80),
        };
        let page = page(&some(), narrow);
        let longest = page.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(80), "{page}");
    }
}
