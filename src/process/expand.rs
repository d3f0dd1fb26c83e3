//! `--expand`: what only idem knows, in the arguments of the command.

use crate::engine::environment::ChildContext;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// Fills `{token}`, `{key}` and `{attempt}`; every other byte stays.
pub(super) fn expand(arg: &OsStr, context: &ChildContext<'_>) -> OsString {
    let attempt = context.attempt.to_string();
    let gaps = [
        ("{token}", context.token),
        ("{key}", context.name.key.as_str()),
        ("{attempt}", &attempt),
    ];
    let mut left = arg.as_bytes();
    let mut filled = Vec::with_capacity(left.len());
    while let Some(first) = left.first() {
        match gaps
            .iter()
            .find(|(gap, _)| left.starts_with(gap.as_bytes()))
        {
            Some((gap, value)) => {
                filled.extend(value.as_bytes());
                left = &left[gap.len()..];
            }
            None => {
                filled.push(*first);
                left = &left[1..];
            }
        }
    }
    OsString::from_vec(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::name::{Generation, Key, OpName, Scope};

    #[test]
    fn what_is_not_a_gap_stays() {
        let name = OpName {
            scope: Scope::default(),
            key: Key::new("k {token}").expect("a key"),
        };
        let context = ChildContext {
            name: &name,
            token: "t0",
            generation: Generation(1),
            attempt: 3,
            deadline_unix_ms: None,
            ancestry: &[],
        };
        let filled = |arg: &[u8]| expand(OsStr::from_bytes(arg), &context).into_vec();
        assert_eq!(filled(b"{token}-{attempt}"), b"t0-3");
        assert_eq!(
            filled(b"{key}"),
            b"k {token}",
            "what is filled in is not filled again"
        );
        assert_eq!(filled(b"{tok}{{token}\xff"), b"{tok}{t0\xff");
    }
}
