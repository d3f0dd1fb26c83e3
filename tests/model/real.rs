//! The built program under a script: real processes, real kills.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::command::{Cmd, Running};
use crate::env::{IDEM, TestEnv, text};
use crate::procs;
use crate::reference::{Model, PASS, Seen, Shown};
use crate::script::{How, IfRunning, KEYS, Options, Settles, Step, Who, World, arguments};

/// How long the processes may take to be as the model says.
const LIMIT: Duration = Duration::from_secs(20);

/// Counts itself, tells who it is, and waits for a word on how to end.
const EFFECT: &str = r#"#!/bin/sh
echo "$CALL" >>effects.$WHICH
echo "from $CALL"
echo "$PPID $$" >>started.$CALL
read how <gate.$CALL
case $how in
    Success) exit 0 ;;
    Permanent) exit 3 ;;
    Safe) echo outcome=safe >>"$IDEM_CONTROL"; exit 4 ;;
    Retryable) echo outcome=retryable >>"$IDEM_CONTROL"; exit 5 ;;
    *) kill -9 $$ ;;
esac
"#;

struct Caller {
    front: Option<Running>,
    pid: i32,
    code: Option<i32>,
    skips: bool,
    /// Attempts whose end is not open any more.
    ended: usize,
}

struct Processes {
    t: TestEnv,
    callers: Vec<Caller>,
    /// How far the boot clock is ahead.
    ahead: Duration,
}

/// Runs a script against the model; the error says where they part.
pub fn run(script: &[Step]) -> Result<(), String> {
    let t = TestEnv::new();
    t.script("effect", EFFECT);
    let mut world = Processes {
        t,
        callers: Vec::new(),
        ahead: Duration::ZERO,
    };
    let mut model = Model::new(World::Processes);
    for (at, step) in script.iter().enumerate() {
        if !model.is_certain(step) || (*step == Step::Pass && !moves_clocks()) {
            continue;
        }
        world
            .take(&mut model, step)
            .map_err(|what| format!("after step {}, `{step}`: {what}", at + 1))?;
    }
    while model.at_gate(0).is_some() {
        let end = Step::End(0, How::Success);
        world
            .take(&mut model, &end)
            .map_err(|what| format!("in the end, `{end}`: {what}"))?;
    }
    world.leaves_nothing()
}

/// Only root can make a time namespace.
fn moves_clocks() -> bool {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

impl Processes {
    /// Takes a step, and waits until the world is as the model says.
    fn take(&mut self, model: &mut Model, step: &Step) -> Result<(), String> {
        let target = match *step {
            Step::End(from, _) => model.at_gate(from),
            Step::Kill(from, who) => model.victim(from, who),
            _ => None,
        };
        model.step(step);
        let verb = self.step(step, target);
        self.agrees(model, verb)
    }

    /// Nobody runs any more once every call and every command has ended.
    fn leaves_nothing(&self) -> Result<(), String> {
        let end = Instant::now() + LIMIT;
        loop {
            let left = self.t.running();
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("in the end there are still {left:?}"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A command of idem's, with the clock where it is now.
    fn idem(&self) -> Cmd {
        if self.ahead.is_zero() {
            return self.t.command(IDEM);
        }
        let ahead = self.ahead.as_secs().to_string();
        let unshare = self.t.command("unshare");
        unshare.args(["--time", "--boottime", &ahead, IDEM])
    }

    fn file(&self, name: String) -> File {
        File::create(self.t.path(name)).expect("a file for the output")
    }

    fn step(&mut self, step: &Step, target: Option<usize>) -> Option<i32> {
        let verb = |args: &[&str]| Some(self.idem().args(args).end().code);
        match (*step, target) {
            (
                Step::Call {
                    key,
                    other,
                    options,
                },
                _,
            ) => self.call(key, other, &options),
            (Step::End(_, how), Some(id)) => self.end(id, how),
            (Step::Kill(_, who), Some(id)) => self.kill(id, who),
            (Step::Pass, _) => self.ahead += PASS,
            (Step::Resolve(key, how), _) => {
                let how = match how {
                    Settles::Succeeded => "--succeeded",
                    Settles::Failed => "--failed",
                    Settles::NotDone => "--not-done",
                };
                return verb(&["resolve", KEYS[key], how]);
            }
            (Step::Forget(key, true), _) => return verb(&["forget", "--force", KEYS[key]]),
            (Step::Forget(key, false), _) => return verb(&["forget", KEYS[key]]),
            (Step::Decide(key, true), _) => return verb(&["approve", "--yes", KEYS[key]]),
            (Step::Decide(key, false), _) => return verb(&["reject", "--yes", KEYS[key]]),
            (Step::OpenTask, _) => drop(verb(&["task", "open", "t", "--retries", "1"])),
            (Step::Collect, _) => drop(verb(&["gc"])),
            (Step::GoOn(_) | Step::End(..) | Step::Kill(..), _) => {}
        }
        None
    }

    fn call(&mut self, key: usize, other: bool, options: &Options) {
        let id = self.callers.len();
        self.t.fifo(&format!("gate.{id}"));
        let front = self
            .idem()
            .args(arguments(key, other, options))
            .env("CALL", id.to_string())
            .env("WHICH", key.to_string())
            // Files, since a keeper may hold the streams of a front that is gone.
            .stdout(self.file(format!("out.{id}")))
            .stderr(self.file(format!("err.{id}")))
            .start();
        self.callers.push(Caller {
            pid: front.pid(),
            front: Some(front),
            code: None,
            skips: options.if_running == IfRunning::Skip,
            ended: 0,
        });
    }

    /// The keeper and the child of the attempt that waits at its gate.
    fn at_gate(&self, id: usize) -> Option<(i32, i32)> {
        let started = self.t.read(&format!("started.{id}"));
        let lines: Vec<&str> = started.lines().collect();
        let last = lines
            .last()
            .filter(|_| lines.len() > self.callers[id].ended)?;
        let (keeper, child) = last.split_once(' ')?;
        Some((keeper.parse().ok()?, child.parse().ok()?))
    }

    fn end(&mut self, id: usize, how: How) {
        let path = self.t.path(format!("gate.{id}"));
        // The child has opened its end or is about to; this waits for it.
        fs::write(path, format!("{how:?}\n")).expect("a word for the child");
        self.callers[id].ended += 1;
    }

    fn kill(&mut self, id: usize, who: Who) {
        let kill = |pid: i32| procs::signal(pid, libc::SIGKILL);
        let gate = self.at_gate(id);
        // The front comes first: it must not have the time to speak of its keeper's death.
        if who != Who::Keeper && self.callers[id].code.is_none() {
            kill(self.callers[id].pid);
        }
        let Some((keeper, child)) = gate.filter(|_| who != Who::Front) else {
            return;
        };
        if procs::parent(child) == Some(keeper) {
            kill(keeper);
        }
        if who == Who::Everything {
            kill(child);
            self.callers[id].ended += 1;
        }
    }

    fn seen(&mut self) -> Vec<Option<Seen>> {
        for caller in &mut self.callers {
            let over = caller
                .front
                .as_ref()
                .is_some_and(|_| !procs::alive(caller.pid));
            if over && let Some(front) = caller.front.take() {
                caller.code = Some(front.end().code);
            }
        }
        let seen = (0..self.callers.len()).map(|id| {
            let caller = &self.callers[id];
            match caller.code {
                Some(code) => Some(Seen::Ended(code)),
                None if self.at_gate(id).is_some() => Some(Seen::Executing),
                None => waits(caller.pid).then_some(Seen::Waiting),
            }
        });
        seen.collect()
    }

    fn shown(&self, key: usize) -> Shown {
        let done = self.idem().args(["status", KEYS[key], "--json"]).end();
        match done.code {
            0 => match text(&done.json()["state"]).as_str() {
                "held" => Shown::Held,
                "running" => Shown::Running,
                "succeeded" => Shown::Succeeded,
                "failed" => Shown::Failed,
                "unknown" => Shown::Unknown,
                state => panic!("a state {state}"),
            },
            1 => Shown::Nothing,
            _ => panic!("{done}"),
        }
    }

    /// Waits until everything is as the model says.
    fn agrees(&mut self, model: &Model, verb: Option<i32>) -> Result<(), String> {
        let wanted: Vec<Option<Seen>> = model.seen().into_iter().map(Some).collect();
        let end = Instant::now() + LIMIT;
        loop {
            let late = Instant::now() > end;
            let seen = self.seen();
            if seen == wanted || late {
                let effects = [0, 1].map(|key| self.t.lines(&format!("effects.{key}")) as u32);
                let shown = [0, 1].map(|key| match self.shown(key) {
                    Shown::Nothing | Shown::Succeeded | Shown::Failed if model.is_expired(key) => {
                        model.shown()[key]
                    }
                    shown => shown,
                });
                let known = seen
                    .iter()
                    .map(|seen| seen.unwrap_or(Seen::Paused))
                    .collect::<Vec<_>>();
                match crate::compare(model, &known, shown, effects, verb) {
                    None => break,
                    Some(what) if late => return Err(what),
                    Some(_) => {}
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.prints(model)
    }

    /// Whoever ended with 0 has printed the result.
    fn prints(&self, model: &Model) -> Result<(), String> {
        for (id, caller) in self.callers.iter().enumerate() {
            let wanted = model.printed(id);
            let printed = self.t.read(&format!("out.{id}"));
            if caller.code == Some(0) && !caller.skips && printed != wanted {
                return Err(format!("call {id} printed {printed:?}, not {wanted:?}"));
            }
        }
        Ok(())
    }
}

/// Whether a front waits for a keeper (by its pidfd) or for what a keeper left (by a thread that waits for
/// a lock).
fn waits(pid: i32) -> bool {
    let count = |what: &str| {
        let entries = fs::read_dir(Path::new("/proc").join(pid.to_string()).join(what));
        entries.map_or_else(|_| Vec::new(), |entries| entries.flatten().collect())
    };
    let of_process = |entry: &fs::DirEntry| {
        fs::read_to_string(entry.path()).is_ok_and(|info| info.contains("\nPid:\t"))
    };
    count("task").len() > 1 || count("fdinfo").iter().any(of_process)
}
