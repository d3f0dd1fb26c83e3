//! The explanation as a page for people.

use super::Explanation;
use crate::cli::quote;
use crate::cli::when::{length, rfc3339};
use crate::domain::outcome::Class;
use crate::domain::time::Ttl;
use crate::policy::classify::{Row, Says};

/// The width of the column of names.
const NAME_WIDTH: usize = 12;

/// The page.
pub fn page(explained: &Explanation<'_>) -> String {
    let mut page = Page(String::new());
    identity(&mut page, explained);
    decision(&mut page, explained);
    retries(&mut page, explained);
    for guard in &explained.guards {
        page.put(guard.kind, &format!("{} {}", guard.name, guard.stands));
    }
    classifier(&mut page, explained);
    given(&mut page, explained);
    page.blank();
    page.ask("what is the key?", &explained.the_key());
    page.ask("where is the state?", &explained.the_place());
    page.ask("what happens after a timeout?", &explained.after_timeout());
    let warnings = explained.warnings();
    if !warnings.is_empty() {
        page.blank();
    }
    for warning in warnings {
        page.ask("warning:", &warning);
    }
    page.0
}

struct Page(String);

impl Page {
    fn put(&mut self, name: &str, value: &str) {
        self.0.push_str(&format!("{name:NAME_WIDTH$}{value}\n"));
    }

    fn ask(&mut self, question: &str, answer: &str) {
        self.0.push_str(&format!("{question} {answer}\n"));
    }

    fn blank(&mut self) {
        self.0.push('\n');
    }
}

fn identity(page: &mut Page, explained: &Explanation<'_>) {
    let named = explained.named;
    page.put(
        "key",
        &format!("{} ({})", named.name.key, explained.key_from),
    );
    if !named.name.scope.as_str().is_empty() {
        page.put("scope", named.name.scope.as_str());
    }
    if let Some((starts_at, ends_at)) = named.period {
        let (from, until) = (rfc3339(starts_at), rfc3339(ends_at));
        page.put("period", &format!("from {from} until {until}"));
    }
    let missing = if explained.store_exists {
        ""
    } else {
        " (not there yet)"
    };
    page.put("store", &format!("{}{missing}", explained.store));
    let expiry = explained
        .expiry()
        .map_or_else(String::new, |expiry| format!("; {expiry}"));
    page.put("record", &format!("{}{expiry}", explained.record()));
}

fn decision(page: &mut Page, explained: &Explanation<'_>) {
    if let Some(first) = explained.first() {
        page.put("first", &first);
    }
    page.put("would", &explained.would());
    page.put("because", &explained.because());
    for guard in explained.refused_by() {
        let refused = format!("{} {} would refuse it (exit 123)", guard.kind, guard.name);
        page.put("but", &refused);
    }
}

fn retries(page: &mut Page, explained: &Explanation<'_>) {
    let plan = explained.plan;
    let schedule = explained.schedule();
    page.put(
        "executions",
        &format!("{} at most", explained.most_executions()),
    );
    let pauses: Vec<String> = schedule
        .pauses
        .iter()
        .map(|(low, high)| range(*low, *high))
        .collect();
    if !pauses.is_empty() {
        let more = if pauses.len() < schedule.retries as usize {
            ", …"
        } else {
            ""
        };
        let total = range(schedule.total.0, schedule.total.1);
        page.put(
            "pauses",
            &format!("{}{more}; {total} together", pauses.join(", ")),
        );
    }
    if let Some(timeout) = plan.limits.timeout {
        page.put("timeout", &format!("{} for each attempt", length(timeout)));
    }
    if let Some(left) = explained.deadline_left {
        page.put("deadline", &format!("in {}", length(left)));
    }
    let (ttl, failed_ttl) = (kept(plan.ttl), kept(plan.failed_ttl));
    page.put(
        "kept",
        &format!("a success {ttl}, a final failure {failed_ttl}"),
    );
}

fn range(low: std::time::Duration, high: std::time::Duration) -> String {
    if low == high {
        length(low)
    } else {
        format!("{} to {}", length(low), length(high))
    }
}

fn kept(ttl: Ttl) -> String {
    match ttl {
        Ttl::For(ttl) => length(ttl),
        Ttl::Forever => "forever".to_owned(),
    }
}

fn classifier(page: &mut Page, explained: &Explanation<'_>) {
    let Some(tool) = explained.classifier else {
        page.put("classifier", "none: the exit code and the options decide");
        return;
    };
    let unverified = tool.rows.iter().filter(|row| !row.verified).count();
    let count = tool.rows.len();
    page.put(
        "classifier",
        &format!("{} ({count} rows, {unverified} unverified)", tool.name),
    );
    for row in tool.rows {
        page.put("", &format!("  {}", row_text(row)));
    }
}

/// The options that count, and where each was given.
fn given(page: &mut Page, explained: &Explanation<'_>) {
    for (nth, one) in explained.given.iter().enumerate() {
        let name = if nth == 0 { "options" } else { "" };
        let value = quote::shell(&one.value);
        page.put(name, &format!("{} = {value} ({})", one.option, one.origin));
    }
}

fn row_text(row: &Row) -> String {
    let mark = if row.verified { "" } else { " [unverified]" };
    format!(
        "exit {}: {} -> {}{mark}",
        codes(row),
        row.condition,
        says(row.says)
    )
}

/// The exit codes of a row, as `1,100-110`.
pub fn codes(row: &Row) -> String {
    let codes: Vec<String> = row
        .exits
        .iter()
        .map(|(low, high)| match low == high {
            true => low.to_string(),
            false => format!("{low}-{high}"),
        })
        .collect();
    codes.join(",")
}

/// What a row means, as a fragment.
pub fn says(says: Says) -> String {
    match says {
        Says::Class(class @ (Class::Safe | Class::Throttled), _) => {
            format!("{}, if one request at most was sent", class.word())
        }
        Says::Class(class, _) => class.word().to_owned(),
        Says::About(class, _) => {
            format!("{}, if it is about what was called for", class.word())
        }
        Says::Http(_) => "by its HTTP status".to_owned(),
        Says::Tunnel(_) => "by the proxy's HTTP status".to_owned(),
        Says::Fine(_) => "success, if the arguments say so".to_owned(),
        Says::Repeats | Says::OtherCode => "more than one request was sent".to_owned(),
    }
}
