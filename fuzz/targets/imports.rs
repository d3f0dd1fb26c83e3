//! Lines of an export: nothing panics, and a record that is understood is written as it was read.

#![no_main]

use idem::cli::transfer::{Line, parse, record_line};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(Line::Record(moved)) = parse(bytes) else {
        return;
    };
    let stored = moved.output.is_some_and(|output| output.stored);
    let written = record_line(&moved.record, stored).to_string();
    let Ok(Line::Record(again)) = parse(written.as_bytes()) else {
        panic!("what is written cannot be read: {written}");
    };
    assert_eq!(again.record, moved.record);
});
