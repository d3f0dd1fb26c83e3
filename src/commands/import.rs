//! `idem import`.

use super::context::{Context, Opened, new_nonce, source};
use crate::cli::stdout::{print, reason};
use crate::cli::transfer::{Line, Moved, parse};
use crate::cli::words::{Words, flag};
use crate::domain::record::Record;
use crate::engine::event::{EventKind, NewEvent};
use crate::engine::ledger;
use crate::engine::store::{Import, Imported, NewOutput, OutputBody};
use crate::process::spool::{Recorder, StoredPlace};
use anyhow::{Result, anyhow};
use serde_json::json;
use std::io::{self, BufRead, Read};

/// No line is longer: a record's command and preview, and no more than 64 KiB of an output.
const LONGEST_LINE_BYTES: u64 = 64 * 1024 * 1024;

/// Runs the verb.
pub fn run(words: &Words) -> Result<i32> {
    let context = Context::new(words)?;
    let mut importer = Importer {
        opened: context.write()?,
        overwrite: flag(words, "overwrite"),
        lines: Lines {
            input: io::stdin().lock(),
            number: 0,
        },
        added: 0,
        replaced: 0,
        kept: 0,
    };
    let done = importer.all(&context);
    let done = done.map_err(|error| {
        anyhow!(
            "{error}; {} records were imported before, correct it and repeat the import",
            importer.added + importer.replaced
        )
    });
    done?;
    print(importer.told(flag(words, "json")))?;
    Ok(0)
}

struct Importer<R> {
    opened: Opened,
    overwrite: bool,
    lines: Lines<R>,
    added: u64,
    replaced: u64,
    kept: u64,
}

/// A record whose output is still coming.
struct Coming {
    import: Import,
    recorder: Recorder,
    truncated: bool,
}

impl<R: BufRead> Importer<R> {
    fn all(&mut self, context: &Context) -> Result<()> {
        let mut coming: Option<Coming> = None;
        while let Some(line) = self.lines.next()? {
            let parsed = parse(&line).map_err(|why| self.lines.wrong(&why))?;
            match (parsed, &mut coming) {
                (Line::Record(moved), None) => coming = self.begin(context, *moved)?,
                (Line::Piece(stream, bytes), Some(coming)) => {
                    coming.recorder.record(stream, &bytes);
                }
                (Line::End, Some(_)) => {
                    if let Some(coming) = coming.take() {
                        self.end(coming)?;
                    }
                }
                (Line::Record(_), Some(_)) => {
                    return Err(self
                        .lines
                        .wrong("the output of the record before is cut short"));
                }
                (Line::Piece(..) | Line::End, None) => {
                    return Err(self.lines.wrong("it belongs to no record"));
                }
            }
        }
        match coming {
            Some(_) => Err(anyhow!("the input ends within the output of a record")),
            None => Ok(()),
        }
    }

    fn begin(&mut self, context: &Context, moved: Moved) -> Result<Option<Coming>> {
        let nonce = new_nonce();
        let mut detail = ledger::because("it came from an export");
        detail.insert("source".to_owned(), ledger::source_value(&source()));
        let mut import = Import {
            record: Record {
                nonce,
                ..moved.record
            },
            output: None,
            overwrite: self.overwrite,
            at: context.now().wall,
            events: vec![NewEvent {
                at: context.now().wall,
                kind: EventKind::Imported,
                attempt: None,
                detail,
            }],
        };
        let Some(output) = moved.output else {
            self.write(&import)?;
            return Ok(None);
        };
        if output.stored {
            return Ok(Some(Coming {
                import,
                recorder: self.opened.recorder(&nonce),
                truncated: output.truncated,
            }));
        }
        import.output = Some(NewOutput {
            number: 0,
            body: OutputBody::Nothing,
            stdout_bytes: output.stdout_bytes,
            stderr_bytes: output.stderr_bytes,
            truncated: output.truncated,
            lost: output.lost,
        });
        self.write(&import)?;
        Ok(None)
    }

    fn end(&mut self, coming: Coming) -> Result<()> {
        let Coming {
            mut import,
            recorder,
            truncated,
        } = coming;
        let stored = recorder.finish().make_durable();
        let body = match &stored.place {
            StoredPlace::Inline(bytes) => OutputBody::Inline(bytes.clone()),
            StoredPlace::File { path, .. } => OutputBody::Spooled(path.clone()),
            StoredPlace::Nothing { lost } => {
                let why = lost.as_deref().unwrap_or("there is no room");
                let name = &import.record.name;
                return Err(anyhow!("the output of {name} cannot be stored: {why}"));
            }
        };
        import.output = Some(NewOutput {
            number: 0,
            body,
            stdout_bytes: stored.stdout_bytes,
            stderr_bytes: stored.stderr_bytes,
            truncated,
            lost: false,
        });
        let written = self.write(&import);
        // A commit that failed can turn out to be there all the same, and then its record needs the file.
        if matches!(written, Ok(Imported::Kept)) {
            stored.discard();
        }
        written.map(drop)
    }

    fn write(&mut self, import: &Import) -> Result<Imported> {
        let imported = self.opened.store().import(import)?;
        match imported {
            Imported::Added => self.added += 1,
            Imported::Replaced => self.replaced += 1,
            Imported::Kept => self.kept += 1,
        }
        Ok(imported)
    }

    fn told(&self, as_json: bool) -> String {
        let (added, replaced, kept) = (self.added, self.replaced, self.kept);
        if as_json {
            let object = json!({"added": added, "replaced": replaced, "kept": kept});
            return format!("{object}\n");
        }
        let mut told = format!("imported {}", added + replaced);
        if replaced > 0 {
            told.push_str(&format!(", {replaced} of them over others"));
        }
        if kept > 0 {
            let how = match self.overwrite {
                true => "which are running here",
                false => "which are here already; --overwrite replaces them",
            };
            told.push_str(&format!("; left {kept}, {how}"));
        }
        told + "\n"
    }
}

/// The lines of the input, counted.
struct Lines<R> {
    input: R,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// The next line that has something in it.
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            let mut line = Vec::new();
            self.number += 1;
            let mut bounded = self.input.by_ref().take(LONGEST_LINE_BYTES);
            let read = bounded.read_until(b'\n', &mut line);
            let count =
                read.map_err(|error| anyhow!("stdin cannot be read: {}", reason(&error)))?;
            if count == 0 {
                return Ok(None);
            }
            if line.iter().any(|byte| !byte.is_ascii_whitespace()) {
                return Ok(Some(line));
            }
        }
    }

    fn wrong(&self, why: &str) -> anyhow::Error {
        anyhow!(
            "line {} of the input cannot be imported: {why}",
            self.number
        )
    }
}
