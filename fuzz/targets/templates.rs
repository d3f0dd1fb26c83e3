//! Key templates and key parts: what is accepted makes a valid key, and nothing panics.

#![no_main]

use idem::domain::keyparts::{Parts, task_key, task_name};
use idem::domain::name::Key;
use idem::domain::period::Period;
use idem::domain::template::Template;
use jiff::{Timestamp, tz::TimeZone};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = Template::parse(bytes);
    let _ = Parts::parse(bytes);
    let _ = Parts::parse_fingerprint(bytes);
    if let Ok(key) = Key::new(bytes) {
        assert_eq!(key.as_str().as_bytes(), bytes, "a key is what was given");
    }
    let _ = task_name(bytes);
    let mut parts = bytes.splitn(3, |byte| *byte == b'/');
    if let (Some(task), Some(step)) = (parts.next(), parts.next())
        && let Ok(key) = task_key(task, step, parts.next())
    {
        assert!(Key::new(key.as_str()).is_ok());
    }
    let text = String::from_utf8_lossy(bytes);
    if let Ok(period) = Period::parse(&text) {
        let at = Timestamp::from_second(1_700_000_000).expect("a moment");
        // A window holds its moment, and the one before it does not.
        if let Ok(window) = period.window(at, &TimeZone::UTC) {
            let _ = period.previous(&window, &TimeZone::UTC);
        }
    }
});
