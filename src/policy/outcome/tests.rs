use super::*;
use proptest::prelude::*;

fn ended(code: i32) -> Ending {
    Ending::Ended {
        exit: Exit::Code(code),
        cut: None,
    }
}

fn killed(signal: i32) -> Ending {
    Ending::Ended {
        exit: Exit::Signal(signal),
        cut: None,
    }
}

fn cut(code: i32, cut: Cut) -> Ending {
    Ending::Ended {
        exit: Exit::Code(code),
        cut: Some(cut),
    }
}

fn rules(stop_on: &str, retry_on: &str, success_codes: &str, retries_given: bool) -> Rules {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Rules {
        stop_on: given(stop_on).map(|t| t.parse().unwrap()),
        retry_on: given(retry_on).map(|t| t.parse().unwrap()),
        success_codes: given(success_codes).map(|t| t.parse().unwrap()),
        retries_given,
    }
}

fn verdict(class: Class) -> Verdict {
    Verdict {
        class,
        reason: "the tool says so".into(),
        retry_after: Some(Duration::from_secs(7)),
        http_status: Some(503),
        warning: None,
    }
}

fn judged(class: Class) -> Sightings {
    Sightings {
        verdict: Some(verdict(class)),
        ..Sightings::default()
    }
}

fn declares(class: Class) -> Control {
    Control {
        outcome: Some(class),
        ..Control::default()
    }
}

fn class(rules: &Rules, ending: &Ending, seen: &Sightings, control: &Control) -> Class {
    classify(rules, ending, seen, control).class
}

fn hears(class: Class, code: i32, whole: bool) -> Control {
    let inner = Inner {
        class,
        code,
        wait: Some(Duration::from_secs(9)),
    };
    let nested = Heard {
        uncertain: class == Class::Uncertain,
        last: Some(inner),
        whole,
    };
    Control {
        nested,
        ..Control::default()
    }
}

#[test]
fn an_inner_call_speaks_for_the_whole_only_where_it_is_the_whole() {
    let (none, quiet) = (Rules::default(), Sightings::default());
    let retries = rules("", "", "", true);
    for inner in Class::ALL.into_iter().filter(|c| *c != Class::Success) {
        let whole = hears(inner, 7, true);
        assert_eq!(class(&none, &ended(7), &quiet, &whole), inner);
        assert_eq!(class(&retries, &ended(7), &quiet, &whole), inner);
        let handled = class(&none, &ended(0), &quiet, &whole);
        assert_eq!(handled, Class::Success, "a success is nobody's failure");
        let part = hears(inner, 7, false);
        let wanted = match inner {
            Class::Uncertain => Class::Uncertain,
            _ => Class::Permanent,
        };
        assert_eq!(class(&none, &ended(7), &quiet, &part), wanted);
    }
    // A permanent part ends the retries if its code is passed on; one that was dealt with does not.
    let part = hears(Class::Permanent, 7, false);
    assert_eq!(class(&retries, &ended(7), &quiet, &part), Class::Permanent);
    assert_eq!(class(&retries, &ended(8), &quiet, &part), Class::Retryable);
    let asked = classify(
        &retries,
        &ended(7),
        &quiet,
        &hears(Class::Throttled, 7, false),
    );
    assert_eq!(asked.class, Class::Retryable);
    assert_eq!(asked.retry_after, Some(Duration::from_secs(9)));
    let own = Control {
        outcome: Some(Class::Permanent),
        ..hears(Class::Uncertain, 7, true)
    };
    assert_eq!(class(&none, &ended(7), &quiet, &own), Class::Permanent);
}

#[test]
fn without_options_the_code_decides() {
    let (none, quiet) = (Sightings::default(), Control::default());
    for (ending, expected) in [
        (Ending::NotStarted("not found".into()), Class::Safe),
        (ended(0), Class::Success),
        (ended(1), Class::Permanent),
        (ended(126), Class::Permanent),
        (ended(255), Class::Permanent),
        (killed(9), Class::Uncertain),
        (cut(0, Cut::Timeout), Class::Uncertain),
        (cut(0, Cut::Deadline), Class::Uncertain),
        (cut(0, Cut::Interrupted(2)), Class::Uncertain),
        (cut(1, Cut::CallerLost), Class::Uncertain),
    ] {
        let told = classify(&Rules::default(), &ending, &none, &quiet);
        assert_eq!(told.class, expected, "{ending:?}");
        assert!(!told.named_by_retry_on);
        assert_eq!(told.no_retry, matches!(ending, Ending::NotStarted(_)));
        assert!(!told.reason.is_empty());
    }
}

/// Each row: stop-on, retry-on, success codes, retries given; code; the classifier; the class.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    bool,
    i32,
    Option<Class>,
    Class,
);

#[test]
fn options_and_classifier_speak_in_their_order() {
    use Class::*;
    let rows: [Row; 26] = [
        // --retries alone declares every failed exit, unless the classifier knows better.
        ("", "", "", true, 9, None, Retryable),
        ("", "", "", true, 0, None, Success),
        ("", "", "", true, 9, Some(Permanent), Permanent),
        ("", "", "", true, 9, Some(Uncertain), Uncertain),
        ("", "", "", true, 9, Some(Safe), Safe),
        ("", "", "", true, 9, Some(Throttled), Throttled),
        // With --retry-on only what it names.
        ("", "exit:9", "", true, 9, None, Retryable),
        ("", "exit:9", "", true, 8, None, Permanent),
        ("", "exit:9", "", false, 9, None, Retryable),
        ("", "any", "", false, 9, Some(Uncertain), Retryable),
        ("", "http:503", "", false, 22, Some(Uncertain), Retryable),
        ("", "http:429", "", false, 22, Some(Uncertain), Uncertain),
        ("", "exit:9", "", true, 8, Some(Safe), Safe),
        // --stop-on is stronger.
        ("exit:9", "any", "", true, 9, None, Permanent),
        ("exit:9", "any", "", true, 8, None, Retryable),
        ("http:5xx", "", "", true, 22, Some(Uncertain), Permanent),
        ("exit:0", "", "", false, 0, None, Permanent),
        // --success-codes replaces the list.
        ("", "", "3", false, 3, None, Success),
        ("", "", "3", false, 0, None, Permanent),
        ("", "", "3", true, 0, None, Retryable),
        ("", "", "0,3", false, 3, Some(Uncertain), Success),
        ("", "any", "0,3", false, 3, None, Success),
        ("", "exit:3", "0,3", false, 3, None, Retryable),
        ("", "", "0", false, 2, Some(Success), Permanent),
        // The classifier alone.
        ("", "", "", false, 2, Some(Success), Success),
        ("", "", "", false, 0, Some(Permanent), Permanent),
    ];
    for (stop, retry, success, retries, code, says, expected) in rows {
        let rules = rules(stop, retry, success, retries);
        let seen = says.map(judged).unwrap_or_default();
        let told = class(&rules, &ended(code), &seen, &Control::default());
        assert_eq!(
            told, expected,
            "{stop} {retry} {success} {retries} {code} {says:?}"
        );
    }
}

#[test]
fn the_child_itself_is_believed_first() {
    let rules = rules("exit:9", "any", "", true);
    for declared in Class::ALL {
        let told = class(
            &rules,
            &ended(9),
            &judged(Class::Uncertain),
            &declares(declared),
        );
        let expected = if declared == Class::Success {
            Class::Permanent
        } else {
            declared
        };
        assert_eq!(told, expected);
    }
    let after_term = class(
        &rules,
        &cut(0, Cut::Interrupted(15)),
        &judged(Class::Safe),
        &declares(Class::Safe),
    );
    assert_eq!(after_term, Class::Safe, "it cleaned up and says so");
}

#[test]
fn retry_on_names_an_uncertain_end_without_making_it_a_certain_one() {
    let told = |stop: &str, retry: &str, ending: &Ending| {
        let control = Control::default();
        let told = classify(
            &rules(stop, retry, "", true),
            ending,
            &Sightings::default(),
            &control,
        );
        assert_eq!(told.class, Class::Uncertain);
        (told.named_by_retry_on, told.no_retry)
    };
    let timed_out = cut(143, Cut::Timeout);
    assert_eq!(told("", "timeout", &timed_out), (true, false));
    assert_eq!(told("", "any,exit:143", &timed_out), (false, false));
    assert_eq!(told("", "signal", &killed(11)), (true, false));
    assert_eq!(told("", "signal:SEGV", &killed(11)), (true, false));
    assert_eq!(told("", "signal:KILL", &killed(11)), (false, false));
    assert_eq!(told("timeout", "timeout", &timed_out), (false, true));
    assert_eq!(told("", "", &timed_out), (false, false));
    assert_eq!(
        told("", "timeout,signal", &cut(130, Cut::Interrupted(2))),
        (false, false)
    );
    let confirmed = classify(
        &rules("", "timeout", "", true),
        &timed_out,
        &Sightings::default(),
        &declares(Class::Uncertain),
    );
    assert!(confirmed.named_by_retry_on);
}

#[test]
fn patterns_that_were_seen_belong_to_their_own_list() {
    let rules = rules("stderr:/a/", "stderr:/b/", "", false);
    let seen = |stop: &[usize], retry: &[usize]| Sightings {
        stop_on: stop.to_vec(),
        retry_on: retry.to_vec(),
        verdict: None,
    };
    let told = |seen| class(&rules, &ended(1), &seen, &Control::default());
    assert_eq!(told(seen(&[], &[0])), Class::Retryable);
    assert_eq!(told(seen(&[0], &[0])), Class::Permanent);
    assert_eq!(told(seen(&[], &[])), Class::Permanent);
    let on_success = class(&rules, &ended(0), &seen(&[], &[0]), &Control::default());
    assert_eq!(
        on_success,
        Class::Retryable,
        "the output names a failure that the code hides"
    );
}

#[test]
fn hints_and_statuses_are_handed_on() {
    let told = classify(
        &Rules::default(),
        &ended(22),
        &judged(Class::Throttled),
        &Control::default(),
    );
    assert_eq!(told.retry_after, Some(Duration::from_secs(7)));
    assert_eq!(told.http_status, Some(503));
    let own = Control {
        retry_after: Some(Duration::from_secs(1)),
        ..Control::default()
    };
    let told = classify(
        &rules("", "any", "", true),
        &ended(9),
        &judged(Class::Safe),
        &own,
    );
    assert_eq!(
        (told.class, told.retry_after),
        (Class::Retryable, Some(Duration::from_secs(1)))
    );
    let told = classify(
        &Rules::default(),
        &cut(22, Cut::Timeout),
        &judged(Class::Safe),
        &Control::default(),
    );
    assert_eq!((told.class, told.http_status), (Class::Uncertain, None));
}

#[test]
fn a_warning_of_a_success_is_handed_on() {
    let mut seen = judged(Class::Success);
    if let Some(v) = &mut seen.verdict {
        v.warning = Some("look twice".into());
    }
    let told = classify(&Rules::default(), &ended(0), &seen, &Control::default());
    assert_eq!(
        (told.class, told.warning.as_deref()),
        (Class::Success, Some("look twice"))
    );
}

fn any_class() -> impl Strategy<Value = Class> {
    prop::sample::select(Class::ALL.to_vec())
}

fn any_rules() -> impl Strategy<Value = Rules> {
    let lists = prop::sample::select(vec![
        "",
        "any",
        "timeout,signal",
        "exit:0",
        "exit:1-9",
        "stderr:/x/",
    ]);
    let codes = prop::sample::select(vec!["", "0", "1-255", "0-255"]);
    (lists.clone(), lists, codes, any::<bool>()).prop_map(|(s, r, c, n)| rules(s, r, c, n))
}

fn any_seen() -> impl Strategy<Value = Sightings> {
    (any::<bool>(), any::<bool>(), prop::option::of(any_class())).prop_map(|(s, r, v)| Sightings {
        stop_on: if s { vec![0] } else { vec![] },
        retry_on: if r { vec![0] } else { vec![] },
        verdict: v.map(verdict),
    })
}

fn any_cut() -> impl Strategy<Value = Cut> {
    prop_oneof![
        Just(Cut::Timeout),
        Just(Cut::Deadline),
        Just(Cut::CallerLost),
        (1..32).prop_map(Cut::Interrupted)
    ]
}

proptest! {
    #[test]
    fn an_attempt_that_was_cut_or_killed_is_never_certain_unless_the_child_says_so(
        rules in any_rules(), seen in any_seen(), code in 0..256, cut_by in any_cut(), signal in 1..64,
        declared in prop::option::of(any_class()),
    ) {
        let control = Control { outcome: declared, ..Control::default() };
        let expected = declared.filter(|c| *c != Class::Success).unwrap_or(Class::Uncertain);
        for ending in [cut(code, cut_by), killed(signal)] {
            prop_assert_eq!(class(&rules, &ending, &seen, &control), expected);
        }
    }

    #[test]
    fn what_could_not_be_started_is_safe_whatever_else_is_said(
        rules in any_rules(), seen in any_seen(), declared in any_class(),
    ) {
        let told = classify(&rules, &Ending::NotStarted("x".into()), &seen, &declares(declared));
        prop_assert_eq!((told.class, told.no_retry), (Class::Safe, true));
    }

    #[test]
    fn only_a_code_that_means_success_or_a_classifier_succeeds(
        rules in any_rules(), seen in any_seen(), code in 0..256,
    ) {
        let told = class(&rules, &ended(code), &seen, &Control::default());
        let listed = rules.success_codes.clone().unwrap_or_default().contains(code);
        let judged = seen.verdict.is_some_and(|v| v.class == Class::Success);
        if told == Class::Success {
            prop_assert!(listed || (judged && rules.success_codes.is_none()));
        }
    }
}
