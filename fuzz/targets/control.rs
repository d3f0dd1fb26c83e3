//! What a command may write for idem to read: `IDEM_CONTROL`, `Retry-After`, and the ancestry.

#![no_main]

use idem::domain::name::Fingerprint;
use idem::domain::time::UnixMs;
use idem::engine::environment::{format_ancestry, parse_ancestry};
use idem::policy::{control, retry_after};
use libfuzzer_sys::fuzz_target;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

fuzz_target!(|bytes: &[u8]| {
    let now = UnixMs(1_700_000_000_000);
    let _ = control::parse(bytes, now, &Fingerprint([7; 32]));
    let _ = retry_after::parse(bytes, now);
    let ancestors = parse_ancestry(OsStr::from_bytes(bytes));
    let written = format_ancestry(&ancestors);
    assert_eq!(parse_ancestry(OsStr::new(&written)), ancestors);
});
