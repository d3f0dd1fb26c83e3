//! What `/proc` tells about processes, proc(5).

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use super::signal::SignalSet;
use super::sys;
use crate::domain::owner::ProcessRef;

/// The beginning of every `/proc/PID/stat` that matters: the fields up to the start time are far shorter.
const STAT_BYTES: usize = 1024;

/// How often a listing is taken again because processes came and went while it was taken.
const LISTINGS: usize = 4;

/// How often the environment of a process that executes something is read, and the pause in between. On a
/// loaded machine one exec can take long.
const EXEC_LOOKS: usize = 200;
const EXEC_LOOK_AGAIN: Duration = Duration::from_millis(1);

/// How often in a row one is read that is empty before it is taken for that.
const EMPTY_LOOKS: u32 = 4;

/// `PF_KTHREAD` of the kernel's `sched.h`.
const KERNEL_THREAD: u32 = 0x0020_0000;

/// One process as `/proc/PID/stat` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// PID and start time.
    pub id: ProcessRef,
    /// PID of the parent; 0 if that is outside of this PID namespace.
    pub parent: i32,
    /// Process group.
    pub group: i32,
    /// Session.
    pub session: i32,
    /// Whether it has ended and only waits to be reaped.
    pub ended: bool,
    /// Whether a signal has stopped it.
    pub stopped: bool,
}

/// Reads one process. Fails with `NotFound` or `ESRCH` if there is none.
pub fn process(pid: i32) -> io::Result<Process> {
    let mut buffer = [0; STAT_BYTES];
    let file = File::open(format!("/proc/{pid}/stat"))?;
    let length = sys::read_once(file, &mut buffer)?;
    let stat = buffer.get(..length).and_then(parse_stat);
    stat.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// The start time of a process, in clock ticks since boot.
pub fn start_ticks(pid: i32) -> io::Result<u64> {
    process(pid).map(|process| process.id.start_ticks)
}

/// This process.
pub fn this() -> io::Result<ProcessRef> {
    process(std::process::id().cast_signed()).map(|process| process.id)
}

/// Whether a process neither catches nor ignores this signal; false if there is no such process.
pub fn has_default_action(pid: i32, signal: i32) -> bool {
    let sets = signal_sets(pid, ["SigIgn:", "SigCgt:"]);
    sets.is_some_and(|sets| !sets.iter().any(|set| set.contains(signal)))
}

/// Whether this signal waits for a process to take it; false if there is no such process.
pub fn is_pending(pid: i32, signal: i32) -> bool {
    signal_sets(pid, ["ShdPnd:"]).is_some_and(|[pending]| pending.contains(signal))
}

/// Some of a process's signal sets, by their names in its status file.
fn signal_sets<const N: usize>(pid: i32, names: [&str; N]) -> Option<[SignalSet; N]> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(names.map(|name| {
        let bits = status.lines().find_map(|line| line.strip_prefix(name));
        let bits = bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
        SignalSet::from_bits(bits.unwrap_or(0))
    }))
}

/// Whether exactly this process still runs; one that has ended and is not reaped does not.
pub fn is_alive(id: ProcessRef) -> io::Result<bool> {
    match process(id.pid) {
        Ok(process) => Ok(process.id == id && !process.ended),
        Err(error) if vanished(&error) => exists_without_entry(&error),
        Err(error) => Err(error),
    }
}

/// A missing entry means a missing process only where `/proc` is there at all.
fn exists_without_entry(error: &io::Error) -> io::Result<bool> {
    match process(std::process::id().cast_signed()) {
        Ok(_) => Ok(false),
        Err(_) => Err(io::Error::from(error.kind())),
    }
}

/// A pidfd for exactly this process, readable once it has ended; nothing if it has been reaped.
pub fn open(id: ProcessRef) -> io::Result<Option<OwnedFd>> {
    let pidfd = match sys::pidfd_open(id.pid) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        other => other?,
    };
    // The descriptor came first: if the start time is right now, it was right then.
    match process(id.pid) {
        Ok(process) if process.id == id => Ok(Some(pidfd)),
        Ok(_) => Ok(None),
        Err(error) if vanished(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The PID namespace of this process: the inode behind `/proc/self/ns/pid`, pid_namespaces(7).
pub fn pid_namespace() -> io::Result<u64> {
    fs::metadata("/proc/self/ns/pid").map(|metadata| metadata.ino())
}

fn vanished(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// Fields 1, 3–6, 20 and 22. The name in field 2 can hold anything, parentheses and spaces included, so
/// the counting starts behind the last parenthesis.
fn parse_stat(stat: &[u8]) -> Option<Process> {
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let pid = stat.split(|&byte| byte == b' ').next()?;
    let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let mut number = || fields.next()?.parse::<i32>().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    let threads: i64 = fields.nth(13)?.parse().ok()?;
    Some(Process {
        id: ProcessRef {
            pid: std::str::from_utf8(pid).ok()?.parse().ok()?,
            start_ticks: fields.nth(1)?.parse().ok()?,
        },
        parent,
        group,
        session,
        // The first thread of a living process can have ended before the others.
        ended: matches!(state, "Z" | "X") && threads <= 1,
        stopped: state == "T",
    })
}

/// Every process of this PID namespace, by PID.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    processes: BTreeMap<i32, Process>,
}

impl Listing {
    /// Lists all processes. A process that changed its parent during the listing would drop out of its
    /// tree; the gap shows as a parent that is not listed, and then the listing is taken again.
    pub fn take() -> io::Result<Listing> {
        let mut listing = Listing::take_once()?;
        for _ in 1..LISTINGS {
            if listing.is_whole() {
                break;
            }
            listing = Listing::take_once()?;
        }
        Ok(listing)
    }

    fn take_once() -> io::Result<Listing> {
        let mut processes = BTreeMap::new();
        for_each_pid("stat", |pid, path| {
            let mut buffer = [0; STAT_BYTES];
            let read = File::open(path).and_then(|file| sys::read_once(file, &mut buffer));
            let stat = read.ok().and_then(|length| buffer.get(..length));
            if let Some(process) = stat.and_then(parse_stat) {
                processes.insert(pid, process);
            }
        })?;
        Ok(Listing { processes })
    }

    fn is_whole(&self) -> bool {
        let mut parents = self.processes.values().map(|process| process.parent);
        parents.all(|parent| parent == 0 || self.processes.contains_key(&parent))
    }

    /// All processes, by PID.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.processes.values()
    }

    /// The process with this PID.
    pub fn get(&self, pid: i32) -> Option<&Process> {
        self.processes.get(&pid)
    }

    /// The direct children of a process, by PID, ended ones included.
    pub fn children(&self, parent: i32) -> impl Iterator<Item = &Process> {
        self.processes()
            .filter(move |process| process.parent == parent)
    }

    /// Everything below a process, by PID, ended ones included, without the trees of `foreign`.
    pub fn descendants(&self, root: i32, foreign: &[ProcessRef]) -> Vec<Process> {
        let mut children: BTreeMap<i32, Vec<&Process>> = BTreeMap::new();
        for process in self
            .processes()
            .filter(|process| !foreign.contains(&process.id))
        {
            children.entry(process.parent).or_default().push(process);
        }
        let mut found = BTreeMap::new();
        let mut parents = vec![root];
        while let Some(parent) = parents.pop() {
            for process in children.remove(&parent).unwrap_or_default() {
                found.insert(process.id.pid, *process);
                parents.push(process.id.pid);
            }
        }
        found.into_values().collect()
    }

    /// The living members of a process group, by PID.
    pub fn members(&self, group: i32) -> impl Iterator<Item = &Process> {
        self.processes()
            .filter(move |process| process.group == group && !process.ended)
    }
}

/// The PIDs of this process's direct children, ended ones included. Far cheaper than a listing where the
/// kernel offers it, and exact as long as nothing is reaped meanwhile.
pub fn children() -> io::Result<Vec<i32>> {
    match children_by_thread() {
        // A kernel without CONFIG_PROC_CHILDREN.
        Err(error) if vanished(&error) => {
            let listing = Listing::take()?;
            let children = listing.children(std::process::id().cast_signed());
            Ok(children.map(|process| process.id.pid).collect())
        }
        other => other,
    }
}

/// The kernel keeps children by the thread that forked or adopted them.
fn children_by_thread() -> io::Result<Vec<i32>> {
    let mut children = Vec::new();
    for thread in fs::read_dir("/proc/self/task")? {
        let pids = fs::read_to_string(thread?.path().join("children"))?;
        children.extend(pids.split_whitespace().flat_map(str::parse::<i32>));
    }
    Ok(children)
}

/// Everything that lives below this process now, for instance what a shell started before it executed
/// idem in its own place.
pub fn below_this() -> io::Result<Vec<ProcessRef>> {
    let below = Listing::take()?.descendants(std::process::id().cast_signed(), &[]);
    Ok(below.into_iter().map(|process| process.id).collect())
}

/// The PIDs of all processes that were started with this text in their environment, in ascending order.
/// This process and those in `skip` are left out, and so are processes whose environment cannot be read:
/// they vanished or belong to another user.
pub fn with_environment(nonce: &str, skip: &HashSet<i32>) -> io::Result<Vec<i32>> {
    let this = std::process::id().cast_signed();
    let mut environment = Vec::new();
    let mut found = Vec::new();
    for_each_pid("environ", |pid, path| {
        if pid == this || skip.contains(&pid) {
            return;
        }
        let read = read_environment(pid, path, &mut environment);
        if read.is_ok() && contains(&environment, nonce.as_bytes()) {
            found.push(pid);
        }
    })?;
    found.sort_unstable();
    Ok(found)
}

/// Reads an environment. What is read while the process executes something is empty or torn: the old
/// memory goes away under the reader, and the new one has no environment at first. It is looked at again
/// then, for it might be the one that is searched for.
fn read_environment(pid: i32, path: &str, environment: &mut Vec<u8>) -> io::Result<()> {
    let mut empty_looks = 0;
    for _ in 0..EXEC_LOOKS {
        environment.clear();
        File::open(path)?.read_to_end(environment)?;
        match whole(pid, environment.len()) {
            Whole::No => {}
            Whole::Empty if empty_looks < EMPTY_LOOKS => empty_looks += 1,
            Whole::Empty | Whole::Yes => break,
        }
        std::thread::sleep(EXEC_LOOK_AGAIN);
    }
    Ok(())
}

/// Whether an environment was read to its end.
enum Whole {
    /// It was, or there is no telling.
    Yes,
    /// There is none. For a moment in each exec the kernel says so of one that is on its way.
    Empty,
    /// More was to come.
    No,
}

/// Whether so many bytes are the whole environment of a process.
fn whole(pid: i32, length: usize) -> Whole {
    let mut buffer = [0; STAT_BYTES];
    let file = File::open(format!("/proc/{pid}/stat"));
    let read = file.and_then(|file| sys::read_once(file, &mut buffer));
    let stat = read.ok().and_then(|length| buffer.get(..length));
    match stat.and_then(environment_bytes) {
        Some(EnvironmentBytes::Known(0)) => Whole::Empty,
        Some(EnvironmentBytes::Known(bytes)) if length as u64 >= bytes => Whole::Yes,
        Some(_) => Whole::No,
        None => Whole::Yes,
    }
}

/// How long the environment of a process is.
#[derive(Debug, PartialEq, Eq)]
enum EnvironmentBytes {
    Known(u64),
    /// It is in the middle of an exec.
    NotYet,
}

/// Fields 3, 9, 50 and 51; nothing if the process has ended or is the kernel's own.
fn environment_bytes(stat: &[u8]) -> Option<EnvironmentBytes> {
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let flags: u32 = fields.nth(5)?.parse().ok()?;
    let start: u64 = fields.nth(40)?.parse().ok()?;
    let end: u64 = fields.next()?.parse().ok()?;
    if matches!(state, "Z" | "X") || flags & KERNEL_THREAD != 0 {
        return None;
    }
    Some(match end {
        0 => EnvironmentBytes::NotYet,
        end => EnvironmentBytes::Known(end.saturating_sub(start)),
    })
}

/// Nothing contains an empty text: a claim without a nonce has no processes.
fn contains(text: &[u8], wanted: &[u8]) -> bool {
    let Some(first) = wanted.first() else {
        return false;
    };
    let mut starts = text.windows(wanted.len());
    starts.any(|window| window.first() == Some(first) && window == wanted)
}

/// Calls `visit` with each PID and the path of one file of it.
fn for_each_pid(file: &str, mut visit: impl FnMut(i32, &str)) -> io::Result<()> {
    let mut path = String::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        path.clear();
        path.push_str("/proc/");
        path.push_str(name.to_str().unwrap_or_default());
        path.push('/');
        path.push_str(file);
        visit(pid, &path);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
