//! Globs over whole keys.

/// Whether a glob matches the whole text: `*` any characters, `?` one, `[a-z]` one of a set,
/// `[!a-z]` or `[^a-z]` one that is not in it. A `]` that comes first in a set is a member of it; a
/// `[` without its `]` stands for itself. There is no escape but the set: `[*]` is a star.
pub fn matches(glob: &str, text: &str) -> bool {
    let glob: Vec<char> = glob.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut g, mut t) = (0, 0);
    // Where to go on after the latest star: its place, and how much of the text it took.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if glob.get(g) == Some(&'*') {
            star = Some((g, t));
            g += 1;
        } else if let Some(next) = text.get(t).and_then(|c| one(&glob, g, *c)) {
            g = next;
            t += 1;
        } else if let Some((at, took)) = star {
            star = Some((at, took + 1));
            g = at + 1;
            t = took + 1;
        } else {
            return false;
        }
    }
    glob.iter().skip(g).all(|c| *c == '*')
}

/// Matches one character against the item at `at`; returns where the next item begins.
fn one(glob: &[char], at: usize, c: char) -> Option<usize> {
    match glob.get(at)? {
        '?' => Some(at + 1),
        '[' => match set(glob, at) {
            Some((members, end)) => in_set(members, c).then_some(end),
            None => (c == '[').then_some(at + 1),
        },
        literal => (*literal == c).then_some(at + 1),
    }
}

/// The members of the set that begins at `at`, and where it ends.
fn set(glob: &[char], at: usize) -> Option<(&[char], usize)> {
    let negated = matches!(glob.get(at + 1), Some('!' | '^'));
    let first = at + 1 + usize::from(negated);
    let close = glob
        .iter()
        .enumerate()
        .skip(first + 1)
        .find(|(_, c)| **c == ']')
        .map(|(i, _)| i)?;
    Some((glob.get(at + 1..close)?, close + 1))
}

fn in_set(members: &[char], c: char) -> bool {
    let (negated, mut rest) = match members {
        ['!' | '^', rest @ ..] if !rest.is_empty() => (true, rest),
        _ => (false, members),
    };
    let mut found = false;
    loop {
        rest = match rest {
            [low, '-', high, rest @ ..] => {
                found |= (*low..=*high).contains(&c);
                rest
            }
            [member, rest @ ..] => {
                found |= *member == c;
                rest
            }
            [] => return found != negated,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn globs_match_the_whole_text() {
        let table = [
            ("a", "a", true),
            ("a", "ab", false),
            ("", "", true),
            ("*", "", true),
            ("*", "a/b", true),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*ab", "aab", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("?", "é", true),
            ("A", "a", false),
            ("[a-c]x", "bx", true),
            ("[a-c]x", "dx", false),
            ("[!a-c]x", "dx", true),
            ("[^a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[!]]", "]", false),
            ("[!]]", "x", true),
            ("[a-]", "-", true),
            ("[*]", "*", true),
            ("[*]", "x", false),
            ("[ab", "[ab", true),
            ("[ab", "a", false),
            ("[!", "[!", true),
            ("[]", "[]", true),
            ("100%_", "100%_", true),
            ("100%", "1000", false),
            ("\\*", "\\x", true),
        ];
        for (glob, text, wanted) in table {
            assert_eq!(matches(glob, text), wanted, "{glob} on {text}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        assert!(!matches(&"*a".repeat(60), &"a".repeat(59)));
        assert!(!matches(&format!("{}b", "*a".repeat(30)), &"a".repeat(255)));
    }
}
