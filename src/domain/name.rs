//! Names and identities: scope, key, fingerprint, generation, nonce.

use std::fmt;

/// The longest key and the longest scope, in bytes.
pub const MAX_NAME_BYTES: usize = 255;

/// Why a text cannot be a key or a scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameError {
    /// The text is empty.
    Empty,
    /// The text has more than [`MAX_NAME_BYTES`] bytes; carries its length.
    TooLong(usize),
    /// The bytes are not UTF-8.
    NotUtf8,
    /// The text has a control character or another one that does not print; carries it.
    NotPrintable(char),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Empty => write!(f, "is empty"),
            NameError::TooLong(n) => {
                write!(f, "has {n} bytes, {MAX_NAME_BYTES} are allowed")
            }
            NameError::NotUtf8 => write!(f, "is not UTF-8"),
            NameError::NotPrintable(c) => {
                write!(
                    f,
                    "has a character that does not print ({})",
                    c.escape_default()
                )
            }
        }
    }
}

impl std::error::Error for NameError {}

/// Checks the rules that keys and scopes share: at most 255 bytes, UTF-8, printable, never trimmed.
fn check_text(bytes: &[u8]) -> Result<&str, NameError> {
    if bytes.len() > MAX_NAME_BYTES {
        return Err(NameError::TooLong(bytes.len()));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| NameError::NotUtf8)?;
    match text.chars().find(|c| !prints(*c)) {
        Some(c) => Err(NameError::NotPrintable(c)),
        None => Ok(text),
    }
}

/// Whether a character may stand in a name: no controls, no separators of lines, no invisible
/// direction or width marks, which would make two keys that look the same differ.
fn prints(c: char) -> bool {
    !(c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{2069}' | '\u{FEFF}'))
}

/// The caller's name for an intended side effect: 1–255 bytes of printable UTF-8, exact.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    /// Takes the bytes as they are; nothing is trimmed.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Key, NameError> {
        let text = check_text(bytes.as_ref())?;
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        Ok(Key(text.to_owned()))
    }

    /// The key's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name space for keys: 0–255 bytes of printable UTF-8; the default is empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Scope(String);

impl Scope {
    /// Takes the bytes as they are; empty is the default scope.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Scope, NameError> {
        Ok(Scope(check_text(bytes.as_ref())?.to_owned()))
    }

    /// The scope's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Scope and key together: the name of one operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpName {
    /// The name space.
    pub scope: Scope,
    /// The key in it.
    pub key: Key,
}

impl fmt::Display for OpName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scope.as_str().is_empty() {
            write!(f, "{}", self.key)
        } else {
            write!(f, "{} (scope {})", self.key, self.scope.as_str())
        }
    }
}

/// SHA-256 of what the caller asked to run. Compared whole, never shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// 64 lower-case hex digits.
    pub fn hex(&self) -> String {
        hex(&self.0)
    }
}

/// The fencing token: one store-wide counter, never reset, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub i64);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// 128 random bits that tell one claim from every other, also across stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nonce(pub [u8; 16]);

impl Nonce {
    /// 32 lower-case hex digits: in file names and in the environment.
    pub fn hex(&self) -> String {
        hex(&self.0)
    }

    /// Reads back what [`Nonce::hex`] wrote.
    pub fn from_hex(text: &str) -> Option<Nonce> {
        if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0u8; 16];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
        }
        Some(Nonce(bytes))
    }
}

/// Lower-case hex of any bytes.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)] as char);
        text.push(DIGITS[usize::from(byte & 15)] as char);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_exact_and_never_trimmed() {
        assert_eq!(Key::new(" a ").unwrap().as_str(), " a ");
        assert_eq!(Key::new("").unwrap_err(), NameError::Empty);
        assert_eq!(Key::new([0xff]).unwrap_err(), NameError::NotUtf8);
        assert_eq!(Key::new("a\nb").unwrap_err(), NameError::NotPrintable('\n'));
        assert!(Key::new("é".repeat(127)).is_ok());
        assert_eq!(
            Key::new("x".repeat(256)).unwrap_err(),
            NameError::TooLong(256)
        );
    }

    #[test]
    fn a_nonce_survives_its_hex() {
        let nonce = Nonce([
            0, 1, 2, 3, 250, 251, 252, 253, 254, 255, 16, 17, 18, 19, 20, 21,
        ]);
        assert_eq!(Nonce::from_hex(&nonce.hex()), Some(nonce));
        assert_eq!(Nonce::from_hex("zz"), None);
        assert_eq!(Nonce::from_hex(&"+1".repeat(16)), None);
    }
}
