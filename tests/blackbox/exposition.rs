//! A strict reader of Prometheus's text format 0.0.4: what its own parser takes, and what its linter
//! (`promtool check metrics`) asks for besides.

use std::collections::{BTreeMap, BTreeSet};

/// A series: its name and its labels, sorted by their names. An empty label counts as none.
pub type Series = (String, BTreeMap<String, String>);

/// Units that stand for a fraction or a multiple of a base unit, and abbreviations of units.
const WRONG_UNITS: [&str; 20] = [
    "milliseconds",
    "microseconds",
    "nanoseconds",
    "minutes",
    "hours",
    "days",
    "kilobytes",
    "megabytes",
    "s",
    "ms",
    "us",
    "ns",
    "sec",
    "b",
    "kb",
    "mb",
    "gb",
    "m",
    "h",
    "d",
];

/// A family of series under way: they stand together, behind their help and their type.
#[derive(Default)]
struct Family {
    name: String,
    helped: bool,
    kind: Option<String>,
    samples: usize,
}

/// All samples, or what is wrong with the text.
pub fn read(text: &str) -> Result<BTreeMap<Series, f64>, String> {
    if text.is_empty() {
        return Ok(BTreeMap::new());
    }
    if !text.ends_with('\n') {
        return Err("the last line does not end".into());
    }
    let mut samples = BTreeMap::new();
    let mut finished = BTreeSet::new();
    let mut family = Family::default();
    for line in text.split('\n') {
        let wrong = |why: &str| Err(format!("{why}: {line}"));
        if line.is_empty() {
            continue;
        }
        let (name, comment) = match line.strip_prefix('#') {
            Some(comment) => {
                let mut words = comment.strip_prefix(' ').unwrap_or("").splitn(3, ' ');
                let (kind, name) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
                (name.to_owned(), Some((kind, words.next().unwrap_or(""))))
            }
            None => (line.split(['{', ' ']).next().unwrap_or("").to_owned(), None),
        };
        if name != family.name {
            if !finished.insert(std::mem::take(&mut family.name)) {
                return wrong("the family stands in two places, before");
            }
            if finished.contains(&name) {
                return wrong("the family stands in two places");
            }
            family = Family {
                name: name.clone(),
                ..Family::default()
            };
        }
        match comment {
            Some(("HELP", help)) => {
                if family.helped
                    || family.kind.is_some()
                    || family.samples > 0
                    || help.trim().is_empty()
                {
                    return wrong("a help that is empty, late or repeated");
                }
                unescape(help, false)?;
                family.helped = true;
            }
            Some(("TYPE", kind)) => {
                if family.kind.is_some() || family.samples > 0 || !family.helped {
                    return wrong("a type that is late, repeated or without help");
                }
                lint(&name, kind)?;
                family.kind = Some(kind.to_owned());
            }
            Some(_) => return wrong("a comment that is neither help nor type"),
            None => {
                let (series, value) = sample(line)?;
                let counts = family.kind.as_deref() == Some("counter");
                if family.kind.is_none() || counts && (value < 0.0 || value.is_nan()) {
                    return wrong("a sample without a type, or a counter below 0");
                }
                family.samples += 1;
                if samples.insert(series, value).is_some() {
                    return wrong("a series twice");
                }
            }
        }
    }
    Ok(samples)
}

fn is_name(name: &str, more: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || more.contains(c);
    name.chars().all(fits) && name.starts_with(|c: char| !c.is_ascii_digit())
}

fn lint(name: &str, kind: &str) -> Result<(), String> {
    let words: Vec<&str> = name.split('_').collect();
    let counts = kind == "counter";
    let reserved = ["bucket", "count", "sum", "info"];
    let kinds = ["gauge", "counter", "histogram", "summary", "untyped"];
    if !is_name(name, ":") || name.contains(':') || name.contains(|c: char| c.is_ascii_uppercase())
    {
        Err(format!("{name} is no name in lower case"))
    } else if !["gauge", "counter"].contains(&kind) {
        Err(format!("{name} is a {kind}"))
    } else if counts != name.ends_with("_total") {
        Err(format!(
            "{name} is a {kind}, and _total ends counters alone"
        ))
    } else if words.last().is_some_and(|last| reserved.contains(last)) {
        Err(format!("{name} ends like a part of a histogram"))
    } else if words
        .iter()
        .any(|word| WRONG_UNITS.contains(word) || kinds.contains(word))
    {
        Err(format!(
            "{name} has a type, or a unit that is no base unit, in it"
        ))
    } else {
        Ok(())
    }
}

fn sample(line: &str) -> Result<(Series, f64), String> {
    let wrong = |why: &str| format!("{why}: {line}");
    let end = line.find(['{', ' ']).ok_or_else(|| wrong("no value"))?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(behind) = rest.strip_prefix('{') {
        rest = behind;
        while !rest.starts_with('}') {
            let (label, behind) = rest.split_once("=\"").ok_or_else(|| wrong("no label"))?;
            if !is_name(label, "") || label.starts_with("__") || ["le", "quantile"].contains(&label)
            {
                return Err(wrong("no name of a label"));
            }
            let end = closing_quote(behind).ok_or_else(|| wrong("an open label"))?;
            let value = unescape(&behind[..end], true)?;
            if labels.insert(label.to_owned(), value).is_some() {
                return Err(wrong("a label twice"));
            }
            rest = &behind[end + 1..];
            match rest.strip_prefix(',') {
                Some(behind) => rest = behind,
                None if rest.starts_with('}') => {}
                None => return Err(wrong("labels without a comma")),
            }
        }
        rest = &rest[1..];
    }
    labels.retain(|_, value| !value.is_empty());
    // A time stamp may follow in general; the collector of text files refuses one.
    let value = rest.strip_prefix(' ').ok_or_else(|| wrong("no blank"))?;
    let number = value.parse::<f64>().map_err(|_| wrong("no number"))?;
    Ok(((name.to_owned(), labels), number))
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let closes = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        closes.then_some(at)
    })
}

fn unescape(text: &str, quoted: bool) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, quoted) {
            ('\\', _) => out.push(match chars.next() {
                Some('\\') => '\\',
                Some('n') => '\n',
                Some('"') if quoted => '"',
                other => return Err(format!("a backslash before {other:?}: {text}")),
            }),
            (c, _) => out.push(c),
        }
    }
    Ok(out)
}

#[test]
fn the_reader_takes_what_is_right_and_nothing_else() {
    let good = "# HELP a_total A.\n# TYPE a_total counter\na_total 1\na_total{x=\"q\\\"\\\\\\n\",y=\"2\"} 2.5\n\
        # HELP w_seconds B.\n# TYPE w_seconds gauge\nw_seconds -1\n";
    let read_back = read(good).expect("a good text");
    let labels = BTreeMap::from([("x".into(), "q\"\\\n".into()), ("y".into(), "2".into())]);
    assert_eq!(read_back.len(), 3);
    assert_eq!(read_back[&("a_total".into(), labels)], 2.5);
    assert!(read("").expect("nothing").is_empty());
    for (from, to) in [
        ("w_seconds -1\n", "w_seconds -1"),
        ("# TYPE a_total counter\n", ""),
        ("# HELP a_total A.\n", ""),
        ("# HELP a_total A.", "# HELP a_total "),
        ("# HELP w_seconds B.", "# HELP a_total A."),
        ("# TYPE w_seconds gauge", "# TYPE w_seconds counter"),
        ("a_total counter", "a_total gauge"),
        ("w_seconds", "b_milliseconds"),
        ("w_seconds", "b_count"),
        ("w_seconds", "Bs"),
        ("w_seconds -1", "w_seconds x"),
        ("w_seconds -1", "w_seconds -1 1700000000"),
        ("w_seconds -1", "w_seconds{x=\"1\" y=\"1\"} -1"),
        ("w_seconds -1", "w_seconds{x=\"1\",x=\"2\"} -1"),
        ("w_seconds -1", "w_seconds{0=\"1\"} -1"),
        ("w_seconds -1", "w_seconds -1\na_total 3"),
        ("w_seconds -1", "w_seconds -1\nw_seconds{x=\"\"} 3"),
        ("w_seconds -1", "other 3"),
        ("q\\\"", "q\""),
        ("q\\\"", "q\\t"),
        ("a_total 1", "a_total -1"),
        ("a_total 1", "a_total NaN"),
    ] {
        let bad = good.replacen(from, to, if from == "w_seconds" { 9 } else { 1 });
        assert_ne!(bad, good, "{from}");
        assert!(read(&bad).is_err(), "{from} -> {to}");
    }
}
