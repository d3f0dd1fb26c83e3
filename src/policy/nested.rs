//! What a call that runs below another one tells it: `nested=CLASS:CODE:COMMAND[:WAIT_MS]`, a line of the
//! control file.
//!
//! A part cannot speak for the whole. A script may have done anything else before or after the inner
//! call, and may have dealt with its failure. So nothing counts where the script itself succeeds; an
//! uncertain part makes a failed whole uncertain; a permanent one ends its retries if the script passes
//! on its code; and that nothing happened, or that it may be tried again, is believed only where the inner
//! call is all that the outer one ran. That is seen by the command: both have the same arguments.

use std::time::Duration;

use super::text::ms;
use crate::domain::digest::PartsDigest;
use crate::domain::name::Fingerprint;
use crate::domain::outcome::Class;

/// How an inner call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inner {
    /// What its last attempt tells, or its refusal.
    pub class: Class,
    /// What its caller got.
    pub code: i32,
    /// How long another try should wait.
    pub wait: Option<Duration>,
}

/// What was heard of inner calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heard {
    /// One of them may have happened, or not.
    pub uncertain: bool,
    /// The last one.
    pub last: Option<Inner>,
    /// The last one is all that the outer call ran.
    pub whole: bool,
}

/// The digest by which outer and inner call recognise the same command.
pub fn command<T: AsRef<[u8]>>(argv: &[T]) -> Fingerprint {
    let mut digest = PartsDigest::new();
    digest.part("argv", argv);
    digest.finish()
}

impl Inner {
    /// The line for the outer call's control file, by an inner call of that command.
    pub fn line(&self, command: &Fingerprint) -> String {
        let wait = self
            .wait
            .map_or_else(String::new, |wait| format!(":{}", ms(wait)));
        let (class, code) = (self.class.word(), self.code);
        format!("nested={class}:{code}:{}{wait}\n", command.hex())
    }
}

impl Heard {
    /// Takes the value of one line; `own` is the command that the outer call ran. What cannot be read is
    /// passed over.
    pub fn hear(&mut self, value: &[u8], own: &Fingerprint) {
        let read = std::str::from_utf8(value).ok().and_then(read);
        let Some((inner, command)) = read else {
            return;
        };
        self.uncertain |= inner.class == Class::Uncertain;
        self.last = Some(inner);
        self.whole = command == own.hex();
    }
}

fn read(value: &str) -> Option<(Inner, &str)> {
    let mut fields = value.split(':');
    let class = Class::from_word(fields.next()?).filter(|class| *class != Class::Success)?;
    let code = fields.next()?.parse().ok()?;
    let command = fields.next()?;
    let wait = match fields.next() {
        Some(wait_ms) => Some(Duration::from_millis(wait_ms.parse().ok()?)),
        None => None,
    };
    Some((Inner { class, code, wait }, command))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [&str; 2] = ["idem", "run"];

    #[test]
    fn a_line_is_heard_by_who_ran_the_same_command() {
        let inner = Inner {
            class: Class::Throttled,
            code: 9,
            wait: Some(Duration::from_millis(1500)),
        };
        let line = inner.line(&command(&OWN));
        let value = line.strip_prefix("nested=").unwrap().trim_end();
        let mut heard = Heard::default();
        heard.hear(value.as_bytes(), &command(&OWN));
        assert_eq!((heard.last, heard.whole), (Some(inner), true));
        heard.hear(value.as_bytes(), &command(&["sh"]));
        assert!(!heard.whole && !heard.uncertain);
    }

    #[test]
    fn an_uncertain_one_is_not_forgotten_and_junk_is_passed_over() {
        let mut heard = Heard::default();
        heard.hear(b"uncertain:124:x", &command(&OWN));
        heard.hear(b"safe:7:y", &command(&OWN));
        assert!(heard.uncertain);
        let before = heard.clone();
        for junk in [
            "",
            "safe",
            "safe:7",
            "success:0:x",
            "safe:x:y",
            "safe:7:y:z",
            "no:1:x",
        ] {
            heard.hear(junk.as_bytes(), &command(&OWN));
            heard.hear(b"\xff", &command(&OWN));
            assert_eq!(heard, before, "{junk}");
        }
    }
}
