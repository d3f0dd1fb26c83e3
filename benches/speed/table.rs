//! From samples to the one table.

use crate::process::Sample;
use std::time::Duration;

/// One line: a case beside its yardstick.
#[derive(Debug)]
pub struct Row {
    /// What is measured.
    pub what: String,
    /// What it is measured against.
    pub yardstick: String,
    /// The most that the ratio should be.
    pub target: Option<f64>,
    /// Times of each round: the case's and the yardstick's.
    pub times: Vec<(Duration, Duration)>,
    /// The most memory that the case had.
    pub peak_bytes: Option<u64>,
    /// Its system calls, and how many of them wait for the disk.
    pub calls: Option<Calls>,
    /// The least page faults that it had in a round. Many more than before, and `benches/layout` is to
    /// be run again.
    pub faults: Option<u64>,
    /// What else there is to say.
    pub note: String,
}

/// System calls of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calls {
    /// All of them.
    pub all: u64,
    /// Those that wait for the disk.
    pub syncs: u64,
}

impl Row {
    /// A line without samples.
    pub fn new(what: impl Into<String>, yardstick: impl Into<String>, target: Option<f64>) -> Row {
        Row {
            what: what.into(),
            yardstick: yardstick.into(),
            target,
            times: Vec::new(),
            peak_bytes: None,
            calls: None,
            faults: None,
            note: String::new(),
        }
    }

    /// Adds a round.
    pub fn add(&mut self, case: Sample, yardstick: Sample) {
        self.times.push((case.took, yardstick.took));
        self.faults = Some(self.faults.unwrap_or(u64::MAX).min(case.faults));
    }

    /// Adds a round, and minds the case's memory.
    pub fn add_with_peak(&mut self, case: Sample, yardstick: Sample) {
        self.add(case, yardstick);
        self.peak_bytes = self.peak_bytes.max(Some(case.peak_bytes));
    }

    fn ratio(&self) -> f64 {
        let of = |pick: fn(&(Duration, Duration)) -> Duration| {
            percentile(self.times.iter().map(|pair| pick(pair).as_secs_f64()), 50)
        };
        of(|pair| pair.0) / of(|pair| pair.1)
    }

    fn spread(&self) -> (f64, f64) {
        let ratios = || {
            let pairs = self.times.iter();
            pairs.map(|(case, yardstick)| case.as_secs_f64() / yardstick.as_secs_f64())
        };
        (percentile(ratios(), 10), percentile(ratios(), 90))
    }
}

/// A percentile; NaN of nothing.
pub fn percentile(values: impl Iterator<Item = f64>, percent: usize) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values
        .get((last * percent + 50) / 100)
        .copied()
        .unwrap_or(f64::NAN)
}

/// Prints all lines. Numbers stand to the right, words to the left.
pub fn print(rows: &[Row], counted: bool) {
    const HEADS: [&str; 11] = [
        "case", "against", "ratio", "p10-p90", "target", "rounds", "syncs", "calls", "faults",
        "peak MiB", "note",
    ];
    let mut cells = vec![HEADS.map(str::to_owned)];
    cells.extend(rows.iter().map(cells_of));
    let mut widths = [0; HEADS.len()];
    for line in &cells {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    for line in &cells {
        let padded: Vec<String> = line
            .iter()
            .zip(widths)
            .enumerate()
            .map(|(column, (cell, width))| match column {
                0 | 1 | 10 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        println!("{}", padded.join("  ").trim_end());
    }
    if !counted {
        println!("syncs and calls are not counted: strace is not installed");
    }
}

fn cells_of(row: &Row) -> [String; 11] {
    let (low, high) = row.spread();
    let count = |pick: fn(Calls) -> u64| row.calls.map(|calls| pick(calls).to_string());
    let absent = || "-".to_owned();
    [
        row.what.clone(),
        row.yardstick.clone(),
        format!("{:.2}", row.ratio()),
        format!("{low:.2}-{high:.2}"),
        row.target
            .map_or_else(absent, |target| format!("{target:.2}")),
        row.times.len().to_string(),
        count(|calls| calls.syncs).unwrap_or_else(absent),
        count(|calls| calls.all).unwrap_or_else(absent),
        row.faults.map_or_else(absent, |faults| faults.to_string()),
        row.peak_bytes
            .map_or_else(absent, |bytes| format!("{:.1}", bytes as f64 / MIB as f64)),
        row.note.clone(),
    ]
}

const MIB: u64 = 1024 * 1024;
