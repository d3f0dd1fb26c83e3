//! Processes as `/proc` shows them, and signals to them.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Sends a signal; a process that is gone is fine.
pub fn signal(pid: i32, signal: i32) {
    assert!(pid > 1, "no signal to process {pid}");
    // SAFETY: kill has no memory preconditions.
    unsafe { libc::kill(pid, signal) };
}

/// Sends a signal to a whole process group.
pub fn signal_group(pgid: i32, signal: i32) {
    assert!(pgid > 1, "no signal to group {pgid}");
    // SAFETY: kill has no memory preconditions.
    unsafe { libc::kill(-pgid, signal) };
}

/// One field of `/proc/PID/status`.
pub fn status_field(pid: i32, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(|value| value.trim().to_owned())
}

/// The state letter of a process, if it is there.
pub fn state(pid: i32) -> Option<char> {
    status_field(pid, "State")?.chars().next()
}

/// Whether a process runs: it is there and no zombie.
pub fn alive(pid: i32) -> bool {
    state(pid).is_some_and(|s| !matches!(s, 'Z' | 'X'))
}

/// Whether a process is stopped by a signal.
pub fn stopped(pid: i32) -> bool {
    state(pid) == Some('T')
}

/// The parent of a process.
pub fn parent(pid: i32) -> Option<i32> {
    status_field(pid, "PPid")?.parse().ok()
}

/// The highest resident memory of a process so far, in KiB.
pub fn peak_kib(pid: i32) -> u64 {
    let field = status_field(pid, "VmHWM").unwrap_or_default();
    field.trim_end_matches(" kB").parse().unwrap_or(0)
}

/// Every PID that `/proc` has.
pub fn all() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// The children of a process, zombies included.
pub fn children(pid: i32) -> Vec<i32> {
    all()
        .into_iter()
        .filter(|p| parent(*p) == Some(pid))
        .collect()
}

/// A process's arguments, joined by blanks.
pub fn command_line(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// What a process's descriptor points to.
pub fn descriptor(pid: i32, fd: i32) -> Option<String> {
    let link = fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// Running processes with this home in their environment or their directory beside it.
pub fn of_home(home: &Path) -> Vec<(i32, String)> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let wanted = [b"HOME=", home.as_os_str().as_bytes()].concat();
    let root = home.parent().unwrap_or(home);
    all()
        .into_iter()
        .filter(|pid| *pid != own && belongs(*pid, &wanted, root) && alive(*pid))
        .map(|pid| (pid, command_line(pid)))
        .collect()
}

fn belongs(pid: i32, wanted: &[u8], root: &Path) -> bool {
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    environ.split(|b| *b == 0).any(|var| var == wanted) || cwd.starts_with(root)
}

/// Kills everything with this home, until nothing is left.
pub fn kill_home(home: &Path) {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let left = of_home(home);
        if left.is_empty() || Instant::now() > end {
            return;
        }
        for (pid, _) in left {
            signal(pid, libc::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a process sleeps and was not woken for a while: it waits for something that does not come.
pub fn waits(pid: i32) -> bool {
    let first = moves(pid);
    for _ in 0..25 {
        std::thread::sleep(Duration::from_millis(10));
        if state(pid) != Some('S') || moves(pid) != first {
            return false;
        }
    }
    true
}

/// How often a process was scheduled.
fn moves(pid: i32) -> (Option<String>, Option<String>) {
    (
        status_field(pid, "voluntary_ctxt_switches"),
        status_field(pid, "nonvoluntary_ctxt_switches"),
    )
}
