//! Runs a program under ptrace(2) and disturbs it at one system call: a process is killed before the
//! call takes place, or the call fails. The program that is tested is the one that ships.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::env::IDEM;
use crate::procs;
use crate::steps::{self, Step};

/// How long a disturbed run may take before it counts as stuck: far beyond every limit of idem's own
/// that the scenarios meet.
const LIMIT: Duration = Duration::from_secs(40);

/// What a process is in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// A shell that starts several callers; never disturbed.
    Launcher,
    /// The process that the caller started.
    Front,
    /// The one that owns the claim.
    Keeper,
    /// What the keeper forked, before it has executed anything.
    Gated,
    /// The command, a probe or a cleanup, and what they start.
    Child,
}

impl Role {
    /// Those that are idem's own.
    pub const OWN: [Role; 3] = [Role::Front, Role::Keeper, Role::Gated];

    /// The name in the list of points.
    pub fn word(self) -> &'static str {
        match self {
            Role::Launcher => "launcher",
            Role::Front => "front",
            Role::Keeper => "keeper",
            Role::Gated => "gated",
            Role::Child => "child",
        }
    }
}

/// The n-th call of one kind by the processes of one role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// Who.
    pub role: Role,
    /// Which call.
    pub step: Step,
    /// From 1.
    pub nth: u32,
}

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Victim {
    /// The process that makes the call.
    Itself,
    /// Every process of this role.
    All(Role),
    /// The child and what waits to become it.
    Tree,
    /// Everything, as when a container is stopped.
    Everything,
}

/// What happens at the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    /// SIGKILL, before the call takes place.
    Kill(Victim),
    /// The call fails with this error and is not made.
    Fail(i32),
    /// This and every later call of its kind fails, in all processes of idem's.
    FailOn(i32),
    /// The first byte that the call reads of the database is another one.
    Corrupt,
}

/// How a run went.
#[derive(Debug, Default)]
pub struct Traced {
    /// How often each kind of call was seen, by role.
    pub seen: BTreeMap<(Role, Step), u32>,
    /// The point was reached.
    pub reached: bool,
    /// The wait status of the program.
    pub status: i32,
    /// It did not end within the limit, and was killed.
    pub stuck: bool,
}

impl Traced {
    /// The exit code, 128+n for a signal.
    pub fn code(&self) -> i32 {
        match libc::WIFEXITED(self.status) {
            true => libc::WEXITSTATUS(self.status),
            false => 128 + libc::WTERMSIG(self.status),
        }
    }
}

/// Runs a command to the end of everything that it starts. `home` is the test's, for the case that
/// something is stuck.
pub fn trace(mut command: Command, plan: Option<(Point, Act)>, home: &Path) -> io::Result<Traced> {
    // SAFETY: the closure makes one system call.
    unsafe { command.pre_exec(|| ptrace(libc::PTRACE_TRACEME, 0, 0, 0).map(drop)) };
    let child = command.spawn()?;
    let root = child.id().cast_signed();
    let (done, ended) = channel::<()>();
    let stuck = &AtomicBool::new(false);
    let traced = std::thread::scope(|scope| {
        scope.spawn(move || {
            if ended.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
                stuck.store(true, Ordering::Relaxed);
                procs::kill_home(home);
            }
        });
        let mut tracer = Tracer::new(root, plan);
        let traced = tracer.run();
        drop(done);
        traced
    })?;
    Ok(Traced {
        stuck: stuck.load(Ordering::Relaxed),
        ..traced
    })
}

/// One traced process or thread.
struct Task {
    role: Role,
    /// It has not been seen to stop yet.
    fresh: bool,
    /// What its present call is to return.
    failing: Option<i32>,
    /// Where the bytes of its present read go.
    corrupting: Option<u64>,
}

struct Tracer {
    root: i32,
    plan: Option<(Point, Act)>,
    tasks: HashMap<i32, Task>,
    /// Stopped before it was known whose children they are.
    early: HashSet<i32>,
    traced: Traced,
}

impl Tracer {
    fn new(root: i32, plan: Option<(Point, Act)>) -> Tracer {
        Tracer {
            root,
            plan,
            tasks: HashMap::new(),
            early: HashSet::new(),
            traced: Traced::default(),
        }
    }

    fn run(&mut self) -> io::Result<Traced> {
        loop {
            let mut status = 0;
            // SAFETY: the status lives through the call. Only this thread's own children and tracees
            // are waited for: other tests have theirs.
            let pid = unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::__WNOTHREAD) };
            if pid < 0 {
                match io::Error::last_os_error().raw_os_error() {
                    Some(libc::EINTR) => continue,
                    Some(libc::ECHILD) => return Ok(std::mem::take(&mut self.traced)),
                    _ => return Err(io::Error::last_os_error()),
                }
            }
            if libc::WIFSTOPPED(status) {
                self.stopped(pid, status);
            } else {
                self.tasks.remove(&pid);
                self.early.remove(&pid);
                if pid == self.root {
                    self.traced.status = status;
                }
            }
        }
    }

    fn stopped(&mut self, pid: i32, status: i32) {
        let signal = libc::WSTOPSIG(status);
        let event = status >> 16;
        let Some(task) = self.tasks.get_mut(&pid) else {
            return self.first_stop(pid);
        };
        match (signal, event) {
            (libc::SIGTRAP, libc::PTRACE_EVENT_FORK)
            | (libc::SIGTRAP, libc::PTRACE_EVENT_VFORK)
            | (libc::SIGTRAP, libc::PTRACE_EVENT_CLONE) => {
                let role = task.role;
                self.forked(pid, role, event == libc::PTRACE_EVENT_CLONE);
                self.resume(pid, 0);
            }
            (libc::SIGTRAP, libc::PTRACE_EVENT_EXEC) => {
                task.role = role_after_exec(pid, task.role);
                task.failing = None;
                self.resume(pid, 0);
            }
            (libc::SIGSTOP, _) if task.fresh => {
                task.fresh = false;
                self.resume(pid, 0);
            }
            (signal, _) if signal == libc::SIGTRAP | 0x80 => self.at_call(pid),
            (libc::SIGTRAP, _) => self.resume(pid, 0),
            (signal, _) => self.resume(pid, signal),
        }
    }

    /// The program after its exec, or a child that is quicker than the news of its birth.
    fn first_stop(&mut self, pid: i32) {
        if pid != self.root {
            self.early.insert(pid);
            return;
        }
        let options = libc::PTRACE_O_TRACESYSGOOD
            | libc::PTRACE_O_TRACEFORK
            | libc::PTRACE_O_TRACEVFORK
            | libc::PTRACE_O_TRACECLONE
            | libc::PTRACE_O_TRACEEXEC
            | libc::PTRACE_O_EXITKILL;
        let _ = ptrace(libc::PTRACE_SETOPTIONS, pid, 0, options as u64);
        self.add(pid, role_after_exec(pid, Role::Launcher), false);
        self.resume(pid, 0);
    }

    fn add(&mut self, pid: i32, role: Role, fresh: bool) {
        let task = Task {
            role,
            fresh,
            failing: None,
            corrupting: None,
        };
        self.tasks.insert(pid, task);
    }

    fn forked(&mut self, parent: i32, role: Role, thread: bool) {
        let mut message = 0u64;
        if ptrace(libc::PTRACE_GETEVENTMSG, parent, 0, &raw mut message as u64).is_err() {
            return;
        }
        let pid = message as i32;
        let role = match role {
            role if thread => role,
            Role::Front => Role::Keeper,
            Role::Keeper => Role::Gated,
            role => role,
        };
        let early = self.early.remove(&pid);
        self.add(pid, role, !early);
        if early {
            self.resume(pid, 0);
        }
    }

    /// At the entry of a call, or at its exit.
    fn at_call(&mut self, pid: i32) {
        let Some(call) = syscall(pid) else {
            return self.resume(pid, 0);
        };
        match call {
            Stop::Entry { nr, args } => {
                let step = Step::new(nr, &args, &Process(pid));
                if !self.entry(pid, step, &args) {
                    return;
                }
            }
            Stop::Exit => self.exit(pid),
        }
        self.resume(pid, 0);
    }

    /// Counts a call and disturbs it if it is the one. False if the process was killed.
    fn entry(&mut self, pid: i32, step: Step, args: &[u64; 6]) -> bool {
        let Some(task) = self.tasks.get_mut(&pid) else {
            return true;
        };
        if !step.matters(args) {
            return true;
        }
        let seen = self.traced.seen.entry((task.role, step)).or_default();
        *seen += 1;
        let Some((point, act)) = self.plan else {
            return true;
        };
        let here = (task.role, step, *seen) == (point.role, point.step, point.nth);
        let again = self.traced.reached
            && matches!(act, Act::FailOn(_))
            && step == point.step
            && Role::OWN.contains(&task.role);
        if !here && !again {
            return true;
        }
        self.traced.reached = true;
        match act {
            Act::Fail(errno) | Act::FailOn(errno) => {
                task.failing = Some(errno);
                skip_call(pid);
                true
            }
            Act::Corrupt => {
                task.corrupting = reads_database(pid, args[0]).then_some(args[1]);
                true
            }
            Act::Kill(victim) => self.kill(pid, victim),
        }
    }

    fn kill(&self, pid: i32, victim: Victim) -> bool {
        let hit = |other: i32, role: Role| match victim {
            Victim::Itself => other == pid,
            Victim::All(wanted) => role == wanted,
            Victim::Tree => matches!(role, Role::Gated | Role::Child),
            Victim::Everything => role != Role::Launcher,
        };
        let mut alive = true;
        for (&other, task) in &self.tasks {
            if hit(other, task.role) {
                procs::signal(other, libc::SIGKILL);
                alive &= other != pid;
            }
        }
        alive
    }

    fn exit(&mut self, pid: i32) {
        let Some(task) = self.tasks.get_mut(&pid) else {
            return;
        };
        if let Some(errno) = task.failing.take() {
            set_result(pid, -i64::from(errno));
        }
        if let Some(address) = task.corrupting.take() {
            corrupt(pid, address);
        }
    }

    /// Lets it go on, to its next call if that is still of interest.
    fn resume(&self, pid: i32, signal: i32) {
        let over = self.traced.reached && !matches!(self.plan, Some((_, Act::FailOn(_))));
        let how = match self.tasks.get(&pid) {
            Some(task) if task.role == Role::Launcher => libc::PTRACE_CONT,
            Some(task) if over && task.failing.is_none() && task.corrupting.is_none() => {
                libc::PTRACE_CONT
            }
            _ => libc::PTRACE_SYSCALL,
        };
        // One that was killed meanwhile cannot be resumed, and need not be.
        let _ = ptrace(how, pid, 0, u64::from(signal.cast_unsigned()));
    }
}

/// What a process is once it has executed something.
fn role_after_exec(pid: i32, role: Role) -> Role {
    let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    match role {
        Role::Launcher if program == Path::new(IDEM) => Role::Front,
        Role::Gated => Role::Child,
        role => role,
    }
}

/// Where a process has stopped.
enum Stop {
    Entry { nr: i64, args: [u64; 6] },
    Exit,
}

/// PTRACE_GET_SYSCALL_INFO: the kind of stop, and at an entry the call's number and arguments.
fn syscall(pid: i32) -> Option<Stop> {
    const GET_SYSCALL_INFO: u32 = 0x420e;
    let mut info = [0u64; 11];
    let size = size_of_val(&info) as u64;
    ptrace(GET_SYSCALL_INFO, pid, size, info.as_mut_ptr() as u64).ok()?;
    match info[0] & 0xff {
        1 => {
            let mut args = [0; 6];
            args.copy_from_slice(&info[4..10]);
            Some(Stop::Entry {
                nr: info[3].cast_signed(),
                args,
            })
        }
        2 => Some(Stop::Exit),
        _ => None,
    }
}

fn change_registers(pid: i32, change: impl FnOnce(&mut libc::user_regs_struct)) {
    // SAFETY: all-zero is a valid set of registers, and the calls read and write exactly one.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    let address = &raw mut registers as u64;
    if ptrace(libc::PTRACE_GETREGS, pid, 0, address).is_ok() {
        change(&mut registers);
        let _ = ptrace(libc::PTRACE_SETREGS, pid, 0, &raw mut registers as u64);
    }
}

/// Makes the call that is about to be made none.
fn skip_call(pid: i32) {
    change_registers(pid, |registers| registers.orig_rax = u64::MAX);
}

fn set_result(pid: i32, result: i64) {
    change_registers(pid, |registers| registers.rax = result.cast_unsigned());
}

/// What a call's arguments refer to.
pub struct Process(i32);

impl Process {
    /// Whether a descriptor is of a file that a disk has.
    pub fn is_on_disk(&self, fd: u64) -> bool {
        let file = fs::read_link(format!("/proc/{}/fd/{fd}", self.0)).unwrap_or_default();
        let elsewhere = ["/dev", "/proc", "/sys"];
        let is_there = !elsewhere.iter().any(|place| file.starts_with(place));
        // The last link to a file may be gone; a directory's stays.
        file.is_absolute() && is_there && !file.is_dir()
    }

    /// Whether the lock that lies here is to be released.
    pub fn unlocks(&self, lock: u64) -> bool {
        let mut kind = [0; 2];
        let memory = fs::File::open(format!("/proc/{}/mem", self.0));
        let read = memory.and_then(|memory| memory.read_exact_at(&mut kind, lock));
        read.is_ok() && i32::from(i16::from_ne_bytes(kind)) == libc::F_UNLCK
    }
}

/// Whether a descriptor is the database's, whose bytes no checksum guards.
fn reads_database(pid: i32, fd: u64) -> bool {
    let file = fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap_or_default();
    file.extension().is_some_and(|extension| extension == "db")
}

/// The first byte of a page says what kind of page it is.
fn corrupt(pid: i32, address: u64) {
    let path = format!("/proc/{pid}/mem");
    let opened = fs::OpenOptions::new().write(true).open(path);
    let Ok(memory) = opened else { return };
    let _ = memory.write_all_at(&[0xff], address);
}

fn ptrace(request: u32, pid: i32, address: u64, data: u64) -> io::Result<i64> {
    // SAFETY: whoever calls this passes pointers only to what lives through the call and has the size
    // that the request asks for.
    let done = unsafe {
        libc::ptrace(
            request,
            pid,
            ptr::without_provenance_mut::<libc::c_void>(address as usize),
            ptr::without_provenance_mut::<libc::c_void>(data as usize),
        )
    };
    match done {
        -1 => Err(io::Error::last_os_error()),
        done => Ok(done),
    }
}

/// Whether processes may be traced here at all.
pub fn allowed() -> bool {
    let traced = trace(Command::new("true"), None, Path::new("/nonexistent"));
    traced.is_ok_and(|traced| traced.code() == 0) && steps::name(libc::SYS_write) == "write"
}
