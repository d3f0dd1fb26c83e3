//! Scripts: what callers, people, time and accidents do to two operations, one step after the other.

use proptest::prelude::*;
use std::fmt;
use std::time::Duration;

/// How long a short result is kept; a long one outlives every script.
pub const SHORT: Duration = Duration::from_secs(60);

/// `--if-running`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfRunning {
    Wait,
    Refuse,
    Skip,
}

/// What a probe answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    Happened,
    DidNot,
    CannotTell,
}

/// Where a keeper dies with all that it has started, other than at its command's gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dies {
    /// About to claim: nothing is written.
    BeforeClaim,
    /// The claim is durable, and nothing has started.
    AfterClaim,
    /// The command has ended, and nothing is recorded.
    AfterEnd,
    /// The result is recorded, and the caller does not know.
    AfterSettle,
}

/// The options of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    pub if_running: IfRunning,
    pub rerun_unknown: bool,
    pub rerun_failed: bool,
    pub probe: Option<Probe>,
    pub short: bool,
    pub hold: bool,
    pub retries: u32,
    pub breaker: bool,
    /// Between the front's look and the keeper's claim other things happen.
    pub pauses: bool,
    pub dies: Option<Dies>,
}

/// How a command ends that was let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Exit 0.
    Success,
    /// Exit 3.
    Permanent,
    /// Exit 4, and it says that nothing has happened.
    Safe,
    /// Exit 5, and it says that it may be repeated.
    Retryable,
    /// Killed by signal 9.
    Killed,
}

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Front,
    Keeper,
    Both,
    Everything,
}

/// How a person settles an unknown outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settles {
    Succeeded,
    Failed,
    NotDone,
}

/// One step. Calls are named by their place among the calls so far; a number beyond them wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A caller asks for an operation with one of two commands.
    Call {
        key: usize,
        other: bool,
        options: Options,
    },
    /// A paused call goes on.
    GoOn(usize),
    /// A command that waits at its gate ends.
    End(usize, How),
    /// Something of a call that executes, or a caller that waits, is killed.
    Kill(usize, Who),
    /// Time passes.
    Pass,
    Resolve(usize, Settles),
    Forget(usize, bool),
    Decide(usize, bool),
    OpenTask,
    Collect,
}

/// How rich the scripts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// Everything: calls can be held up at any place.
    Core,
    /// What can be done to processes from outside, with an outcome that no race decides.
    Processes,
}

fn options(world: World) -> impl Strategy<Value = Options> {
    let if_running = prop_oneof![
        6 => Just(IfRunning::Wait),
        1 => Just(IfRunning::Refuse),
        1 => Just(IfRunning::Skip)
    ];
    let probe = prop_oneof![
        6 => Just(None),
        1 => Just(Some(Probe::Happened)),
        1 => Just(Some(Probe::DidNot)),
        1 => Just(Some(Probe::CannotTell)),
    ];
    let dies = prop_oneof![
        12 => Just(None),
        1 => Just(Some(Dies::BeforeClaim)),
        1 => Just(Some(Dies::AfterClaim)),
        1 => Just(Some(Dies::AfterEnd)),
        1 => Just(Some(Dies::AfterSettle)),
    ];
    let core = world == World::Core;
    (
        if_running,
        probe,
        dies,
        prop::bool::weighted(0.25),
        prop::bool::weighted(0.25),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.12),
        0..=1u32,
        prop::bool::weighted(0.4),
        prop::bool::weighted(0.2),
    )
        .prop_map(
            move |(
                if_running,
                probe,
                dies,
                unknown,
                failed,
                short,
                hold,
                retries,
                breaker,
                pauses,
            )| {
                Options {
                    if_running,
                    rerun_unknown: unknown,
                    rerun_failed: failed,
                    // What a probe's no means for a proposal is a matter of its own.
                    probe: probe.filter(|_| !hold),
                    short,
                    hold,
                    retries,
                    breaker,
                    pauses: pauses && core,
                    dies: dies.filter(|_| core),
                }
            },
        )
}

fn step(world: World) -> impl Strategy<Value = Step> {
    let how = prop_oneof![
        4 => Just(How::Success),
        2 => Just(How::Permanent),
        1 => Just(How::Safe),
        2 => Just(How::Retryable),
        2 => Just(How::Killed),
    ];
    let who = prop_oneof![
        Just(Who::Front),
        Just(Who::Keeper),
        Just(Who::Both),
        Just(Who::Everything)
    ];
    let settles = prop_oneof![
        Just(Settles::Succeeded),
        Just(Settles::Failed),
        Just(Settles::NotDone)
    ];
    prop_oneof![
        10 => (0..2usize, prop::bool::weighted(0.12), options(world))
            .prop_map(|(key, other, options)| Step::Call { key, other, options }),
        2 => (0..8usize).prop_map(Step::GoOn),
        8 => (0..8usize, how).prop_map(|(call, how)| Step::End(call, how)),
        3 => (0..8usize, who).prop_map(|(call, who)| Step::Kill(call, who)),
        1 => Just(Step::Pass),
        2 => (0..2usize, settles).prop_map(|(key, how)| Step::Resolve(key, how)),
        1 => (0..2usize, any::<bool>()).prop_map(|(key, force)| Step::Forget(key, force)),
        2 => (0..2usize, prop::bool::weighted(0.7)).prop_map(|(key, yes)| Step::Decide(key, yes)),
        1 => Just(Step::OpenTask),
        1 => Just(Step::Collect),
    ]
}

/// The two operations: the second is a step of a task.
pub const KEYS: [&str; 2] = ["a", "t/b"];

/// Random scripts of at most so many steps.
pub fn scripts(world: World, most: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(world), 1..most)
}

/// The arguments of a call, as they are typed.
pub fn arguments(key: usize, other: bool, options: &Options) -> Vec<String> {
    let mut args = vec!["run".to_owned()];
    match key {
        0 => args.push("-ka".to_owned()),
        _ => args.extend(["--task=t", "--step=b"].map(str::to_owned)),
    }
    let mut flag = |set: bool, text: &str| {
        if set {
            args.push(text.to_owned());
        }
    };
    flag(
        options.if_running == IfRunning::Refuse,
        "--if-running=refuse",
    );
    flag(options.if_running == IfRunning::Skip, "--if-running=skip");
    flag(options.rerun_unknown, "--if-unknown=rerun");
    flag(options.rerun_failed, "--if-failed=rerun");
    flag(options.probe == Some(Probe::Happened), "--probe=echo asked");
    flag(options.probe == Some(Probe::DidNot), "--probe=exit 1");
    flag(options.probe == Some(Probe::CannotTell), "--probe=exit 2");
    flag(
        true,
        if options.short {
            "--ttl=60s"
        } else {
            "--ttl=30d"
        },
    );
    flag(options.hold, "--hold");
    flag(options.retries > 0, "--retries=1");
    flag(options.retries > 0, "--retry-on=exit:200");
    flag(true, "--backoff=const:1ms");
    flag(options.breaker, "--breaker=b:failures=2,cooldown=20s");
    args.extend(["--", "./effect", if other { "B" } else { "A" }].map(str::to_owned));
    args
}

impl fmt::Display for Step {
    /// As a line of a shell script, for people: what cannot be typed is a comment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Call {
                key,
                other,
                options,
            } => {
                let words = arguments(*key, *other, options);
                let quoted: Vec<String> = words
                    .iter()
                    .map(|word| match word.contains(' ') {
                        true => format!("'{word}'"),
                        false => word.clone(),
                    })
                    .collect();
                write!(f, "idem {} &", quoted.join(" "))?;
                if options.pauses {
                    f.write_str("  # held up between its look and its claim")?;
                }
                match options.dies {
                    Some(dies) => write!(f, "  # its keeper dies: {dies:?}"),
                    None => Ok(()),
                }
            }
            Step::GoOn(call) => write!(f, "# call {call} goes on to its claim"),
            Step::End(call, How::Killed) => write!(f, "kill -9 $child{call}"),
            Step::End(call, how) => write!(f, "echo {how:?} >end.{call}"),
            Step::Kill(call, who) => write!(f, "kill -9 ${{{who:?}_of_{call}}}"),
            Step::Pass => f.write_str("# 25 s pass"),
            Step::Resolve(key, Settles::Succeeded) => {
                write!(f, "idem resolve {} --succeeded", KEYS[*key])
            }
            Step::Resolve(key, Settles::Failed) => {
                write!(f, "idem resolve {} --failed", KEYS[*key])
            }
            Step::Resolve(key, Settles::NotDone) => {
                write!(f, "idem resolve {} --not-done", KEYS[*key])
            }
            Step::Forget(key, true) => write!(f, "idem forget {} --force", KEYS[*key]),
            Step::Forget(key, false) => write!(f, "idem forget {}", KEYS[*key]),
            Step::Decide(key, true) => write!(f, "idem approve {} --yes", KEYS[*key]),
            Step::Decide(key, false) => write!(f, "idem reject {} --yes", KEYS[*key]),
            Step::OpenTask => f.write_str("idem task open t --retries 1"),
            Step::Collect => f.write_str("idem gc"),
        }
    }
}

/// A whole script.
pub fn shown(script: &[Step]) -> String {
    let lines: Vec<String> = script.iter().map(Step::to_string).collect();
    lines.join("\n")
}
