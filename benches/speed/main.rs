//! How fast idem is, as ratios to the plainest thing that does as much, in one table.
//!
//! ```text
//! cargo bench               everything, about two minutes
//! cargo bench -- --short    a quick look: fewer rounds, smaller outputs
//! cargo bench -- --large    nothing but a replay among ten million operations; needs 8 GiB of disk
//! ```
//!
//! Every round runs all cases, each right beside its yardstick, so that whatever else loads the machine
//! meets both alike. A ratio is that of the medians; the spread is from the 10th to the 90th percentile
//! of the rounds' own ratios. Only ratios within one run can be compared.

mod cases;
mod large;
mod process;
mod table;

use cases::{Bench, Sizes};
use std::path::Path;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, file] = &arguments[..]
        && first == cases::FLOOR
    {
        return cases::floor(Path::new(file));
    }
    let short = arguments.iter().any(|argument| argument == "--short");
    process::adopt_orphans();
    // Beside the build: a temporary directory may lie in memory, where nothing waits for a disk.
    let home =
        tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory for the stores");
    let bench = Bench::new(home.path(), if short { Sizes::SHORT } else { Sizes::FULL });
    let large = arguments.iter().any(|argument| argument == "--large");
    let rows = match large {
        true => bench.run_large(),
        false => bench.run(),
    };
    table::print(&rows, bench.counts_calls());
}
