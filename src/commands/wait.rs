//! `idem wait`.

use super::context::{Context, Opened, key_argument, text};
use super::handing::{Ended, Streams, code_after, deliver, recording};
use super::status::not_there;
use crate::cli::present::say_line;
use crate::cli::run_json::{Done, Report, next_of};
use crate::cli::stdout::print;
use crate::cli::view::View;
use crate::cli::words::{Words, flag};
use crate::cli::{exit, json_out, say, values};
use crate::domain::decision::Refusal;
use crate::domain::name::{Generation, OpName};
use crate::domain::outcome::State;
use crate::domain::record::Record;
use crate::engine::environment::{ANCESTRY, parse_ancestry};
use crate::process::spool::Recording;
use crate::process::waiting::{ChangeWatch, Patience, WaitEnd, wait_for_end};
use crate::process::waiting_line::WaitingLine;
use crate::process::{clock, proc};
use anyhow::{Result, anyhow};
use std::io;
use std::path::Path;
use std::time::Duration;

/// Runs the verb.
pub fn run(words: &Words) -> Result<i32> {
    let started = clock::monotonic();
    let context = Context::new(words)?;
    let name = context.name(key_argument(words)?)?;
    let limit = text(words, "wait")?
        .map(|text| values::duration_or_zero(text).map_err(|e| anyhow!("--wait: {e}")))
        .transpose()?;
    let mut waiter = Waiter {
        context,
        name,
        until: limit.map(|limit| started.saturating_add(limit)),
        line: WaitingLine::new(false),
        pauses: ChangeWatch::by_looking(),
        started,
        json: flag(words, "json"),
    };
    waiter.run()
}

struct Waiter {
    context: Context,
    name: OpName,
    /// The end of the wait, by the monotonic clock.
    until: Option<Duration>,
    line: WaitingLine,
    /// For what runs on another machine.
    pauses: ChangeWatch,
    started: Duration,
    json: bool,
}

impl Waiter {
    fn run(&mut self) -> Result<i32> {
        let mut awaited: Option<Generation> = None;
        loop {
            let Some(mut opened) = self.context.read()? else {
                return Ok(self.not_there());
            };
            let found = opened.look(&self.name)?;
            if let Some(generation) = awaited
                && found.as_ref().map(|view| view.record.generation) != Some(generation)
            {
                return self.moved_on(&mut opened, generation);
            }
            let Some(view) = found else {
                return Ok(self.not_there());
            };
            if view.state() != State::Running {
                return self.settled(&mut opened, &view);
            }
            if runs_under(&view.record) {
                return self.refuse(Refusal::OwnAncestry, &view, false);
            }
            awaited = Some(view.record.generation);
            let locks = opened.locks();
            // An open connection's read mark would keep the log from being folded in.
            drop(opened);
            match self.wait(&view, &locks) {
                Ok(true) => {}
                Ok(false) => return self.refuse(Refusal::StillRunning, &view, true),
                Err(error) => {
                    say_line(&format!("{} cannot be waited for: {error}", self.name));
                    return Ok(exit::RUNNING);
                }
            }
        }
    }

    /// Waits until there is something new to see; false where the time is over.
    fn wait(&mut self, view: &View, locks: &Path) -> io::Result<bool> {
        let Some(owner) = &view.record.owner else {
            return Err(io::Error::other("it has no owner on this machine"));
        };
        let left = self
            .until
            .map(|until| until.saturating_sub(clock::monotonic()));
        let line = &mut self.line;
        let (record, liveness) = (&view.record, &view.liveness);
        let mut tell = || line.tell(|_| say::waits_for_caller(record, liveness, &clock::now()));
        let patience = &mut Patience::new(left).telling(&mut tell);
        let end = wait_for_end(owner, liveness, locks, &mut self.pauses, patience);
        self.line.erase();
        Ok(end? == WaitEnd::OwnerGone)
    }

    fn not_there(&self) -> i32 {
        say_line(&not_there(&self.name));
        exit::NOT_FOUND
    }

    fn refuse(&self, refusal: Refusal, view: &View, waited: bool) -> Result<i32> {
        if self.json {
            let ended = Ended::of_view(view);
            self.print_json(Done::Refused, &ended, None)?;
        }
        self.explain(refusal, view, waited);
        Ok(exit::of_refusal(refusal))
    }

    fn explain(&self, refusal: Refusal, view: &View, waited: bool) {
        let pids = view.working();
        let record = Some(&view.record);
        say_line(&say::refusal(refusal, &self.name, record, &pids, waited));
    }

    fn settled(&self, opened: &mut Opened, view: &View) -> Result<i32> {
        let code = self.hand_out(opened, &Ended::of_view(view))?;
        if let Some(refusal) = view.refusal(&self.context.now()) {
            self.explain(refusal, view, true);
        }
        Ok(code)
    }

    /// The generation that was waited for is not the record's any more: the ledger tells its end.
    fn moved_on(&self, opened: &mut Opened, generation: Generation) -> Result<i32> {
        match opened.store().past_result(&self.name, generation)? {
            Some(past) => self.hand_out(opened, &Ended::of_past(&past)),
            None => {
                say_line(&format!(
                    "{} was forgotten while it was waited for; what became of it is in `idem log`",
                    self.name
                ));
                Ok(exit::NOT_FOUND)
            }
        }
    }

    fn hand_out(&self, opened: &mut Opened, result: &Ended) -> Result<i32> {
        let stored = recording(opened, result.output.as_ref())?;
        if self.json {
            self.print_json(Done::Waited, result, stored)?;
            return Ok(result.code());
        }
        let delivered = match &result.output {
            Some(output) => deliver(&self.name, output, stored, Streams::Both),
            None => true,
        };
        Ok(code_after(delivered, result.code()))
    }

    fn print_json(&self, done: Done, result: &Ended, stored: Option<Recording>) -> Result<()> {
        let report = Report {
            done,
            name: Some(self.name.clone()),
            state: Some(result.state),
            reason: result.reason.clone(),
            next: next_of(result.state, result.class, result.exit_code),
            retry_at: result.retry_at,
            exit_code: result.exit_code,
            generation: Some(result.generation),
            attempts: result.attempts,
            truncated: result
                .output
                .is_some_and(|output| output.truncated || output.lost),
            degraded: None,
            settled_at: result.settled_at,
            duration: clock::monotonic().saturating_sub(self.started),
        };
        // As with `idem run`, no output is an empty one.
        let stored = stored.unwrap_or_else(|| Recording::from_bytes(Vec::new()));
        let (first, last) = (report.first(), report.last());
        json_out::write_object(&mut Printed, &first, Some(stored), &last)?;
        print("\n")?;
        Ok(())
    }
}

/// Stdout as the verbs print to it.
struct Printed;

impl io::Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        print(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether this call runs under the very operation, so that it would wait for itself.
fn runs_under(record: &Record) -> bool {
    let Some(value) = std::env::var_os(ANCESTRY) else {
        return false;
    };
    let lives = |pid| proc::is_alive(pid).unwrap_or(false);
    parse_ancestry(&value)
        .iter()
        .any(|ancestor| ancestor.nonce == record.nonce && lives(ancestor.keeper))
}
