//! Hands that only write down what they are asked to do, and a clock that they move themselves.

use super::super::environment::ChildContext;
use super::super::hands::{AttemptEnd, Before, Cancelled, Hands, HelperEnd, HowEnded, Role};
use super::super::store::{NewOutput, OutputBody};
use super::{Log, NONCE, S, stamp};
use crate::domain::name::{Generation, Nonce};
use crate::domain::outcome::{Class, Cut, Exit};
use crate::domain::owner::{Liveness, LockFileId, OwnerRef, ProcessRef};
use crate::domain::record::Record;
use crate::domain::time::{BootId, Stamp};
use crate::policy::bulkhead::BulkheadSpec;
use crate::policy::nested::Inner;
use crate::policy::outcome::{Control, Sightings};
use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::time::Duration;

pub struct FakeHands {
    log: Log,
    /// The monotonic clock.
    pub clock: Duration,
    /// How the coming attempts end: a code, a class that the child declares (with `+SECS` to wait),
    /// `timeout`, `term` or `nostart`.
    attempts: VecDeque<String>,
    /// How the coming probes and cleanups end: code and stderr.
    pub helpers: VecDeque<(i32, String)>,
    /// What cannot be ended, each time that leftovers are looked for; nothing once this is used up.
    pub leftovers: VecDeque<Vec<i32>>,
    pub liveness: Liveness,
    pub cancelled: Option<Cancelled>,
    /// An interrupt comes during the pause.
    pub interrupt_in_pause: bool,
    pub interrupted: bool,
    pub permits: bool,
    pub cannot_fork: Option<String>,
    /// The holders of leases that live, besides this one.
    pub living: HashSet<String>,
    pub preview_fails: bool,
    preview: Option<Vec<u8>>,
    number: u32,
}

impl FakeHands {
    pub fn new(log: &Log, attempts: &[&str]) -> FakeHands {
        FakeHands {
            log: log.clone(),
            clock: 1000 * S,
            attempts: attempts.iter().map(|text| (*text).to_owned()).collect(),
            helpers: VecDeque::new(),
            leftovers: VecDeque::new(),
            liveness: Liveness::Gone,
            cancelled: None,
            interrupt_in_pause: false,
            interrupted: false,
            permits: true,
            cannot_fork: None,
            living: HashSet::new(),
            preview_fails: false,
            preview: None,
            number: 0,
        }
    }

    pub fn more(&mut self, attempts: &[&str]) {
        self.attempts
            .extend(attempts.iter().map(|text| (*text).to_owned()));
    }

    fn say(&self, text: String) {
        self.log.borrow_mut().push(text);
    }
}

fn output(number: u32) -> NewOutput {
    NewOutput {
        number,
        body: OutputBody::Inline(vec![1]),
        stdout_bytes: u64::from(number),
        stderr_bytes: 0,
        truncated: false,
        lost: false,
    }
}

fn how(text: &str) -> (HowEnded, Control) {
    let ended = |code, cut| HowEnded::Ended {
        exit: Exit::Code(code),
        cut,
    };
    let (text, hint) = match text.split_once('+') {
        Some((text, secs)) => (text, Some(Duration::from_secs(secs.parse().unwrap()))),
        None => (text, None),
    };
    let declared = Class::from_word(text).filter(|class| *class != Class::Success);
    let control = Control {
        outcome: declared,
        retry_after: hint,
        ..Control::default()
    };
    let how = match text {
        "timeout" => ended(0, Some(Cut::Timeout)),
        "term" => ended(0, Some(Cut::Interrupted(15))),
        "nostart" => HowEnded::NotStarted {
            code: 127,
            why: "not found".into(),
        },
        _ => ended(text.parse().unwrap_or(9), None),
    };
    (how, control)
}

impl Hands for FakeHands {
    fn now(&self) -> Stamp {
        stamp(self.clock.checked_sub(1000 * S).unwrap())
    }

    fn monotonic(&self) -> Duration {
        self.clock
    }

    fn random(&mut self) -> f64 {
        0.5
    }

    fn mint_token(&mut self) -> String {
        "new token".into()
    }

    fn nonce(&self) -> Nonce {
        NONCE
    }

    fn observe(&self, _record: &Record) -> Liveness {
        self.liveness.clone()
    }

    fn cancelled(&mut self) -> Option<Cancelled> {
        self.cancelled
    }

    fn interrupted(&mut self) -> bool {
        self.interrupted
    }

    fn owner(&self) -> OwnerRef {
        let process = ProcessRef {
            pid: 10,
            start_ticks: 1,
        };
        OwnerRef {
            keeper: process,
            boot_id: BootId("boot".into()),
            pid_namespace: 1,
            lock_file: LockFileId {
                device: 1,
                inode: 1,
            },
            keeper_byte: 1,
            tree_byte: 2,
            child: Some(process),
            nonce: NONCE,
            lease: None,
        }
    }

    fn permit(&mut self, spec: &BulkheadSpec, auxiliary: bool, until: Option<Duration>) -> bool {
        let until = until.map(|until| until.saturating_sub(self.clock));
        let auxiliary = if auxiliary { " auxiliary" } else { "" };
        self.say(format!("permit {} {until:?}{auxiliary}", spec.name));
        self.permits
    }

    fn holder(&self) -> String {
        "me".into()
    }

    fn holder_lives(&self, holder: &str) -> bool {
        holder == "me" || self.living.contains(holder)
    }

    fn prepare(&mut self, context: &ChildContext<'_>) -> Result<(), String> {
        let (attempt, token) = (context.attempt, context.token);
        self.say(format!("prepare {attempt} with {token}"));
        self.cannot_fork.clone().map_or(Ok(()), Err)
    }

    fn abandon(&mut self) {
        self.say("abandon".into());
    }

    fn claimed(&mut self, generation: Generation) {
        self.say(format!("claimed {generation}"));
    }

    fn attempt(&mut self, number: u32, deadline: Option<Duration>) -> AttemptEnd {
        let left = deadline.map(|at| format!(" for {:?}", at.saturating_sub(self.clock)));
        self.say(format!("attempt {number}{}", left.unwrap_or_default()));
        self.number = number;
        self.clock += S;
        let text = self.attempts.pop_front().expect("another attempt");
        self.interrupted |= text == "term";
        let (how, control) = how(&text);
        AttemptEnd {
            how,
            duration: S,
            seen: Sightings::default(),
            control,
            ended: self.clock,
            held_terminal: false,
            survivors: Vec::new(),
        }
    }

    fn take_output(&mut self) -> NewOutput {
        output(self.number)
    }

    fn helper(
        &mut self,
        _: Role,
        command: &OsStr,
        _: &ChildContext<'_>,
        limit: Duration,
    ) -> HelperEnd {
        self.say(format!("{} {limit:?}", command.to_string_lossy()));
        let (code, stderr) = self.helpers.pop_front().expect("another helper");
        HelperEnd {
            exit: (code >= 0).then_some(Exit::Code(code)),
            stdout: output(0),
            stdout_head: b"answer".to_vec(),
            stderr_head: stderr.into_bytes(),
            trouble: None,
        }
    }

    fn end_leftovers(&mut self) -> Vec<i32> {
        self.say("end leftovers".into());
        self.leftovers.pop_front().unwrap_or_default()
    }

    fn waited(&mut self) {
        self.say("waited".into());
    }

    fn pause(&mut self, delay: Duration, before: Before<'_>) {
        let before = match before {
            Before::Attempt(number, _) => format!("attempt {number}"),
            Before::Probe => "the probe".into(),
            Before::Permit(bulkhead, permits) => format!("one of {permits} of {bulkhead}"),
        };
        self.say(format!("pause {delay:?} for {before}"));
        self.clock += delay;
        self.interrupted |= self.interrupt_in_pause;
    }

    fn take_preview(
        &mut self,
        command: Option<&OsStr>,
        _: &ChildContext<'_>,
        _: Duration,
    ) -> Result<(), String> {
        self.say(format!(
            "preview {}",
            command.unwrap_or_default().to_string_lossy()
        ));
        match self.preview_fails {
            true => Err("no".into()),
            false => {
                self.preview = Some(b"plan".to_vec());
                Ok(())
            }
        }
    }

    fn preview(&self) -> Option<Vec<u8>> {
        self.preview.clone()
    }

    fn release(&mut self) {
        self.say("release".into());
    }

    fn tell_outer(&mut self, inner: Inner) {
        self.say(format!("tell {} {}", inner.class.word(), inner.code));
    }

    fn discard(&mut self, output: &NewOutput) {
        self.say(format!("discard {}", output.number));
    }
}
