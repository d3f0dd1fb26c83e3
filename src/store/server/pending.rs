//! Results that could not be recorded while the server was away: each waits in a file of this machine,
//! `<local>-pending-<nonce>`, until somebody delivers it. The fence decides then whether it still counts.
//!
//! What a guard would have learned (a breaker's count) is not kept: it is about the moment.

use super::body::{stamp_from_json, stamp_to_json};
use super::fault::{Fault, Tried};
use super::{CALL_LIMIT, ServerStore};
use crate::domain::name::{Generation, Key, Nonce, OpName, Scope};
use crate::domain::outcome::{Class, State};
use crate::domain::time::UnixMs;
use crate::engine::event::{EventKind, NewEvent};
use crate::engine::store::{
    ClaimId, Fenced, NewOutput, OutputBody, Settlement, StoreError, StoreResult,
};
use crate::store::location::{Delivered, Delivery};
use crate::store::paths::{Paths, beside};
use crate::store::transitions::settle;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// What stands between the local name and the nonce.
const INFIX: &str = "-pending-";

/// The name of a file that is being written ends so.
const UNFINISHED: &str = ".part";

/// Leaves a result for later, durably. Returns the file. Without a start it is about a claim of which
/// nobody knows whether it was made: only that nothing was run under it.
pub fn write(
    paths: &Paths,
    claim: &ClaimId,
    settlement: &Settlement,
    started: bool,
) -> io::Result<PathBuf> {
    let path = beside(&paths.db, &format!("{INFIX}{}", claim.nonce.hex()));
    let unfinished = beside(&path, UNFINISHED);
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&unfinished)?;
    let mut json = to_json(claim, settlement);
    json["started"] = started.into();
    file.write_all(json.to_string().as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, &path)?;
    File::open(paths.directory())?.sync_all()?;
    Ok(path)
}

/// The results that wait on this machine.
pub fn list(paths: &Paths) -> io::Result<Vec<PathBuf>> {
    let prefix = format!(
        "{}{INFIX}",
        paths.db.file_name().unwrap_or_default().to_string_lossy()
    );
    let entries = match fs::read_dir(paths.directory()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(&prefix) && !name.ends_with(UNFINISHED) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// The claims whose results wait on this machine.
pub fn nonces(paths: &Paths) -> io::Result<Vec<Nonce>> {
    let hex = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        Nonce::from_hex(name.rsplit_once('-')?.1)
    };
    Ok(list(paths)?.iter().filter_map(hex).collect())
}

impl ServerStore {
    /// Delivers what waits on this machine. One that another process delivers at this moment is passed
    /// over.
    pub fn deliver(&mut self) -> StoreResult<Vec<Delivery>> {
        let waiting =
            list(&self.paths).map_err(|error| unreadable(self.paths.directory(), &error))?;
        let mut deliveries = Vec::new();
        let mut trouble = None;
        for path in waiting {
            match self.deliver_one(&path) {
                Ok(delivery) => deliveries.extend(delivery),
                // One that cannot be read must not keep the others back.
                Err(error) => trouble = Some(error),
            }
        }
        self.drop_spent();
        trouble.map_or(Ok(deliveries), Err)
    }

    fn deliver_one(&mut self, path: &Path) -> StoreResult<Option<Delivery>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| unreadable(path, &error))?,
        };
        // Held until the file is gone: of two that deliver at once the second would upload for nothing.
        if file.try_lock().is_err() {
            return Ok(None);
        }
        let text = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|error| unreadable(path, &error))?,
        };
        let json: Option<Value> = serde_json::from_slice(&text).ok();
        let started = json.as_ref().and_then(|json| json["started"].as_bool());
        let Some((claim, settlement)) = json.and_then(from_json) else {
            return Err(StoreError::Foreign(format!(
                "{} cannot be understood; look at it, and move it away",
                path.display()
            )));
        };
        self.begin(CALL_LIMIT);
        let settled = match started {
            Some(false) => match self.settle_own(&claim, &settlement) {
                Ok(false) => {
                    // It was never made, and so there is nothing to tell.
                    let _ = fs::remove_file(path);
                    return Ok(None);
                }
                settled => settled.map(|_| Fenced::Done),
            },
            _ => self.settle_waiting(&claim, &settlement),
        };
        let fate = match settled {
            Ok(Fenced::Done) => Delivered::Now,
            Ok(Fenced::Superseded | Fenced::Deferred { .. }) => Delivered::TooLate,
            Err(fault) => Delivered::NotYet(fault.tell(self.place())),
        };
        if !matches!(fate, Delivered::NotYet(_)) {
            let _ = fs::remove_file(path);
        }
        Ok(Some(Delivery {
            name: claim.name,
            fate,
        }))
    }

    fn settle_waiting(&mut self, claim: &ClaimId, settlement: &Settlement) -> Tried<Fenced> {
        let gone = |output: &NewOutput| matches!(&output.body, OutputBody::Spooled(path) if !path.exists());
        let mut settlement = settlement.clone();
        // Without its output it is still the truth.
        if let Some(output) = settlement.output.as_mut().filter(|output| gone(output)) {
            output.body = OutputBody::Nothing;
            output.lost = true;
        }
        self.settle_within(claim, &settlement, &mut |_| Ok(()))
    }

    /// One settle, without a word on what to do if it fails.
    pub(super) fn settle_within(
        &mut self,
        claim: &ClaimId,
        settlement: &Settlement,
        guards: &mut dyn FnMut(&mut dyn crate::engine::store::Guards) -> StoreResult<()>,
    ) -> Result<Fenced, Fault> {
        let done = self.write(true, |tx| settle::settle(tx, claim, settlement, guards))?;
        Ok(done.value)
    }
}

/// The message where a file of this machine cannot be read.
pub fn unreadable(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Place(format!(
        "{} cannot be read ({error}); look at its permissions",
        path.display()
    ))
}

fn to_json(claim: &ClaimId, settlement: &Settlement) -> Value {
    json!({
        "scope": claim.name.scope.as_str(),
        "key": claim.name.key.as_str(),
        "generation": claim.generation.0,
        "nonce": claim.nonce.hex(),
        "state": settlement.state.word(),
        "class": settlement.class.map(Class::word),
        "reason": settlement.reason,
        "exit_code": settlement.exit_code,
        "retry_at": settlement.retry_at.map(|at| at.0),
        "dirty": settlement.dirty,
        "at": stamp_to_json(&settlement.at),
        "output": settlement.output.as_ref().map(output_to_json),
        "events": settlement.events.iter().map(event_to_json).collect::<Vec<_>>(),
    })
}

fn output_to_json(output: &NewOutput) -> Value {
    let (inline, spooled) = match &output.body {
        OutputBody::Nothing => (None, None),
        OutputBody::Inline(bytes) => (Some(BASE64.encode(bytes)), None),
        OutputBody::Spooled(path) => (None, Some(BASE64.encode(path.as_os_str().as_bytes()))),
    };
    json!({
        "number": output.number,
        "inline": inline,
        "spooled": spooled,
        "stdout_bytes": output.stdout_bytes,
        "stderr_bytes": output.stderr_bytes,
        "truncated": output.truncated,
        "lost": output.lost,
    })
}

fn event_to_json(event: &NewEvent) -> Value {
    json!([event.at.0, event.kind.word(), event.attempt, event.detail])
}

fn from_json(value: Value) -> Option<(ClaimId, Settlement)> {
    let text = |name: &str| value.get(name)?.as_str();
    let claim = ClaimId {
        name: OpName {
            scope: Scope::new(text("scope")?).ok()?,
            key: Key::new(text("key")?).ok()?,
        },
        generation: Generation(value.get("generation")?.as_i64()?),
        nonce: Nonce::from_hex(text("nonce")?)?,
    };
    let output = match value.get("output")? {
        Value::Null => None,
        output => Some(output_from_json(output)?),
    };
    let events = value.get("events")?.as_array()?;
    let code = value.get("exit_code")?.as_i64();
    Some((
        claim,
        Settlement {
            state: State::from_word(text("state")?)?,
            class: text("class").and_then(Class::from_word),
            reason: text("reason").map(str::to_owned),
            exit_code: code.and_then(|code| i32::try_from(code).ok()),
            retry_at: value.get("retry_at")?.as_i64().map(UnixMs),
            output,
            dirty: value.get("dirty")?.as_bool()?,
            at: stamp_from_json(value.get("at")?)?,
            events: events.iter().map(event_from_json).collect::<Option<_>>()?,
        },
    ))
}

fn output_from_json(value: &Value) -> Option<NewOutput> {
    let bytes = |name: &str| BASE64.decode(value.get(name)?.as_str()?).ok();
    let body = match (bytes("inline"), bytes("spooled")) {
        (Some(bytes), _) => OutputBody::Inline(bytes),
        (None, Some(path)) => OutputBody::Spooled(std::ffi::OsString::from_vec(path).into()),
        (None, None) => OutputBody::Nothing,
    };
    Some(NewOutput {
        number: u32::try_from(value.get("number")?.as_u64()?).ok()?,
        body,
        stdout_bytes: value.get("stdout_bytes")?.as_u64()?,
        stderr_bytes: value.get("stderr_bytes")?.as_u64()?,
        truncated: value.get("truncated")?.as_bool()?,
        lost: value.get("lost")?.as_bool()?,
    })
}

fn event_from_json(value: &Value) -> Option<NewEvent> {
    let [at, kind, attempt, detail] = value.as_array()?.as_slice() else {
        return None;
    };
    Some(NewEvent {
        at: UnixMs(at.as_i64()?),
        kind: EventKind::from_word(kind.as_str()?)?,
        attempt: attempt.as_u64().and_then(|n| u32::try_from(n).ok()),
        detail: detail.as_object()?.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::{BootId, Stamp};
    use serde_json::Map;

    #[test]
    fn a_waiting_result_is_read_back_whole() {
        let home = tempfile::tempdir().expect("directory");
        let paths = Paths::new(home.path().join("store"));
        let claim = ClaimId {
            name: OpName {
                scope: Scope::new("s").expect("scope"),
                key: Key::new("é k").expect("key"),
            },
            generation: Generation(7),
            nonce: Nonce([9; 16]),
        };
        let mut detail = Map::new();
        detail.insert("x".to_owned(), json!([1, null]));
        for body in [
            OutputBody::Nothing,
            OutputBody::Inline(vec![0, 255, 10]),
            OutputBody::Spooled(PathBuf::from("/tmp/a b")),
        ] {
            let settlement = Settlement {
                state: State::Unknown,
                class: Some(Class::Uncertain),
                reason: Some("why".to_owned()),
                exit_code: Some(-1),
                retry_at: Some(UnixMs(5)),
                output: Some(NewOutput {
                    number: 3,
                    body,
                    stdout_bytes: 1,
                    stderr_bytes: u64::MAX,
                    truncated: true,
                    lost: false,
                }),
                dirty: true,
                at: Stamp {
                    wall: UnixMs(1),
                    boot_ms: 2,
                    boot: BootId("b".to_owned()),
                },
                events: vec![NewEvent {
                    at: UnixMs(4),
                    kind: EventKind::AttemptEnded,
                    attempt: Some(3),
                    detail: detail.clone(),
                }],
            };
            let path = write(&paths, &claim, &settlement, true).expect("written");
            assert_eq!(list(&paths).expect("listed"), std::slice::from_ref(&path));
            let text = fs::read(path).expect("there");
            let read = from_json(serde_json::from_slice(&text).expect("JSON"));
            assert_eq!(read, Some((claim.clone(), settlement)));
        }
    }
}
