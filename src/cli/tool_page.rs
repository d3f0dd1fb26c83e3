//! What is known about a tool, as a page and as JSON.

use super::explain::{codes, says};
use super::stats::command_json;
use super::when::length;
use crate::policy::classify::{On, Row, Tool, Unmatched};
use crate::policy::durations::Summary;
use serde_json::{Value, json};
use std::time::Duration;

/// The width of the column of names.
const NAME_WIDTH: usize = 12;

/// What is known about the tool of a command line.
#[derive(Debug)]
pub struct ToolPage {
    /// The command as it is called where commands are compared.
    pub command: String,
    /// The tool, if the table has it.
    pub tool: Option<&'static Tool>,
    /// Whether its messages of a refusal are believed; nothing where no message depends on the call.
    pub believed: Option<bool>,
    /// What to know about an exit 0.
    pub warning: Option<&'static str>,
    /// How long it has taken in this store.
    pub durations: Option<(String, Summary)>,
}

impl ToolPage {
    /// The page for people.
    pub fn to_text(&self) -> String {
        let mut page = Page(String::new());
        page.put("command", &self.command);
        match self.tool {
            Some(tool) => self.tool(&mut page, tool),
            None => page.put("tool", NO_TOOL),
        }
        page.put("timeout", &self.timeout());
        if let Some(warning) = self.warning {
            page.put("warning", warning);
        }
        page.0
    }

    fn tool(&self, page: &mut Page, tool: &'static Tool) {
        page.put("tool", tool.name);
        for (nth, row) in tool.rows.iter().enumerate() {
            page.put(if nth == 0 { "endings" } else { "" }, &ending(row));
        }
        page.put("otherwise", otherwise(tool));
        if let Some(believed) = self.believed {
            page.put("refusals", refusals(believed));
        }
        let advice = tool.advice();
        let retries = advice.and_then(|advice| advice.retries);
        page.put("its retries", retries.unwrap_or("not known"));
        if let Some(off) = advice.and_then(|advice| advice.switch_off) {
            page.put("off by", off);
        }
        let probe = advice.and_then(|advice| advice.probe);
        page.put("probe", probe.unwrap_or(NO_PROBE));
        if let Some(cleanup) = advice.and_then(|advice| advice.cleanup) {
            page.put(
                "cleanup",
                &format!("{cleanup}   (for what is left of a dead one)"),
            );
        }
    }

    fn timeout(&self) -> String {
        let Some((_, seen)) = &self.durations else {
            return "nothing to suggest: this store knows no run that succeeded".to_owned();
        };
        let suggested = humantime::format_duration(seen.suggested_timeout);
        let p99 = length(Duration::from_millis(seen.p99_ms));
        let cut = match seen.is_cut_short() {
            true => format!(
                "; {} of them were cut off, so the true times are longer",
                seen.cut_off
            ),
            false => String::new(),
        };
        format!(
            "--timeout '{suggested}' (99 of 100 runs took no longer than {p99}, of {} in this store{cut})",
            seen.samples
        )
    }

    /// The object; every field is there, and null where there is nothing to tell.
    pub fn to_json(&self) -> Value {
        let advice = self.tool.and_then(Tool::advice);
        json!({
            "command": self.command,
            "tool": self.tool.map(|tool| tool.name),
            "endings": self.tool.map(|tool| tool.rows.iter().map(row).collect::<Vec<_>>()),
            "otherwise": self.tool.map_or(Unmatched::Default, |tool| tool.unmatched).word(),
            "refusals_believed": self.believed,
            "retries": advice.and_then(|advice| advice.retries),
            "switch_off": advice.and_then(|advice| advice.switch_off),
            "probe": advice.and_then(|advice| advice.probe),
            "cleanup": advice.and_then(|advice| advice.cleanup),
            "durations": self.durations.as_ref().map(command_json),
            "warning": self.warning,
        })
    }
}

const NO_TOOL: &str = "not in the table: a failed exit is final, unless --retries or --retry-on says \
                       otherwise; a signal leaves the outcome unknown";

const NO_PROBE: &str =
    "nothing to suggest: ask for the effect itself, and end with 1 in silence for a no";

struct Page(String);

impl Page {
    fn put(&mut self, name: &str, value: &str) {
        self.0.push_str(&format!("{name:NAME_WIDTH$}{value}\n"));
    }
}

fn ending(row: &Row) -> String {
    let mark = if row.verified { "" } else { " [unverified]" };
    let text = match row.pattern {
        Some(pattern) => format!(", {} has /{pattern}/", stream(row.on)),
        None => String::new(),
    };
    format!(
        "exit {}{text}: {} -> {}{mark}",
        codes(row),
        row.condition,
        says(row.says)
    )
}

fn stream(on: On) -> &'static str {
    match on {
        On::Stderr => "stderr",
        On::Stdout => "stdout",
        On::Either => "either",
    }
}

fn otherwise(tool: &Tool) -> &'static str {
    match tool.unmatched {
        Unmatched::Uncertain => {
            "one of these codes without any of these texts leaves the outcome unknown; any other failed exit is final"
        }
        Unmatched::Default => "any other failed exit is final",
    }
}

fn refusals(believed: bool) -> &'static str {
    match believed {
        true => "believed: called like this it sends one request at most",
        false => {
            "not all are believed: nothing shows that, called like this, it sends one request at most"
        }
    }
}

fn row(row: &Row) -> Value {
    json!({
        "exits": row.exits,
        "stream": row.pattern.map(|_| stream(row.on)),
        "pattern": row.pattern,
        "condition": row.condition,
        "says": says(row.says),
        "verified": row.verified,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::classify::{Classifier, Selection, TOOLS};
    use crate::policy::durations::Durations;

    fn page(line: &str) -> ToolPage {
        let argv: Vec<Vec<u8>> = line.split(' ').map(|w| w.as_bytes().to_vec()).collect();
        let classifier = Classifier::choose(Selection::Auto, &argv);
        let nothing = |_: &str| None;
        ToolPage {
            command: line.to_owned(),
            tool: classifier.as_ref().map(Classifier::tool),
            believed: classifier.as_ref().and_then(|c| c.believed(&nothing)),
            warning: classifier.as_ref().and_then(|c| c.warning(&nothing)),
            durations: None,
        }
    }

    #[test]
    fn every_row_of_every_tool_is_on_its_page() {
        for tool in TOOLS {
            let mut shown = page("true");
            shown.tool = Some(tool);
            let text = shown.to_text();
            for row in tool.rows {
                assert!(text.contains(row.condition), "{}: {text}", tool.name);
            }
            let unverified = tool.rows.iter().filter(|row| !row.verified).count();
            assert_eq!(text.matches("[unverified]").count(), unverified);
            let endings = shown.to_json()["endings"].as_array().map(Vec::len);
            assert_eq!(endings, Some(tool.rows.len()));
        }
    }

    #[test]
    fn the_arguments_show_whether_a_refusal_is_believed() {
        let shown = |line| page(line).to_json()["refusals_believed"].clone();
        assert_eq!(shown("npm publish --fetch-retries=0"), true);
        assert_eq!(shown("npm publish"), false);
        assert_eq!(shown("wget --tries=1 http://localhost/"), true);
        assert_eq!(shown("wget http://localhost/"), false);
        assert_eq!(shown("curl --fail http://localhost/"), true);
        assert_eq!(shown("curl --fail --retry 3 http://localhost/"), false);
        assert_eq!(shown("pip install tool"), Value::Null);
        assert!(page("npm publish").to_text().contains("--fetch-retries=0"));
    }

    #[test]
    fn an_unknown_tool_is_told_as_one() {
        let shown = page("./job --all");
        assert!(shown.to_text().contains("not in the table"));
        assert_eq!(shown.to_json()["tool"], Value::Null);
        assert_eq!(shown.to_json()["otherwise"], "final");
    }

    #[test]
    fn a_timeout_is_suggested_from_what_was_seen() {
        let mut shown = page("curl http://localhost/");
        assert!(shown.to_text().contains("timeout     nothing to suggest"));
        let mut durations = Durations::default();
        (0..10).for_each(|_| durations.add(4_000, false));
        durations.add(6_000, true);
        shown.durations = durations.summary().map(|seen| ("curl".to_owned(), seen));
        let text = shown.to_text();
        assert!(text.contains("--timeout '12s'"), "{text}");
        assert!(text.contains("1 of them were cut off"), "{text}");
        assert_eq!(shown.to_json()["durations"]["suggested_timeout_ms"], 12_000);
        assert!(text.contains("warning     curl without --fail"), "{text}");
    }
}
