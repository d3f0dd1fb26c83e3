//! From the evidence to a class.

use std::time::Duration;

use super::super::outcome::Verdict;
use super::super::retry_after;
use super::evidence::{Collector, Evidence, Line};
use super::invocation::{Invocation, Lookup, Peeled, base_name, peel, subcommand, unversioned};
use super::{Proof, Row, Says, Selection, TOOLS, Tool, Unmatched, proof};
use crate::domain::outcome::{Class, Exit};
use crate::domain::time::UnixMs;

/// The classifier of one command line.
#[derive(Debug)]
pub struct Classifier {
    tool: &'static Tool,
    named: bool,
    /// Whether the command line runs the tool itself.
    known: bool,
    peeled: Peeled,
}

/// What one line, or the code alone, says.
struct Finding {
    class: Class,
    condition: &'static str,
    http_status: Option<u16>,
    /// It would have been safe or throttled, had the tool been known to send one request.
    unproven: bool,
    warn: bool,
}

/// What all the lines say together.
struct Weighing<'a> {
    invocation: Invocation<'a>,
    /// Some line shows that more than one request was sent.
    repeated: bool,
    code: u8,
}

impl Classifier {
    /// The classifier that the option asks for, if this command line has one.
    pub fn choose(selection: Selection, argv: &[Vec<u8>]) -> Option<Classifier> {
        let peeled = peel(argv).unwrap_or_default();
        let found = find(&peeled);
        let (tool, named) = match selection {
            Selection::None => return None,
            Selection::Named(tool) => (tool, true),
            Selection::Auto => (found?, false),
        };
        Some(Classifier {
            tool,
            named,
            known: found == Some(tool),
            peeled,
        })
    }

    /// The tool whose rows count.
    pub fn tool(&self) -> &'static Tool {
        self.tool
    }

    /// What looks at the output of an attempt.
    pub fn collector(&self) -> Collector {
        Collector::new(self.tool)
    }

    /// What an attempt's ending means, or nothing when the tool has nothing to say about it. `now` is
    /// what a date in Retry-After is relative to.
    pub fn verdict(
        &self,
        exit: Exit,
        evidence: &Evidence,
        environment: Lookup,
        now: UnixMs,
    ) -> Option<Verdict> {
        let Exit::Code(code) = exit else {
            return None;
        };
        let code = u8::try_from(code).ok()?;
        let invocation = self.invocation(environment);
        if let Some(finding) = self.timeout_code(code) {
            return Some(self.tell(finding, None));
        }
        if code == 0 && !self.named {
            return self.success(&invocation);
        }
        let weighing = Weighing {
            repeated: repeated(self.tool, evidence, code),
            invocation,
            code,
        };
        let finding = weighing.worst(self.tool, evidence);
        match finding {
            None if code == 0 => self.success(&weighing.invocation),
            None => None,
            Some(finding) => {
                let hint = evidence.retry_after.as_deref();
                let hint = hint.and_then(|value| retry_after::parse(value, now));
                Some(self.tell(finding, hint))
            }
        }
    }

    /// Whether the call shows that the tool sends one request at most, so that its messages of a refusal
    /// are believed; nothing for a tool of which no message depends on that.
    pub fn believed(&self, environment: Lookup) -> Option<bool> {
        let invocation = self.invocation(environment);
        let claims = self.tool.rows.iter().filter_map(|row| match row.says {
            Says::Class(Class::Safe | Class::Throttled, proof) => Some(proof),
            Says::Http(proof) | Says::Tunnel(proof) => Some(proof),
            _ => None,
        });
        claims.map(|proof| proof(&invocation)).reduce(|a, b| a && b)
    }

    /// What to know about an exit 0, from the arguments alone.
    pub fn warning(&self, environment: Lookup) -> Option<&'static str> {
        (self.tool.warning)(&self.invocation(environment))
    }

    fn invocation<'a>(&'a self, environment: Lookup<'a>) -> Invocation<'a> {
        let args = self.peeled.argv.get(1..).unwrap_or_default();
        Invocation {
            args: if self.known { args } else { &[] },
            known: self.known,
            named: self.named,
            assignments: &self.peeled.assignments,
            environment_changed: self.peeled.environment_changed,
            environment,
        }
    }

    /// An exit 0 that a careful user should look at twice.
    fn success(&self, invocation: &Invocation) -> Option<Verdict> {
        let warning = (self.tool.warning)(invocation)?;
        Some(Verdict {
            class: Class::Success,
            reason: "exit code 0".to_owned(),
            retry_after: None,
            http_status: None,
            warning: Some(warning.to_owned()),
        })
    }

    /// What `timeout` around the tool says: it ended the tool, or it was used wrongly.
    fn timeout_code(&self, code: u8) -> Option<Finding> {
        if !self.peeled.timeout || !matches!(code, 124 | 125 | 137) {
            return None;
        }
        let tool = Tool::named("timeout")?;
        let row = tool.rows.iter().find(|row| row.covers(code))?;
        let Says::Class(class, _) = row.says else {
            return None;
        };
        Some(Finding::plain(class, row.condition))
    }

    fn tell(&self, finding: Finding, hint: Option<Duration>) -> Verdict {
        let tool = self.tool.name;
        let mut reason = match finding.http_status {
            Some(status) => format!("{tool}: HTTP {status}"),
            None => format!("{tool}: {}", finding.condition),
        };
        if finding.unproven {
            reason.push_str(", but something may have happened before");
        }
        if finding.http_status == Some(409) {
            reason.push_str(", perhaps because it is already there");
        }
        Verdict {
            class: finding.class,
            warning: finding.warn.then(|| reason.clone()),
            reason,
            retry_after: hint,
            http_status: finding.http_status,
        }
    }
}

/// The tool that a peeled command line runs.
fn find(peeled: &Peeled) -> Option<&'static Tool> {
    let fallback = || Tool::named("timeout").filter(|_| peeled.timeout);
    let (command, args) = peeled.argv.split_first()?;
    let base = base_name(command);
    let mut fitting = TOOLS.iter().copied().filter(|tool| tool.runs(base, args));
    fitting.next().or_else(fallback)
}

impl Tool {
    fn runs(&self, base: &[u8], args: &[Vec<u8>]) -> bool {
        let is = |name: &[u8]| self.commands.iter().any(|c| c.as_bytes() == name);
        if !(is(base) || is(unversioned(base))) {
            return false;
        }
        if self.name == "bash" {
            return runs_script(args);
        }
        let wanted = |sub: &[u8]| self.subcommands.iter().any(|s| s.as_bytes() == sub);
        self.subcommands.is_empty() || subcommand(args, self.valued).is_some_and(wanted)
    }
}

/// A shell that is given a file. With `-c` it runs a line, which is many commands of the caller's.
fn runs_script(args: &[Vec<u8>]) -> bool {
    let mut before_file = args
        .iter()
        .take_while(|a| a.starts_with(b"-") || a.starts_with(b"+"));
    let line = before_file.any(|a| !a.starts_with(b"--") && a.contains(&b'c'));
    !line && args.iter().any(|a| !a.starts_with(b"-"))
}

/// Whether some line shows that the tool sent more than one request.
fn repeated(tool: &Tool, evidence: &Evidence, code: u8) -> bool {
    let lines = evidence.lines.iter();
    let mut shows = lines.flat_map(|line| {
        line.rows
            .iter()
            .filter_map(move |at| Some((*at, tool.rows.get(*at)?, line)))
    });
    shows.any(|(at, row, line)| match row.says {
        Says::Repeats => row.covers(code),
        Says::OtherCode => line.number_of(at).is_some_and(|n| n != u16::from(code)),
        _ => false,
    })
}

impl Finding {
    fn plain(class: Class, condition: &'static str) -> Finding {
        Finding {
            class,
            condition,
            http_status: None,
            unproven: false,
            warn: false,
        }
    }
}

impl Weighing<'_> {
    /// The worst of what the lines say; what the code alone says only counts when no line fits.
    fn worst(&self, tool: &Tool, evidence: &Evidence) -> Option<Finding> {
        if evidence.overflow && self.code != 0 {
            let condition = "more kinds of messages than can be told apart";
            return Some(Finding::plain(Class::Uncertain, condition));
        }
        let by_lines = evidence.lines.iter().filter_map(|line| {
            let mut rows = line
                .rows
                .iter()
                .filter_map(|at| Some((*at, tool.rows.get(*at)?)));
            rows.find_map(|(at, row)| self.finding(row, Some((line, at))))
        });
        // Among equals the first row of the table.
        let worst = by_lines.rev().max_by_key(|f| weight(f.class));
        worst.or_else(|| self.by_code(tool))
    }

    fn by_code(&self, tool: &Tool) -> Option<Finding> {
        let mut alone = tool.rows.iter().filter(|row| row.pattern.is_none());
        let found = alone.find_map(|row| self.finding(row, None));
        let silent = || {
            let uncertain = tool.unmatched == Unmatched::Uncertain;
            let known = self.code != 0 && uncertain && tool.knows(self.code);
            known.then(|| {
                Finding::plain(Class::Uncertain, "nothing in its output says what happened")
            })
        };
        found.or_else(silent)
    }

    /// What a row that fits says, if it speaks of this code and is an ending of its own. A row with a
    /// pattern comes with the line that fits and the row's position.
    fn finding(&self, row: &Row, found: Option<(&Line, usize)>) -> Option<Finding> {
        if !row.covers(self.code) {
            return None;
        }
        let plain = |class| Finding::plain(class, row.condition);
        let number = || found.and_then(|(line, at)| line.number_of(at));
        match row.says {
            Says::Class(class, proof) => Some(self.prove(plain(class), proof)),
            Says::About(class, subject) => {
                let captured = found.and_then(|(line, at)| line.captured_by(at));
                let own = captured.is_some_and(|c| subject(&self.invocation, c));
                let proof: Proof = if own { proof::always } else { proof::never };
                Some(self.prove(plain(class), proof))
            }
            Says::Http(proof) => {
                let status = number()?;
                let finding = Finding {
                    http_status: Some(status),
                    ..plain(by_status(status))
                };
                Some(self.prove(finding, proof))
            }
            Says::Tunnel(_) if number()? < 500 => Some(plain(Class::Permanent)),
            Says::Tunnel(proof) => Some(self.prove(plain(Class::Safe), proof)),
            Says::Fine(proof) => proof(&self.invocation).then(|| Finding {
                warn: true,
                ..plain(Class::Success)
            }),
            Says::Repeats | Says::OtherCode => None,
        }
    }

    /// Safe and throttled say that nothing happened: without proof nobody knows. A permanent one
    /// needs none but its own.
    fn prove(&self, finding: Finding, proof: Proof) -> Finding {
        let claims_nothing = matches!(finding.class, Class::Safe | Class::Throttled);
        let doubtful = (claims_nothing && self.repeated) || !proof(&self.invocation);
        let needed = finding.http_status.is_none() || claims_nothing;
        if !(doubtful && needed) {
            return finding;
        }
        Finding {
            class: Class::Uncertain,
            unproven: true,
            ..finding
        }
    }
}

/// The higher, the less may be concluded from it.
fn weight(class: Class) -> u8 {
    match class {
        Class::Success => 0,
        Class::Safe => 1,
        Class::Throttled => 2,
        Class::Retryable => 3,
        Class::Permanent => 4,
        Class::Uncertain => 5,
    }
}

/// What an HTTP status says about the request (RFC 9110, section 15). A timeout or an error of the
/// server's may have come after the effect; any other refusal is one.
fn by_status(status: u16) -> Class {
    match status {
        429 => Class::Throttled,
        408 | 500..=599 => Class::Uncertain,
        300..=499 => Class::Permanent,
        _ => Class::Uncertain,
    }
}
