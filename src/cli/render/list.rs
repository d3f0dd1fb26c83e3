//! The list of operations.

use super::next;
use super::style::{Style, Tone};
use super::table::{Cell, Column, table};
use super::text::printable;
use crate::cli::view::View;
use crate::cli::when::length;
use crate::domain::outcome::State;
use crate::domain::time::{Stamp, Ttl};
use std::time::Duration;

/// One operation of the list.
#[derive(Debug, Clone)]
pub struct Row {
    /// The operation.
    pub view: View,
    /// How long its latest execution took, or takes so far; nothing if the ledger does not tell.
    pub duration: Option<Duration>,
    /// It runs for longer than is usual for its command.
    pub overdue: bool,
}

const SCOPE: Column = Column {
    leaves: Some(4),
    ..Column::cut("scope")
};

const COLUMNS: [Column; 7] = [
    Column::cut_inside("key"),
    Column::fixed("state"),
    Column::leaving("age", 3),
    Column::leaving("duration", 1),
    Column::leaving("attempts", 0),
    Column::leaving("expires", 2),
    Column::fixed("next"),
];

/// The table; nothing where there is no operation. The scope is shown where any has one.
pub fn list(rows: &[Row], now: &Stamp, style: Style) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let scoped = rows.iter().any(has_scope);
    let mut columns: Vec<Column> = Vec::new();
    if scoped {
        columns.push(SCOPE);
    }
    columns.extend(COLUMNS);
    let rows: Vec<Vec<Cell>> = rows
        .iter()
        .map(|row| {
            let mut cells = Vec::new();
            if scoped {
                let scope = row.view.record.name.scope.as_str();
                cells.push(printable(scope).into());
            }
            cells.extend(self::cells(row, now));
            cells
        })
        .collect();
    table(&columns, &rows, style)
}

fn has_scope(row: &Row) -> bool {
    !row.view.record.name.scope.as_str().is_empty()
}

fn cells(row: &Row, now: &Stamp) -> [Cell; 7] {
    let view = &row.view;
    let record = &view.record;
    let state = view.state();
    let (tone, next) = match row.overdue {
        true => (Tone::Alert, "wait; overdue"),
        false => (Tone::of(state), next::in_a_word(view, now)),
    };
    [
        printable(record.name.key.as_str()).into(),
        Cell::toned(state.word(), tone),
        length(record.since.age(now)).into(),
        row.duration.map_or("-".to_owned(), length).into(),
        record.attempts.to_string().into(),
        expires(view, now).into(),
        next.into(),
    ]
}

/// When it will be forgotten, from now.
pub fn expires(view: &View, now: &Stamp) -> String {
    let record = &view.record;
    match (view.state(), record.kept_for()) {
        (State::Running | State::Unknown, _) => "-".to_owned(),
        (_, Ttl::Forever) => "never".to_owned(),
        (_, Ttl::For(_)) if record.expired(now) => "expired".to_owned(),
        (_, Ttl::For(limit)) => length(limit.saturating_sub(record.since.age(now))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{failed, name, now, running, succeeded, unknown, view};
    use super::*;
    use crate::domain::name::Scope;
    use crate::domain::outcome::Class;
    use crate::domain::owner::Liveness;
    use crate::domain::record::Record;

    fn row(record: Record, liveness: Liveness, secs: Option<u64>) -> Row {
        Row {
            view: view(record, liveness),
            duration: secs.map(Duration::from_secs),
            overdue: false,
        }
    }

    #[test]
    fn a_list_has_one_line_for_each() {
        let rows = [
            row(succeeded(), Liveness::Gone, Some(2)),
            row(failed(Class::Permanent, 7), Liveness::Gone, None),
            row(running(), Liveness::OwnerAlive, Some(3600)),
            row(unknown(), Liveness::Gone, Some(90)),
        ];
        let wanted = "\
key       state      age  duration  attempts  expires  next
job/good  succeeded  1h   2s        1         23h
job/bad   failed     1h   -         1         never    look at it
job/now   running    1h   1h        1         -        wait
job/lost  unknown    1h   1m 30s    1         -        resolve
";
        assert_eq!(list(&rows, &now(), Style::PLAIN), wanted);
        assert_eq!(list(&[], &now(), Style::PLAIN), "");
    }

    #[test]
    fn what_takes_too_long_stands_out() {
        let row = Row {
            overdue: true,
            ..row(running(), Liveness::OwnerAlive, Some(3600))
        };
        let wanted = "\
key      state    age  duration  attempts  expires  next
job/now  running  1h   1h        1         -        wait; overdue
";
        assert_eq!(list(&[row], &now(), Style::PLAIN), wanted);
    }

    #[test]
    fn scopes_are_shown_where_there_are_any() {
        let mut scoped = succeeded();
        scoped.name = name("k");
        scoped.name.scope = Scope::new("prod").unwrap();
        let rows = [
            row(scoped, Liveness::Gone, None),
            row(succeeded(), Liveness::Gone, None),
        ];
        let table = list(&rows, &now(), Style::PLAIN);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("scope  key"), "{table}");
        assert!(lines[1].starts_with("prod   k"), "{table}");
        assert!(lines[2].starts_with("       job/good"), "{table}");
    }
}
