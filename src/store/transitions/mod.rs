//! What every change does to a record, its outputs and the ledger, whichever store keeps them: the
//! transactions of claims, steps, settles, decisions and imports, on top of what a store can do inside
//! one transaction.

pub mod change;
pub mod claim;
pub mod import;
pub mod settle;

use crate::domain::name::{Generation, Nonce, OpName};
use crate::domain::record::{OutputRef, Record};
use crate::engine::detail::output_to_detail;
use crate::engine::event::{EventKind, NewEvent};
use crate::engine::store::{Guards, NewOutput, StoreError};

/// A record with what only the store knows about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The record.
    pub record: Record,
    /// Nonces of earlier claims under the same token that have outputs, oldest first.
    pub kept: Vec<Nonce>,
}

/// How a transaction ends.
#[derive(Debug)]
pub enum End<T> {
    /// Its changes stay.
    Commit(T),
    /// Its changes go.
    Rollback(T),
}

/// One open transaction: all that it did stays, or none of it.
pub trait Tx: Guards + Sized {
    /// What can go wrong inside it.
    type Fault: From<StoreError>;

    /// The record as this transaction sees it.
    fn find(&mut self, name: &OpName) -> Result<Option<Stored>, Self::Fault>;

    /// The next value of the store-wide counter.
    fn next_generation(&mut self) -> Result<Generation, Self::Fault>;

    /// Writes a record that was not there.
    fn insert(&mut self, stored: &Stored) -> Result<(), Self::Fault>;

    /// Writes a record over the one that is there.
    fn update(&mut self, stored: &Stored) -> Result<(), Self::Fault>;

    /// Deletes a record and its outputs.
    fn delete(&mut self, stored: &Stored) -> Result<(), Self::Fault>;

    /// Deletes the outputs of one claim.
    fn drop_outputs_of(&mut self, nonce: &Nonce) -> Result<(), Self::Fault>;

    /// Whether the claim of the record that was found has outputs in the store.
    fn has_outputs(&mut self, nonce: &Nonce) -> Result<bool, Self::Fault>;

    /// Stores an output under a claim's nonce.
    fn put_output(&mut self, nonce: Nonce, output: &NewOutput) -> Result<OutputRef, Self::Fault>;

    /// Appends events to the ledger.
    fn append(
        &mut self,
        name: &OpName,
        generation: Generation,
        events: &[NewEvent],
    ) -> Result<(), Self::Fault>;

    /// Whether the ledger has an event of this kind about a generation.
    fn has_event(
        &mut self,
        name: &OpName,
        generation: Generation,
        kind: EventKind,
    ) -> Result<bool, Self::Fault>;

    /// The named guards, to hand them to a closure.
    fn guards(&mut self) -> &mut dyn Guards;

    /// Deletes the outputs of a record's latest claim and of the earlier ones that are kept.
    fn drop_outputs(&mut self, stored: &Stored) -> Result<(), Self::Fault> {
        self.drop_outputs_of(&stored.record.nonce)?;
        for nonce in &stored.kept {
            self.drop_outputs_of(nonce)?;
        }
        Ok(())
    }
}

/// The events with the output named in those that tell of its attempt's end.
pub fn with_output(events: &[NewEvent], output: Option<&OutputRef>) -> Vec<NewEvent> {
    let mut events = events.to_vec();
    if let Some(output) = output {
        let ends = |event: &&mut NewEvent| {
            event.kind == EventKind::AttemptEnded && event.attempt == Some(output.number)
        };
        for event in events.iter_mut().filter(ends) {
            let value = output_to_detail(output);
            event.detail.insert("output".to_owned(), value);
        }
    }
    events
}
