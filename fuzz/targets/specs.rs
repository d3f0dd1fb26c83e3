//! Durations, sizes, deadlines, retry lists and the specs of guards: nothing panics, and a length that is
//! told can be read back.

#![no_main]

use idem::cli::values;
use idem::domain::duration::parse_duration;
use idem::domain::time::UnixMs;
use idem::policy::backoff::{Backoff, Jitter};
use idem::policy::breaker::BreakerSpec;
use idem::policy::budget::BudgetSpec;
use idem::policy::bulkhead::BulkheadSpec;
use idem::policy::classify::Selection;
use idem::policy::conditions::{Conditions, SuccessCodes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let parsed = parse_duration(text);
    if let Ok(length) = parsed {
        let again = parse_duration(&format!("{}ms", length.as_millis()));
        assert!(again.is_ok_and(|again| again.as_millis() == length.as_millis()));
    }
    let _ = values::duration(text);
    let _ = values::duration_or_zero(text);
    let _ = values::ttl(text);
    let _ = values::size(text);
    if let Ok(deadline) = values::deadline(text) {
        let _ = deadline.moment(UnixMs(i64::MAX));
    }
    let _ = values::whole_number::<u32>(text);
    let _ = text.parse::<Backoff>();
    let _ = text.parse::<Jitter>();
    let _ = text.parse::<Conditions>();
    if let Ok(codes) = text.parse::<SuccessCodes>() {
        assert!((0..=255).any(|code| codes.contains(code)), "an empty list of codes");
    }
    let _ = text.parse::<BreakerSpec>();
    let _ = text.parse::<BudgetSpec>();
    let _ = text.parse::<BulkheadSpec>();
    let _ = text.parse::<Selection>();
});
