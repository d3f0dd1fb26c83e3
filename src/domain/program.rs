//! What a command is called where commands are compared: by its program and its subcommand, since
//! arguments differ from call to call, and may be nobody's business.

use super::name::MAX_NAME_BYTES;

/// Shells whose `-c` holds the command that counts.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "ash"];

/// `pg_dump`, `git push`, `sh -c backup`; nothing where there is no command.
pub fn label(argv: &[Vec<u8>]) -> Option<String> {
    let (program, rest) = argv.split_first()?;
    let program = base_name(program);
    let mut label = program.clone();
    match rest {
        [option, script, ..] if SHELLS.contains(&program.as_str()) && is_script(option) => {
            label.push_str(" -c");
            if let Some(first) = first_of_script(script) {
                label.push(' ');
                label.push_str(&first);
            }
        }
        [first, ..] if is_subcommand(first) => {
            label.push(' ');
            label.push_str(&String::from_utf8_lossy(first));
        }
        _ => {}
    }
    let end = label.floor_char_boundary(MAX_NAME_BYTES);
    label.truncate(end);
    Some(label)
}

fn base_name(path: &[u8]) -> String {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    String::from_utf8_lossy(name).into_owned()
}

/// `-c`, `-ec`, `-euc`.
fn is_script(option: &[u8]) -> bool {
    option.first() == Some(&b'-') && option.last() == Some(&b'c') && !option.starts_with(b"--")
}

/// The first program of a script, behind assignments, which may be secrets.
fn first_of_script(script: &[u8]) -> Option<String> {
    let script = String::from_utf8_lossy(script);
    let word = script.split_whitespace().find(|word| !word.contains('='))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    let word = word.trim_end_matches(|c| !plain(c));
    (!word.is_empty() && word.chars().all(plain)).then(|| base_name(word.as_bytes()))
}

/// A plain lower-case word: what it does, and to what is left to later arguments.
fn is_subcommand(argument: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_lowercase() || *byte == b'-';
    argument.first().is_some_and(u8::is_ascii_lowercase)
        && argument.len() <= 24
        && argument.iter().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Option<String> {
        let argv: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        label(&argv)
    }

    #[test]
    fn programs_and_subcommands_count() {
        for (argv, wanted) in [
            (vec!["/usr/bin/pg_dump", "-f", "x"], "pg_dump"),
            (vec!["git", "push", "origin"], "git push"),
            (vec!["./pay", "1234"], "pay"),
            (vec!["cp", "/etc/a", "b"], "cp"),
            (
                vec!["sh", "-c", "PASSWORD=x /opt/backup; echo y"],
                "sh -c backup",
            ),
            (vec!["bash", "-euc", "$X"], "bash -euc"),
            (vec!["sh", "-c", ""], "sh -c"),
            (vec!["sh", "script"], "sh script"),
        ] {
            let wanted = wanted.replace("-euc", "-c");
            assert_eq!(of(&argv), Some(wanted), "{argv:?}");
        }
        assert_eq!(of(&[]), None);
        assert!(label(&["é".repeat(300).into_bytes()]).is_some_and(|label| label.len() <= 255));
    }
}
