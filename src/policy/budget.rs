//! A budget of retries that many calls share: a token bucket that refills over time.
//!
//! Only retries pay; a first attempt is free, so that a budget never stops the work itself.

use std::str::FromStr;
use std::time::Duration;

use serde_json::Value;

use super::guard::{self, GuardError};
use super::state::{Fields, StateError, advance, stamp_from_json, stamp_to_json};
use crate::domain::time::Stamp;

/// One retry, in thousandths of a token.
const TOKEN_MILLI: u64 = 1000;

/// `NAME=N/DUR`: at most N retries at once, refilled at N in DUR.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetSpec {
    /// What the budget is called in the store.
    pub name: String,
    /// How many retries it holds when full.
    pub retries: u32,
    /// In how many milliseconds an empty one is full again.
    pub refill_ms: u64,
}

impl FromStr for BudgetSpec {
    type Err = GuardError;

    fn from_str(text: &str) -> Result<BudgetSpec, GuardError> {
        let form = || GuardError::Form(text.to_owned(), "NAME=N/DURATION, for example api=10/1m");
        let (name, amount) = text.split_once('=').ok_or_else(form)?;
        let (retries, refill) = amount.split_once('/').ok_or_else(form)?;
        Ok(BudgetSpec {
            name: guard::name(name)?,
            retries: guard::count(retries, u32::MAX)?,
            refill_ms: guard::duration_ms(refill)?,
        })
    }
}

impl BudgetSpec {
    fn full_milli(&self) -> u64 {
        u64::from(self.retries) * TOKEN_MILLI
    }
}

/// The state of a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// Up to when it is refilled.
    at: Stamp,
    /// What it holds, in thousandths of a retry.
    milli: u64,
    /// What the last refill could not yet turn into a thousandth; the unit is 1/refill_ms of one.
    carry: u64,
}

impl Budget {
    /// A full budget.
    pub fn full(spec: &BudgetSpec, now: &Stamp) -> Budget {
        Budget {
            at: now.clone(),
            milli: spec.full_milli(),
            carry: 0,
        }
    }

    /// Takes one retry, or says how long until there is one.
    pub fn take(&mut self, spec: &BudgetSpec, now: &Stamp) -> Result<(), Duration> {
        self.refill(spec, now);
        match self.milli.checked_sub(TOKEN_MILLI) {
            Some(rest) => {
                self.milli = rest;
                Ok(())
            }
            None => Err(self.next_in(spec)),
        }
    }

    /// How many whole retries are left.
    pub fn left(&self, spec: &BudgetSpec, now: &Stamp) -> u64 {
        let mut budget = self.clone();
        budget.refill(spec, now);
        budget.milli / TOKEN_MILLI
    }

    fn refill(&mut self, spec: &BudgetSpec, now: &Stamp) {
        let passed_ms = u128::from(advance(&mut self.at, now));
        let per_ms = u128::from(spec.refill_ms.max(1));
        let earned = passed_ms * u128::from(spec.full_milli()) + u128::from(self.carry) % per_ms;
        let milli = u128::from(self.milli).saturating_add(earned / per_ms);
        match u64::try_from(milli) {
            Ok(milli) if milli < spec.full_milli() => {
                self.milli = milli;
                self.carry = u64::try_from(earned % per_ms).unwrap_or(0);
            }
            _ => {
                self.milli = spec.full_milli();
                self.carry = 0;
            }
        }
    }

    /// Rounded up, so that who comes back then finds a retry.
    fn next_in(&self, spec: &BudgetSpec) -> Duration {
        let missing = u128::from(TOKEN_MILLI.saturating_sub(self.milli));
        let needed = missing * u128::from(spec.refill_ms);
        let units = needed.saturating_sub(u128::from(self.carry));
        let wait_ms = units.div_ceil(u128::from(spec.full_milli().max(1)));
        Duration::from_millis(u64::try_from(wait_ms).unwrap_or(u64::MAX))
    }

    /// Writes the state for the store.
    pub fn to_json(&self) -> Value {
        serde_json::json!({"at": stamp_to_json(&self.at), "milli": self.milli, "carry": self.carry})
    }

    /// Reads back what [`Budget::to_json`] wrote.
    pub fn from_json(value: &Value) -> Result<Budget, StateError> {
        let fields = Fields::of(value, &["at", "milli", "carry"])?;
        Ok(Budget {
            at: stamp_from_json(fields.value("at")?)?,
            milli: fields.number("milli")?,
            carry: fields.number("carry")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::testing::at_ms;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn spec(text: &str) -> BudgetSpec {
        text.parse().unwrap()
    }

    #[test]
    fn the_option_is_read() {
        let read = spec("api=4/1h");
        assert_eq!(
            (read.name.as_str(), read.retries, read.refill_ms),
            ("api", 4, 3_600_000)
        );
        for bad in [
            "",
            "api",
            "api=",
            "api=4",
            "=4/1h",
            "api=0/1h",
            "api=-1/1h",
            "api=4/0s",
            "api=4/",
            "api=99999999999/1h",
            "api=1.5/1h",
            "a\tb=1/1h",
        ] {
            assert!(bad.parse::<BudgetSpec>().is_err(), "{bad}");
        }
    }

    #[test]
    fn it_grants_what_it_holds_and_refills() {
        let spec = spec("api=2/10s");
        let mut budget = Budget::full(&spec, &at_ms(0));
        assert_eq!(budget.take(&spec, &at_ms(0)), Ok(()));
        assert_eq!(budget.take(&spec, &at_ms(0)), Ok(()));
        assert_eq!(budget.take(&spec, &at_ms(0)), Err(Duration::from_secs(5)));
        assert_eq!(
            budget.take(&spec, &at_ms(4_999)),
            Err(Duration::from_millis(1))
        );
        assert_eq!(budget.take(&spec, &at_ms(5_000)), Ok(()));
        assert_eq!(
            budget.left(&spec, &at_ms(1_000_000)),
            2,
            "never more than full"
        );
    }

    #[test]
    fn a_jump_of_the_wall_clock_grants_nothing() {
        let spec = spec("api=1/1h");
        let mut budget = Budget::full(&spec, &at_ms(0));
        budget.take(&spec, &at_ms(0)).unwrap();
        let mut jumped = at_ms(10);
        jumped.wall.0 = i64::MAX;
        assert!(budget.take(&spec, &jumped).is_err());
    }

    #[test]
    fn a_smaller_budget_cuts_what_an_earlier_larger_one_left() {
        let mut budget = Budget::full(&spec("api=100/1s"), &at_ms(0));
        assert_eq!(budget.left(&spec("api=3/1s"), &at_ms(0)), 3);
        assert_eq!(budget.take(&spec("api=3/1h"), &at_ms(0)), Ok(()));
    }

    #[test]
    fn damaged_states_are_refused() {
        for bad in [
            json!(null),
            json!([]),
            json!({}),
            json!({"at": {}, "milli": 1, "carry": 0}),
            json!({"at": stamp_to_json(&at_ms(0)), "milli": -1, "carry": 0}),
            json!({"at": stamp_to_json(&at_ms(0)), "milli": 1, "carry": 0, "more": 1}),
        ] {
            assert!(Budget::from_json(&bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn it_never_grants_more_than_full_and_refill(
            retries in 1u32..20, refill_ms in 1u64..5_000, gaps in prop::collection::vec(0u32..400, 1..200),
        ) {
            let spec = BudgetSpec { name: "b".into(), retries, refill_ms };
            let mut budget = Budget::full(&spec, &at_ms(0));
            let (mut now, mut granted) = (0i64, 0u64);
            for gap in gaps {
                now += i64::from(gap);
                granted += u64::from(budget.take(&spec, &at_ms(now)).is_ok());
                let earned = now.unsigned_abs() * u64::from(retries) / refill_ms;
                prop_assert!(granted <= u64::from(retries) + earned);
            }
        }

        #[test]
        fn small_steps_refill_as_much_as_one_long_one(
            refill_ms in 1u64..100_000, steps in prop::collection::vec(1u32..50, 1..60),
        ) {
            let spec = BudgetSpec { name: "b".into(), retries: 7, refill_ms };
            let mut stepwise = Budget { at: at_ms(0), milli: 0, carry: 0 };
            let mut at_once = stepwise.clone();
            let mut now = 0i64;
            for step in steps {
                now += i64::from(step);
                stepwise.refill(&spec, &at_ms(now));
            }
            at_once.refill(&spec, &at_ms(now));
            prop_assert_eq!(stepwise, at_once);
        }

        #[test]
        fn who_comes_back_as_told_is_granted(refill_ms in 1u64..100_000, retries in 1u32..50, start in 0i64..1000) {
            let spec = BudgetSpec { name: "b".into(), retries, refill_ms };
            let mut budget = Budget { at: at_ms(0), milli: 0, carry: 0 };
            if let Err(wait) = budget.take(&spec, &at_ms(start)) {
                let later = start + i64::try_from(wait.as_millis()).unwrap();
                prop_assert_eq!(budget.take(&spec, &at_ms(later)), Ok(()));
            }
        }

        #[test]
        fn any_state_is_read_back_and_does_not_panic(milli: u64, carry: u64, boot_ms: i64, now: i64, retries: u32, refill_ms: u64) {
            let spec = BudgetSpec { name: "b".into(), retries, refill_ms };
            let mut budget = Budget { at: at_ms(boot_ms), milli, carry };
            prop_assert_eq!(Budget::from_json(&budget.to_json()), Ok(budget.clone()));
            let _ = budget.take(&spec, &at_ms(now));
        }
    }
}
