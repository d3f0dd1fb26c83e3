//! A limit on how many calls execute at once. The permits themselves are kernel locks, which live exactly
//! as long as their holder; here is only what a call asks for and what is enough.

use std::str::FromStr;

use super::guard::{self, GuardError};

/// The most permits that a bulkhead can have: each is looked at when all are taken.
pub const MOST_PERMITS: u32 = 1024;

/// `NAME=N`: at most N executions at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkheadSpec {
    /// What the bulkhead is called.
    pub name: String,
    /// How many permits there are, 1 to [`MOST_PERMITS`].
    pub permits: u32,
}

impl FromStr for BulkheadSpec {
    type Err = GuardError;

    fn from_str(text: &str) -> Result<BulkheadSpec, GuardError> {
        let form = || GuardError::Form(text.to_owned(), "NAME=N, for example db=4");
        let (name, permits) = text.split_once('=').ok_or_else(form)?;
        Ok(BulkheadSpec {
            name: guard::name(name)?,
            permits: guard::count(permits, MOST_PERMITS)?,
        })
    }
}

/// Whether a call may take one of `free` permits out of `total`. An auxiliary call gets one only while
/// more than half of all are free.
pub fn enough(free: u32, total: u32, auxiliary: bool) -> bool {
    if auxiliary {
        u64::from(free) * 2 > u64::from(total)
    } else {
        free > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_has_a_name_and_a_number() {
        let spec: BulkheadSpec = "db=4".parse().unwrap();
        assert_eq!((spec.name.as_str(), spec.permits), ("db", 4));
        for wrong in ["db", "db=", "=4", "db=0", "db=-1", "db=1025", "db=x", ""] {
            assert!(wrong.parse::<BulkheadSpec>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_auxiliary_call_gives_way() {
        assert!(enough(1, 4, false) && !enough(0, 4, false));
        assert!(enough(3, 4, true) && !enough(2, 4, true));
        assert!(enough(1, 1, true) && !enough(0, 1, true));
        assert!(enough(2, 3, true) && !enough(1, 3, true));
    }
}
