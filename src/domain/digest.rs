//! One digest over several parts, such that no two different lists of parts are the same bytes.

use super::name::Fingerprint;
use sha2::{Digest as _, Sha256};

/// SHA-256 (FIPS 180-4) over named parts.
///
/// What is hashed for a part: its kind, the number of its fields, and the fields. Kind and fields
/// each follow their length in bytes; every number is an unsigned 64-bit integer, little endian.
/// So `("ab", "c")` and `("a", "bc")` differ, and an argument never passes for a directory.
#[derive(Debug, Clone, Default)]
pub struct PartsDigest(Sha256);

impl PartsDigest {
    /// A digest of no parts yet.
    pub fn new() -> PartsDigest {
        PartsDigest::default()
    }

    /// Adds one part. The bytes need not be UTF-8.
    pub fn part<T: AsRef<[u8]>>(&mut self, kind: &str, fields: &[T]) {
        self.sized(kind.as_bytes());
        self.number(fields.len());
        for field in fields {
            self.sized(field.as_ref());
        }
    }

    /// The digest of all parts so far.
    pub fn finish(self) -> Fingerprint {
        Fingerprint(self.0.finalize().into())
    }

    fn sized(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.0.update(bytes);
    }

    fn number(&mut self, n: usize) {
        self.0.update((n as u64).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parts: &[(&str, &[&[u8]])]) -> Fingerprint {
        let mut digest = PartsDigest::new();
        for (kind, fields) in parts {
            digest.part(kind, fields);
        }
        digest.finish()
    }

    #[test]
    fn the_hashed_bytes_are_the_documented_ones() {
        let mut bytes = Vec::new();
        for (n, text) in [(4u64, "argv"), (2, ""), (4, "echo"), (1, "1")] {
            bytes.extend(n.to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        let expected: [u8; 32] = Sha256::digest(&bytes).into();
        assert_eq!(of(&[("argv", &[b"echo", b"1"])]).0, expected);
    }

    #[test]
    fn a_digest_that_is_stored_stays_the_same_in_later_versions() {
        assert_eq!(
            of(&[("argv", &[b"echo", b"\xff"]), ("cwd", &[b"/tmp"])]).hex(),
            "e65b6dd23c6429214cb24ca0d0a3232147d21472a5ef725559d723ab6946a947"
        );
        assert_eq!(
            of(&[]).hex(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn where_one_field_ends_and_the_next_begins_counts() {
        let all = [
            of(&[]),
            of(&[("argv", &[])]),
            of(&[("argv", &[b""])]),
            of(&[("argv", &[b"ab", b"c"])]),
            of(&[("argv", &[b"a", b"bc"])]),
            of(&[("argv", &[b"abc"])]),
            of(&[("argv", &[b"ab"]), ("argv", &[b"c"])]),
            of(&[("argv", &[b"ab"]), ("cwd", &[b"c"])]),
            of(&[("cwd", &[b"ab"]), ("argv", &[b"c"])]),
            of(&[("argv", &[b"ab", b"cwd", b"c"])]),
            of(&[("argvab", &[b"c"])]),
            of(&[("argv", &[b"ab\xff", b"c"])]),
        ];
        for (i, a) in all.iter().enumerate() {
            for b in &all[i + 1..] {
                assert_ne!(a, b);
            }
        }
    }
}
