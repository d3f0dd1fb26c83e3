use super::*;
use proptest::prelude::*;

fn list(text: &str) -> Conditions {
    text.parse().unwrap()
}

fn error(text: &str) -> ConditionError {
    text.parse::<Conditions>().unwrap_err()
}

fn texts(text: &str) -> Vec<String> {
    list(text).items().iter().map(|i| i.text.clone()).collect()
}

const CODE: Facts = Facts {
    exit: Exit::Code(1),
    cut: None,
    failed_exit: true,
    http_status: None,
    seen: &[],
};

fn holds(text: &str, facts: Facts) -> bool {
    list(text).first_match(&facts).is_some()
}

fn code(code: i32) -> Facts<'static> {
    Facts {
        exit: Exit::Code(code),
        failed_exit: code != 0,
        ..CODE
    }
}

fn signal(number: i32) -> Facts<'static> {
    Facts {
        exit: Exit::Signal(number),
        failed_exit: false,
        ..CODE
    }
}

fn cut(cut: Cut) -> Facts<'static> {
    Facts {
        cut: Some(cut),
        ..CODE
    }
}

#[test]
fn exits_are_numbers_and_ranges() {
    assert!(holds("exit:75", code(75)));
    assert!(!holds("exit:75", code(74)));
    for (number, within) in [(99, false), (100, true), (110, true), (111, false)] {
        assert_eq!(holds("exit:100-110", code(number)), within);
    }
    assert!(
        holds("exit:0", code(0)),
        "a code that counts as success can be named"
    );
    assert!(!holds("exit:0-255", signal(9)));
}

#[test]
fn statuses_are_numbers_ranges_and_hundreds() {
    let status = |s| Facts {
        http_status: Some(s),
        ..CODE
    };
    assert!(holds("http:429", status(429)));
    assert!(holds("http:5xx", status(599)));
    assert!(holds("http:500-503", status(502)));
    assert!(!holds("http:5xx", status(499)));
    assert!(!holds("http:5xx", CODE));
}

#[test]
fn any_is_every_failed_exit_and_nothing_else() {
    assert!(holds("any", code(1)));
    assert!(!holds("any", code(0)));
    for facts in [
        signal(9),
        cut(Cut::Timeout),
        cut(Cut::Deadline),
        cut(Cut::Interrupted(2)),
    ] {
        assert!(!holds("any,exit:1,http:1xx", facts));
    }
}

#[test]
fn a_timeout_and_a_signal_are_matched_by_their_own_names_only() {
    assert!(holds("timeout", cut(Cut::Timeout)));
    assert!(
        !holds("signal", cut(Cut::Timeout)),
        "it was idem's own signal"
    );
    for other in [Cut::Deadline, Cut::Interrupted(15), Cut::CallerLost] {
        assert!(!holds("timeout,signal,any", cut(other)));
    }
    assert!(holds("signal", signal(9)));
    for name in ["SEGV", "SIGSEGV", "segv", "11"] {
        assert!(holds(&format!("signal:{name}"), signal(libc::SIGSEGV)));
        assert!(!holds(&format!("signal:{name}"), signal(libc::SIGKILL)));
    }
    assert!(!holds("timeout,signal", code(1)));
}

#[test]
fn a_comma_and_an_escaped_slash_belong_to_the_pattern() {
    assert_eq!(
        texts(r"exit:1, stderr:/a{1,3},b\/c/ ,stdout:/,/,any"),
        ["exit:1", r"stderr:/a{1,3},b\/c/", "stdout:/,/", "any"]
    );
    let conditions = list(r"any,stderr:/^a,b\/c$/,stdout:/\\/");
    let patterns: Vec<_> = conditions.patterns().collect();
    assert_eq!((patterns[0].0, patterns[0].1), (1, Stream::Stderr));
    assert!(patterns[0].2.is_match(b"a,b/c"));
    assert_eq!((patterns[1].0, patterns[1].1), (2, Stream::Stdout));
    assert!(patterns[1].2.is_match(b"\\"));
}

#[test]
fn patterns_match_bytes() {
    let conditions = list(r"stderr:/a.b/,stderr:/[é]/,stderr:/\p{Greek}/");
    let regexes: Vec<_> = conditions.patterns().map(|p| p.2.clone()).collect();
    assert!(
        regexes[0].is_match(b"a\xffb"),
        "any byte, also one that is no UTF-8"
    );
    assert!(regexes[1].is_match("é".as_bytes()));
    assert!(regexes[2].is_match("λ".as_bytes()));
}

#[test]
fn an_output_pattern_holds_where_it_was_seen() {
    let seen = Facts {
        seen: &[1],
        ..code(0)
    };
    assert!(holds("any,stderr:/x/", seen));
    assert!(!holds("stderr:/x/", seen));
    let timed_out = Facts {
        cut: Some(Cut::Timeout),
        ..seen
    };
    assert!(!holds("any,stderr:/x/", timed_out));
}

#[test]
fn the_first_item_that_holds_is_named() {
    let conditions = list("exit:2,any,exit:1");
    assert_eq!(conditions.first_match(&CODE).unwrap().text, "any");
}

#[test]
fn what_makes_no_sense_is_refused() {
    use ConditionError as E;
    let number = |t: &str, low, high| E::Number(t.into(), low, high);
    for (text, expected) in [
        ("", E::EmptyList),
        (" ", E::EmptyList),
        ("any,", E::EmptyItem),
        (",any", E::EmptyItem),
        ("any,,any", E::EmptyItem),
        ("exit", E::Unknown("exit".into())),
        ("exit:", number("exit:", 0, 255)),
        ("exit:256", number("exit:256", 0, 255)),
        ("exit:-1", number("exit:-1", 0, 255)),
        ("exit:+1", number("exit:+1", 0, 255)),
        ("exit:1-", number("exit:1-", 0, 255)),
        ("exit:9-3", E::Reversed("exit:9-3".into())),
        ("http:600", number("http:600", 100, 599)),
        ("http:6xx", number("http:6xx", 100, 599)),
        ("http:99", number("http:99", 100, 599)),
        ("http:xx", number("http:xx", 100, 599)),
        ("http:503-500", E::Reversed("http:503-500".into())),
        ("signal:NOPE", E::UnknownSignal("signal:NOPE".into())),
        ("signal:0", E::UnknownSignal("signal:0".into())),
        ("signal:65", E::UnknownSignal("signal:65".into())),
        ("signal:", E::UnknownSignal("signal:".into())),
        ("stderr:x", E::Unknown("stderr:x".into())),
        ("stderr:/x", E::Unclosed("stderr:/x".into())),
        (r"stderr:/x\/", E::Unclosed(r"stderr:/x\/".into())),
        ("stderr:/", E::Unclosed("stderr:/".into())),
        ("stderr://", E::EmptyPattern("stderr://".into())),
        ("stderr:/x/i", E::AfterPattern("stderr:/x/i".into())),
        ("Timeout", E::Unknown("Timeout".into())),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
    assert!(matches!(error("stdout:/(/"), E::Pattern(p, why) if p == "(" && why.contains("group")));
    assert!(matches!(error("stdout:/x{99999999}/"), E::Pattern(..)));
}

#[test]
fn errors_say_what_is_expected() {
    for bad in [
        "",
        "any,",
        "x",
        "exit:256",
        "exit:9-3",
        "signal:X",
        "stderr:/x",
        "stderr:/(/",
    ] {
        assert!(error(bad).to_string().contains("expected"), "{bad}");
    }
}

#[test]
fn success_codes_replace_the_default() {
    let codes: SuccessCodes = "0,3, 10-12".parse().unwrap();
    let successes: Vec<i32> = (-1..300).filter(|c| codes.contains(*c)).collect();
    assert_eq!(successes, [0, 3, 10, 11, 12]);
    assert!(SuccessCodes::default().contains(0));
    assert!(!SuccessCodes::default().contains(1));
    for bad in ["", ",", "0,", "256", "-1", "3-1", "a", "1,,2", "1 2"] {
        assert!(bad.parse::<SuccessCodes>().is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parsers_panic(
        wild in ".{0,40}",
        near in r"((exit|http|signal|stdout|stderr|any|timeout)?:?[/\\,0-9x(-]{0,8},?){0,5}",
    ) {
        for text in [wild, near] {
            let _ = text.parse::<Conditions>();
            let _ = text.parse::<SuccessCodes>();
        }
    }

    #[test]
    fn every_written_list_is_read_back(
        items in prop::collection::vec(r"exit:[1-9]|http:[1-5]xx|any|timeout|signal|signal:[1-9]|stderr:/([a-z,]|\\/)+/", 1..8),
    ) {
        prop_assert_eq!(texts(&items.join(",")), items);
    }
}
