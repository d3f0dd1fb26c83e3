//! The end of an execution: made durable, whatever it takes, and turned into what the caller is to get.

use super::super::ending::{CallerEnd, caller_end, recorded_code};
use super::super::event::EventKind;
use super::super::guards;
use super::super::hands::HowEnded;
use super::super::ledger;
use super::super::store::{Fenced, Guards, NewOutput, OutputBody, Settlement, StoreError};
use super::{Executed, Recorded, Run, SETTLE_TRIES};
use crate::domain::outcome::{Class, State, state_after};
use crate::domain::time::UnixMs;
use crate::policy::nested::Inner;
use crate::policy::retry::{Settled, Why};

impl Run<'_> {
    /// Makes the end durable, whatever it takes, and says what the caller is to get.
    pub(super) fn settle(mut self, settled: Settled) -> Executed {
        if settled.class == Class::Uncertain && self.survivors.is_empty() {
            // Nothing of an attempt that nobody knows about may work on behind the caller's back.
            self.survivors = self.hands.end_leftovers();
        }
        let by_probe = settled.why == Why::ProbeFoundIt;
        let output = self.result_output(by_probe);
        if self.last.as_ref().is_some_and(|last| last.noted.is_none()) {
            self.attempt_event(output.as_ref());
        }
        let settlement = self.settlement(settled, output);
        let (recorded, settlement) = self.write(settlement);
        self.hands.release();
        let executed = self.executed(settled, settlement, recorded);
        self.hands
            .tell_outer(inner(&executed, self.hands.now().wall));
        executed
    }

    fn result_output(&mut self, by_probe: bool) -> Option<NewOutput> {
        if by_probe {
            return self.probe_output.take();
        }
        match &self.last.as_ref()?.noted {
            // Storing it once more changes nothing.
            Some(output) => Some(output.clone()),
            None => Some(self.hands.take_output()),
        }
    }

    fn settlement(&mut self, settled: Settled, output: Option<NewOutput>) -> Settlement {
        let state = state_after(settled.class);
        let exit_code = match (&self.last, settled.why) {
            (_, Why::ProbeFoundIt) => Some(0),
            (Some(last), _) => recorded_code(&last.end.how, settled.class),
            (None, _) => None,
        };
        let reason = self.reason(settled);
        let at = self.hands.now();
        self.event(
            EventKind::Settled,
            None,
            ledger::settled(state, settled.class, &reason, exit_code),
        );
        Settlement {
            state,
            class: Some(settled.class),
            reason: Some(reason),
            exit_code,
            retry_at: self.retry_at(settled, at.wall),
            output,
            dirty: self.dirty,
            at,
            events: std::mem::take(&mut self.events),
        }
    }

    /// When another try makes sense: what the other side asked for, or the guard that refused a retry.
    fn retry_at(&self, settled: Settled, now: UnixMs) -> Option<UnixMs> {
        if matches!(settled.class, Class::Success | Class::Permanent) {
            return None;
        }
        let hint = self.last.as_ref()?.classified.retry_after;
        let hinted = hint.map(|wait| {
            let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            UnixMs(now.0.saturating_add_unsigned(wait_ms))
        });
        let granted = match (settled.why, &self.refused) {
            (Why::NotGranted, Some(refused)) => refused.retry_at,
            _ => None,
        };
        hinted.max(granted)
    }

    fn reason(&self, settled: Settled) -> String {
        let mut reason = match (&self.last, settled.why) {
            (Some(last), Why::Final | Why::NoProbe | Why::NoRetryLeft | Why::NoRetry) => {
                last.classified.reason.clone()
            }
            (Some(last), Why::NotGranted) => {
                let refused = self
                    .refused
                    .as_ref()
                    .map_or("no retry was granted", |r| r.why.as_str());
                format!("{}; {refused}", last.classified.reason)
            }
            (Some(last), Why::Interrupted) if last.was_interrupted() => {
                last.classified.reason.clone()
            }
            (Some(last), why) => format!("{}; {why}", last.classified.reason),
            (None, why) => why.to_string(),
        };
        if self.in_doubt(settled) {
            reason.push_str("; an earlier attempt may have happened");
        }
        if !self.survivors.is_empty() {
            reason.push_str(&format!(
                "; processes that could not be ended: {:?}",
                self.survivors
            ));
        }
        reason
    }

    /// The last attempt is not what makes the outcome unknown.
    fn in_doubt(&self, settled: Settled) -> bool {
        let last = self.last.as_ref().map(|last| last.classified.class);
        settled.class == Class::Uncertain
            && settled.why != Why::LeftoversAlive
            && last.is_some_and(|class| class != Class::Uncertain)
    }

    /// Writes the settlement; if it does not fit, without its output; if the store is busy, again.
    fn write(&mut self, mut settlement: Settlement) -> (Recorded, Settlement) {
        let mut recorded = Recorded::Yes;
        let mut tries = 0;
        loop {
            let (hands, plan, told) = (&*self.hands, &self.plan.guards, self.untold);
            let mut opens_at = None;
            let mut tell = |guards: &mut dyn Guards| {
                opens_at = guards::tell_breaker(hands, plan, guards, told)?;
                Ok(())
            };
            match self.store.settle(&self.claim.id, &settlement, &mut tell) {
                Ok(Fenced::Done) => {
                    // The caller is told what the breaker would tell its next call. The record does not
                    // keep it: a breaker can be reset.
                    if next_call_executes(&settlement) {
                        settlement.retry_at = settlement.retry_at.max(opens_at);
                    }
                    return (recorded, settlement);
                }
                Ok(Fenced::Superseded) => return (Recorded::Superseded, settlement),
                Ok(Fenced::Deferred { why }) => return (Recorded::Deferred(why), settlement),
                Err(StoreError::Full(_)) if has_body(&settlement) => {
                    // Giving the output's room back is what makes the record fit.
                    recorded = Recorded::WithoutOutput;
                    self.drop_output(&mut settlement);
                }
                Err(StoreError::Busy(_)) if tries < SETTLE_TRIES => tries += 1,
                Err(error) => return (Recorded::No(error), settlement),
            }
        }
    }

    fn drop_output(&mut self, settlement: &mut Settlement) {
        if let Some(output) = &mut settlement.output {
            self.hands.discard(output);
            output.body = OutputBody::Nothing;
            output.lost = true;
        }
    }

    fn executed(&self, settled: Settled, settlement: Settlement, recorded: Recorded) -> Executed {
        let end = match (&self.last, settled.why) {
            (_, Why::ProbeFoundIt) => CallerEnd::Code(0),
            (Some(last), _) => caller_end(&last.end.how, last.end.held_terminal, settled.class),
            (None, _) => CallerEnd::Code(122),
        };
        let known_before = self.claim.found_unknown && self.number == 0;
        let is_recorded = matches!(recorded, Recorded::Yes | Recorded::WithoutOutput);
        Executed {
            generation: self.claim.id.generation,
            new_unknown: settlement.state == State::Unknown && is_recorded && !known_before,
            state: settlement.state,
            class: settled.class,
            reason: settlement.reason.unwrap_or_default(),
            exit_code: settlement.exit_code,
            retry_at: settlement.retry_at,
            settled_at: settlement.at.wall,
            attempts: self.claim.attempts_before + self.number,
            end,
            output: settlement.output,
            by_probe: settled.why == Why::ProbeFoundIt,
            recorded,
            survivors: self.survivors.clone(),
            cut: match self.last.as_ref().map(|last| &last.end.how) {
                Some(HowEnded::Ended { cut, .. }) => *cut,
                _ => None,
            },
            is_retry: self.number > 1,
            not_started: self
                .last
                .as_ref()
                .is_some_and(|last| matches!(last.end.how, HowEnded::NotStarted { .. })),
            warning: self
                .last
                .as_ref()
                .and_then(|last| last.classified.warning.clone()),
        }
    }
}

fn next_call_executes(settlement: &Settlement) -> bool {
    settlement.state == State::Failed && settlement.class != Some(Class::Permanent)
}

fn has_body(settlement: &Settlement) -> bool {
    settlement
        .output
        .as_ref()
        .is_some_and(|output| output.body != OutputBody::Nothing)
}

/// What an outer call is told.
fn inner(executed: &Executed, now: UnixMs) -> Inner {
    Inner {
        class: executed.class,
        code: match executed.end {
            CallerEnd::Code(code) => code,
            CallerEnd::Signal { signal, .. } => 128 + signal,
        },
        wait: executed.retry_at.map(|at| now.until(at)),
    }
}
