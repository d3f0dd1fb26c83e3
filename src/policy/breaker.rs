//! A breaker that many calls share: after enough failures nothing is tried for a while, then a few
//! probes are, and their success lets everyone in again.
//!
//! A probe holds a lease that lives as long as its claim, so that one that was killed jams nothing.
//! Times are kept as what has passed or is left since one stamp, so no clock change matters.

use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value, json};

use super::guard::{self, GuardError};
use super::outcome::Ending;
use super::state::{
    Fields, StateError, advance, number, owned_text, stamp_from_json, stamp_to_json,
};
use super::text::{digits, ms};
use crate::domain::outcome::{Class, Cut};
use crate::domain::time::Stamp;

/// How long a breaker stays open unless its option says otherwise.
pub const DEFAULT_COOLDOWN: Duration = Duration::from_secs(30);

/// A window is counted in this many parts.
const WINDOW_PARTS: u64 = 10;

/// When a breaker opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threshold {
    /// After this many failures in a row.
    Failures(u32),
    /// When failures reach a share of the calls of a window.
    Ratio {
        /// The share, 1–100.
        percent: u32,
        /// With fewer calls than this the share says nothing.
        calls: u32,
        /// The length of the window.
        window_ms: u64,
    },
}

/// `NAME[:failures=5|ratio=50%/20/1m,cooldown=30s,probes=1]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerSpec {
    /// What the breaker is called in the store.
    pub name: String,
    /// When it opens.
    pub threshold: Threshold,
    /// How long it stays open.
    pub cooldown: Duration,
    /// How many probes must succeed before it closes; as many may run at once.
    pub probes: u32,
}

impl FromStr for BreakerSpec {
    type Err = GuardError;

    fn from_str(text: &str) -> Result<BreakerSpec, GuardError> {
        let (name, settings) = match text.split_once(':') {
            Some((name, settings)) => (name, Some(settings)),
            None => (text, None),
        };
        let mut read = Settings::default();
        for setting in settings.into_iter().flat_map(|s| s.split(',')) {
            read.set(setting)?;
        }
        Ok(BreakerSpec {
            name: guard::name(name)?,
            threshold: read.threshold.unwrap_or(Threshold::Failures(5)),
            cooldown: read.cooldown.unwrap_or(DEFAULT_COOLDOWN),
            probes: read.probes.unwrap_or(1),
        })
    }
}

#[derive(Default)]
struct Settings {
    threshold: Option<Threshold>,
    cooldown: Option<Duration>,
    probes: Option<u32>,
}

impl Settings {
    fn set(&mut self, setting: &str) -> Result<(), GuardError> {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        let name = name.trim();
        let given_before = match name {
            "failures" => {
                let failures = Threshold::Failures(guard::count(value, u32::MAX)?);
                self.threshold.replace(failures).is_some()
            }
            "ratio" => self.threshold.replace(ratio(value)?).is_some(),
            "cooldown" => {
                let cooldown = Duration::from_millis(guard::duration_ms(value)?);
                self.cooldown.replace(cooldown).is_some()
            }
            "probes" => self
                .probes
                .replace(guard::count(value, u32::MAX)?)
                .is_some(),
            _ => return Err(GuardError::UnknownSetting(name.to_owned())),
        };
        match given_before {
            true => Err(GuardError::Conflict(name.to_owned())),
            false => Ok(()),
        }
    }
}

fn ratio(text: &str) -> Result<Threshold, GuardError> {
    let form = || {
        GuardError::Form(
            text.to_owned(),
            "PERCENT/CALLS/WINDOW, for example 50%/20/1m",
        )
    };
    let (percent, rest) = text.split_once('/').ok_or_else(form)?;
    let (calls, window) = rest.split_once('/').ok_or_else(form)?;
    let percent = percent.strip_suffix('%').ok_or_else(form)?;
    let known: Option<u32> = digits(percent);
    Ok(Threshold::Ratio {
        percent: known
            .filter(|p| (1..=100).contains(p))
            .ok_or_else(|| GuardError::Number(percent.to_owned(), 100))?,
        calls: guard::count(calls, u32::MAX)?,
        window_ms: guard::duration_ms(window)?,
    })
}

/// What an ended attempt tells a breaker about the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It works.
    Works,
    /// It does not work.
    Fails,
    /// Nothing: the command never started or was interrupted, or the other side answered with a no.
    Nothing,
}

impl Told {
    /// Safe, throttled, retryable and uncertain ends of a command that was started count as failures.
    pub fn by(ending: &Ending, class: Class) -> Told {
        match (ending, class) {
            (Ending::NotStarted(_), _) => Told::Nothing,
            (
                Ending::Ended {
                    cut: Some(Cut::Interrupted(_) | Cut::CallerLost | Cut::InputLost),
                    ..
                },
                _,
            ) => Told::Nothing,
            (_, Class::Success) => Told::Works,
            (_, Class::Permanent) => Told::Nothing,
            (_, Class::Safe | Class::Throttled | Class::Retryable | Class::Uncertain) => {
                Told::Fails
            }
        }
    }
}

/// Whether a call may execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The breaker is closed.
    Admitted,
    /// It is half open, and the caller holds the lease of a probe.
    AdmittedAsProbe,
    /// It is open for this much longer.
    RefusedOpen(Duration),
    /// It is half open, and all its probes are under way.
    RefusedProbing,
}

/// What a result changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing that a person must know.
    None,
    /// The breaker opened.
    Opened,
    /// The breaker closed.
    Closed,
}

/// The phase of a breaker, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Everyone is let in.
    Closed {
        /// Failures in a row so far.
        failures: u32,
    },
    /// Nobody is let in, for this much longer.
    Open(Duration),
    /// Probes are let in.
    HalfOpen {
        /// How many have succeeded so far.
        successes: u32,
        /// How many hold a lease.
        leases: usize,
    },
}

/// The calls of one part of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    /// How long ago it began.
    age_ms: u64,
    calls: u32,
    failures: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Mode {
    Closed { failures: u32, parts: Vec<Part> },
    Open { left_ms: u64 },
    HalfOpen { successes: u32, leases: Vec<String> },
}

const CLOSED: Mode = Mode::Closed {
    failures: 0,
    parts: Vec::new(),
};

/// The state of a breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breaker {
    /// Ages and remaining times are relative to this moment.
    at: Stamp,
    mode: Mode,
}

impl Breaker {
    /// A closed breaker.
    pub fn closed(now: &Stamp) -> Breaker {
        Breaker {
            at: now.clone(),
            mode: CLOSED,
        }
    }

    /// A breaker that someone opened by hand.
    pub fn tripped(now: &Stamp, cooldown: Duration) -> Breaker {
        Breaker {
            at: now.clone(),
            mode: Mode::Open {
                left_ms: ms(cooldown),
            },
        }
    }

    /// Asks whether `caller`, the name of its claim, may execute. An auxiliary caller never probes.
    /// `alive` says whether the claim that holds a lease still lives.
    pub fn admit(
        &mut self,
        spec: &BreakerSpec,
        now: &Stamp,
        caller: &str,
        auxiliary: bool,
        alive: &dyn Fn(&str) -> bool,
    ) -> Admission {
        self.pass_time(now);
        match &mut self.mode {
            Mode::Closed { .. } => Admission::Admitted,
            Mode::Open { left_ms } => Admission::RefusedOpen(Duration::from_millis(*left_ms)),
            Mode::HalfOpen { successes, .. } if *successes >= spec.probes => {
                self.mode = CLOSED;
                Admission::Admitted
            }
            Mode::HalfOpen { successes, leases } => {
                leases.retain(|l| l == caller || alive(l));
                let wanted = usize::try_from(spec.probes - *successes).unwrap_or(usize::MAX);
                lease(leases, caller, wanted, auxiliary)
            }
        }
    }

    /// Takes the result of an admitted call. In a half-open breaker only a lease holder's counts; in
    /// an open one none does, so that stragglers do not prolong it.
    pub fn record(&mut self, spec: &BreakerSpec, now: &Stamp, caller: &str, told: Told) -> Change {
        self.pass_time(now);
        match &mut self.mode {
            Mode::Open { .. } => Change::None,
            Mode::Closed { failures, parts } => {
                if counts_as_open(spec.threshold, failures, parts, told) {
                    return self.open(spec);
                }
                Change::None
            }
            Mode::HalfOpen { successes, leases } => {
                let Some(position) = leases.iter().position(|l| l == caller) else {
                    return Change::None;
                };
                leases.remove(position);
                match told {
                    Told::Nothing => Change::None,
                    Told::Fails => self.open(spec),
                    Told::Works if successes.saturating_add(1) < spec.probes => {
                        *successes += 1;
                        Change::None
                    }
                    Told::Works => {
                        self.mode = CLOSED;
                        Change::Closed
                    }
                }
            }
        }
    }

    /// Who holds the leases of a half-open breaker.
    pub fn holders(&self) -> &[String] {
        match &self.mode {
            Mode::HalfOpen { leases, .. } => leases,
            Mode::Closed { .. } | Mode::Open { .. } => &[],
        }
    }

    /// The phase at this moment.
    pub fn phase(&self, now: &Stamp) -> Phase {
        let mut breaker = self.clone();
        breaker.pass_time(now);
        match breaker.mode {
            Mode::Closed { failures, .. } => Phase::Closed { failures },
            Mode::Open { left_ms } => Phase::Open(Duration::from_millis(left_ms)),
            Mode::HalfOpen { successes, leases } => Phase::HalfOpen {
                successes,
                leases: leases.len(),
            },
        }
    }

    fn open(&mut self, spec: &BreakerSpec) -> Change {
        self.mode = Mode::Open {
            left_ms: ms(spec.cooldown),
        };
        Change::Opened
    }

    fn pass_time(&mut self, now: &Stamp) {
        let passed_ms = advance(&mut self.at, now);
        match &mut self.mode {
            Mode::Closed { parts, .. } => {
                for part in parts {
                    part.age_ms = part.age_ms.saturating_add(passed_ms);
                }
            }
            Mode::Open { left_ms } => {
                *left_ms = left_ms.saturating_sub(passed_ms);
                if *left_ms == 0 {
                    self.mode = Mode::HalfOpen {
                        successes: 0,
                        leases: Vec::new(),
                    };
                }
            }
            Mode::HalfOpen { .. } => {}
        }
    }
}

fn lease(leases: &mut Vec<String>, caller: &str, wanted: usize, auxiliary: bool) -> Admission {
    if leases.iter().any(|l| l == caller) {
        return Admission::AdmittedAsProbe;
    }
    if auxiliary || leases.len() >= wanted {
        return Admission::RefusedProbing;
    }
    leases.push(caller.to_owned());
    Admission::AdmittedAsProbe
}

/// Counts a result of a closed breaker; true when it must open.
fn counts_as_open(
    threshold: Threshold,
    failures: &mut u32,
    parts: &mut Vec<Part>,
    told: Told,
) -> bool {
    match told {
        Told::Nothing => return false,
        Told::Works => *failures = 0,
        Told::Fails => *failures = failures.saturating_add(1),
    }
    match threshold {
        Threshold::Failures(limit) => *failures >= limit,
        Threshold::Ratio {
            percent,
            calls,
            window_ms,
        } => {
            count_in_window(parts, window_ms, told == Told::Fails);
            let total: u64 = parts.iter().map(|p| u64::from(p.calls)).sum();
            let failed: u64 = parts.iter().map(|p| u64::from(p.failures)).sum();
            total >= u64::from(calls) && failed * 100 >= total * u64::from(percent)
        }
    }
}

fn count_in_window(parts: &mut Vec<Part>, window_ms: u64, failed: bool) {
    parts.retain(|p| p.age_ms < window_ms);
    let newest = parts
        .last_mut()
        .filter(|p| p.age_ms < window_ms.div_ceil(WINDOW_PARTS));
    if let Some(part) = newest {
        part.calls = part.calls.saturating_add(1);
        part.failures = part.failures.saturating_add(u32::from(failed));
    } else {
        parts.push(Part {
            age_ms: 0,
            calls: 1,
            failures: u32::from(failed),
        });
    }
}

impl Breaker {
    /// Writes the state for the store.
    pub fn to_json(&self) -> Value {
        let at = stamp_to_json(&self.at);
        match &self.mode {
            Mode::Closed { failures, parts } => {
                let parts: Vec<Value> = parts
                    .iter()
                    .map(|p| json!([p.age_ms, p.calls, p.failures]))
                    .collect();
                json!({"phase": "closed", "at": at, "failures": failures, "parts": parts})
            }
            Mode::Open { left_ms } => json!({"phase": "open", "at": at, "left_ms": left_ms}),
            Mode::HalfOpen { successes, leases } => {
                json!({"phase": "half-open", "at": at, "successes": successes, "leases": leases})
            }
        }
    }

    /// Reads back what [`Breaker::to_json`] wrote.
    pub fn from_json(value: &Value) -> Result<Breaker, StateError> {
        let phase = value
            .as_object()
            .ok_or(StateError::NotAnObject)?
            .get("phase");
        let (fields, mode) = match phase.and_then(Value::as_str) {
            Some("closed") => {
                let fields = Fields::of(value, &["phase", "at", "failures", "parts"])?;
                let (failures, parts) = (fields.number("failures")?, fields.list("parts", part)?);
                (fields, Mode::Closed { failures, parts })
            }
            Some("open") => {
                let fields = Fields::of(value, &["phase", "at", "left_ms"])?;
                let left_ms = fields.number("left_ms")?;
                (fields, Mode::Open { left_ms })
            }
            Some("half-open") => {
                let fields = Fields::of(value, &["phase", "at", "successes", "leases"])?;
                let (successes, leases) = (
                    fields.number("successes")?,
                    fields.list("leases", owned_text)?,
                );
                (fields, Mode::HalfOpen { successes, leases })
            }
            _ => return Err(StateError::Field("phase")),
        };
        Ok(Breaker {
            at: stamp_from_json(fields.value("at")?)?,
            mode,
        })
    }
}

fn part(value: &Value) -> Option<Part> {
    match value.as_array()?.as_slice() {
        [age_ms, calls, failures] => Some(Part {
            age_ms: number(age_ms)?,
            calls: number(calls)?,
            failures: number(failures)?,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
