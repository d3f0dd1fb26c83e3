//! How breakers and tasks stand, for people.

use super::when::length;
use crate::domain::time::Stamp;
use crate::policy::breaker::Phase;
use crate::policy::task::Task;

/// A breaker's phase, as a fragment that follows its name.
pub fn breaker(phase: Phase) -> String {
    match phase {
        Phase::Closed { failures: 0 } => "is closed".to_owned(),
        Phase::Closed { failures } => format!("is closed, after {failures} failures in a row"),
        Phase::Open(left) => format!("is open for another {}", length(left)),
        Phase::HalfOpen {
            successes: 0,
            leases: 0,
        } => "is half open: the next call tries it out".to_owned(),
        Phase::HalfOpen { successes, leases } => {
            format!("is half open: {leases} calls try it out, {successes} have succeeded")
        }
    }
}

/// A task's state, as a fragment that follows its name.
pub fn task(task: &Task, now: &Stamp) -> String {
    if task.ended.is_some() {
        return "has ended".to_owned();
    }
    let retries = match task.retries {
        Some(all) => format!(
            "{} of {all} retries left",
            all.saturating_sub(task.retries_used)
        ),
        None => format!("no limit on retries, {} used", task.retries_used),
    };
    let deadline = match task.remaining(now) {
        Some(left) if left.is_zero() => "; its deadline has passed".to_owned(),
        Some(left) => format!("; its deadline is in {}", length(left)),
        None => String::new(),
    };
    format!("is open: {retries}{deadline}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::state::testing::at_ms;
    use std::time::Duration;

    #[test]
    fn phases_are_told() {
        let half_open = |successes, leases| breaker(Phase::HalfOpen { successes, leases });
        assert_eq!(breaker(Phase::Closed { failures: 0 }), "is closed");
        assert!(breaker(Phase::Closed { failures: 3 }).contains("3 failures"));
        let open = breaker(Phase::Open(Duration::from_secs(90)));
        assert_eq!(open, "is open for another 1m 30s");
        assert!(half_open(0, 0).contains("the next call"));
        assert!(half_open(1, 2).contains("2 calls try it out, 1 have"));
    }

    #[test]
    fn tasks_are_told() {
        let now = at_ms(60_000);
        let open = |retries, deadline| Task::open(&at_ms(0), retries, deadline);
        let hour = Duration::from_secs(3600);
        assert_eq!(
            task(&open(Some(2), Some(hour)), &now),
            "is open: 2 of 2 retries left; its deadline is in 59m"
        );
        let late = Some(Duration::from_secs(1));
        assert!(task(&open(None, late), &now).contains("has passed"));
        let mut ended = open(None, None);
        ended.ended = Some(now.clone());
        assert_eq!(task(&ended, &now), "has ended");
    }
}
