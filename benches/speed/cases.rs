//! What is measured, and against what.

use crate::large;
use crate::process::{Crowd, run, run_all, run_read};
use crate::table::{Calls, Row, percentile};
use std::cell::Cell;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The argument by which this program becomes the floor of a first run.
pub const FLOOR: &str = "--floor";

const IDEM: &str = env!("CARGO_BIN_EXE_idem");
const TRUE: &str = "/bin/true";
const MIB: u64 = 1024 * 1024;

/// What is replayed: a hundred bytes.
const PRINTED: [&str; 3] = ["sh", "-c", "printf '%099d\\n' 0"];

/// How much is done.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    rounds: usize,
    /// A crowd comes every so many rounds, a large output every so many.
    crowd_every: usize,
    bulk_every: usize,
    capture_bytes: u64,
    replay_bytes: u64,
}

impl Sizes {
    /// The whole measurement.
    pub const FULL: Sizes = Sizes {
        rounds: 600,
        crowd_every: 30,
        bulk_every: 100,
        capture_bytes: 1024 * MIB,
        replay_bytes: 64 * MIB,
    };
    /// A quick look.
    pub const SHORT: Sizes = Sizes {
        rounds: 100,
        crowd_every: 20,
        bulk_every: 50,
        capture_bytes: 64 * MIB,
        replay_bytes: 64 * MIB,
    };
}

/// Two 4 KiB writes, each made durable, and a process in between: what a claim and a result cost at
/// the very least.
pub fn floor(file: &Path) {
    let mut file = File::options().append(true).create(true).open(file);
    let file = file.as_mut().expect("the floor's file");
    let mut write = || {
        file.write_all(&[7; 4096]).expect("room");
        file.sync_data().expect("durable");
    };
    write();
    let status = Command::new(TRUE).status().expect("a process");
    assert!(status.success());
    write();
}

/// The stores and files of one run.
pub struct Bench<'a> {
    home: &'a Path,
    sizes: Sizes,
    strace: bool,
    bkt: Option<PathBuf>,
    keys: Cell<u64>,
}

impl<'a> Bench<'a> {
    /// Everything is put below `home`.
    pub fn new(home: &'a Path, sizes: Sizes) -> Bench<'a> {
        Bench {
            home,
            sizes,
            strace: found("strace").is_some(),
            bkt: found("bkt"),
            keys: Cell::new(0),
        }
    }

    /// Whether system calls can be counted.
    pub fn counts_calls(&self) -> bool {
        self.strace
    }

    /// All cases, round by round.
    pub fn run(&self) -> Vec<Row> {
        let mut quick = self.quick();
        let mut crowds = self.crowds();
        let mut bulk = self.bulk();
        for round in 0..self.sizes.rounds {
            for case in &mut quick {
                case.round(self);
            }
            if round % self.sizes.crowd_every == 0 {
                for crowd in &mut crowds {
                    crowd.round(self);
                }
            }
            if round % self.sizes.bulk_every == 0 {
                for case in &mut bulk {
                    case.round(self);
                }
            }
        }
        let quick = quick.into_iter().map(|case| case.end(self));
        let crowds = crowds.into_iter().map(CrowdCase::end);
        let bulk = bulk.into_iter().map(|case| case.end(self));
        quick.chain(crowds).chain(bulk).collect()
    }

    /// A replay among very many operations beside one among few, each of another key.
    pub fn run_large(&self) -> Vec<Row> {
        const STORES: [(&str, u64); 2] = [("few", 1_000), ("many", 10_000_000)];
        for (store, operations) in STORES {
            run(&mut self.idem(store, "k", &PRINTED));
            large::fill(&self.home.join(store).join("idem/idem.db"), operations);
        }
        let replay = |(store, operations): (&'static str, u64)| {
            move |bench: &Bench<'_>| {
                // Far apart, so that no replay finds its pages at hand from the one before.
                let number = bench.new_number() * 7_919_993 % operations + 1;
                bench.idem(store, &format!("key-{number}"), &PRINTED)
            }
        };
        let row = Row::new("replay among 10 M", "replay among 1 k", Some(1.1));
        let mut case = Case::new(row, replay(STORES[1]), replay(STORES[0]));
        for _ in 0..self.sizes.rounds {
            case.round(self);
        }
        vec![case.end(self)]
    }

    fn quick(&self) -> Vec<Case> {
        let replay = move |bench: &Bench<'_>| bench.idem("replay", "k", &PRINTED);
        run(&mut replay(self));
        let mut cases = vec![
            Case::new(
                Row::new("replay of 100 bytes", TRUE, Some(1.4)),
                replay,
                |bench| bench.command(TRUE),
            ),
            Case::new(
                Row::new("first run of /bin/true", "two durable writes", Some(2.0)),
                |bench| bench.idem("first", &bench.new_key(), &[TRUE]),
                |bench| bench.floor_command(),
            ),
        ];
        if let Some(bkt) = self.bkt.clone() {
            let hit = move |bench: &Bench<'_>| {
                let mut command = bench.command(&bkt);
                command.env("TMPDIR", bench.home).args(["--ttl=1d", "--"]);
                command.args(PRINTED);
                command
            };
            run(&mut hit(self));
            let row = Row::new("bkt's hit of 100 bytes", TRUE, None);
            cases.push(Case::new(row, hit, |bench| bench.command(TRUE)));
        }
        cases
    }

    fn crowds(&self) -> Vec<CrowdCase> {
        let mut cases = Vec::new();
        for (callers, distinct) in [(50, true), (200, true), (50, false), (200, false)] {
            let keys = if distinct { "distinct keys" } else { "one key" };
            let row = Row::new(
                format!("{callers} callers, {keys}"),
                format!("{callers} of {TRUE}"),
                None,
            );
            cases.push(CrowdCase {
                row,
                callers,
                distinct,
                crowds: Vec::new(),
            });
        }
        cases
    }

    fn bulk(&self) -> Vec<Case> {
        let [captured, replayed] = [self.sizes.capture_bytes, self.sizes.replay_bytes];
        let file = self.home.join("cat");
        let written = fs::write(&file, vec![0; usize::try_from(replayed).expect("a size")]);
        written.expect("room");
        let replay = move |bench: &Bench<'_>| bench.zeros("bulk", "k", replayed);
        run(&mut replay(self));
        let live = Case::new(
            Row::new(
                format!("live capture of {} MiB", captured / MIB),
                "tee, sync",
                Some(1.0),
            ),
            move |bench| {
                bench.remove("live");
                bench.zeros("live", "k", captured)
            },
            move |bench| {
                bench.remove("tee");
                let mut command = bench.command("sh");
                command.args([
                    "-c",
                    &format!("head -c {captured} /dev/zero | tee tee/out; sync tee/out"),
                ]);
                command
            },
        );
        let replay = Case::new(
            Row::new(
                format!("replay of {} MiB", replayed / MIB),
                "cat",
                Some(1.0),
            ),
            replay,
            move |bench| {
                let mut command = bench.command("cat");
                command.arg(&file);
                command
            },
        );
        vec![live.with_peak(), replay.read(replayed).with_peak()]
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin");
        command.env("HOME", self.home).current_dir(self.home);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn idem(&self, store: &str, key: &str, argv: &[&str]) -> Command {
        let mut command = self.command(IDEM);
        command.env("XDG_STATE_HOME", self.home.join(store));
        command.args(["run", "--key", key, "--"]).args(argv);
        command
    }

    fn zeros(&self, store: &str, key: &str, bytes: u64) -> Command {
        let mut command = self.command(IDEM);
        command.env("XDG_STATE_HOME", self.home.join(store));
        command.args(["run", "--max-output", "2GiB", "--key", key, "--"]);
        command.args(["head", "-c", &bytes.to_string(), "/dev/zero"]);
        command
    }

    fn floor_command(&self) -> Command {
        let mut command = self.command(std::env::current_exe().expect("this program"));
        command.args([FLOOR, "floor"]);
        command
    }

    fn new_key(&self) -> String {
        format!("key-{}", self.new_number())
    }

    fn new_number(&self) -> u64 {
        self.keys.set(self.keys.get() + 1);
        self.keys.get()
    }

    /// An empty directory of this name.
    fn remove(&self, name: &str) {
        let directory = self.home.join(name);
        // There is none before the first round.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).expect("a directory");
    }
}

type Make = Box<dyn Fn(&Bench<'_>) -> Command>;

/// A command beside its yardstick.
struct Case {
    row: Row,
    command: Make,
    yardstick: Make,
    /// Its output is read, and has this many bytes.
    read_bytes: Option<u64>,
    with_peak: bool,
}

impl Case {
    fn new(
        row: Row,
        command: impl Fn(&Bench<'_>) -> Command + 'static,
        yardstick: impl Fn(&Bench<'_>) -> Command + 'static,
    ) -> Case {
        Case {
            row,
            command: Box::new(command),
            yardstick: Box::new(yardstick),
            read_bytes: None,
            with_peak: false,
        }
    }

    fn read(mut self, bytes: u64) -> Case {
        self.read_bytes = Some(bytes);
        self
    }

    fn with_peak(mut self) -> Case {
        self.with_peak = true;
        self
    }

    fn round(&mut self, bench: &Bench<'_>) {
        let sample = |make: &Make| {
            let mut command = make(bench);
            match self.read_bytes {
                Some(bytes) => run_read(&mut command, bytes),
                None => run(&mut command),
            }
        };
        let (case, yardstick) = (sample(&self.command), sample(&self.yardstick));
        if self.with_peak {
            self.row.add_with_peak(case, yardstick);
        } else {
            self.row.add(case, yardstick);
        }
    }

    fn end(mut self, bench: &Bench<'_>) -> Row {
        if bench.strace {
            self.row.calls = Some(count_calls(bench, &(self.command)(bench)));
        }
        self.row
    }
}

/// Many callers at once, beside as many processes that do nothing.
struct CrowdCase {
    row: Row,
    callers: usize,
    distinct: bool,
    crowds: Vec<Crowd>,
}

impl CrowdCase {
    fn round(&mut self, bench: &Bench<'_>) {
        let one_key = bench.new_key();
        let key = || match self.distinct {
            true => bench.new_key(),
            false => one_key.clone(),
        };
        let mut callers: Vec<Command> = (0..self.callers)
            .map(|_| bench.idem("crowd", &key(), &[TRUE]))
            .collect();
        let crowd = run_all(&mut callers);
        let mut idle: Vec<Command> = (0..self.callers).map(|_| bench.command(TRUE)).collect();
        self.row.times.push((crowd.took, run_all(&mut idle).took));
        self.crowds.push(crowd);
    }

    fn end(mut self) -> Row {
        let failed: usize = self.crowds.iter().map(|crowd| crowd.failed).sum();
        let median = |pick: fn(&Crowd) -> f64| percentile(self.crowds.iter().map(pick), 50);
        self.row.note = format!(
            "{:.0} ms, worst latency {:.2} of that, {failed} failed",
            median(|crowd| crowd.took.as_secs_f64() * 1000.0),
            median(|crowd| crowd.worst.as_secs_f64() / crowd.took.as_secs_f64()),
        );
        self.row
    }
}

fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

/// Runs a command once more under strace.
fn count_calls(bench: &Bench<'_>, command: &Command) -> Calls {
    let summary = bench.home.join("strace");
    let mut traced = bench.command("strace");
    traced.args(["-c", "-f", "-o"]).arg(&summary);
    traced.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            traced.env(name, value);
        }
    }
    run(&mut traced);
    let text = fs::read_to_string(&summary).expect("what strace counted");
    let mut calls = Calls { all: 0, syncs: 0 };
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(count), Some(name)) = (words.get(3), words.last()) else {
            continue;
        };
        let Ok(count) = count.parse::<u64>() else {
            continue;
        };
        match *name {
            "total" => calls.all = count,
            "fsync" | "fdatasync" | "sync" | "syncfs" | "sync_file_range" | "msync" => {
                calls.syncs += count;
            }
            _ => {}
        }
    }
    calls
}
