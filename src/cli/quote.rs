//! Names and commands as a person would type them in a shell.

use crate::domain::name::OpName;
use std::borrow::Cow;

/// A word in the form that a POSIX shell reads as exactly that word.
pub fn shell(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_alphanumeric() || "-_./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

/// An operation as the arguments of a verb: its key, and its scope where it has one.
pub fn operation(name: &OpName) -> String {
    let dashed = if name.key.as_str().starts_with('-') {
        "-- "
    } else {
        ""
    };
    let key = shell(name.key.as_str());
    match name.scope.as_str() {
        "" => format!("{dashed}{key}"),
        scope => format!("--scope {} {dashed}{key}", shell(scope)),
    }
}

/// A command for people: quoted, and cut after `most` characters.
pub fn command(argv: &[Vec<u8>], most: usize) -> String {
    let words: Vec<String> = argv
        .iter()
        .map(|word| shell(&String::from_utf8_lossy(word)).into_owned())
        .collect();
    let line = words.join(" ").replace(|c: char| c.is_control(), "?");
    if line.chars().count() <= most {
        return line;
    }
    line.chars()
        .take(most.saturating_sub(1))
        .chain(['…'])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::name::{Key, Scope};

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(shell("deploy-42"), "deploy-42");
        assert_eq!(shell(""), "''");
        assert_eq!(shell("it's"), r"'it'\''s'");
        assert_eq!(shell("a b"), "'a b'");
    }

    #[test]
    fn an_operation_can_be_pasted() {
        let name = |scope: &str, key: &str| OpName {
            scope: Scope::new(scope).unwrap(),
            key: Key::new(key).unwrap(),
        };
        assert_eq!(operation(&name("", "k")), "k");
        assert_eq!(operation(&name("prod", "a b")), "--scope prod 'a b'");
        assert_eq!(operation(&name("", "-x")), "-- -x");
    }

    #[test]
    fn a_long_command_is_cut() {
        let argv = [b"echo".to_vec(), b"one two".to_vec()];
        assert_eq!(command(&argv, 80), "echo 'one two'");
        assert_eq!(command(&argv, 6), "echo …");
    }
}
