//! Processes that are timed from their start to their end.

use std::io::{self, Read};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// How a process went.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// From its start to its end.
    pub took: Duration,
    /// The most memory that it or one of its descendants had at a time.
    pub peak_bytes: u64,
    /// The page faults of all of them that needed no disk.
    pub faults: u64,
}

/// How a crowd of processes went.
#[derive(Debug, Clone, Copy)]
pub struct Crowd {
    /// From the first one's start to the last one's end.
    pub took: Duration,
    /// The longest that one of them took.
    pub worst: Duration,
    /// How many did not end with 0.
    pub failed: usize,
}

/// Makes this process the parent of what its children leave behind, so that it can wait for that and
/// learn how much memory it had.
pub fn adopt_orphans() {
    // SAFETY: this operation takes integers only.
    let done = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
    assert_eq!(done, 0, "orphans cannot be adopted");
}

/// Runs a command to its end. What it leaves behind is waited for, and not counted: no sample pays
/// for the end of the one before.
pub fn run(command: &mut Command) -> Sample {
    let started = Instant::now();
    let child = start(command);
    finish(child, started)
}

/// As [`run`], reading its stdout to the end like the next command of a pipeline.
pub fn run_read(command: &mut Command, expected_bytes: u64) -> Sample {
    let started = Instant::now();
    let mut child = start(command.stdout(std::process::Stdio::piped()));
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut buffer = vec![0; 64 * 1024];
    let mut read_bytes = 0;
    loop {
        match stdout.read(&mut buffer).expect("its output") {
            0 => break,
            count => read_bytes += count as u64,
        }
    }
    assert_eq!(read_bytes, expected_bytes, "{command:?}");
    finish(child, started)
}

/// Starts all at once and waits for all.
pub fn run_all(commands: &mut [Command]) -> Crowd {
    let first = Instant::now();
    let started: Vec<(i32, Instant)> = commands
        .iter_mut()
        .map(|command| {
            let at = Instant::now();
            (start(command).id().cast_signed(), at)
        })
        .collect();
    let mut crowd = Crowd {
        took: Duration::ZERO,
        worst: Duration::ZERO,
        failed: 0,
    };
    let mut left = started.len();
    while left > 0 {
        let ended = wait(-1).expect("a child");
        let Some((_, at)) = started.iter().find(|(pid, _)| *pid == ended.pid) else {
            continue;
        };
        left -= 1;
        crowd.took = first.elapsed();
        crowd.worst = crowd.worst.max(at.elapsed());
        crowd.failed += usize::from(ended.status != 0);
    }
    reap_all();
    crowd
}

fn start(command: &mut Command) -> Child {
    let started = command.spawn();
    started.unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"))
}

fn finish(child: Child, started: Instant) -> Sample {
    let ended = wait(child.id().cast_signed()).expect("our child");
    let took = started.elapsed();
    assert_eq!(ended.status, 0, "a command failed");
    let left = reap_all();
    Sample {
        took,
        peak_bytes: left.peak_bytes.max(ended.peak_bytes),
        faults: left.faults + ended.faults,
    }
}

/// Waits for everything that is left, and tells what it used.
fn reap_all() -> Ended {
    let mut all = Ended::default();
    while let Ok(ended) = wait(-1) {
        all.peak_bytes = all.peak_bytes.max(ended.peak_bytes);
        all.faults += ended.faults;
    }
    all
}

#[derive(Default)]
struct Ended {
    pid: i32,
    status: i32,
    peak_bytes: u64,
    faults: u64,
}

fn wait(pid: i32) -> io::Result<Ended> {
    let mut status = 0;
    // SAFETY: all-zero is a valid rusage, and wait4 fills what it is given.
    let (pid, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(pid, &mut status, 0, &mut usage), usage)
    };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Ended {
        pid,
        status,
        // In KiB, getrusage(2).
        peak_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
        faults: u64::try_from(usage.ru_minflt).unwrap_or(0),
    })
}
