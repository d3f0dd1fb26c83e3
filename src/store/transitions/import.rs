//! Records that come from an export.

use super::settle::Outcome;
use super::{End, Stored, Tx};
use crate::domain::outcome::State;
use crate::domain::record::Record;
use crate::engine::event::EventKind;
use crate::engine::store::{Import, Imported};

/// Writes it under a new generation, unless there is one already that is to stay.
pub fn import<T: Tx>(tx: &mut T, import: &Import) -> Result<End<Imported>, T::Fault> {
    let name = &import.record.name;
    let found = tx.find(name)?;
    if let Some(found) = &found {
        if !import.overwrite || found.record.state == State::Running {
            return Ok(End::Rollback(Imported::Kept));
        }
        tx.drop_outputs(found)?;
    }
    let generation = tx.next_generation()?;
    let output = match &import.output {
        Some(output) => Some(tx.put_output(import.record.nonce, output)?),
        None => None,
    };
    let record = Record {
        generation,
        minted_by: generation,
        output,
        owner: None,
        ..import.record.clone()
    };
    let result = Outcome {
        state: record.state,
        class: record.class,
        reason: record.reason.as_deref(),
        exit_code: record.exit_code,
        output: output.as_ref(),
    };
    let mut events = import.events.clone();
    result.tell(&mut events, EventKind::Imported, import.at);
    let stored = Stored {
        record,
        kept: Vec::new(),
    };
    tx.append(name, generation, &events)?;
    Ok(End::Commit(match found {
        Some(_) => {
            tx.update(&stored)?;
            Imported::Replaced
        }
        None => {
            tx.insert(&stored)?;
            Imported::Added
        }
    }))
}
