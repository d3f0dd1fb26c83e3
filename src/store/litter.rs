//! Files beside a store that nobody needs any more.

use super::paths::Paths;
use crate::domain::name::Nonce;
use crate::process::filesystem::is_open_elsewhere;
use crate::process::spool::list_spool;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A spool file without a row may be one whose row is about to be written, unless it is older.
const ROW_COMES_WITHIN: Duration = Duration::from_secs(600);

/// What stands between the database's name and a claim's nonce in the name of a control file.
const CONTROL_INFIX: &str = "-control-";

/// A file that is left over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Litter {
    /// An output that no record names.
    Spool(PathBuf),
    /// An output whose writer died.
    Part(PathBuf),
    /// What a command that is gone could have written to.
    Control(PathBuf),
}

impl Litter {
    /// Where it is.
    pub fn path(&self) -> &Path {
        match self {
            Litter::Spool(path) | Litter::Part(path) | Litter::Control(path) => path,
        }
    }
}

/// Every file that can be litter.
pub fn list(paths: &Paths) -> io::Result<Vec<Litter>> {
    let db_name = paths.db.file_name().unwrap_or_default();
    let spool = list_spool(paths.directory(), db_name)?.into_iter();
    let mut found: Vec<Litter> = spool
        .map(|entry| match entry.part {
            true => Litter::Part(entry.path),
            false => Litter::Spool(entry.path),
        })
        .collect();
    for entry in fs::read_dir(paths.directory())? {
        let path = entry?.path();
        if nonce_of(paths, &path, CONTROL_INFIX).is_some() {
            found.push(Litter::Control(path));
        }
    }
    Ok(found)
}

/// The nonce in the name of a file: `<database><infix><nonce>-<attempt>`.
fn nonce_of(paths: &Paths, path: &Path, infix: &str) -> Option<Nonce> {
    let db_name = paths.db.file_name()?.to_str()?;
    let tail = path.file_name()?.to_str()?.strip_prefix(db_name)?;
    Nonce::from_hex(tail.strip_prefix(infix)?.get(..32)?)
}

/// What the records say of files.
#[derive(Debug)]
pub struct Known {
    /// Spool files that a record names.
    pub spooled: HashSet<PathBuf>,
    /// Claims whose files are still needed.
    pub running: HashSet<Nonce>,
    /// The moment, for the age of files.
    pub now: SystemTime,
}

impl Known {
    /// Whether a file is still needed.
    pub fn needs(&self, paths: &Paths, file: &Litter) -> bool {
        let path = file.path();
        let infix = match file {
            Litter::Control(_) => CONTROL_INFIX,
            Litter::Spool(_) | Litter::Part(_) => "-out-",
        };
        let Some(nonce) = nonce_of(paths, path, infix) else {
            return true;
        };
        if self.running.contains(&nonce) {
            return true;
        }
        match file {
            Litter::Control(_) => false,
            Litter::Part(_) => is_open_elsewhere(path),
            Litter::Spool(_) => self.spooled.contains(path) || self.is_young(path),
        }
    }

    fn is_young(&self, path: &Path) -> bool {
        let written = fs::symlink_metadata(path).and_then(|meta| meta.modified());
        // A file from the future is as young as they come.
        let age = written.map(|at| self.now.duration_since(at).unwrap_or_default());
        age.is_ok_and(|age| age < ROW_COMES_WITHIN)
    }
}
