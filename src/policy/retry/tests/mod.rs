mod properties;
mod time;

use super::*;

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

const PLAN: Plan = Plan {
    held: false,
    retries: 0,
    backoff: Backoff::Constant(S),
    jitter: Jitter::None,
    probe: false,
    probe_first: false,
    settle: None,
    cleanup: false,
    idempotent: false,
    rerun_unknown: false,
    shared_grants: false,
    nested: false,
};

const RETRIES: Plan = Plan { retries: 2, ..PLAN };
const PROBE: Plan = Plan {
    probe: true,
    ..RETRIES
};
const PROBE_CLEANUP: Plan = Plan {
    cleanup: true,
    ..PROBE
};

const NOTHING: Found = Found {
    class: None,
    cleaned: false,
};

const CALM: Moment = Moment {
    remaining: None,
    since_attempt: None,
    interrupted: false,
    random: 0.5,
};

fn found(class: Class) -> Found {
    Found {
        class: Some(class),
        cleaned: false,
    }
}

fn told(class: Class) -> Classified {
    Classified {
        class,
        reason: String::new(),
        retry_after: None,
        http_status: None,
        warning: None,
        named_by_retry_on: false,
        no_retry: false,
    }
}

fn ended(class: Class) -> Event {
    Event::Attempted(told(class))
}

fn hinted(class: Class, wait: Duration) -> Event {
    Event::Attempted(Classified {
        retry_after: Some(wait),
        ..told(class)
    })
}

fn named(class: Class) -> Event {
    Event::Attempted(Classified {
        named_by_retry_on: true,
        ..told(class)
    })
}

fn not_again(class: Class) -> Event {
    Event::Attempted(Classified {
        no_retry: true,
        ..told(class)
    })
}

/// What a step is called in the table.
fn word(step: &Step) -> String {
    match step {
        Step::Attempt => "run".into(),
        Step::Probe => "ask".into(),
        Step::Grant => "grant".into(),
        Step::Cleanup => "clean".into(),
        Step::Pause(d) => format!("{}ms", d.as_millis()),
        Step::Settle(s) => format!("{} {:?}", s.class.word(), s.why),
    }
}

/// Plays events at one unchanging moment and lists the steps.
fn play(plan: &Plan, found: Found, moment: &Moment, events: &[Event]) -> String {
    let (mut execution, first) = Execution::begin(plan.clone(), found, moment);
    let mut steps = vec![word(&first)];
    for event in events {
        steps.push(word(&execution.next(event.clone(), moment)));
    }
    steps.join(", ")
}

fn calm(plan: &Plan, events: &[Event]) -> String {
    play(plan, NOTHING, &CALM, events)
}

use Answer::{DidNot, Happened, StillUnderWay, Undetermined};
use Class::{Permanent, Retryable, Safe, Success, Throttled, Uncertain};
use Event::{Cleaned, Granted, LeftoversAlive, Paused, Probed};

#[test]
fn without_retries_an_attempt_is_all() {
    for (class, expected) in [
        (Success, "run, success Final"),
        (Permanent, "run, permanent Final"),
        (Safe, "run, safe NoRetryLeft"),
        (Throttled, "run, throttled NoRetryLeft"),
        (Retryable, "run, retryable NoRetryLeft"),
        (Uncertain, "run, uncertain NoProbe"),
    ] {
        assert_eq!(calm(&PLAN, &[ended(class)]), expected);
    }
}

#[test]
fn retries_follow_what_may_be_repeated() {
    for (class, expected) in [
        (Success, "run, success Final"),
        (Permanent, "run, permanent Final"),
        (Safe, "run, 1000ms"),
        (Throttled, "run, 1000ms"),
        (Retryable, "run, 1000ms"),
        (Uncertain, "run, uncertain NoProbe"),
    ] {
        assert_eq!(calm(&RETRIES, &[ended(class)]), expected);
    }
    let events = [
        ended(Retryable),
        Paused,
        ended(Safe),
        Paused,
        ended(Retryable),
    ];
    assert_eq!(
        calm(&RETRIES, &events),
        "run, 1000ms, run, 1000ms, run, retryable NoRetryLeft",
        "no pause after the last attempt"
    );
    let events = [ended(Retryable), Paused, ended(Success)];
    assert_eq!(calm(&RETRIES, &events), "run, 1000ms, run, success Final");
    assert_eq!(calm(&RETRIES, &[not_again(Safe)]), "run, safe NoRetry");
    let nested = Plan {
        nested: true,
        ..RETRIES
    };
    assert_eq!(calm(&nested, &[ended(Retryable)]), "run, retryable Nested");
}

#[test]
fn an_uncertain_attempt_is_asked_about_at_once_whatever_the_retries() {
    let unretried = Plan {
        retries: 0,
        ..PROBE
    };
    let asked = |plan: &Plan, answer| calm(plan, &[ended(Uncertain), Probed(answer)]);
    assert_eq!(
        asked(&unretried, Happened),
        "run, ask, success ProbeFoundIt"
    );
    assert_eq!(asked(&unretried, DidNot), "run, ask, safe NoRetryLeft");
    assert_eq!(
        asked(&unretried, Undetermined),
        "run, ask, uncertain ProbeUndetermined"
    );
    assert_eq!(asked(&unretried, StillUnderWay), "run, ask, 1000ms");
    assert_eq!(asked(&PROBE, Happened), "run, ask, success ProbeFoundIt");
    assert_eq!(asked(&PROBE, DidNot), "run, ask, 1000ms");
    assert_eq!(
        asked(&PROBE, Undetermined),
        "run, ask, uncertain ProbeUndetermined"
    );
    let nested = Plan {
        nested: true,
        ..PROBE
    };
    assert_eq!(asked(&nested, DidNot), "run, ask, safe Nested");
    let stopped = [not_again(Uncertain), Probed(DidNot)];
    assert_eq!(calm(&PROBE, &stopped), "run, ask, safe NoRetry");
    for class in [Safe, Throttled, Retryable] {
        assert_eq!(
            calm(&PROBE, &[ended(class)]),
            "run, 1000ms",
            "nothing to ask about"
        );
    }
}

#[test]
fn what_is_declared_repeatable_is_repeated_though_nobody_knows() {
    let idempotent = Plan {
        idempotent: true,
        ..RETRIES
    };
    let events = [
        ended(Uncertain),
        Paused,
        ended(Uncertain),
        Paused,
        ended(Uncertain),
    ];
    assert_eq!(
        calm(&idempotent, &events),
        "run, 1000ms, run, 1000ms, run, uncertain NoRetryLeft"
    );
    assert_eq!(
        calm(&RETRIES, &[named(Uncertain), Paused]),
        "run, 1000ms, run"
    );
    assert_eq!(
        calm(&PLAN, &[named(Uncertain)]),
        "run, uncertain NoRetryLeft"
    );
    let both = Plan {
        idempotent: true,
        ..PROBE
    };
    let undetermined = [ended(Uncertain), Probed(Undetermined), Paused];
    assert_eq!(calm(&both, &undetermined), "run, ask, 1000ms, run");
    assert_eq!(
        calm(&PROBE, &[named(Uncertain), Probed(Happened)]),
        "run, ask, success ProbeFoundIt",
        "a probe is asked all the same"
    );
    let stopped = [not_again(Uncertain)];
    assert_eq!(calm(&idempotent, &stopped), "run, uncertain NoRetry");
    let rerun = Plan {
        rerun_unknown: true,
        ..RETRIES
    };
    assert_eq!(
        calm(&rerun, &[ended(Uncertain)]),
        "run, uncertain NoProbe",
        "for what was found only"
    );
}

#[test]
fn a_cleanup_comes_before_what_follows_traces() {
    let events = [
        ended(Uncertain),
        Probed(DidNot),
        Cleaned(true),
        Paused,
        ended(Success),
    ];
    assert_eq!(
        calm(&PROBE_CLEANUP, &events),
        "run, ask, clean, 1000ms, run, success Final"
    );
    let events = [
        ended(Retryable),
        Cleaned(true),
        Paused,
        ended(Safe),
        Paused,
        ended(Retryable),
    ];
    assert_eq!(
        calm(&PROBE_CLEANUP, &events),
        "run, clean, 1000ms, run, 1000ms, run, retryable NoRetryLeft",
        "none after a safe attempt, and none without a retry"
    );
    let events = [ended(Throttled), Paused];
    assert_eq!(calm(&PROBE_CLEANUP, &events), "run, 1000ms, run");
}

#[test]
fn a_failed_cleanup_leaves_things_as_they_were() {
    let events = [ended(Uncertain), Probed(DidNot), Cleaned(false)];
    assert_eq!(
        calm(&PROBE_CLEANUP, &events),
        "run, ask, clean, uncertain CleanupFailed"
    );
    let events = [ended(Retryable), Cleaned(false)];
    assert_eq!(
        calm(&PROBE_CLEANUP, &events),
        "run, clean, retryable CleanupFailed"
    );
    let later = |class, events: &[Event]| play(&PROBE_CLEANUP, found(class), &CALM, events);
    assert_eq!(
        later(Uncertain, &[Probed(DidNot), Cleaned(false)]),
        "ask, clean, uncertain CleanupFailed"
    );
    for class in [Retryable, Permanent] {
        let expected = format!("clean, {} CleanupFailed", class.word());
        assert_eq!(later(class, &[Cleaned(false)]), expected);
    }
    let interrupted = Moment {
        interrupted: true,
        ..CALM
    };
    let (mut execution, _) = Execution::begin(PROBE_CLEANUP, NOTHING, &CALM);
    execution.next(ended(Uncertain), &CALM);
    execution.next(Probed(DidNot), &CALM);
    let step = execution.next(Cleaned(false), &interrupted);
    assert_eq!(word(&step), "uncertain Interrupted");
}

#[test]
fn a_later_call_begins_with_what_was_found() {
    let later = |plan: &Plan, class, events: &[Event]| play(plan, found(class), &CALM, events);
    let unretried = Plan {
        retries: 0,
        ..PROBE_CLEANUP
    };
    assert_eq!(
        later(&unretried, Uncertain, &[Probed(Happened)]),
        "ask, success ProbeFoundIt"
    );
    assert_eq!(
        later(
            &unretried,
            Uncertain,
            &[Probed(DidNot), Cleaned(true), ended(Success)]
        ),
        "ask, clean, run, success Final",
        "its first attempt is no retry"
    );
    assert_eq!(
        later(&unretried, Uncertain, &[Probed(Undetermined)]),
        "ask, uncertain ProbeUndetermined"
    );
    assert_eq!(later(&PLAN, Uncertain, &[]), "uncertain NoProbe");
    let rerun = Plan {
        rerun_unknown: true,
        cleanup: true,
        ..PLAN
    };
    assert_eq!(later(&rerun, Uncertain, &[Cleaned(true)]), "clean, run");
    let asked = Plan {
        rerun_unknown: true,
        ..PROBE
    };
    assert_eq!(
        later(&asked, Uncertain, &[Probed(Undetermined)]),
        "ask, run"
    );
    let idempotent = Plan {
        idempotent: true,
        ..PLAN
    };
    assert_eq!(later(&idempotent, Uncertain, &[]), "run");
    // What did nothing may have followed an attempt that left something half done.
    for class in [Safe, Throttled, Success, Retryable, Permanent] {
        assert_eq!(later(&unretried, class, &[Cleaned(true)]), "clean, run");
        let cleaned = Found {
            class: Some(class),
            cleaned: true,
        };
        assert_eq!(
            play(&unretried, cleaned, &CALM, &[]),
            "run",
            "not cleaned twice"
        );
    }
}

#[test]
fn an_attempt_that_did_nothing_does_not_clear_up_an_earlier_one() {
    let declared = Plan {
        idempotent: true,
        retries: 1,
        ..PLAN
    };
    for (class, expected) in [
        (Safe, "run, 1000ms, run, uncertain NoRetryLeft"),
        (Throttled, "run, 1000ms, run, uncertain NoRetryLeft"),
        (Retryable, "run, 1000ms, run, uncertain NoRetryLeft"),
        (Permanent, "run, 1000ms, run, permanent Final"),
        (Success, "run, 1000ms, run, success Final"),
    ] {
        let events = [ended(Uncertain), Paused, ended(class)];
        assert_eq!(calm(&declared, &events), expected);
    }
    let rerun = Plan {
        rerun_unknown: true,
        ..PLAN
    };
    assert_eq!(
        play(&rerun, found(Uncertain), &CALM, &[ended(Safe)]),
        "run, uncertain NoRetryLeft"
    );
    let asked = [Probed(DidNot), ended(Safe)];
    let once = Plan {
        retries: 0,
        ..PROBE
    };
    assert_eq!(
        play(&once, found(Uncertain), &CALM, &asked),
        "ask, run, safe NoRetryLeft"
    );
}

#[test]
fn probe_first_asks_about_what_nobody_has_recorded() {
    let first = Plan {
        probe_first: true,
        ..PROBE_CLEANUP
    };
    assert_eq!(
        calm(&first, &[Probed(Happened)]),
        "ask, success ProbeFoundIt"
    );
    assert_eq!(calm(&first, &[Probed(DidNot)]), "ask, run");
    assert_eq!(
        calm(&first, &[Probed(Undetermined)]),
        "ask, uncertain ProbeUndetermined"
    );
    assert_eq!(
        calm(&first, &[Probed(StillUnderWay), Paused]),
        "ask, 1000ms, ask"
    );
    let blind = Plan {
        probe_first: true,
        ..PLAN
    };
    assert_eq!(calm(&blind, &[]), "run");
}

#[test]
fn a_shared_budget_pays_before_the_pause_and_before_the_cleanup() {
    let shared = Plan {
        shared_grants: true,
        ..PROBE_CLEANUP
    };
    let events = [ended(Retryable), Granted(true), Cleaned(true), Paused];
    assert_eq!(calm(&shared, &events), "run, grant, clean, 1000ms, run");
    let events = [ended(Retryable), Granted(false)];
    assert_eq!(calm(&shared, &events), "run, grant, retryable NotGranted");
    let events = [ended(Uncertain), Probed(DidNot), Granted(false)];
    assert_eq!(calm(&shared, &events), "run, ask, grant, safe NotGranted");
    let unretried = Plan {
        retries: 0,
        ..shared
    };
    assert_eq!(
        calm(&unretried, &[ended(Retryable)]),
        "run, retryable NoRetryLeft",
        "it is not asked in vain"
    );
    let later = play(
        &unretried,
        found(Uncertain),
        &CALM,
        &[Probed(DidNot), Cleaned(true)],
    );
    assert_eq!(later, "ask, clean, run", "a first attempt costs nothing");
}

#[test]
fn nothing_new_starts_after_an_interrupt() {
    let interrupted = Moment {
        interrupted: true,
        ..CALM
    };
    let after = |plan: &Plan, events: &[Event], last: Event| {
        let (mut execution, _) = Execution::begin(plan.clone(), NOTHING, &CALM);
        for event in events {
            execution.next(event.clone(), &CALM);
        }
        word(&execution.next(last, &interrupted))
    };
    let idempotent = Plan {
        idempotent: true,
        ..RETRIES
    };
    assert_eq!(
        after(&PROBE, &[], ended(Uncertain)),
        "uncertain Interrupted"
    );
    assert_eq!(
        after(&idempotent, &[], ended(Uncertain)),
        "uncertain Interrupted"
    );
    assert_eq!(
        after(&RETRIES, &[], ended(Retryable)),
        "retryable Interrupted"
    );
    assert_eq!(
        after(&PROBE, &[ended(Uncertain)], Probed(DidNot)),
        "safe Interrupted"
    );
    assert_eq!(
        after(&PROBE, &[ended(Uncertain)], Probed(Undetermined)),
        "uncertain Interrupted"
    );
    assert_eq!(
        after(&PROBE, &[ended(Uncertain)], Probed(StillUnderWay)),
        "uncertain Interrupted"
    );
    assert_eq!(
        after(&PROBE, &[ended(Uncertain)], Probed(Happened)),
        "success ProbeFoundIt"
    );
    assert_eq!(after(&RETRIES, &[ended(Safe)], Paused), "safe Interrupted");
    assert_eq!(
        after(&PROBE, &[ended(Uncertain), Probed(StillUnderWay)], Paused),
        "uncertain Interrupted"
    );
    let events = [ended(Uncertain), Probed(DidNot)];
    assert_eq!(
        after(&PROBE_CLEANUP, &events, Cleaned(true)),
        "safe Interrupted"
    );
    let first = play(&PLAN, NOTHING, &interrupted, &[]);
    assert_eq!(first, "safe Interrupted");
}

#[test]
fn what_cannot_be_ended_stays_unknown() {
    for events in [
        vec![ended(Retryable)],
        vec![ended(Uncertain)],
        vec![ended(Uncertain), Probed(DidNot)],
    ] {
        let mut events = events;
        events.push(LeftoversAlive);
        assert!(calm(&PROBE_CLEANUP, &events).ends_with("uncertain LeftoversAlive"));
    }
}

#[test]
fn events_out_of_order_never_run_anything() {
    for event in [Paused, Probed(DidNot), Granted(true), Cleaned(true)] {
        assert_eq!(calm(&PROBE, &[event]), "run, uncertain OutOfOrder");
    }
    let over = [ended(Success), ended(Retryable), LeftoversAlive];
    assert_eq!(
        calm(&RETRIES, &over),
        "run, success Final, success OutOfOrder, success OutOfOrder"
    );
}

#[test]
fn pauses_follow_the_schedule_of_the_retries() {
    let plan = Plan {
        retries: 3,
        backoff: Backoff::default(),
        ..PLAN
    };
    let (mut execution, _) = Execution::begin(plan, NOTHING, &CALM);
    let mut pauses = Vec::new();
    while let Step::Pause(pause) = execution.next(ended(Retryable), &CALM) {
        pauses.push(pause);
        assert_eq!(execution.next(Paused, &CALM), Step::Attempt);
    }
    assert_eq!(pauses, [S, 2 * S, 4 * S]);
    assert_eq!(execution.retries_used(), 3);
}
