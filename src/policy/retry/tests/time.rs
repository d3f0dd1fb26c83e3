//! Pauses, deadlines and the time that an answer needs.

use super::*;

#[test]
fn a_probe_is_asked_again_with_growing_pauses_until_the_deadline() {
    let exp = Plan {
        backoff: Backoff::default(),
        ..PROBE
    };
    let again = [
        ended(Uncertain),
        Probed(StillUnderWay),
        Paused,
        Probed(StillUnderWay),
        Paused,
        Probed(DidNot),
    ];
    assert_eq!(
        calm(&exp, &again),
        "run, ask, 1000ms, ask, 2000ms, ask, 1000ms"
    );
    let soon = Moment {
        remaining: Some(600 * MS),
        ..CALM
    };
    let asked = [ended(Uncertain), Probed(StillUnderWay)];
    assert_eq!(
        play(&exp, NOTHING, &soon, &asked),
        "run, ask, 300ms",
        "half of what is left"
    );
    let spent = Moment {
        remaining: Some(99 * MS),
        ..CALM
    };
    assert_eq!(
        play(&exp, NOTHING, &spent, &asked),
        "run, ask, uncertain Deadline"
    );
}

#[test]
fn a_no_that_comes_too_soon_is_asked_again() {
    let settle = Plan {
        settle: Some(2 * S),
        backoff: Backoff::Constant(700 * MS),
        ..PROBE
    };
    let at = |since| Moment {
        since_attempt: Some(since),
        ..CALM
    };
    let (mut execution, _) = Execution::begin(settle.clone(), NOTHING, &CALM);
    let mut step = |event, since| word(&execution.next(event, &at(since)));
    assert_eq!(step(ended(Uncertain), Duration::ZERO), "ask");
    assert_eq!(step(Probed(DidNot), 100 * MS), "700ms");
    assert_eq!(step(Paused, 800 * MS), "ask");
    assert_eq!(
        step(Probed(DidNot), 1500 * MS),
        "500ms",
        "not later than the answer can be believed"
    );
    assert_eq!(step(Paused, 2 * S), "ask");
    assert_eq!(step(Probed(DidNot), 2 * S), "700ms");
    assert_eq!(step(Paused, 3 * S), "run");
    let late = play(&settle, found(Uncertain), &at(3 * S), &[Probed(DidNot)]);
    assert_eq!(late, "ask, run");
    let early = play(&settle, found(Uncertain), &at(S), &[Probed(DidNot)]);
    assert_eq!(early, "ask, 700ms");
    let yes = play(&settle, found(Uncertain), &at(S), &[Probed(Happened)]);
    assert_eq!(yes, "ask, success ProbeFoundIt");
}

#[test]
fn a_hint_lengthens_the_pause_and_never_shortens_it() {
    assert_eq!(calm(&RETRIES, &[hinted(Throttled, 5 * S)]), "run, 5000ms");
    assert_eq!(calm(&RETRIES, &[hinted(Throttled, 5 * MS)]), "run, 1000ms");
    assert_eq!(calm(&RETRIES, &[hinted(Retryable, 5 * S)]), "run, 5000ms");
    let events = [hinted(Uncertain, 5 * S), Probed(DidNot)];
    assert_eq!(calm(&PROBE, &events), "run, ask, 5000ms");
    let events = [hinted(Throttled, 5 * S), Paused, ended(Retryable)];
    assert_eq!(
        calm(&RETRIES, &events),
        "run, 5000ms, run, 1000ms",
        "a hint is for one pause"
    );
}

#[test]
fn a_pause_that_would_end_past_the_deadline_is_not_begun() {
    let left = |remaining| Moment {
        remaining: Some(remaining),
        ..CALM
    };
    assert_eq!(
        play(&RETRIES, NOTHING, &left(1001 * MS), &[ended(Retryable)]),
        "run, 1000ms"
    );
    assert_eq!(
        play(&RETRIES, NOTHING, &left(S), &[ended(Retryable)]),
        "run, retryable Deadline"
    );
    assert_eq!(
        play(&RETRIES, NOTHING, &left(2 * S), &[hinted(Throttled, 3 * S)]),
        "run, throttled Deadline"
    );
    let (mut execution, _) = Execution::begin(PROBE_CLEANUP, NOTHING, &CALM);
    let mut step = |event, remaining| word(&execution.next(event, &left(remaining)));
    assert_eq!(step(ended(Uncertain), 9 * S), "ask");
    assert_eq!(step(Probed(DidNot), 8 * S), "clean");
    assert_eq!(
        step(Cleaned(true), S),
        "safe Deadline",
        "the cleanup took the time"
    );
    assert_eq!(
        play(&PROBE, NOTHING, &left(Duration::ZERO), &[]),
        "safe Deadline"
    );
    let (mut execution, _) = Execution::begin(PROBE, NOTHING, &CALM);
    let spent = execution.next(ended(Uncertain), &left(Duration::ZERO));
    assert_eq!(word(&spent), "uncertain Deadline", "no time to ask");
}
