//! Text from elsewhere on a terminal: nothing in it moves the cursor, and its width is known.

use crate::cli::quote;
use std::borrow::Cow;
use std::fmt::Write as _;

/// What is put where a text was cut.
const CUT: char = '…';

/// Whether a character shows as itself: no controls, no separators of lines, no invisible marks that
/// change the direction or hide.
fn shows(c: char) -> bool {
    !(c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'))
}

/// The text with everything that would not show as itself written out: `\n`, `\u{1b}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(shows) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match shows(c) {
            true => out.push(c),
            false => out.extend(c.escape_default()),
        }
    }
    Cow::Owned(out)
}

/// Bytes that should be text.
pub fn printable_bytes(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => printable(text).into_owned(),
        Err(_) => ansi_c(bytes),
    }
}

/// A command on one line, to be pasted into a shell.
pub fn command(argv: &[Vec<u8>]) -> String {
    let words: Vec<String> = argv.iter().map(|word| shell_word(word)).collect();
    words.join(" ")
}

/// One word of a command. What a terminal would not show as itself is quoted as `$'…'`, which bash,
/// zsh, ksh and POSIX.1-2024 read.
pub fn shell_word(word: &[u8]) -> String {
    match std::str::from_utf8(word) {
        Ok(text) if text.chars().all(shows) => quote::shell(text).into_owned(),
        _ => ansi_c(word),
    }
}

fn ansi_c(bytes: &[u8]) -> String {
    let mut out = String::from("$'");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\'' | '\\' => out.extend(['\\', c]),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                c if shows(c) => out.push(c),
                c => hex(&mut out, c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        hex(&mut out, chunk.invalid());
    }
    out.push('\'');
    out
}

fn hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(out, "\\x{byte:02x}");
    }
}

/// The columns that a text takes on a terminal.
pub fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Close enough for alignment: the marks of Unicode's main blocks take no column, the wide and
/// full-width blocks of UAX #11 two.
fn char_width(c: char) -> usize {
    match u32::from(c) {
        0x300..=0x36f
        | 0x483..=0x489
        | 0x591..=0x5bd
        | 0x610..=0x61a
        | 0x64b..=0x65f
        | 0x1ab0..=0x1aff
        | 0x1dc0..=0x1dff
        | 0x20d0..=0x20ff
        | 0xfe00..=0xfe0f
        | 0xfe20..=0xfe2f => 0,
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// The text cut to so many columns, with a mark where something is missing.
pub fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let room = columns.saturating_sub(1);
    let mut taken = 0;
    let mut out: String = text
        .chars()
        .take_while(|c| {
            taken += char_width(*c);
            taken <= room
        })
        .collect();
    if columns > 0 {
        out.push(CUT);
    }
    Cow::Owned(out)
}

/// The text cut to so many columns in its middle, so that both ends stay.
pub fn fit_ends(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let head = fit(text, columns.div_ceil(2));
    let mut room = columns.saturating_sub(width(&head));
    let mut tail = text.len();
    for (at, c) in text.char_indices().rev() {
        let Some(left) = room.checked_sub(char_width(c)) else {
            break;
        };
        (room, tail) = (left, at);
    }
    Cow::Owned(format!("{head}{}", &text[tail..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_moves_the_cursor() {
        assert_eq!(printable("plain é 日"), "plain é 日");
        assert_eq!(
            printable("a\n\u{1b}[31mb\u{202e}"),
            "a\\n\\u{1b}[31mb\\u{202e}"
        );
        assert_eq!(printable_bytes(b"/srv/\xff"), r"$'/srv/\xff'");
    }

    #[test]
    fn odd_words_can_be_pasted() {
        let argv = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
        assert_eq!(
            command(&argv(&[b"sh", b"-c", b"echo it's"])),
            r"sh -c 'echo it'\''s'"
        );
        assert_eq!(
            command(&argv(&[b"a\nb", b"\xffx", b"\x1b'\\"])),
            r"$'a\nb' $'\xffx' $'\x1b\'\\'"
        );
        assert_eq!(command(&argv(&[b""])), "''");
    }

    #[test]
    fn a_cut_text_fits() {
        assert_eq!(fit("abcdef", 6), "abcdef");
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(fit("abc", 1), "…");
        assert_eq!(fit("abc", 0), "");
    }

    #[test]
    fn both_ends_stay() {
        assert_eq!(fit_ends("abcdef", 6), "abcdef");
        assert_eq!(fit_ends("abcdefgh", 7), "abc…fgh");
        assert_eq!(fit_ends("abcdefgh", 6), "ab…fgh");
        assert_eq!(fit_ends("日本語日本語", 7), "日…本語");
        assert_eq!(fit_ends("abc", 2), "…c");
        assert_eq!(fit_ends("abc", 1), "…");
        assert_eq!(fit_ends("abc", 0), "");
    }

    proptest! {
        #[test]
        fn whatever_is_cut_fits(text in "\\PC{0,20}", columns in 0usize..12) {
            prop_assert!(width(&fit(&text, columns)) <= columns);
            prop_assert!(width(&fit_ends(&text, columns)) <= columns);
        }

        #[test]
        fn bash_reads_back_the_same_word(word in prop::collection::vec(1u8.., 0..12)) {
            let text = shell_word(&word);
            prop_assert!(text.chars().all(shows));
            let script = format!("printf %s {text}");
            let Ok(output) = std::process::Command::new("bash").args(["-c", &script]).output() else {
                return Ok(());
            };
            prop_assert_eq!(output.stdout, word);
        }
    }
}
