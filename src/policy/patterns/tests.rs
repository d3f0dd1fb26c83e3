use super::*;
use crate::policy::classify::Tool;
use proptest::prelude::*;

fn rules(retry_on: &str) -> Rules {
    Rules {
        retry_on: Some(retry_on.parse().unwrap()),
        ..Rules::default()
    }
}

/// Feeds stderr in the given pieces and lists the items that were seen.
fn seen(retry_on: &str, window_bytes: usize, pieces: &[&[u8]]) -> Vec<usize> {
    let mut scanner = Scanner::with_window(&rules(retry_on), None, window_bytes);
    for piece in pieces {
        scanner.feed(Stream::Stderr, piece);
    }
    scanner.finish().retry_on
}

#[test]
fn a_pattern_is_found_across_the_borders_of_chunks() {
    let found = |pieces: &[&[u8]]| seen("stderr:/^try again$/", 1024, pieces) == [0];
    assert!(found(&[b"a\ntry ag", b"ain\nb\n"]));
    assert!(found(&[b"try again"]), "the last line needs no line feed");
    assert!(
        found(&[b"try again\r", b"\n"]),
        "nor does a carriage return matter"
    );
    assert!(found(&[b"x\n", b"t", b"r", b"y", b" again", b"\n"]));
    assert!(!found(&[b"try again", b"st\n"]));
    assert!(!found(&[b"re", b"try again\n"]));
    assert!(!found(&[b"try\nagain\n"]), "a line ends at its line feed");
}

#[test]
fn each_stream_has_its_own_patterns_and_lines() {
    let mut scanner = Scanner::new(&rules("stdout:/ab/,stderr:/ab/,any,stderr:/b/"), None);
    scanner.feed(Stream::Stdout, b"a");
    scanner.feed(Stream::Stderr, b"b");
    scanner.feed(Stream::Stdout, b"x");
    assert_eq!(scanner.finish().retry_on, [3]);
}

#[test]
fn both_lists_are_looked_for() {
    let rules = Rules {
        stop_on: Some("any,stderr:/fatal/".parse().unwrap()),
        ..rules("stderr:/fatal|busy/")
    };
    let mut scanner = Scanner::new(&rules, None);
    scanner.feed(Stream::Stderr, b"fatal\n");
    let seen = scanner.finish();
    assert_eq!((seen.stop_on, seen.retry_on), (vec![1], vec![0]));
}

#[test]
fn output_that_is_no_utf8_is_matched() {
    assert_eq!(
        seen(r"stderr:/a.b/,stderr:/\xff/", 1024, &[b"\xfea\xffb\n"]),
        [0, 1]
    );
}

#[test]
fn anchors_hold_only_at_the_ends_of_a_very_long_line() {
    let long = [b"head".as_slice(), &[b'x'; 5000], b"tail\n"].concat();
    let found = |pattern: &str| seen(&format!("stderr:/{pattern}/"), 64, &[&long]) == [0];
    assert!(found("^headx"));
    assert!(found("xtail$"));
    assert!(!found("^x"), "not where a piece begins");
    assert!(!found("x$"), "not where a piece ends");
    assert!(!found(r"x\b"));
    assert!(!found(r"\bx"));
    assert!(found("head.*"), "open ends are found early");
}

#[test]
fn memory_is_bounded_whatever_comes() {
    let mut lines = Lines::new(1000);
    let mut looked = 0usize;
    for _ in 0..1000 {
        lines.feed(&[b'x'; 777], &mut |piece| looked += piece.bytes.len());
        assert!(lines.pending.len() <= 2000);
    }
    lines.end(&mut |piece| looked += piece.bytes.len());
    assert!(lines.pending.capacity() <= 4000);
    assert!(looked < 3 * 777_000, "and the work is too: {looked}");
}

#[test]
fn a_classifier_is_fed_line_by_line_as_well() {
    let curl = Tool::named("curl").unwrap();
    let mut scanner = Scanner::new(&Rules::default(), Some(Collector::new(curl)));
    scanner.feed(Stream::Stdout, b"< Retry-After: 3");
    scanner.feed(Stream::Stderr, b"curl: (22) The requested URL ret");
    scanner.feed(Stream::Stdout, b"0\r\n");
    scanner.feed(Stream::Stderr, b"urned error: 429\n");
    let evidence = scanner.finish().evidence.unwrap();
    assert_eq!(evidence.retry_after.as_deref(), Some(b"30".as_slice()));
    let numbers: Vec<Vec<u8>> = evidence
        .lines
        .iter()
        .flat_map(|l| &l.captured)
        .map(|n| n.1.clone())
        .collect();
    assert_eq!(numbers, [b"22".to_vec(), b"429".to_vec()]);
}

fn cuts(bytes: &[u8], at: &[prop::sample::Index]) -> Vec<Vec<u8>> {
    let mut ends: Vec<usize> = at.iter().map(|i| i.index(bytes.len() + 1)).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    let mut start = 0;
    let mut pieces = Vec::new();
    for end in ends {
        pieces.push(bytes[start..end].to_vec());
        start = end;
    }
    pieces
}

proptest! {
    #[test]
    fn cuts_change_nothing(
        text in prop::collection::vec(prop::sample::select(b"abx\n\r\xff".to_vec()), 0..300),
        at in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let patterns = r"stderr:/^ab+$/,stderr:/bx/,stderr:/\ba/,stderr:/a$/,stderr:/^$/,stderr:/a.*x/,stderr:/^.{12}$/";
        let whole = seen(patterns, 1024, &[&text]);
        let pieces = cuts(&text, &at);
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        prop_assert_eq!(&seen(patterns, 1024, &pieces), &whole);
        let by_lines: Vec<usize> = {
            let conditions: Conditions = patterns.parse().unwrap();
            let mut lines: Vec<&[u8]> = text.split(|b| *b == b'\n').map(without_return).collect();
            if text.is_empty() || text.ends_with(b"\n") {
                lines.pop();
            }
            let found = conditions.patterns().filter(|p| lines.iter().any(|l| p.2.is_match(l)));
            found.map(|p| p.0).collect()
        };
        prop_assert_eq!(whole, by_lines);
    }

    #[test]
    fn nothing_up_to_a_window_is_missed_in_a_line_of_any_length(
        before in 0usize..1500, after in 0usize..1500, middle in 0usize..61,
        at in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        // With its two ends the needle is at most one window of 64 bytes long.
        let needle = [b"<".as_slice(), &vec![b'm'; middle], b">"].concat();
        let text = [vec![b'.'; before].as_slice(), &needle, &vec![b'.'; after]].concat();
        let pieces = cuts(&text, &at);
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let patterns = format!("stderr:/<m{{{middle}}}>/,stderr:/<x/,stderr:/^<m*>/,stderr:/>$/,stderr:/[.]^/");
        let mut expected = vec![0];
        expected.extend((before == 0).then_some(2));
        expected.extend((after == 0).then_some(3));
        prop_assert_eq!(seen(&patterns, 64, &pieces), expected);
    }
}
