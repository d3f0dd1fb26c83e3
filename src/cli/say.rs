//! The lines that `idem run` says on stderr. Each tells what happened and what to do next.

use super::quote;
use super::run_json::Report;
use super::when;
use crate::domain::decision::Refusal;
use crate::domain::name::OpName;
use crate::domain::outcome::{Class, State};
use crate::domain::owner::Liveness;
use crate::domain::record::{OutputRef, Place, Record};
use crate::domain::time::{Stamp, Ttl};
use crate::engine::keeper::{Executed, Recorded};
use crate::engine::plan::Plan;

const SHOWN_COMMAND_CHARS: usize = 80;
/// What fits into a row of 80 columns with the words and the time beside it.
const MOST_HINT_CHARS: usize = 43;

/// What to do about an outcome that nobody knows.
pub fn about_unknown(name: &OpName) -> String {
    let operation = quote::operation(name);
    format!(
        "find out, then `idem resolve {operation} --succeeded`, `--failed` or `--not-done`; or let --probe CMD ask, or --if-unknown rerun run it again"
    )
}

/// A refusal.
pub fn refusal(
    refusal: Refusal,
    name: &OpName,
    record: Option<&Record>,
    pids: &[i32],
    waited: bool,
) -> String {
    let operation = quote::operation(name);
    match refusal {
        Refusal::StillRunning => {
            let still = if waited {
                "is still running, the wait ran out"
            } else {
                "is still running"
            };
            format!(
                "{name} {still}{}; wait for it with `idem wait {operation}`",
                processes(record, pids)
            )
        }
        Refusal::Mismatch => format!(
            "{name} was used for a different command{}; give this one another key, or `idem forget {operation}` first",
            command(record)
        ),
        Refusal::Unknown => {
            format!(
                "the outcome of {name} is unknown{}: it may have happened; {}",
                reason(record),
                about_unknown(name)
            )
        }
        Refusal::NeedsApproval => {
            format!(
                "{name} is held and needs approval; look at it with `idem status {operation}`, then `idem approve {operation}`"
            )
        }
        Refusal::Rejected => {
            format!(
                "{name} was rejected; `idem forget --force {operation}` makes room for a new proposal"
            )
        }
        Refusal::ProposalExpired => {
            format!(
                "the proposal of {name} has expired; `idem forget --force {operation}` makes room for a new one"
            )
        }
        Refusal::OwnAncestry => format!(
            "{name} is what this very call runs under, so it would wait for itself; give the inner call another key"
        ),
    }
}

fn processes(record: Option<&Record>, pids: &[i32]) -> String {
    let host = record.map_or("", |record| record.source.host.as_str());
    let pids: Vec<String> = pids.iter().map(i32::to_string).collect();
    match (pids.is_empty(), host.is_empty()) {
        (true, true) => String::new(),
        (true, false) => format!(" on {host}"),
        (false, true) => format!(" (pid {})", pids.join(", ")),
        (false, false) => format!(" (pid {} on {host})", pids.join(", ")),
    }
}

fn command(record: Option<&Record>) -> String {
    match record.and_then(|record| record.command.argv.as_ref()) {
        Some(argv) => format!(" ({})", quote::command(argv, SHOWN_COMMAND_CHARS)),
        None => String::new(),
    }
}

fn reason(record: Option<&Record>) -> String {
    match record {
        Some(record) if record.state == State::Running => " (whoever ran it is gone)".to_owned(),
        Some(Record {
            reason: Some(reason),
            ..
        }) => format!(" ({reason})"),
        _ => String::new(),
    }
}

/// A caller is waited for.
pub fn waits_for_caller(record: &Record, liveness: &Liveness, now: &Stamp) -> String {
    let pids = match liveness {
        Liveness::TreeAlive { pids } => pids.clone(),
        _ => record.owner.iter().map(|owner| owner.keeper.pid).collect(),
    };
    let pids: Vec<String> = pids.iter().map(i32::to_string).collect();
    let pids = match pids.is_empty() {
        true => String::new(),
        false => format!(", pid {}", pids.join(", ")),
    };
    format!(
        "waiting for {}: running {}{}{pids}",
        record.name,
        when::length(record.since.age(now)),
        whose(record)
    )
}

/// A person's decision is waited for. What to do comes first: a terminal shows no more than a row.
pub fn waits_for_approval(record: &Record, now: &Stamp) -> String {
    let hint = format!("idem approve {}", quote::operation(&record.name));
    let hint = match hint.chars().count() {
        ..=MOST_HINT_CHARS => format!("`{hint}`"),
        _ => "approval: `idem status --state held`".to_owned(),
    };
    format!(
        "waiting for {hint}, held {}{}",
        when::length(record.since.age(now)),
        whose(record)
    )
}

fn whose(record: &Record) -> String {
    let part = |word, value: &str| match value {
        "" => String::new(),
        value => format!(" {word} {value}"),
    };
    let source = &record.source;
    part("on", &source.host) + &part("by", &source.user)
}

/// The command could not be started.
pub fn not_started(reason: &str) -> String {
    format!("{reason}; nothing was run, and the next call tries again")
}

/// A result that was waited for is that nothing could be started.
pub fn waited_not_started(
    state: State,
    class: Option<Class>,
    code: Option<i32>,
    reason: Option<&str>,
) -> Option<String> {
    let failed_to_start =
        state == State::Failed && class == Some(Class::Safe) && matches!(code, Some(126 | 127));
    reason.filter(|_| failed_to_start).map(not_started)
}

/// The stored output has gone missing.
pub fn output_gone(name: &OpName) -> String {
    format!(
        "the stored output of {name} is gone, so only its exit code is replayed; see `idem doctor`"
    )
}

/// What a call did, for those who want to know every decision.
pub fn verbose(name: &OpName, report: &Report) -> String {
    let mut line = format!("{name}: {}", report.done.word());
    if let Some(state) = report.state {
        line.push_str(&format!(", {}", state.word()));
    }
    if let Some(reason) = &report.reason {
        line.push_str(&format!(" ({reason})"));
    }
    if let Some(generation) = report.generation {
        line.push_str(&format!(", generation {generation}"));
    }
    let attempts = if report.attempts == 1 {
        "attempt"
    } else {
        "attempts"
    };
    line.push_str(&format!(
        ", {} {attempts}, {}",
        report.attempts,
        when::length(report.duration)
    ));
    line
}

/// A stored failure is handed out.
pub fn old_failure(record: &Record, now: &Stamp) -> String {
    let code = record.exit_code.unwrap_or(1);
    format!(
        "{} failed {} (exit {code}) and this is that failure again; run it anew with --if-failed rerun, or keep failures shorter with --failed-ttl",
        record.name,
        when::age(record.since.age(now))
    )
}

/// A result is handed out although no option named the key.
pub fn derived_replay(stdin_left_out: bool) -> String {
    let stdin = if stdin_left_out {
        "; what stdin brings is not part of it"
    } else {
        ""
    };
    format!(
        "this is an earlier result: the key was derived from the command and the directory{stdin}; name what counts with --key or --key-from"
    )
}

/// The stored copy is shorter than what came.
pub fn truncated(name: &OpName, output: &OutputRef) -> Option<String> {
    let bytes = output.stdout_bytes + output.stderr_bytes;
    if output.place == Place::Nowhere && bytes > 0 && !output.lost {
        return Some(format!(
            "the output of {name} was not stored ({bytes} bytes), so only its exit code is replayed"
        ));
    }
    missing_output(
        name,
        output.truncated,
        output.lost,
        output.stdout_bytes + output.stderr_bytes,
    )
}

fn missing_output(name: &OpName, truncated: bool, lost: bool, bytes: u64) -> Option<String> {
    if lost {
        return Some(format!(
            "the output of {name} could not be stored, so it is not replayed; make room and see `idem doctor`"
        ));
    }
    truncated.then(|| {
        format!("the stored output of {name} ends after {bytes} bytes; keep more with --max-output")
    })
}

/// A replay late in its time, of a key without a period.
pub fn nearly_expired(record: &Record, now: &Stamp) -> Option<String> {
    let Ttl::For(limit) = record.kept_for() else {
        return None;
    };
    let age = record.since.age(now);
    (age.as_millis() * 10 > limit.as_millis() * 9).then(|| {
        format!(
            "the result of {} is from {} and expires soon; for once per day, give --per day",
            record.name,
            when::age(age)
        )
    })
}

/// What the same call does about an unknown outcome when it is made again, if it does anything.
pub fn again(plan: &Plan) -> Option<&'static str> {
    match (&plan.helpers.probe, plan.request.rerun_unknown) {
        (Some(_), _) => Some("asks the probe"),
        (None, true) => Some("runs it again"),
        (None, false) => None,
    }
}

/// Why an execution ended as it did, for who reads no stderr: with what later calls will not know.
pub fn executed_reason(executed: &Executed) -> String {
    match &executed.recorded {
        Recorded::No(error) => format!(
            "{}; the result could not be recorded: {error}",
            executed.reason
        ),
        _ => executed.reason.clone(),
    }
}

/// An attempt that could not be started. What is not recorded is unknown to the next call, which then
/// does not simply try again.
fn nothing_started(executed: &Executed) -> String {
    let reason = &executed.reason;
    match (executed.is_retry, &executed.recorded) {
        (false, Recorded::No(_)) => format!("{reason}; nothing was run"),
        (false, _) => not_started(reason),
        (true, Recorded::No(_)) => format!("{reason}; no further attempt was made"),
        (true, _) => {
            format!("{reason}; no further attempt was made, and the next call tries again")
        }
    }
}

/// What an execution leaves to be said; `again` is what the same call does about an unknown outcome.
pub fn executed(name: &OpName, executed: &Executed, again: Option<&str>) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(executed.not_started.then(|| nothing_started(executed)));
    if executed.by_probe {
        lines.push(format!(
            "the probe found {name} done, so what it printed is the result"
        ));
    }
    if executed.class == Class::Uncertain {
        lines.push(format!(
            "the outcome of {name} is unknown ({}); {}{}",
            executed.reason,
            again.map_or_else(String::new, |does| format!(
                "the same call {does}; or else "
            )),
            about_unknown(name)
        ));
    }
    match &executed.recorded {
        Recorded::Yes => {
            if let Some(output) = &executed.output {
                let bytes = output.stdout_bytes + output.stderr_bytes;
                lines.extend(missing_output(name, output.truncated, output.lost, bytes));
            }
        }
        Recorded::WithoutOutput => lines.extend(missing_output(name, false, true, 0)),
        Recorded::Superseded => lines.push(format!(
            "{name} was resolved or forgotten while it ran; this result is only in `idem log {}`",
            quote::operation(name)
        )),
        Recorded::Deferred(why) => lines.push(format!(
            "{name} ran, and its result is only on this machine so far: {why}; `idem sync` delivers it, and so does the next call from here"
        )),
        Recorded::No(error) => {
            let what = match executed.not_started && !executed.is_retry {
                true => "did not start, and that",
                false => "ran, and its result",
            };
            lines.push(format!(
                "{name} {what} could not be recorded: {error}; later calls will find it unknown"
            ));
        }
    }
    lines
}

/// A fallback answers.
pub fn degraded(name: &OpName, why: &str) -> String {
    format!("degraded: the fallback answers for {name} ({why}); the record stays as it is")
}

/// A store on a throw-away machine.
pub fn runner_store() -> &'static str {
    "CI is set and the store is the default file, which lives on this runner only; name one that outlives it with --store or IDEM_STORE"
}
