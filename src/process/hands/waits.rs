//! What the keeper waits for between attempts: helpers and pauses. The caller is told of both.

use super::super::child::{Child, Company, Pipes, Told};
use super::super::listening::Heads;
use super::super::outputs::new_output;
use super::super::spawn::{Spawn, Stdio};
use super::ProcessHands;
use crate::domain::duration::length;
use crate::domain::name::OpName;
use crate::engine::environment::{ChildContext, child_environment};
use crate::engine::hands::{Before, HelperEnd, Role};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

impl ProcessHands<'_> {
    /// Runs a helper; the error says why it could not be started, as a fragment.
    pub(super) fn try_helper(
        &mut self,
        role: Role,
        command: &OsStr,
        context: &ChildContext<'_>,
        limit: Duration,
    ) -> Result<HelperEnd, String> {
        let trouble = |error: io::Error| format!("no pipe could be made: {error}");
        let (pipes, [out, err]) = Pipes::open().map_err(trouble)?;
        let null = File::open("/dev/null").map_err(trouble)?;
        let env = child_environment(std::env::vars_os(), context, None);
        let argv = ["sh".into(), "-c".into(), command.to_owned()];
        let spawn = Spawn::new(&argv, &env).map_err(|cannot| cannot.message)?;
        let mut spawn = spawn.stdio(
            Stdio::Fd(null.as_fd()),
            Stdio::Fd(out.as_fd()),
            Stdio::Fd(err.as_fd()),
        );
        if let Some(lock) = &self.tree_lock {
            spawn = spawn.tree_lock(lock.as_fd());
        }
        let gated = spawn.fork().map_err(|cannot| cannot.message)?;
        drop((out, err));
        let running = gated.open_gate().map_err(|cannot| cannot.message)?;
        self.last_child = Some(running.process);
        let limits = self.limits(Some(limit), None);
        let (name, pid) = (&self.plan.name, running.process.pid);
        let mut recorder = self.recorder(0);
        let mut heads = Heads::default();
        let company = Company {
            session: &mut self.session,
            recorder: &mut recorder,
            listener: &mut heads,
            live: false,
            pump: None,
            told: Some(Told {
                line: &mut self.line,
                what: &|ran| waits_for_helper(role, name, pid, ran),
            }),
            foreign: &self.foreign,
        };
        let end = Child::new(running, pipes, company, limits).run();
        self.held_pipes.extend(end.held_pipes);
        Ok(HelperEnd {
            exit: end.cut.is_none().then_some(end.exit),
            stdout: new_output(0, recorder.finish()),
            stdout_head: heads.stdout,
            stderr_head: heads.stderr,
            trouble: end
                .cut
                .map(|cut| format!("ended by idem: {cut:?}").to_lowercase()),
        })
    }

    /// Waits, until the time is over or a signal ends it.
    pub(super) fn wait_out(&mut self, delay: Duration, before: Before<'_>) {
        let until = self.session.clock().saturating_add(delay);
        let name = &self.plan.name;
        while !self.session.is_over() {
            let left = self.session.until(until);
            if left == Some(Duration::ZERO) {
                break;
            }
            let said = left.unwrap_or_default();
            let again = self
                .session
                .say_waiting(&mut self.line, |_| waits_out(before, name, said));
            self.session.wait(left.into_iter().chain(again).min());
        }
        if !matches!(before, Before::Permit(..)) {
            self.line.end();
        }
    }
}

fn waits_for_helper(role: Role, name: &OpName, pid: i32, ran: Duration) -> String {
    format!(
        "waiting for {name}: {} running {}, pid {pid}",
        role.word(),
        length(ran)
    )
}

fn waits_out(before: Before<'_>, name: &OpName, left: Duration) -> String {
    // Rounded up: what is over in less than a second is not over yet.
    let whole = Duration::from_secs(left.as_secs() + u64::from(left.subsec_nanos() > 0));
    match before {
        Before::Attempt(number, reason) => {
            let after = if reason.is_empty() { "" } else { ", after " };
            format!(
                "waiting for {name}: attempt {number} in {}{after}{reason}",
                length(whole)
            )
        }
        Before::Probe => format!("waiting for {name}: probe asked again in {}", length(whole)),
        Before::Permit(bulkhead, permits) => {
            format!("waiting for one of {permits} permits of {bulkhead}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_says_what_comes_and_when() {
        let name = OpName {
            scope: crate::domain::name::Scope::default(),
            key: crate::domain::name::Key::new("pay").unwrap(),
        };
        let left = Duration::from_millis(1500);
        for (before, said) in [
            (
                Before::Attempt(2, "exit 75"),
                "attempt 2 in 2s, after exit 75",
            ),
            (Before::Attempt(2, ""), "attempt 2 in 2s"),
            (Before::Probe, "probe asked again in 2s"),
        ] {
            assert_eq!(
                waits_out(before, &name, left),
                format!("waiting for pay: {said}")
            );
        }
        let said = waits_for_helper(Role::Probe, &name, 12, Duration::from_secs(72));
        assert_eq!(said, "waiting for pay: probe running 1m 12s, pid 12");
    }
}
