//! The total time of a call, and what of it a child is told.

use std::time::Duration;

const SMALLEST_RESERVE: Duration = Duration::from_millis(100);
const LARGEST_RESERVE: Duration = Duration::from_secs(2);

/// The smaller of what the call itself allows and what it inherited.
pub fn tighter(own: Option<Duration>, inherited: Option<Duration>) -> Option<Duration> {
    match (own, inherited) {
        (Some(own), Some(inherited)) => Some(own.min(inherited)),
        (own, inherited) => own.or(inherited),
    }
}

/// How much of the remaining time a child may use: less a reserve of 5 %, but at least 100 ms and at
/// most 2 s, in which the outer call still learns how the inner one ended.
pub fn handed_down(remaining: Duration) -> Duration {
    let reserve = (remaining / 20).clamp(SMALLEST_RESERVE, LARGEST_RESERVE);
    remaining.saturating_sub(reserve)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_smaller_one_counts() {
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(2));
        assert_eq!(tighter(Some(short), Some(long)), Some(short));
        assert_eq!(tighter(Some(long), Some(short)), Some(short));
        assert_eq!(tighter(None, Some(long)), Some(long));
        assert_eq!(tighter(Some(long), None), Some(long));
        assert_eq!(tighter(None, None), None);
    }

    #[test]
    fn the_reserve_has_a_floor_and_a_ceiling() {
        let handed_ms = |ms| handed_down(Duration::from_millis(ms)).as_millis();
        assert_eq!(handed_ms(50), 0);
        assert_eq!(handed_ms(1_000), 900);
        assert_eq!(handed_ms(10_000), 9_500);
        assert_eq!(handed_ms(100_000), 98_000);
    }

    proptest! {
        #[test]
        fn what_is_handed_down_is_less_and_grows_with_what_remains(a in any::<u64>(), b in any::<u64>()) {
            let (a, b) = (Duration::from_millis(a.min(b)), Duration::from_millis(a.max(b)));
            prop_assert!(handed_down(a) <= handed_down(b));
            prop_assert!(handed_down(b) < b || b.is_zero());
        }
    }
}
