//! A limit on how many calls execute at once. A permit lives exactly as long as its holder.

use std::str::FromStr;

use serde_json::Value;

use super::guard::{self, GuardError};
use super::state::{Fields, StateError, owned_text};

/// `NAME=N`: at most N executions at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkheadSpec {
    /// What the bulkhead is called in the store.
    pub name: String,
    /// How many permits there are.
    pub permits: u32,
}

impl FromStr for BulkheadSpec {
    type Err = GuardError;

    fn from_str(text: &str) -> Result<BulkheadSpec, GuardError> {
        let form = || GuardError::Form(text.to_owned(), "NAME=N, for example db=4");
        let (name, permits) = text.split_once('=').ok_or_else(form)?;
        Ok(BulkheadSpec {
            name: guard::name(name)?,
            permits: guard::count(permits, u32::MAX)?,
        })
    }
}

/// Who holds the permits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bulkhead {
    holders: Vec<String>,
}

impl Bulkhead {
    /// Takes a permit for `holder`, the name of its claim; true when it has one now. Permits of
    /// holders that no longer live are taken back first. An auxiliary caller gets one only while more
    /// than half of all permits are free.
    pub fn acquire(
        &mut self,
        spec: &BulkheadSpec,
        holder: &str,
        auxiliary: bool,
        alive: &dyn Fn(&str) -> bool,
    ) -> bool {
        self.holders.retain(|h| h == holder || alive(h));
        if self.holders.iter().any(|h| h == holder) {
            return true;
        }
        let total = u64::from(spec.permits);
        let free = total.saturating_sub(u64::try_from(self.holders.len()).unwrap_or(u64::MAX));
        let enough = if auxiliary {
            free > total / 2
        } else {
            free > 0
        };
        if enough {
            self.holders.push(holder.to_owned());
        }
        enough
    }

    /// Gives a permit back; true when the holder had one.
    pub fn release(&mut self, holder: &str) -> bool {
        let before = self.holders.len();
        self.holders.retain(|h| h != holder);
        self.holders.len() < before
    }

    /// The names of the claims that hold a permit, dead ones included.
    pub fn holders(&self) -> &[String] {
        &self.holders
    }

    /// Writes the state for the store.
    pub fn to_json(&self) -> Value {
        serde_json::json!({"holders": self.holders})
    }

    /// Reads back what [`Bulkhead::to_json`] wrote.
    pub fn from_json(value: &Value) -> Result<Bulkhead, StateError> {
        let fields = Fields::of(value, &["holders"])?;
        Ok(Bulkhead {
            holders: fields.list("holders", owned_text)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use std::collections::BTreeSet;

    fn spec(permits: u32) -> BulkheadSpec {
        BulkheadSpec {
            name: "db".into(),
            permits,
        }
    }

    #[test]
    fn the_option_is_read() {
        assert_eq!("db=1".parse(), Ok(spec(1)));
        for bad in [
            "",
            "db",
            "db=",
            "=1",
            "db=0",
            "db=-1",
            "db=x",
            "db=1/1s",
            "db=4294967296",
        ] {
            assert!(bad.parse::<BulkheadSpec>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_permit_is_held_until_it_is_given_back_or_its_holder_dies() {
        let mut bulkhead = Bulkhead::default();
        let all = |_: &str| true;
        assert!(bulkhead.acquire(&spec(1), "a", false, &all));
        assert!(
            bulkhead.acquire(&spec(1), "a", false, &all),
            "a second time is the same permit"
        );
        assert!(!bulkhead.acquire(&spec(1), "b", false, &all));
        assert!(bulkhead.acquire(&spec(1), "b", false, &|h| h != "a"));
        assert!(!bulkhead.release("a"));
        assert!(bulkhead.release("b"));
        assert!(bulkhead.holders().is_empty());
    }

    #[test]
    fn auxiliary_callers_leave_half_of_the_permits_alone() {
        let all = |_: &str| true;
        for (permits, admitted) in [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)] {
            let mut bulkhead = Bulkhead::default();
            let got =
                (0..9).filter(|i| bulkhead.acquire(&spec(permits), &i.to_string(), true, &all));
            assert_eq!(got.count(), admitted, "{permits} permits");
        }
    }

    #[test]
    fn damaged_states_are_refused() {
        for bad in [
            json!(null),
            json!({}),
            json!({"holders": [1]}),
            json!({"holders": [], "x": 1}),
        ] {
            assert!(Bulkhead::from_json(&bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn the_living_holders_are_never_more_than_the_permits(
            permits in 1u32..5, steps in prop::collection::vec((0u8..8, 0u8..3, any::<bool>()), 1..80),
        ) {
            let (mut bulkhead, mut living) = (Bulkhead::default(), BTreeSet::new());
            for (who, what, auxiliary) in steps {
                let who = who.to_string();
                match what {
                    0 => { bulkhead.release(&who); living.remove(&who); }
                    1 => { living.remove(&who); }
                    _ => {
                        let alive = |h: &str| living.contains(h);
                        if bulkhead.acquire(&spec(permits), &who, auxiliary, &alive) {
                            living.insert(who);
                        }
                    }
                }
                prop_assert!(living.len() <= permits as usize);
                prop_assert_eq!(Bulkhead::from_json(&bulkhead.to_json()), Ok(bulkhead.clone()));
            }
        }
    }
}
