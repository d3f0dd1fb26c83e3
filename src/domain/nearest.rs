//! Did you mean: the known word that is closest to the one that was typed.

/// The known word at the least edit distance, if it is close enough to be meant; case counts for nothing.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word = word.to_lowercase();
    let limit = (word.chars().count() / 3).clamp(1, 3);
    known
        .iter()
        .map(|candidate| (distance(&word, candidate), *candidate))
        .filter(|(away, candidate)| *away <= limit || word.starts_with(candidate))
        .min()
        .map(|(_, candidate)| candidate)
}

/// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbouring characters.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut above: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    let mut before = None;
    for (i, a) in left.chars().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX - 1);
            let replaced = at(&row, j) + usize::from(a != *b);
            let mut least = replaced.min(at(&row, j + 1) + 1).min(at(&next, j) + 1);
            let swapped = before == Some(*b) && j > 0 && right.get(j - 1) == Some(&a);
            if swapped {
                least = least.min(at(&above, j - 1) + 1);
            }
            next.push(least);
        }
        above = std::mem::replace(&mut row, next);
        before = Some(a);
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (left, right, away) in [
            ("", "", 0),
            ("", "day", 3),
            ("day", "", 3),
            ("day", "dya", 1),
            ("ab", "ba", 1),
            ("abcd", "badc", 2),
            ("ca", "abc", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(left, right), away, "{left} {right}");
        }
    }

    #[test]
    fn only_what_can_be_meant_is_offered() {
        let known = ["day", "hour", "week", "host"];
        assert_eq!(nearest("days", &known), Some("day"));
        assert_eq!(nearest("HOUR", &known), Some("hour"));
        assert_eq!(nearest("hostname", &known), Some("host"));
        assert_eq!(nearest("wek", &known), Some("week"));
        assert_eq!(nearest("dya", &known), Some("day"));
        assert_eq!(nearest("zebra", &known), None);
        assert_eq!(nearest("", &known), None);
    }
}
