//! The engine's hands: real processes, clocks, locks and chance.

use super::child::{Child, Company, Pipes, TimeLimits, end_leftovers};
use super::expand::expand;
use super::listening::{Ears, judge, take_control};
use super::locks::{HIGH_DESCRIPTOR, HeldByte, LockError, LockFile};
use super::outputs::{head_of, new_output, preview_failed};
use super::session::Session;
use super::spawn::{GatedChild, Spawn, Stdio};
use super::split::ToFront;
use super::spool::{Recorded, Recorder, spool_stem};
use super::stdin::Input;
use super::terminal::pty::Pty;
use super::terminal::{Size, Terminal};
use super::terminate::Target;
use super::waiting_line::WaitingLine;
use super::{clock, liveness, locks, outer, permits, proc, random, sys};
use crate::domain::name::{Generation, Nonce};
use crate::domain::outcome::Exit;
use crate::domain::owner::{Liveness, OwnerRef, ProcessRef};
use crate::domain::record::Record;
use crate::domain::time::Stamp;
use crate::engine::environment::{ChildContext, child_environment};
use crate::engine::hands::{AttemptEnd, Before, Cancelled, Hands, HelperEnd, HowEnded, Role};
use crate::engine::holder;
use crate::engine::plan::{Plan, StdinMode};
use crate::engine::store::{NewOutput, OutputBody};
use crate::policy::bulkhead::BulkheadSpec;
use crate::policy::classify::Classifier;
use crate::policy::nested::Inner;
use crate::policy::patterns::Scanner;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

mod waits;

/// How much of a preview is kept for the person who decides.
const PREVIEW_BYTES: usize = 256 * 1024;

/// Where the keeper's files are.
#[derive(Debug, Clone)]
pub struct Places {
    /// The lock file.
    pub locks: PathBuf,
    /// The directory of spool files and of `IDEM_CONTROL` files.
    pub spool_dir: PathBuf,
    /// The database's file name, which their names begin with.
    pub store_name: OsString,
    /// Several machines use the store.
    pub shared: bool,
}

/// The keeper's process.
pub struct ProcessHands<'a> {
    session: Session,
    plan: &'a Plan,
    places: Places,
    nonce: Nonce,
    owner: OwnerRef,
    locks: LockFile,
    keeper_byte: Option<HeldByte>,
    tree_lock: Option<OwnedFd>,
    permit: Option<u64>,
    line: WaitingLine,
    preview: Option<Vec<u8>>,
    input: Input,
    foreign: Vec<ProcessRef>,
    prepared: Option<Prepared>,
    last_child: Option<ProcessRef>,
    recorded: Option<(u32, Recorded)>,
    held_pipes: Vec<OwnedFd>,
    attempts: u32,
}

/// A child behind its gate, and the keeper's ends of its pipes.
struct Prepared {
    child: GatedChild,
    pipes: Pipes,
    control: PathBuf,
}

/// What a keeper holds from before its claim to its settling.
struct Locks {
    owner: OwnerRef,
    file: LockFile,
    keeper_byte: HeldByte,
    tree_lock: OwnedFd,
}

impl Locks {
    fn take(path: &Path, nonce: Nonce, bytes: [u64; 2]) -> Result<Locks, LockError> {
        let locks = LockFile::open(path)?;
        let keeper_byte = locks.hold(bytes[0])?;
        let tree_lock = locks.hold(bytes[1])?.into_inheritable_fd(HIGH_DESCRIPTOR)?;
        sys::become_subreaper()?;
        let owner = OwnerRef {
            keeper: proc::this()?,
            boot_id: clock::boot_id().clone(),
            pid_namespace: proc::pid_namespace().unwrap_or(0),
            lock_file: locks.identity(),
            keeper_byte: bytes[0],
            tree_byte: bytes[1],
            child: None,
            nonce,
            lease: None,
        };
        Ok(Locks {
            file: locks,
            owner,
            keeper_byte,
            tree_lock,
        })
    }
}

impl<'a> ProcessHands<'a> {
    /// Takes the two bytes that tell that this keeper and its tree live. Nothing is claimed yet.
    #[expect(
        clippy::result_large_err,
        reason = "the session comes back to tell the front"
    )]
    pub fn new(
        session: Session,
        plan: &'a Plan,
        places: Places,
        line: WaitingLine,
    ) -> Result<ProcessHands<'a>, (Session, LockError)> {
        let nonce = Nonce(random::bytes());
        // 62 bits: two claims never meet by chance, and an offset is never negative.
        let bytes = [(); 2].map(|()| u64::from_ne_bytes(random::bytes()) >> 2);
        let repeated = plan.retry.retries > 0 && !plan.retry.nested;
        // Nobody sits at the terminal of a call that has returned.
        let mode = if plan.running.detach && io::stdin().is_terminal() {
            StdinMode::Null
        } else {
            plan.running.stdin
        };
        let input = match Input::choose(mode, repeated, &places.spool_dir) {
            Ok(input) => input,
            Err(error) => return Err((session, error.into())),
        };
        let locks = match Locks::take(&places.locks, nonce, bytes) {
            Ok(locks) => locks,
            Err(error) => return Err((session, error)),
        };
        Ok(ProcessHands {
            session,
            plan,
            places,
            nonce,
            owner: locks.owner,
            keeper_byte: Some(locks.keeper_byte),
            tree_lock: Some(locks.tree_lock),
            locks: locks.file,
            permit: None,
            line,
            preview: None,
            input,
            foreign: Vec::new(),
            prepared: None,
            last_child: None,
            recorded: None,
            held_pipes: Vec::new(),
            attempts: 0,
        })
    }

    /// The caller's side, for what follows the execution.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// The pipes that something still holds: the end of the keeper leaves them to a reader of their own.
    pub fn take_held_pipes(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.held_pipes)
    }

    fn try_prepare(&mut self, context: &ChildContext<'_>) -> Result<Prepared, String> {
        let (mut pipes, [out, err]) = if self.plan.running.tty {
            let pty = self.open_pty();
            pty.and_then(Pipes::of_terminal)
                .map_err(|error| format!("no terminal could be made: {error}"))?
        } else {
            Pipes::open().map_err(|error| format!("no pipe could be made: {error}"))?
        };
        let control = self.control_path(context.attempt);
        let env = child_environment(std::env::vars_os(), context, Some(&control));
        let argv = self.argv(context);
        let mut spawn = Spawn::new(&argv, &env).map_err(|cannot| cannot.message)?;
        let (input, feed) = self
            .input
            .open()
            .map_err(|e| format!("its stdin could not be opened: {e}"))?;
        pipes.feed = feed;
        let mut stdin = input
            .as_ref()
            .map_or(Stdio::Inherit, |fd| Stdio::Fd(fd.as_fd()));
        if let Some(pty) = pipes.pty.as_ref().filter(|pty| pty.is_interactive()) {
            stdin = Stdio::Fd(pty.slave());
            spawn = spawn.own_session();
        }
        spawn = spawn.stdio(stdin, Stdio::Fd(out.as_fd()), Stdio::Fd(err.as_fd()));
        if let Some(lock) = &self.tree_lock {
            spawn = spawn.tree_lock(lock.as_fd());
        }
        let child = spawn.fork().map_err(|cannot| cannot.message)?;
        Ok(Prepared {
            child,
            pipes,
            control,
        })
    }

    /// The command of this attempt: `--expand` fills what only idem knows.
    fn argv(&self, context: &ChildContext<'_>) -> Vec<OsString> {
        let argv = &self.plan.running.argv;
        if !self.plan.running.expand {
            return argv.clone();
        }
        argv.iter().map(|arg| expand(arg, context)).collect()
    }

    /// The child's own terminal. It is the child's input as well if that would be the job's terminal.
    fn open_pty(&mut self) -> io::Result<Pty> {
        let running = &self.plan.running;
        let inherits = running.stdin == StdinMode::Inherit && !running.detach;
        let size = self.session.window().unwrap_or(Size::ASSUMED);
        let terminal = self.session.job().terminal();
        let input = terminal.filter(|terminal| inherits && terminal.is_behind(0));
        let modes = input.and_then(Terminal::modes);
        Pty::open(size, modes.as_ref(), input.is_some())
    }

    fn control_path(&self, attempt: u32) -> PathBuf {
        let mut name = self.places.store_name.clone();
        name.push(format!("-control-{}-{attempt}", self.nonce.hex()));
        self.places.spool_dir.join(name)
    }

    fn recorder(&self, number: u32) -> Recorder {
        if !self.plan.running.store_output {
            return Recorder::counting();
        }
        let stem = spool_stem(&self.places.store_name, &self.nonce, number);
        Recorder::new(&self.places.spool_dir, stem, self.plan.running.max_output)
    }

    /// What looks at the output for `--retry-on`, `--stop-on` and the classifier.
    fn scanner(&self) -> (Option<Classifier>, Scanner) {
        let argv: Vec<Vec<u8>> = self
            .plan
            .running
            .argv
            .iter()
            .map(|arg| arg.as_bytes().to_vec())
            .collect();
        let classifier = Classifier::choose(self.plan.retry.classifier, &argv);
        let scanner = Scanner::new(
            &self.plan.retry.rules(),
            classifier.as_ref().map(Classifier::collector),
        );
        (classifier, scanner)
    }

    fn limits(&self, timeout: Option<Duration>, deadline: Option<Duration>) -> TimeLimits {
        TimeLimits {
            timeout_at: timeout.map(|limit| self.session.clock().saturating_add(limit)),
            deadline_at: deadline,
            kill_after: self.plan.limits.kill_after,
        }
    }

    fn could_not_start(
        &mut self,
        number: u32,
        code: i32,
        why: String,
        control: &Path,
    ) -> AttemptEnd {
        let _ = std::fs::remove_file(control);
        self.recorded = Some((number, Recorder::counting().finish()));
        AttemptEnd {
            how: HowEnded::NotStarted { code, why },
            duration: Duration::ZERO,
            seen: Default::default(),
            control: Default::default(),
            ended: self.session.clock(),
            held_terminal: false,
            survivors: Vec::new(),
        }
    }
}

impl Hands for ProcessHands<'_> {
    fn now(&self) -> Stamp {
        clock::now()
    }

    fn monotonic(&self) -> Duration {
        self.session.clock()
    }

    fn random(&mut self) -> f64 {
        random::fraction()
    }

    fn mint_token(&mut self) -> String {
        let bytes: [u8; 16] = random::bytes();
        crate::domain::name::hex(&bytes)
    }

    fn nonce(&self) -> Nonce {
        self.nonce
    }

    fn observe(&self, record: &Record) -> Liveness {
        match &record.owner {
            Some(owner) => liveness::observe(owner, &self.places.locks, &HashSet::new()),
            None => Liveness::Gone,
        }
    }

    fn cancelled(&mut self) -> Option<Cancelled> {
        self.session.take_news();
        match self.session.ended_by() {
            Some(signal) => Some(Cancelled::Signal(signal)),
            None if !self.session.caller_here() => Some(Cancelled::CallerGone),
            None => None,
        }
    }

    fn interrupted(&mut self) -> bool {
        self.session.is_over()
    }

    fn owner(&self) -> OwnerRef {
        let child = self
            .prepared
            .as_ref()
            .map(|prepared| prepared.child.process());
        OwnerRef {
            child: child.or(self.last_child),
            ..self.owner.clone()
        }
    }

    fn permit(&mut self, spec: &BulkheadSpec, auxiliary: bool, until: Option<Duration>) -> bool {
        let Some(tree) = &self.tree_lock else {
            return false;
        };
        let session = &mut self.session;
        self.permit = permits::take(
            &self.locks,
            tree.as_fd(),
            spec,
            auxiliary,
            until,
            session,
            &mut self.line,
        );
        // A call that was called off while it waited is told so when it would claim.
        self.permit.is_some() || self.cancelled().is_some()
    }

    fn holder(&self) -> String {
        match self.places.shared {
            true => holder::of_claim(&self.plan.name, &self.nonce),
            false => format!("{}:{}", self.owner.keeper_byte, self.owner.tree_byte),
        }
    }

    fn holder_lives(&self, holder: &str) -> bool {
        let bytes = holder.split(':').filter_map(|offset| offset.parse().ok());
        // What cannot be tested counts as alive: a lease is rather kept too long than held twice.
        bytes
            .into_iter()
            .any(|offset: u64| !self.locks.is_free(offset).unwrap_or(false))
    }

    fn prepare(&mut self, context: &ChildContext<'_>) -> Result<(), String> {
        self.prepared = Some(self.try_prepare(context)?);
        Ok(())
    }

    fn abandon(&mut self) {
        if let Some(prepared) = self.prepared.take() {
            prepared.child.abandon();
        }
    }

    fn claimed(&mut self, generation: Generation) {
        self.session.tell(ToFront::Claimed(generation.0));
        if self.plan.running.detach {
            // The front answers for this call and leaves; nothing of what follows is the caller's.
            self.session.lose_caller();
        }
    }

    fn attempt(&mut self, number: u32, deadline: Option<Duration>) -> AttemptEnd {
        let started = self.session.clock();
        let Some(prepared) = self.prepared.take() else {
            return self.could_not_start(
                number,
                126,
                "no child was prepared".into(),
                Path::new(""),
            );
        };
        self.attempts = number;
        self.last_child = Some(prepared.child.process());
        let running = match prepared.child.open_gate() {
            Ok(running) => running,
            Err(cannot) => {
                return self.could_not_start(
                    number,
                    cannot.code,
                    cannot.message,
                    &prepared.control,
                );
            }
        };
        let limits = self.limits(self.plan.limits.timeout, deadline);
        let mut recorder = self.recorder(number);
        let (classifier, scanner) = self.scanner();
        let mut ears = Ears { scanner };
        let company = Company {
            session: &mut self.session,
            recorder: &mut recorder,
            listener: &mut ears,
            live: true,
            pump: match &mut self.input {
                Input::Pump(pump) => Some(pump),
                _ => None,
            },
            told: None,
            foreign: &self.foreign,
        };
        let end = Child::new(running, prepared.pipes, company, limits).run();
        self.held_pipes.extend(end.held_pipes);
        self.recorded = Some((number, recorder.finish()));
        let seen = judge(ears.scanner, classifier.as_ref(), end.exit);
        let control = take_control(&prepared.control, &self.plan.running.argv);
        let ended = self.session.clock();
        AttemptEnd {
            how: HowEnded::Ended {
                exit: end.exit,
                cut: end.cut,
            },
            duration: ended.saturating_sub(started),
            seen,
            control,
            ended,
            held_terminal: end.held_terminal,
            survivors: end.survivors,
        }
    }

    fn take_output(&mut self) -> NewOutput {
        let (number, recorded) = self
            .recorded
            .take()
            .unwrap_or_else(|| (self.attempts, Recorder::counting().finish()));
        new_output(number, recorded)
    }

    fn helper(
        &mut self,
        role: Role,
        command: &OsStr,
        context: &ChildContext<'_>,
        limit: Duration,
    ) -> HelperEnd {
        self.try_helper(role, command, context, limit)
            .unwrap_or_else(|trouble| HelperEnd {
                exit: None,
                stdout: new_output(0, Recorder::counting().finish()),
                stdout_head: Vec::new(),
                stderr_head: Vec::new(),
                trouble: Some(trouble),
            })
    }

    fn end_leftovers(&mut self) -> Vec<i32> {
        let Some(child) = self.last_child else {
            return Vec::new();
        };
        let target = Target {
            child,
            foreign: self.foreign.clone(),
        };
        end_leftovers(
            &mut self.session,
            &mut self.held_pipes,
            target,
            self.plan.limits.kill_after,
        )
    }

    fn waited(&mut self) {
        self.line.end();
    }

    fn pause(&mut self, delay: Duration, before: Before<'_>) {
        self.wait_out(delay, before);
    }

    fn take_preview(
        &mut self,
        command: Option<&OsStr>,
        context: &ChildContext<'_>,
        limit: Duration,
    ) -> Result<(), String> {
        let Some(command) = command else {
            self.preview = Some(Vec::new());
            return Ok(());
        };
        let end = self.helper(Role::Preview, command, context, limit);
        let read = head_of(&end.stdout, PREVIEW_BYTES);
        self.discard(&end.stdout);
        match end.exit {
            Some(Exit::Code(0)) => {
                self.preview = Some(read);
                Ok(())
            }
            exit => Err(preview_failed(exit, &end)),
        }
    }

    fn preview(&self) -> Option<Vec<u8>> {
        self.preview.clone()
    }

    fn release(&mut self) {
        // What a settled execution leaves behind is a daemon: neither its byte nor its permit counts,
        // though it has inherited the description.
        if let Some(tree) = self.tree_lock.take() {
            let offsets = [Some(self.owner.tree_byte), self.permit.take()];
            for offset in offsets.into_iter().flatten() {
                // Cannot fail for a byte that is held; if it did, the daemon would hold it.
                let _ = locks::let_go(tree.as_fd(), offset);
            }
        }
        self.keeper_byte = None;
    }

    fn tell_outer(&mut self, inner: Inner) {
        outer::tell(&self.plan.ancestry, inner);
    }

    fn discard(&mut self, output: &NewOutput) {
        if let OutputBody::Spooled(path) = &output.body {
            // One that cannot be removed is an orphan, which gc removes.
            let _ = std::fs::remove_file(path);
        }
    }
}
