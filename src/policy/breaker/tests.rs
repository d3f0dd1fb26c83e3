use super::*;
use crate::domain::outcome::Exit;
use crate::policy::state::testing::at_ms;
use proptest::prelude::*;

fn spec(text: &str) -> BreakerSpec {
    text.parse().unwrap()
}

fn dead(_: &str) -> bool {
    false
}

fn living(_: &str) -> bool {
    true
}

#[test]
fn the_option_is_read() {
    let plain = spec("api");
    assert_eq!(plain.threshold, Threshold::Failures(5));
    assert_eq!((plain.cooldown, plain.probes), (DEFAULT_COOLDOWN, 1));
    let full = spec("api:ratio=50%/20/1m,cooldown=2s,probes=3");
    let ratio = Threshold::Ratio {
        percent: 50,
        calls: 20,
        window_ms: 60_000,
    };
    assert_eq!(full.threshold, ratio);
    assert_eq!((full.cooldown, full.probes), (Duration::from_secs(2), 3));
    assert_eq!(spec("api:failures=2").threshold, Threshold::Failures(2));
}

#[test]
fn what_makes_no_sense_is_refused() {
    for bad in [
        "",
        ":failures=2",
        "api:",
        "api:failures",
        "api:failures=0",
        "api:failures=-1",
        "api:cooldown=0s",
        "api:probes=0",
        "api:ratio=50/20/1m",
        "api:ratio=0%/20/1m",
        "api:ratio=101%/20/1m",
        "api:ratio=50%/0/1m",
        "api:ratio=50%/20/0s",
        "api:ratio=50%/20",
        "api:failures=2,failures=3",
        "api:failures=2,ratio=50%/20/1m",
        "api:cooldown=1s,cooldown=2s",
        "api:colour=red",
        "a\u{7}b",
    ] {
        assert!(bad.parse::<BreakerSpec>().is_err(), "{bad}");
    }
}

#[test]
fn only_what_speaks_of_the_other_side_counts() {
    let ended = |cut| Ending::Ended {
        exit: Exit::Code(1),
        cut,
    };
    for (class, told) in [
        (Class::Success, Told::Works),
        (Class::Safe, Told::Fails),
        (Class::Throttled, Told::Fails),
        (Class::Retryable, Told::Fails),
        (Class::Uncertain, Told::Fails),
        (Class::Permanent, Told::Nothing),
    ] {
        assert_eq!(Told::by(&ended(None), class), told);
    }
    assert_eq!(
        Told::by(&Ending::NotStarted("not found".into()), Class::Safe),
        Told::Nothing
    );
    assert_eq!(
        Told::by(&ended(Some(Cut::Interrupted(2))), Class::Uncertain),
        Told::Nothing
    );
    assert_eq!(
        Told::by(&ended(Some(Cut::CallerLost)), Class::Uncertain),
        Told::Nothing
    );
    assert_eq!(
        Told::by(&ended(Some(Cut::Timeout)), Class::Uncertain),
        Told::Fails
    );
}

#[test]
fn failures_in_a_row_open_it_and_the_cooldown_lets_one_probe_in() {
    let spec = spec("api:failures=2,cooldown=1s");
    let mut breaker = Breaker::closed(&at_ms(0));
    assert_eq!(
        breaker.record(&spec, &at_ms(0), "a", Told::Fails),
        Change::None
    );
    assert_eq!(
        breaker.record(&spec, &at_ms(0), "b", Told::Works),
        Change::None
    );
    assert_eq!(
        breaker.record(&spec, &at_ms(0), "c", Told::Fails),
        Change::None
    );
    assert_eq!(
        breaker.record(&spec, &at_ms(0), "d", Told::Nothing),
        Change::None
    );
    assert_eq!(
        breaker.record(&spec, &at_ms(0), "e", Told::Fails),
        Change::Opened
    );
    let left = Duration::from_millis(600);
    assert_eq!(
        breaker.admit(&spec, &at_ms(400), "f", false, &living),
        Admission::RefusedOpen(left)
    );
    // A straggler does not prolong it.
    assert_eq!(
        breaker.record(&spec, &at_ms(900), "g", Told::Fails),
        Change::None
    );
    let admitted: Vec<Admission> = (0..20)
        .map(|i| breaker.admit(&spec, &at_ms(1000), &format!("r{i}"), false, &living))
        .collect();
    let probes = admitted
        .iter()
        .filter(|a| **a == Admission::AdmittedAsProbe)
        .count();
    assert_eq!(
        (probes, admitted[1]),
        (1, Admission::RefusedProbing),
        "20 racers, one probe"
    );
    assert_eq!(
        breaker.record(&spec, &at_ms(1100), "g", Told::Works),
        Change::None,
        "no lease"
    );
    assert_eq!(
        breaker.record(&spec, &at_ms(1100), "r0", Told::Works),
        Change::Closed
    );
    assert_eq!(breaker.phase(&at_ms(1100)), Phase::Closed { failures: 0 });
}

#[test]
fn a_failed_probe_opens_it_for_a_whole_cooldown() {
    let spec = spec("api:cooldown=1s");
    let mut breaker = Breaker::tripped(&at_ms(0), Duration::from_millis(10));
    assert_eq!(
        breaker.admit(&spec, &at_ms(10), "p", false, &living),
        Admission::AdmittedAsProbe
    );
    assert_eq!(
        breaker.record(&spec, &at_ms(500), "p", Told::Fails),
        Change::Opened
    );
    assert_eq!(
        breaker.phase(&at_ms(1_499)),
        Phase::Open(Duration::from_millis(1))
    );
    // The loser of the last round has no lease in this one.
    assert_eq!(
        breaker.admit(&spec, &at_ms(1_500), "q", false, &living),
        Admission::AdmittedAsProbe
    );
    assert_eq!(
        breaker.record(&spec, &at_ms(1_500), "p", Told::Works),
        Change::None
    );
}

#[test]
fn a_killed_probe_jams_nothing_and_one_that_tells_nothing_frees_its_place() {
    let spec = spec("api");
    let mut breaker = Breaker::tripped(&at_ms(0), Duration::from_millis(10));
    assert_eq!(
        breaker.admit(&spec, &at_ms(10), "p", false, &living),
        Admission::AdmittedAsProbe
    );
    assert_eq!(
        breaker.admit(&spec, &at_ms(10), "p", false, &living),
        Admission::AdmittedAsProbe
    );
    assert_eq!(
        breaker.admit(&spec, &at_ms(11), "q", false, &living),
        Admission::RefusedProbing
    );
    assert_eq!(
        breaker.admit(&spec, &at_ms(12), "q", false, &dead),
        Admission::AdmittedAsProbe
    );
    assert_eq!(
        breaker.record(&spec, &at_ms(13), "q", Told::Nothing),
        Change::None
    );
    assert_eq!(
        breaker.phase(&at_ms(13)),
        Phase::HalfOpen {
            successes: 0,
            leases: 0
        }
    );
    assert_eq!(
        breaker.admit(&spec, &at_ms(14), "aux", true, &living),
        Admission::RefusedProbing
    );
    assert_eq!(
        breaker.admit(&spec, &at_ms(14), "r", false, &living),
        Admission::AdmittedAsProbe
    );
}

#[test]
fn several_probes_must_all_succeed() {
    let spec = spec("api:probes=3");
    let mut breaker = Breaker::tripped(&at_ms(0), Duration::from_millis(1));
    for name in ["a", "b", "c"] {
        assert_eq!(
            breaker.admit(&spec, &at_ms(1), name, false, &living),
            Admission::AdmittedAsProbe
        );
    }
    assert_eq!(
        breaker.admit(&spec, &at_ms(1), "d", false, &living),
        Admission::RefusedProbing
    );
    assert_eq!(
        breaker.record(&spec, &at_ms(2), "a", Told::Works),
        Change::None
    );
    assert_eq!(
        breaker.admit(&spec, &at_ms(2), "d", false, &living),
        Admission::RefusedProbing
    );
    assert_eq!(
        breaker.record(&spec, &at_ms(2), "b", Told::Works),
        Change::None
    );
    assert_eq!(
        breaker.record(&spec, &at_ms(2), "c", Told::Works),
        Change::Closed
    );
    // A caller that asks for fewer probes than have already succeeded finds it closed.
    let mut half = Breaker {
        at: at_ms(0),
        mode: Mode::HalfOpen {
            successes: 2,
            leases: vec![],
        },
    };
    assert_eq!(
        half.admit(&self::spec("api"), &at_ms(0), "x", false, &living),
        Admission::Admitted
    );
}

#[test]
fn a_ratio_needs_its_calls_and_forgets_what_left_the_window() {
    let spec = spec("api:ratio=50%/4/1s");
    let mut breaker = Breaker::closed(&at_ms(0));
    for told in [Told::Fails, Told::Fails, Told::Fails] {
        assert_eq!(
            breaker.record(&spec, &at_ms(0), "a", told),
            Change::None,
            "too few calls"
        );
    }
    assert_eq!(
        breaker.record(&spec, &at_ms(1_000), "a", Told::Works),
        Change::None,
        "they are gone"
    );
    for (at, told) in [
        (1_100, Told::Works),
        (1_200, Told::Works),
        (1_300, Told::Fails),
        (1_400, Told::Fails),
    ] {
        assert_eq!(
            breaker.record(&spec, &at_ms(at), "a", told),
            Change::None,
            "2 of 5"
        );
    }
    assert_eq!(
        breaker.record(&spec, &at_ms(1_500), "a", Told::Fails),
        Change::Opened,
        "3 of 6"
    );
}

#[test]
fn jumps_of_the_wall_clock_do_not_matter() {
    let spec = spec("api:cooldown=1h");
    let mut breaker = Breaker::tripped(&at_ms(0), spec.cooldown);
    for wall in [i64::MIN, 0, i64::MAX] {
        let mut now = at_ms(1_000);
        now.wall.0 = wall;
        let admission = breaker.admit(&spec, &now, "a", false, &living);
        assert_eq!(
            admission,
            Admission::RefusedOpen(Duration::from_secs(3_599))
        );
    }
}

#[test]
fn damaged_states_are_refused() {
    let at = stamp_to_json(&at_ms(0));
    for bad in [
        json!(null),
        json!({}),
        json!({"phase": "ajar", "at": at}),
        json!({"phase": 1}),
        json!({"phase": "open", "at": at}),
        json!({"phase": "open", "at": at, "left_ms": -1}),
        json!({"phase": "open", "at": 1, "left_ms": 1}),
        json!({"phase": "open", "at": at, "left_ms": 1, "leases": []}),
        json!({"phase": "closed", "at": at, "failures": 1, "parts": [[1, 2]]}),
        json!({"phase": "closed", "at": at, "failures": 1, "parts": [[1, 2, 4294967296u64]]}),
        json!({"phase": "half-open", "at": at, "successes": 1, "leases": [null]}),
    ] {
        assert!(Breaker::from_json(&bad).is_err(), "{bad}");
    }
}

fn any_told() -> impl Strategy<Value = Told> {
    prop_oneof![Just(Told::Works), Just(Told::Fails), Just(Told::Nothing)]
}

proptest! {
    #[test]
    fn it_is_read_back_at_every_step_and_never_has_more_probes_than_wanted(
        ratio in any::<bool>(), probes in 1u32..4,
        steps in prop::collection::vec((0u8..6, any::<bool>(), any_told(), 0i64..80), 1..120),
    ) {
        let threshold = if ratio { "ratio=50%/3/200ms" } else { "failures=2" };
        let spec = spec(&format!("api:{threshold},cooldown=100ms,probes={probes}"));
        let mut breaker = Breaker::closed(&at_ms(0));
        let mut now = 0;
        for (who, admit, told, gap) in steps {
            now += gap;
            let who = who.to_string();
            if admit {
                breaker.admit(&spec, &at_ms(now), &who, false, &living);
            } else {
                breaker.record(&spec, &at_ms(now), &who, told);
            }
            if let Mode::HalfOpen { leases, successes } = &breaker.mode {
                prop_assert!(leases.len() + *successes as usize <= probes as usize);
            }
            if let Mode::Closed { parts, .. } = &breaker.mode {
                prop_assert!(parts.len() <= 11);
            }
            prop_assert_eq!(Breaker::from_json(&breaker.to_json()), Ok(breaker.clone()));
        }
    }

    #[test]
    fn what_arrives_while_it_is_open_changes_nothing(
        results in prop::collection::vec((any_told(), 0i64..900), 0..40),
    ) {
        let spec = spec("api:cooldown=1s");
        let mut breaker = Breaker::tripped(&at_ms(0), spec.cooldown);
        for (told, at) in results {
            prop_assert_eq!(breaker.record(&spec, &at_ms(at), "x", told), Change::None);
        }
        prop_assert_eq!(breaker.phase(&at_ms(999)), Phase::Open(Duration::from_millis(1)));
        prop_assert_eq!(breaker.admit(&spec, &at_ms(1_000), "p", false, &living), Admission::AdmittedAsProbe);
    }
}
