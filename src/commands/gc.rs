//! `idem gc`.

use super::context::{Context, Opened};
use super::counting;
use super::keeping::KEEP_EVENTS;
use crate::cli::stdout::print;
use crate::cli::words::{Words, flag};
use crate::engine::store::StoreResult;
use crate::store::litter::Litter;
use anyhow::Result;
use serde_json::{Value, json};

/// Records that one transaction deletes at most: calls that run get their turn in between.
const RECORDS_A_BATCH: u32 = 64;

/// What was done.
#[derive(Debug, Default)]
struct Done {
    records: u64,
    lines: u64,
    outputs: u64,
    parts: u64,
    controls: u64,
    counts: u64,
    freed_bytes: u64,
}

/// Runs the verb.
pub fn run(words: &Words) -> Result<i32> {
    let context = Context::new(words)?;
    // Where there is no store, none is made.
    let done = match context.read()? {
        Some(reader) => {
            drop(reader);
            collect(&context, &mut context.write()?)?
        }
        None => Done::default(),
    };
    print(match flag(words, "json") {
        true => format!("{}\n", done.to_json()),
        false => done.told(),
    })?;
    Ok(0)
}

fn collect(context: &Context, opened: &mut Opened) -> StoreResult<Done> {
    let store = opened.any();
    let before = store.taken_bytes()?;
    let mut done = Done {
        // Lines of the ledger are counted before they go.
        counts: u64::from(counting::fold(store)?),
        ..Done::default()
    };
    loop {
        let purged = store
            .port()
            .purge(&context.now(), RECORDS_A_BATCH, KEEP_EVENTS)?;
        done.records += u64::from(purged.records);
        done.lines += u64::from(purged.lines);
        if !purged.more {
            break;
        }
    }
    for file in store.litter()? {
        if std::fs::remove_file(file.path()).is_ok() {
            match file {
                Litter::Spool(_) => done.outputs += 1,
                Litter::Part(_) => done.parts += 1,
                Litter::Control(_) => done.controls += 1,
            }
        }
    }
    store.shrink()?;
    done.freed_bytes = before.saturating_sub(store.taken_bytes()?);
    Ok(done)
}

impl Done {
    fn to_json(&self) -> Value {
        json!({
            "expired_records": self.records,
            "ledger_lines": self.lines,
            "orphan_outputs": self.outputs,
            "unfinished_outputs": self.parts,
            "control_files": self.controls,
            "count_files": self.counts,
            "freed_bytes": self.freed_bytes,
        })
    }

    fn told(&self) -> String {
        let parts = [
            (self.records, "expired records"),
            (self.lines, "old lines of the ledger"),
            (self.outputs, "outputs of nothing"),
            (self.parts, "unfinished outputs"),
            (self.controls, "control files"),
        ];
        let deleted: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        let mut told = match deleted.is_empty() {
            true => "nothing to delete".to_owned(),
            false => format!("deleted {}", deleted.join(", ")),
        };
        if self.freed_bytes > 0 {
            told.push_str(&format!(
                "; gave {} KiB back",
                self.freed_bytes.div_ceil(1024)
            ));
        }
        told + "\n"
    }
}
