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

/// Levenshtein's distance: insertions, deletions and substitutions of characters.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut next = vec![i + 1];
        let mut last = i + 1;
        for ((b, above), diagonal) in right.iter().zip(row.iter().skip(1)).zip(&row) {
            last = (diagonal + usize::from(a != *b))
                .min(above + 1)
                .min(last + 1);
            next.push(last);
        }
        row = next;
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
            ("day", "dya", 2),
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
        assert_eq!(nearest("zebra", &known), None);
        assert_eq!(nearest("", &known), None);
    }
}
