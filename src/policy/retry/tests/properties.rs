//! Rules that no sequence of events may break.

use super::*;
use proptest::prelude::*;

fn any_class() -> impl Strategy<Value = Class> {
    prop::sample::select(Class::ALL.to_vec())
}

prop_compose! {
    fn any_plan()(
        retries in 0u32..5, flags in any::<[bool; 8]>(), settle in prop::option::of(1u64..3000),
        exponential in any::<bool>(), full in any::<bool>(),
    ) -> Plan {
        let [probe, probe_first, cleanup, idempotent, rerun_unknown, shared_grants, nested, settles] = flags;
        Plan {
            held: false,
            retries,
            backoff: if exponential { Backoff::default() } else { Backoff::Constant(10 * MS) },
            jitter: if full { Jitter::Full } else { Jitter::Decorrelated },
            probe, probe_first, cleanup, idempotent, rerun_unknown, shared_grants, nested,
            settle: settle.filter(|_| settles).map(Duration::from_millis),
        }
    }
}

#[derive(Debug, Clone)]
struct Turn {
    class: Class,
    named: bool,
    no_retry: bool,
    hint: Option<Duration>,
    answer: Answer,
    yes: bool,
    alive: bool,
    moment: Moment,
}

prop_compose! {
    fn any_turn()(
        class in prop_oneof![3 => Just(Uncertain), 3 => Just(Retryable), 1 => any_class()],
        named in any::<bool>(), no_retry in prop::bool::weighted(0.1),
        hint in prop::option::weighted(0.2, 0u64..100_000),
        answer in prop::sample::select(vec![Happened, DidNot, DidNot, StillUnderWay, Undetermined]),
        yes in prop::bool::weighted(0.8), alive in prop::bool::weighted(0.03),
        remaining in prop::option::of(0u64..200_000), since in prop::option::of(0u64..5_000),
        interrupted in prop::bool::weighted(0.05), random in 0.0f64..1.0,
    ) -> Turn {
        let ms = Duration::from_millis;
        let moment = Moment {
            remaining: remaining.map(ms), since_attempt: since.map(ms), interrupted, random,
        };
        Turn { class, named, no_retry, hint: hint.map(ms), answer, yes, alive, moment }
    }
}

impl Turn {
    fn event(&self, step: &Step) -> Event {
        match step {
            _ if self.alive => LeftoversAlive,
            Step::Attempt => Event::Attempted(Classified {
                retry_after: self.hint,
                named_by_retry_on: self.named,
                no_retry: self.no_retry,
                ..told(self.class)
            }),
            Step::Probe => Probed(self.answer),
            Step::Grant => Granted(self.yes),
            Step::Cleanup => Cleaned(self.yes),
            Step::Pause(_) | Step::Settle(_) => Paused,
        }
    }
}

/// What an onlooker knows who only sees steps and events.
#[derive(Debug, Default)]
struct Onlooker {
    attempts: u32,
    /// The last attempt may have happened, and nothing has said otherwise or allowed a repetition.
    in_doubt: bool,
    /// Some attempt may have happened, and no probe has said otherwise since.
    may_have_happened: bool,
    /// The last attempt left traces, and no cleanup has succeeded since.
    traces: bool,
    last_pause: Option<Duration>,
    hint: Option<Duration>,
    granted: bool,
    interrupted: bool,
    no_retry: bool,
    later: bool,
}

impl Onlooker {
    fn begin(plan: &Plan, found: Found) -> Onlooker {
        let allowed = plan.idempotent || plan.rerun_unknown;
        Onlooker {
            in_doubt: found.class == Some(Uncertain) && !allowed,
            may_have_happened: found.class == Some(Uncertain),
            traces: found.class.is_some() && !found.cleaned,
            later: true,
            ..Onlooker::default()
        }
    }

    fn sees_event(&mut self, plan: &Plan, event: &Event, moment: &Moment) {
        self.interrupted |= moment.interrupted;
        match event {
            Event::Attempted(told) => {
                let allowed = plan.idempotent || told.named_by_retry_on;
                self.in_doubt = told.class == Uncertain && !allowed;
                self.may_have_happened |= told.class == Uncertain;
                self.traces = told.class.leaves_traces();
                self.hint = told.retry_after;
                self.no_retry = told.no_retry;
                self.granted = false;
                self.last_pause = None;
                self.later = false;
            }
            Event::Probed(DidNot) => {
                let early = match (plan.settle, moment.since_attempt) {
                    (Some(settle), Some(since)) => since < settle,
                    _ => false,
                };
                self.in_doubt &= early;
                self.may_have_happened &= early;
            }
            Event::Granted(yes) => self.granted = *yes,
            Event::Cleaned(true) => self.traces = false,
            _ => {}
        }
    }

    fn sees_step(&mut self, plan: &Plan, step: &Step, moment: &Moment) {
        match step {
            Step::Attempt => self.sees_attempt(plan),
            Step::Pause(pause) => {
                self.last_pause = Some(*pause);
                assert!(
                    moment.remaining.is_none_or(|left| *pause < left),
                    "pauses past the deadline"
                );
            }
            Step::Probe => assert!(plan.probe),
            Step::Cleanup => assert!(plan.cleanup && self.traces, "cleans what is clean"),
            Step::Grant => assert!(plan.shared_grants),
            Step::Settle(_) => return,
        }
        assert!(!self.interrupted, "starts something after an interrupt");
    }

    fn sees_attempt(&mut self, plan: &Plan) {
        assert!(!self.in_doubt, "runs again what may have happened");
        assert!(
            !(plan.cleanup && self.traces),
            "runs over what is half done"
        );
        if !self.later {
            assert!(!plan.nested && !self.no_retry, "retries what must not be");
            assert!(
                !plan.shared_grants || self.granted,
                "retries without a grant"
            );
            assert!(
                self.last_pause >= self.hint,
                "comes back before it was asked to"
            );
        }
        self.attempts += 1;
        assert!(
            self.attempts <= plan.retries + 1,
            "more attempts than allowed"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn no_sequence_breaks_the_rules(
        plan in any_plan(),
        before in prop::option::of(any_class()), cleaned in any::<bool>(),
        turns in prop::collection::vec(any_turn(), 1..40),
    ) {
        let found = Found { class: before, cleaned };
        let mut onlooker = Onlooker::begin(&plan, found);
        let mut calm = turns[0].moment;
        calm.interrupted = false;
        let (mut execution, mut step) = Execution::begin(plan.clone(), found, &calm);
        onlooker.sees_step(&plan, &step, &calm);
        for turn in &turns {
            if matches!(step, Step::Settle(_)) {
                break;
            }
            let event = turn.event(&step);
            onlooker.sees_event(&plan, &event, &turn.moment);
            step = execution.next(event.clone(), &turn.moment);
            onlooker.sees_step(&plan, &step, &turn.moment);
            if let Step::Settle(settled) = &step {
                prop_assert_ne!(settled.why, Why::OutOfOrder);
                let again = matches!(settled.class, Safe | Throttled | Retryable);
                prop_assert!(!(onlooker.may_have_happened && again), "{:?}", settled);
                let certain = settled.class != Uncertain;
                prop_assert!(!(onlooker.in_doubt && certain) || event == Probed(Happened), "{:?}", settled);
            }
        }
    }

    #[test]
    fn events_in_any_order_never_run_what_is_in_doubt(
        plan in any_plan(), before in prop::option::of(any_class()),
        events in prop::collection::vec((any_turn(), 0u8..6), 1..30),
    ) {
        let found = Found { class: before, cleaned: false };
        let mut onlooker = Onlooker::begin(&plan, found);
        let (mut execution, _) = Execution::begin(plan.clone(), found, &CALM);
        for (turn, kind) in events {
            let pretended = match kind {
                0 => Step::Attempt,
                1 => Step::Probe,
                2 => Step::Grant,
                3 => Step::Cleanup,
                _ => Step::Pause(S),
            };
            let event = turn.event(&pretended);
            onlooker.sees_event(&plan, &event, &turn.moment);
            if execution.next(event, &turn.moment) == Step::Attempt {
                prop_assert!(!onlooker.in_doubt);
            }
        }
    }
}
