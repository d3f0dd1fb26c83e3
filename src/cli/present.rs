//! How `idem run` answers: streams or JSON, the lines on stderr, the report, and the exit code.

use super::decision_log;
use super::exit::{self, Next};
use super::json_out::{self, JsonError};
use super::run_json::{Done, Report, next_of};
use super::say;
use super::settings::Speech;
use crate::domain::decision::Refusal;
use crate::domain::frames::Stream;
use crate::domain::name::{Generation, OpName};
use crate::domain::outcome::{Class, State};
use crate::domain::record::{OutputRef, Place, Record};
use crate::engine::ending::CallerEnd;
use crate::engine::guards::Guarded;
use crate::engine::keeper::Executed;
use crate::engine::plan::Plan;
use crate::engine::store::PastResult;
use crate::process::replay::{ReplayError, Target, replay};
use crate::process::spool::Recording;
use crate::process::{clock, entry, facts, sys};
use std::io::{self, Write};
use std::time::Duration;

/// What a call has to answer.
#[derive(Debug)]
pub enum Answer<'a> {
    /// `--if-running skip`.
    Skipped,
    /// `--detach`: the claim with this generation is durable, whichever call made it.
    Detached(Generation),
    /// Nothing is executed or handed out.
    Refused {
        /// Why.
        refusal: Refusal,
        /// The operation in the way.
        name: &'a OpName,
        /// Its record.
        record: Option<&'a Record>,
        /// What is alive of it.
        pids: &'a [i32],
        /// A wait ran out.
        waited: bool,
    },
    /// A guard said no.
    Guarded {
        /// Its no.
        guarded: &'a Guarded,
        /// The fallback that answers instead.
        degraded: Option<&'a Degraded>,
    },
    /// The stored result.
    Replayed {
        /// The record.
        record: &'a Record,
        /// It is an old failure.
        old_failure: bool,
        /// No option named the key.
        derived: bool,
    },
    /// The result that was waited for.
    Waited {
        /// The record.
        record: &'a Record,
    },
    /// The same, after the record has moved on.
    WaitedPast {
        /// How that generation ended.
        result: &'a PastResult,
    },
    /// The command ran; its streams have been shown as they came.
    Executed {
        /// How it went.
        executed: &'a Executed,
        /// One more line to say.
        note: Option<&'a str>,
        /// A stream that could not be delivered, with the error's number.
        undelivered: Option<(Stream, i32)>,
        /// The fallback that answers instead.
        degraded: Option<&'a Degraded>,
    },
    /// The keeper died.
    KeeperLost {
        /// After its claim.
        claimed: bool,
    },
}

/// A fallback's answer.
#[derive(Debug)]
pub struct Degraded {
    /// Why there was need for one.
    pub why: String,
    /// Its exit code.
    pub code: i32,
}

/// Says answers in the way that the call asked for.
#[derive(Debug)]
pub struct Presenter<'a> {
    plan: &'a Plan,
    speech: &'a Speech,
    started: Duration,
    front_pid: i32,
    parent_pid: i32,
}

impl<'a> Presenter<'a> {
    /// For one call, which began at `started` of the monotonic clock.
    pub fn new(plan: &'a Plan, speech: &'a Speech, started: Duration) -> Presenter<'a> {
        Presenter {
            plan,
            speech,
            started,
            front_pid: std::process::id().cast_signed(),
            parent_pid: std::os::unix::process::parent_id().cast_signed(),
        }
    }

    /// A refusal or a failure of idem's own, which even `-q` lets through.
    pub fn complain(&self, line: &str) {
        say_line(line);
    }

    /// Several of them.
    pub fn complain_all(&self, lines: &[String]) {
        for line in lines {
            say_line(line);
        }
    }

    fn mention(&self, line: &str) {
        if !self.speech.quiet {
            say_line(line);
        }
    }

    /// Gives the answer and returns the exit code. `output` is what is handed out with it.
    pub fn answer(&self, answer: Answer<'_>, output: Option<Recording>) -> i32 {
        let code = self.tell(&answer, output);
        self.log(&answer, code);
        code
    }

    /// The answer is known and its stored output cannot be had; says why. A success is none then.
    pub fn undeliverable(&self, answer: &Answer<'_>, why: &str) -> i32 {
        self.complain(why);
        let code = match code_of(answer) {
            0 => exit::OWN_FAILURE,
            code => code,
        };
        self.log(answer, code);
        code
    }

    fn tell(&self, answer: &Answer<'_>, output: Option<Recording>) -> i32 {
        let gone = output.is_none() && expects_output(answer);
        let delivered = match self.deliver(answer, output) {
            Ok(()) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        self.explain(answer);
        if gone {
            self.mention(&say::output_gone(&self.plan.name));
        }
        if self.speech.verbose {
            self.mention(&say::verbose(&self.plan.name, &self.facts(answer)));
        }
        let code = code_of(answer);
        let Err(error) = delivered.and_then(|()| self.report(answer)) else {
            return self.after_undelivered(answer, code);
        };
        self.complain(&format!(
            "{error}; the result is recorded, a repeat delivers it again"
        ));
        if code == 0 { exit::OWN_FAILURE } else { code }
    }

    /// Live output that could not be delivered is as bad as a replay that could not.
    fn after_undelivered(&self, answer: &Answer<'_>, code: i32) -> i32 {
        let Answer::Executed {
            undelivered: Some((stream, errno)),
            ..
        } = answer
        else {
            return code;
        };
        let name = match stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        self.complain(&format!(
            "{name} could not be written: {}; the result is recorded, a repeat delivers it again",
            sys::errno_text(*errno)
        ));
        if code == 0 { exit::OWN_FAILURE } else { code }
    }

    fn deliver(&self, answer: &Answer<'_>, output: Option<Recording>) -> Result<(), ReplayError> {
        if self.speech.json {
            return self.print_json(answer, output);
        }
        let shown = match answer {
            Answer::Replayed { .. } => !self.speech.silent_replay,
            Answer::Waited { .. } | Answer::WaitedPast { .. } => true,
            // Only a probe's answer has not been shown live.
            Answer::Executed {
                executed, degraded, ..
            } => executed.by_probe || degraded.is_some(),
            Answer::Guarded { degraded, .. } => degraded.is_some(),
            Answer::Detached(_) => {
                let _ = writeln!(io::stdout(), "{}", self.plan.name.key);
                false
            }
            _ => false,
        };
        match output {
            Some(recording) if shown => replay(recording, target(1), target(2)),
            _ => Ok(()),
        }
    }

    fn print_json(
        &self,
        answer: &Answer<'_>,
        output: Option<Recording>,
    ) -> Result<(), ReplayError> {
        if entry::state().was_closed(1) {
            return Err(ReplayError::Write {
                stream: Stream::Stdout,
                error: io::Error::from_raw_os_error(libc::EBADF),
            });
        }
        let report = self.facts(answer);
        let output = output.unwrap_or_else(|| Recording::from_bytes(Vec::new()));
        let mut out = io::BufWriter::new(io::stdout().lock());
        let (first, last) = (report.first(), report.last());
        let written = json_out::write_object(&mut out, &first, Some(output), &last)
            .and_then(|()| Ok(writeln!(out).and_then(|()| out.flush())?));
        match written {
            // A reader that has seen enough is no failure, here as for the streams.
            Err(JsonError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(ReplayError::Write {
                stream: Stream::Stdout,
                error: io::Error::other(error.to_string()),
            }),
            Ok(()) => Ok(()),
        }
    }

    fn report(&self, answer: &Answer<'_>) -> Result<(), String> {
        let Some(path) = &self.speech.report else {
            return Ok(());
        };
        let mut text = self.facts(answer).without_streams().to_string();
        text.push('\n');
        std::fs::write(path, text).map_err(|error| {
            format!(
                "the report {} could not be written: {error}",
                path.display()
            )
        })
    }

    /// `--log`. What cannot be logged has happened all the same.
    fn log(&self, answer: &Answer<'_>, code: i32) {
        let Some(path) = &self.speech.log else {
            return;
        };
        let source = facts::source(self.front_pid, self.parent_pid);
        let line = decision_log::line(&self.facts(answer), code, &source, clock::now().wall);
        if let Err(error) = decision_log::append(path, &line) {
            self.mention(&format!(
                "the log {} could not be written: {error}; make it writable, or name another with --log",
                path.display()
            ));
        }
    }

    /// The lines on stderr.
    fn explain(&self, answer: &Answer<'_>) {
        let now = clock::now();
        match answer {
            Answer::Skipped | Answer::Detached(_) => {}
            Answer::Refused {
                refusal,
                name,
                record,
                pids,
                waited,
            } => {
                self.complain(&say::refusal(*refusal, name, *record, pids, *waited));
            }
            Answer::Guarded { guarded, degraded } => match degraded {
                Some(degraded) => self.mention(&say::degraded(&self.plan.name, &degraded.why)),
                None => self.complain(&guarded.why),
            },
            Answer::Replayed {
                record,
                old_failure,
                derived,
            } => {
                if *old_failure {
                    self.mention(&say::old_failure(record, &now));
                }
                if *derived {
                    self.mention(&say::derived_replay(facts::stdin_brings_data()));
                }
                if !old_failure
                    && self.plan.previous.is_none()
                    && let Some(line) = say::nearly_expired(record, &now)
                {
                    self.mention(&line);
                }
                self.about_output(record.output.as_ref());
            }
            Answer::Waited { record } => {
                if record.state == State::Unknown {
                    self.complain(&say::refusal(
                        Refusal::Unknown,
                        &record.name,
                        Some(record),
                        &[],
                        true,
                    ));
                }
                let reason = record.reason.as_deref();
                self.about_start(record.state, record.class, record.exit_code, reason);
                self.about_output(record.output.as_ref());
            }
            Answer::WaitedPast { result } => {
                let reason = result.reason.as_deref();
                self.about_start(result.state, result.class, result.exit_code, reason);
                self.about_output(result.output.as_ref());
            }
            Answer::Executed {
                executed,
                note,
                degraded,
                ..
            } => {
                if let Some(degraded) = degraded {
                    self.mention(&say::degraded(&self.plan.name, &degraded.why));
                }
                for line in say::executed(&self.plan.name, executed, say::again(self.plan)) {
                    self.mention(&line);
                }
                if let Some(warning) = executed.warning.as_ref().filter(|_| self.speech.verbose) {
                    self.mention(warning);
                }
                if let Some(note) = note {
                    self.mention(note);
                }
            }
            Answer::KeeperLost { claimed } => {
                self.complain(&keeper_lost(&self.plan.name, *claimed))
            }
        }
    }

    fn about_start(
        &self,
        state: State,
        class: Option<Class>,
        code: Option<i32>,
        reason: Option<&str>,
    ) {
        if let Some(line) = say::waited_not_started(state, class, code, reason) {
            self.mention(&line);
        }
    }

    fn about_output(&self, output: Option<&OutputRef>) {
        if let Some(line) = output.and_then(|output| say::truncated(&self.plan.name, output)) {
            self.mention(&line);
        }
    }

    /// How long the call has taken so far.
    pub fn elapsed(&self) -> Duration {
        clock::monotonic().saturating_sub(self.started)
    }

    fn facts(&self, answer: &Answer<'_>) -> Report {
        let base = Report::failure(Some(self.plan.name.clone()), None, self.elapsed());
        match answer {
            Answer::Skipped => Report {
                done: Done::Skipped,
                next: Next::Wait,
                state: Some(State::Running),
                ..base
            },
            Answer::Detached(generation) => Report {
                done: Done::Detached,
                next: Next::Wait,
                state: Some(State::Running),
                generation: Some(*generation),
                ..base
            },
            Answer::Refused {
                refusal,
                name,
                record,
                ..
            } => refused(base, *refusal, name, *record),
            Answer::Guarded { guarded, degraded } => Report {
                degraded: degraded.map(|degraded| degraded.why.clone()),
                reason: Some(guarded.why.clone()),
                next: Next::RetryLater,
                retry_at: guarded.retry_at,
                ..base
            },
            Answer::Replayed { record, .. } => of_record(base, Done::Replayed, record),
            Answer::Waited { record } => of_record(base, Done::Waited, record),
            Answer::WaitedPast { result } => Report {
                done: Done::Waited,
                state: Some(result.state),
                reason: result.reason.clone(),
                next: next_of(result.state, result.class, result.exit_code),
                exit_code: result.exit_code,
                generation: Some(result.generation),
                truncated: result
                    .output
                    .is_some_and(|output| output.truncated || output.lost),
                settled_at: Some(result.settled_at),
                ..base
            },
            Answer::Executed {
                executed, degraded, ..
            } => Report {
                degraded: degraded.map(|degraded| degraded.why.clone()),
                ..of_execution(base, executed)
            },
            Answer::KeeperLost { .. } => Report {
                state: Some(State::Unknown),
                next: Next::AskHuman,
                ..base
            },
        }
    }
}

/// Whether the answer has a stored output that is more than nothing.
fn expects_output(answer: &Answer<'_>) -> bool {
    let output = match answer {
        Answer::Replayed { record, .. } | Answer::Waited { record } => record.output.as_ref(),
        Answer::WaitedPast { result } => result.output.as_ref(),
        _ => None,
    };
    output.is_some_and(|output| output.place != Place::Nowhere)
}

fn refused(base: Report, refusal: Refusal, name: &OpName, record: Option<&Record>) -> Report {
    let base = match record {
        Some(record) => Report {
            name: Some(name.clone()),
            ..of_record(base, Done::Refused, record)
        },
        None => base,
    };
    let (next, state) = match refusal {
        Refusal::StillRunning => (Next::Wait, Some(State::Running)),
        Refusal::Mismatch | Refusal::OwnAncestry => (Next::FixRequest, base.state),
        Refusal::Unknown => (Next::AskHuman, Some(State::Unknown)),
        Refusal::NeedsApproval | Refusal::Rejected | Refusal::ProposalExpired => {
            (Next::AskHuman, base.state)
        }
    };
    let reason = match refusal {
        Refusal::StillRunning => "still running".to_owned(),
        Refusal::Mismatch => "the key was used for a different command".to_owned(),
        Refusal::Unknown => base
            .reason
            .clone()
            .unwrap_or_else(|| "whoever ran it is gone".to_owned()),
        Refusal::NeedsApproval => "needs approval".to_owned(),
        Refusal::Rejected => "rejected".to_owned(),
        Refusal::ProposalExpired => "the proposal has expired".to_owned(),
        Refusal::OwnAncestry => "the call runs under this very operation".to_owned(),
    };
    Report {
        next,
        state,
        reason: Some(reason),
        ..base
    }
}

fn of_record(base: Report, done: Done, record: &Record) -> Report {
    Report {
        done,
        state: Some(record.state),
        reason: record.reason.clone(),
        next: next_of(record.state, record.class, record.exit_code),
        retry_at: record.retry_at,
        exit_code: record.exit_code,
        generation: Some(record.generation),
        attempts: record.attempts,
        truncated: record
            .output
            .is_some_and(|output| output.truncated || output.lost),
        settled_at: record.settled_at(),
        ..base
    }
}

fn of_execution(base: Report, executed: &Executed) -> Report {
    Report {
        done: Done::Executed,
        state: Some(executed.state),
        reason: Some(say::executed_reason(executed)),
        next: next_of(executed.state, Some(executed.class), executed.exit_code),
        retry_at: executed.retry_at,
        exit_code: executed.exit_code,
        generation: Some(executed.generation),
        attempts: executed.attempts,
        truncated: executed
            .output
            .as_ref()
            .is_some_and(|output| output.truncated || output.lost),
        settled_at: Some(executed.settled_at),
        ..base
    }
}

fn keeper_lost(name: &OpName, claimed: bool) -> String {
    if claimed {
        format!(
            "the keeper of {name} was killed, so its outcome is unknown; once nothing of it runs any more, {}",
            say::about_unknown(name)
        )
    } else {
        format!(
            "the keeper of {name} was killed before it told of a claim; look at it with `idem status`"
        )
    }
}

fn code_of(answer: &Answer<'_>) -> i32 {
    match answer {
        Answer::Skipped | Answer::Detached(_) => 0,
        Answer::Refused { refusal, .. } => exit::of_refusal(*refusal),
        Answer::Guarded { degraded, .. } => {
            degraded.map_or(exit::GUARDED, |degraded| degraded.code)
        }
        Answer::Replayed { record, .. } => record.exit_code.unwrap_or(0),
        Answer::Waited { record } => settled_code(record.state, record.class, record.exit_code),
        Answer::WaitedPast { result } => settled_code(result.state, result.class, result.exit_code),
        Answer::Executed {
            degraded: Some(degraded),
            ..
        } => degraded.code,
        Answer::Executed { executed, .. } => match executed.end {
            CallerEnd::Code(code) => code,
            CallerEnd::Signal { signal, .. } => exit::SIGNAL_BASE + signal,
        },
        Answer::KeeperLost { .. } => exit::UNDECIDED,
    }
}

/// What a waiter ends with.
pub fn settled_code(state: State, class: Option<Class>, exit_code: Option<i32>) -> i32 {
    match (state, exit_code) {
        (State::Unknown | State::Held, _) => exit::UNDECIDED,
        (State::Running, _) => exit::RUNNING,
        (State::Succeeded, code) => code.unwrap_or(0),
        (State::Failed, Some(code)) if code != 0 => code,
        (State::Failed, _) => i32::from(class != Some(Class::Success)),
    }
}

/// One of the caller's descriptors as a place to replay to.
fn target(fd: i32) -> Target {
    if entry::state().was_closed(fd) {
        Target::Absent
    } else {
        Target::Fd(fd)
    }
}

/// One line on stderr. Where stderr cannot be written there is nobody to tell.
pub fn say_line(line: &str) {
    // What a user or another program wrote must not move the cursor of whoever reads it.
    let line: String = line
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let text = format!("idem: {line}\n");
    let _ = io::stderr().write_all(text.as_bytes());
}
