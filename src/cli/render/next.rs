//! What to do next about an operation: in a word for the list, with commands for its page.

use super::text;
use crate::cli::quote;
use crate::cli::view::View;
use crate::domain::outcome::{Class, State};
use crate::domain::record::{Proposal, Record, Verdict};
use crate::domain::time::Stamp;

/// One thing that can be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// When, or what for.
    pub about: &'static str,
    /// The command, to be pasted into a shell; none where waiting or looking is all.
    pub command: Option<String>,
}

/// What to do, in a word or two; empty where there is nothing to do.
pub fn in_a_word(view: &View, now: &Stamp) -> &'static str {
    match view.state() {
        State::Succeeded => "",
        State::Running => "wait",
        State::Unknown => "resolve",
        State::Held => held_word(&view.record, now),
        State::Failed if view.expired(now) => "run again",
        State::Failed => match view.record.class {
            _ if cannot_start(&view.record) => "correct it",
            Some(Class::Safe | Class::Throttled | Class::Retryable) => "run again",
            _ => "look at it",
        },
    }
}

fn held_word(record: &Record, now: &Stamp) -> &'static str {
    match record.proposal.as_ref().map(|proposal| proposal.verdict) {
        Some(Verdict::Rejected) => "forget it",
        _ if record.expired(now) => "forget it",
        Some(Verdict::Approved) => "run again",
        Some(Verdict::Pending) | None => "approve",
    }
}

/// Exit codes 126 and 127 are those of a command that cannot be invoked or is not found.
fn cannot_start(record: &Record) -> bool {
    record.class == Some(Class::Safe) && matches!(record.exit_code, Some(126 | 127))
}

/// What can be done, the most likely first.
pub fn steps(view: &View, now: &Stamp) -> Vec<Step> {
    let record = &view.record;
    match view.state() {
        State::Succeeded => vec![
            verb("see its output again", "output", record),
            verb("make the next call run it again", "forget", record),
        ],
        State::Running => running(view),
        State::Unknown => unknown(record),
        State::Held => held(record, record.proposal.as_ref(), now),
        State::Failed if view.expired(now) => vec![run("run it again", "", record)],
        State::Failed => failed(record),
    }
}

fn step(about: &'static str, command: String) -> Step {
    Step {
        about,
        command: Some(command),
    }
}

fn verb(about: &'static str, verb: &str, record: &Record) -> Step {
    step(
        about,
        format!("idem {verb} {}", quote::operation(&record.name)),
    )
}

/// A verb with an option, which stands last where the key allows that.
fn verb_with(about: &'static str, verb: &str, option: &str, record: &Record) -> Step {
    let operation = quote::operation(&record.name);
    let dashed = record.name.key.as_str().starts_with('-');
    let command = match dashed {
        true => format!("idem {verb} {option} {operation}"),
        false => format!("idem {verb} {operation} {option}"),
    };
    step(about, command)
}

/// `idem run` for the same operation. A key is a template, so its braces are doubled.
fn run(about: &'static str, options: &str, record: &Record) -> Step {
    let key = record.name.key.as_str();
    let template = key.replace('{', "{{").replace('}', "}}");
    let mut command = String::from("idem run");
    if !record.name.scope.as_str().is_empty() {
        let scope = quote::shell(record.name.scope.as_str());
        command.push_str(&format!(" --scope={scope}"));
    }
    command.push_str(&format!(" --key={}", quote::shell(&template)));
    if !options.is_empty() {
        command.push_str(&format!(" {options}"));
    }
    let argv = record.command.argv.as_deref().map(text::command);
    command.push_str(&format!(" -- {}", argv.as_deref().unwrap_or("COMMAND")));
    step(about, command)
}

fn running(view: &View) -> Vec<Step> {
    let record = &view.record;
    let mut steps = vec![verb("wait for its end", "wait", record)];
    if let Some(pids @ [_, ..]) = view.survivors() {
        let pids: Vec<String> = pids.iter().map(i32::to_string).collect();
        steps.push(step(
            "or look at what is left of it",
            format!("ps -fp {}", pids.join(",")),
        ));
    }
    steps
}

fn unknown(record: &Record) -> Vec<Step> {
    let resolve = |about, answer| verb_with(about, "resolve", answer, record);
    vec![
        resolve("if it happened", "--succeeded"),
        resolve("if it did not, and is to run again", "--not-done"),
        resolve("if it did not, and is final", "--failed"),
        run("let a command find out", "--probe CMD", record),
        run("if it may run twice", "--if-unknown rerun", record),
    ]
}

fn held(record: &Record, proposal: Option<&Proposal>, now: &Stamp) -> Vec<Step> {
    let operation = quote::operation(&record.name);
    let forget = |about| step(about, format!("idem forget --force {operation}"));
    match proposal.map(|proposal| proposal.verdict) {
        Some(Verdict::Rejected) => vec![forget("make room for a new proposal")],
        _ if record.expired(now) => vec![forget("it has expired: make room for a new proposal")],
        Some(Verdict::Approved) => vec![run("it is approved: run it", "--hold", record)],
        Some(Verdict::Pending) | None => vec![
            verb("let it run once", "approve", record),
            verb("do not let it run", "reject", record),
        ],
    }
}

fn failed(record: &Record) -> Vec<Step> {
    match record.class {
        _ if cannot_start(record) => vec![run("correct the command and run it again", "", record)],
        Some(Class::Safe | Class::Throttled | Class::Retryable) => {
            vec![run("the next call runs it again", "", record)]
        }
        _ => vec![
            verb_with("see what it said", "output", "--stderr", record),
            run("run it again", "--if-failed rerun", record),
            Step {
                about: "another command may take the key: a failure is not in its way",
                command: None,
            },
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{failed, name, now, running, stamp, succeeded, unknown, view};
    use super::*;
    use crate::domain::name::Scope;
    use crate::domain::owner::Liveness;

    fn commands(record: Record, liveness: Liveness) -> Vec<String> {
        let steps = steps(&view(record, liveness), &now());
        steps.into_iter().filter_map(|step| step.command).collect()
    }

    #[test]
    fn an_unknown_outcome_can_be_resolved_probed_or_rerun() {
        let wanted = [
            "idem resolve job/lost --succeeded",
            "idem resolve job/lost --not-done",
            "idem resolve job/lost --failed",
            r"idem run --key=job/lost --probe CMD -- echo $'\xff'",
            r"idem run --key=job/lost --if-unknown rerun -- echo $'\xff'",
        ];
        assert_eq!(commands(unknown(), Liveness::Gone), wanted);
        assert_eq!(
            commands(running(), Liveness::Gone)[0],
            "idem resolve job/now --succeeded"
        );
    }

    #[test]
    fn commands_can_be_pasted_whatever_the_key_is() {
        let mut record = unknown();
        record.name = name("-{day} x");
        record.name.scope = Scope::new("prod").unwrap();
        record.command.argv = None;
        let commands = commands(record, Liveness::Gone);
        assert_eq!(
            commands[0],
            "idem resolve --succeeded --scope prod -- '-{day} x'"
        );
        assert_eq!(
            commands[4],
            "idem run --scope=prod --key='-{{day}} x' --if-unknown rerun -- COMMAND"
        );
    }

    #[test]
    fn what_is_left_of_a_running_one_is_named() {
        let left = Liveness::TreeAlive { pids: vec![7, 9] };
        let wanted = ["idem wait job/now", "ps -fp 7,9"];
        assert_eq!(commands(running(), left), wanted);
        assert_eq!(
            commands(running(), Liveness::OwnerAlive),
            ["idem wait job/now"]
        );
    }

    #[test]
    fn each_state_has_its_word() {
        let word = |record, liveness| in_a_word(&view(record, liveness), &now());
        assert_eq!(word(succeeded(), Liveness::Gone), "");
        assert_eq!(word(running(), Liveness::OwnerAlive), "wait");
        assert_eq!(word(running(), Liveness::Gone), "resolve");
        assert_eq!(
            word(failed(Class::Permanent, 7), Liveness::Gone),
            "look at it"
        );
        assert_eq!(
            word(failed(Class::Retryable, 7), Liveness::Gone),
            "run again"
        );
        assert_eq!(word(failed(Class::Safe, 127), Liveness::Gone), "correct it");
        let mut old = failed(Class::Permanent, 7);
        old.failed_ttl = old.ttl;
        let later = stamp(2 * 86_400);
        assert_eq!(in_a_word(&view(old, Liveness::Gone), &later), "run again");
    }
}
