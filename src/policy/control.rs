//! What a child writes to the file that `IDEM_CONTROL` names: `retry-after=30`, `outcome=safe`, `note=…`;
//! and `nested=…`, which an inner call of idem's writes.

use super::outcome::Control;
use super::retry_after;
use crate::domain::name::Fingerprint;
use crate::domain::outcome::Class;
use crate::domain::time::UnixMs;

/// Only this much of the end of the file is read.
pub const LONGEST_BYTES: usize = 64 * 1024;

/// A note is cut to this many bytes.
pub const LONGEST_NOTE_BYTES: usize = 1024;

/// Reads the lines of a control file. A later line wins over an earlier one with the same name; lines
/// that mean nothing are passed over, also `outcome=success`: that is said by the exit code.
/// A date in `retry-after` is relative to `now`; `own` is the command that was run
/// ([`nested::command`](super::nested::command)).
pub fn parse(bytes: &[u8], now: UnixMs, own: &Fingerprint) -> Control {
    let mut control = Control::default();
    for line in tail(bytes).split(|b| *b == b'\n') {
        read_line(&mut control, line.trim_ascii(), now, own);
    }
    control
}

/// The last [`LONGEST_BYTES`], without the line that this cuts through.
fn tail(bytes: &[u8]) -> &[u8] {
    let Some(cut) = bytes.len().checked_sub(LONGEST_BYTES + 1) else {
        return bytes;
    };
    let kept = bytes.get(cut..).unwrap_or_default();
    match kept.iter().position(|b| *b == b'\n') {
        Some(end) => kept.get(end + 1..).unwrap_or_default(),
        None => &[],
    }
}

fn read_line(control: &mut Control, line: &[u8], now: UnixMs, own: &Fingerprint) {
    let Some(equals) = line.iter().position(|b| *b == b'=') else {
        return;
    };
    let (name, value) = line.split_at(equals);
    let value = value.get(1..).unwrap_or_default().trim_ascii();
    match name.trim_ascii() {
        b"retry-after" => {
            control.retry_after = retry_after::parse(value, now).or(control.retry_after);
        }
        b"outcome" => control.outcome = outcome(value).or(control.outcome),
        b"note" => control.note = Some(note(value)),
        b"nested" => control.nested.hear(value, own),
        _ => {}
    }
}

fn outcome(value: &[u8]) -> Option<Class> {
    let class = Class::from_word(std::str::from_utf8(value).ok()?)?;
    (class != Class::Success).then_some(class)
}

fn note(value: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(value).into_owned();
    let mut end = LONGEST_NOTE_BYTES.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const OWN: Fingerprint = Fingerprint([0; 32]);

    fn read(text: &str) -> Control {
        parse(text.as_bytes(), UnixMs(784_111_747_000), &OWN)
    }

    #[test]
    fn the_three_lines_are_read() {
        let control = read("retry-after=30\noutcome=uncertain\nnote= waiting for the bank \n");
        assert_eq!(control.retry_after, Some(Duration::from_secs(30)));
        assert_eq!(control.outcome, Some(Class::Uncertain));
        assert_eq!(control.note.as_deref(), Some("waiting for the bank"));
        let dated = read("retry-after=Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(dated.retry_after, Some(Duration::from_secs(30)));
    }

    #[test]
    fn every_class_but_success_can_be_declared() {
        for class in Class::ALL {
            let declared = read(&format!("outcome={}\r\n", class.word())).outcome;
            assert_eq!(declared, (class != Class::Success).then_some(class));
        }
    }

    #[test]
    fn later_lines_win_and_junk_is_passed_over() {
        let control = read(
            "outcome=safe\nnote=a\nnote=b\noutcome=permanent\noutcome=success\noutcome=SAFE\n\
             retry-after=5\nretry-after=soon\n=\nnonsense\noutcome\n outcome = retryable",
        );
        assert_eq!(control.outcome, Some(Class::Retryable));
        assert_eq!(control.retry_after, Some(Duration::from_secs(5)));
        assert_eq!(control.note.as_deref(), Some("b"));
    }

    #[test]
    fn a_file_without_end_costs_nothing() {
        let mut long = "outcome=permanent\n".repeat(100_000);
        long.push_str("outcome=safe\n");
        assert_eq!(read(&long).outcome, Some(Class::Safe));
        assert_eq!(read(&"outcome=safe ".repeat(100_000)), Control::default());
        let exact = format!("{}\noutcome=safe", "x".repeat(LONGEST_BYTES - 13));
        assert_eq!(exact.len(), LONGEST_BYTES);
        assert_eq!(read(&exact).outcome, Some(Class::Safe));
        let cut = format!("xoutcome=safe\n{}", "y".repeat(LONGEST_BYTES - 13));
        assert_eq!(read(&cut).outcome, None, "half a line is no line");
        let note = read(&format!("note=x{}", "é".repeat(5000))).note.unwrap();
        assert_eq!(note.len(), LONGEST_NOTE_BYTES - 1);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_succeed(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_ne!(parse(&bytes, UnixMs(0), &OWN).outcome, Some(Class::Success));
        }
    }
}
