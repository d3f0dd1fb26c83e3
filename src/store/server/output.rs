//! Recorded output on the server: in parts, so that neither side holds more than one in memory.

use super::ServerStore;
use super::fault::{Fault, Tried};
use crate::domain::name::Nonce;
use crate::domain::record::{OutputRef, Place};
use crate::engine::store::{OpenOutput, StoreError};
use crate::process::stdin_spool::unnamed_file;
use crate::store::postgres::Param;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::time::Instant;

/// Bytes of a part.
const PART_BYTES: usize = 1024 * 1024;

/// An output of one part.
#[derive(Debug)]
pub struct Part {
    /// The claim that recorded it.
    pub nonce: Nonce,
    /// The attempt's number.
    pub number: i32,
    /// The bytes, framed.
    pub bytes: Vec<u8>,
}

/// An attempt's number as the column has it.
pub fn number(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

impl ServerStore {
    /// Brings a spool file to the server, once. Nobody sees its parts before a record names them; those of
    /// a settle that never comes are deleted by the housekeeping.
    pub(super) fn upload(&mut self, nonce: Nonce, attempt: u32, path: &Path) -> Tried<()> {
        if self.uploaded.contains(&(nonce, attempt)) {
            return Ok(());
        }
        let unreadable = |error: io::Error| unreadable(path, &error);
        let mut file = File::open(path).map_err(unreadable)?;
        let sql = self.within(
            "INSERT INTO @output(nonce, number, part, bytes) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (nonce, number, part) DO UPDATE SET bytes = EXCLUDED.bytes RETURNING true",
        );
        let mut part = 0;
        loop {
            let mut bytes = Vec::new();
            let room = u64::try_from(PART_BYTES).unwrap_or(u64::MAX);
            Read::by_ref(&mut file)
                .take(room)
                .read_to_end(&mut bytes)
                .map_err(unreadable)?;
            if bytes.is_empty() && part > 0 {
                break;
            }
            let params = [
                Param::Bytes(Some(&nonce.0)),
                Param::Int4(Some(number(attempt))),
                Param::Int4(Some(part)),
                Param::Bytes(Some(&bytes)),
            ];
            // A part can be written again.
            self.ask(&sql, &params)?;
            // However long an output is, each part has its time.
            self.until = self.until.max(Instant::now() + super::CALL_LIMIT);
            part += 1;
        }
        self.uploaded.insert((nonce, attempt));
        Ok(())
    }

    /// Opens an output; a long one is brought to a file of this machine that has no name.
    pub(super) fn download(&mut self, output: &OutputRef) -> Tried<OpenOutput> {
        match output.place {
            Place::Nowhere => Ok(OpenOutput::Nothing),
            Place::Inline => {
                let bytes = self.part(output, 0)?;
                Ok(bytes.map_or(OpenOutput::Nothing, OpenOutput::Inline))
            }
            Place::Spool => self.download_parts(output),
        }
    }

    fn download_parts(&mut self, output: &OutputRef) -> Tried<OpenOutput> {
        let unwritable = |error: io::Error| {
            Fault::Told(StoreError::Place(format!(
                "the stored output cannot be brought to this machine ({error}); free some space or set TMPDIR"
            )))
        };
        let mut file: Option<File> = None;
        let mut number = 0;
        while let Some(bytes) = self.part(output, number)? {
            let file = match &mut file {
                Some(file) => file,
                none => none.insert(unnamed_file(&std::env::temp_dir()).map_err(unwritable)?),
            };
            file.write_all(&bytes).map_err(unwritable)?;
            number += 1;
            self.begin(super::CALL_LIMIT);
        }
        let Some(mut file) = file else {
            return Ok(OpenOutput::Nothing);
        };
        // All parts go at once. If they went meanwhile, what was read is not the whole.
        if !self.has_part(output, 0)? {
            return Ok(OpenOutput::Nothing);
        }
        file.rewind().map_err(unwritable)?;
        Ok(OpenOutput::File(file))
    }

    fn has_part(&mut self, output: &OutputRef, part: i32) -> Tried<bool> {
        let sql = self.within(
            "SELECT EXISTS (SELECT FROM @output WHERE nonce = $1 AND number = $2 AND part = $3)",
        );
        let rows = self.ask(&sql, &part_params(output, part))?;
        Ok(rows.only()?.get(0)?)
    }

    fn part(&mut self, output: &OutputRef, part: i32) -> Tried<Option<Vec<u8>>> {
        let sql =
            self.within("SELECT bytes FROM @output WHERE nonce = $1 AND number = $2 AND part = $3");
        let rows = self.ask(&sql, &part_params(output, part))?;
        let bytes: Option<&[u8]> = rows.first().map(|row| row.get(0)).transpose()?;
        Ok(bytes.map(<[u8]>::to_vec))
    }
}

fn part_params(output: &OutputRef, part: i32) -> [Param<'_>; 3] {
    [
        Param::Bytes(Some(&output.nonce.0)),
        Param::Int4(Some(number(output.number))),
        Param::Int4(Some(part)),
    ]
}

fn unreadable(path: &Path, error: &io::Error) -> Fault {
    Fault::Told(StoreError::Place(format!(
        "the recorded output {} cannot be read ({error}); look at its permissions",
        path.display()
    )))
}
