//! Counting: one small write for what a call did, and adding that up in the store.

use super::context::{Context, Opened};
use crate::domain::name::Scope;
use crate::domain::tally::Count;
use crate::engine::claim::NotClaimed;
use crate::engine::counts::{self, Sums, hour_of};
use crate::engine::front::Outcome;
use crate::engine::store::{StoreError, StoreResult};
use crate::process::clock;
use crate::process::counts::{Counted, append, peek, place_of, take};
use crate::process::random;
use crate::store::location::{AnyStore, Location};
use std::path::Path;

/// From this size on a passing execution adds the side file up.
const LONG_FILE_BYTES: u64 = 64 * 1024;

/// Looks that are taken for one that no adding up has come between.
const READ_TRIES: u32 = 100;

/// Counts how a call ended, if a keeper has not done that.
pub fn outcome<T>(location: &Location, scope: &Scope, outcome: &Outcome<T>) {
    let count = match outcome {
        Outcome::Replayed { .. } => Count::Replay,
        Outcome::Waited { .. } | Outcome::WaitedPast { .. } => Count::Wait,
        Outcome::Refused { refusal, .. } => Count::of_refusal(*refusal),
        Outcome::Skipped | Outcome::UnderWay { .. } => Count::Skip,
        Outcome::Executed(_) => return,
    };
    let path = location.beside("-counts");
    if location.is_shared() && !path.exists() {
        // A machine that has executed nothing yet has no place of its own.
        let _ = location.prepare();
    }
    note(&path, scope, count);
}

/// Counts why a keeper did not claim.
pub fn not_claimed(path: &Path, scope: &Scope, not: &NotClaimed) {
    let count = match not {
        NotClaimed::Changed(_) => Count::RaceLost,
        NotClaimed::Guarded(guarded) => match Count::from_word(guarded.guard) {
            Some(count) => count,
            None => return,
        },
        _ => return,
    };
    note(path, scope, count);
}

fn note(path: &Path, scope: &Scope, count: Count) {
    let counted = Counted {
        scope: scope.clone(),
        hour: hour_of(clock::now().wall),
        count,
    };
    // A store that cannot be written counts nothing, and a call does not fail for a number.
    let _ = append(path, &counted);
}

/// Adds everything up: what calls have appended, and the ledger. Returns how many files were added.
pub fn fold(store: &mut AnyStore) -> StoreResult<u32> {
    let path = store.paths().counts();
    counts::fold_events(store.port(), clock::now().wall)?;
    let batches = take(&path).map_err(|error| {
        StoreError::Place(format!(
            "the counts in {} cannot be read ({error}); look at their permissions",
            path.display()
        ))
    })?;
    let mut added = 0;
    let names = Names::of(store, &path);
    for mut batch in batches {
        let Ok(records) = batch.read() else { continue };
        let marked = names.marked(&batch.name());
        let exists = |marked: &str| match names.here(marked) {
            Some(name) => path.with_file_name(name).exists(),
            // Only its own machine knows.
            None => true,
        };
        counts::fold_file(store.port(), &marked, &sums_of(&records), &exists)?;
        // One that stays is known by its name.
        let _ = batch.delete();
        added += 1;
    }
    Ok(added)
}

/// How a store calls the files that are counted.
struct Names {
    /// The directory they are in, among those of all machines that share the store.
    place: Option<String>,
}

impl Names {
    fn of(store: &mut AnyStore, path: &Path) -> Names {
        let shared = store.sqlite().is_none();
        Names {
            place: shared.then(|| place_of(path)),
        }
    }

    fn marked(&self, name: &str) -> String {
        match &self.place {
            Some(place) => format!("{place}/{name}"),
            None => name.to_owned(),
        }
    }

    /// The name of a file of this machine.
    fn here<'n>(&self, marked: &'n str) -> Option<&'n str> {
        match &self.place {
            Some(place) => marked.strip_prefix(place.as_str())?.strip_prefix('/'),
            None => Some(marked),
        }
    }
}

/// The same for who passes by, only where much has come together.
pub fn fold_if_due(store: &mut AnyStore) -> StoreResult<()> {
    let length = std::fs::metadata(store.paths().counts()).map_or(0, |meta| meta.len());
    if length >= LONG_FILE_BYTES || (one_in_a_few() && events_are_due(store)?) {
        fold(store)?;
    }
    Ok(())
}

/// The look at the ledger costs more than the one at the file, and has time.
fn one_in_a_few() -> bool {
    random::bytes::<1>()[0] < 16
}

fn events_are_due(store: &mut AnyStore) -> StoreResult<bool> {
    let mark = counts::read_mark(store.port())?;
    counts::events_are_due(store.port(), &mark, clock::now().wall)
}

fn sums_of(records: &[Counted]) -> Sums {
    let mut sums = Sums::default();
    for record in records {
        sums.add(&record.scope, record.hour, record.count, 1);
    }
    sums
}

/// Everything that was ever counted. A store that cannot be written is read as it is.
pub fn totals(context: &Context, opened: &mut Opened) -> StoreResult<Sums> {
    // What cannot be added up now is added below.
    let _ = context.write().and_then(|mut writer| fold(writer.any()));
    let path = opened.any().paths().counts();
    let names = Names::of(opened.any(), &path);
    let store = opened.store();
    for _ in 0..READ_TRIES {
        let (mut sums, mark) = counts::read(store)?;
        let counted = mark.files.iter().filter_map(|marked| names.here(marked));
        let counted: Vec<String> = counted.map(str::to_owned).collect();
        let pending = peek(&path, &counted);
        counts::add_uncounted(store, &mark, &mut sums)?;
        // In between someone may have added up and deleted what was to be read.
        if counts::read_mark(store)?.files == mark.files {
            sums.add_all(&sums_of(&pending));
            return Ok(sums);
        }
    }
    Err(StoreError::Busy(format!(
        "the counts beside {} change too fast to be read; try again",
        path.display()
    )))
}
