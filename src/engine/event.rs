//! The ledger's events: what was decided or happened, when, and why.

use crate::domain::name::{Generation, OpName};
use crate::domain::time::UnixMs;
use serde_json::{Map, Value};

/// What kind of thing an event tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A claim was won; detail: `why`, `command` (program and subcommand), `state_before`, `source`.
    Claimed,
    /// An attempt's child was let go; detail: `pid`.
    AttemptStarted,
    /// An attempt ended; detail: `duration_ms`, `exit_code`, `signal`, `class`, `reason`, and `output`.
    AttemptEnded,
    /// A pause before the next attempt; detail: `delay_ms`, `reason`.
    Paused,
    /// A probe was asked; detail: `command`, `exit_code`, `answer`, `output`.
    Probed,
    /// A cleanup ran; detail: `command`, `exit_code`, `output`.
    Cleaned,
    /// The execution ended; detail: `state`, `class`, `reason`, `exit_code`, `output`.
    Settled,
    /// An observer found the owner gone; detail: `reason`.
    OwnerLost,
    /// A person settled an unknown; detail: `state`, `exit_code`.
    Resolved,
    /// A proposal was recorded.
    Proposed,
    /// A person approved it; detail: `note`.
    Approved,
    /// A person rejected it; detail: `note`.
    Rejected,
    /// The record was deleted; detail: `state`.
    Forgotten,
    /// A late settle of a claim that is no longer the record's; detail: `state`.
    Superseded,
    /// A guard refused before anything ran; detail: `guard`, `reason`, `retry_at`.
    Guarded,
    /// The record came from an export.
    Imported,
    /// Somebody was told of an unknown outcome; detail: `command`, `exit_code` or `trouble`.
    Told,
}

impl EventKind {
    /// Every kind.
    pub const ALL: [EventKind; 17] = [
        EventKind::Claimed,
        EventKind::AttemptStarted,
        EventKind::AttemptEnded,
        EventKind::Paused,
        EventKind::Probed,
        EventKind::Cleaned,
        EventKind::Settled,
        EventKind::OwnerLost,
        EventKind::Resolved,
        EventKind::Proposed,
        EventKind::Approved,
        EventKind::Rejected,
        EventKind::Forgotten,
        EventKind::Superseded,
        EventKind::Guarded,
        EventKind::Imported,
        EventKind::Told,
    ];

    /// The word used in JSON and in the store.
    pub fn word(self) -> &'static str {
        match self {
            EventKind::Claimed => "claimed",
            EventKind::AttemptStarted => "attempt_started",
            EventKind::AttemptEnded => "attempt_ended",
            EventKind::Paused => "paused",
            EventKind::Probed => "probe",
            EventKind::Cleaned => "cleanup",
            EventKind::Settled => "settled",
            EventKind::OwnerLost => "owner_lost",
            EventKind::Resolved => "resolved",
            EventKind::Proposed => "proposed",
            EventKind::Approved => "approved",
            EventKind::Rejected => "rejected",
            EventKind::Forgotten => "forgotten",
            EventKind::Superseded => "superseded",
            EventKind::Guarded => "guarded",
            EventKind::Imported => "imported",
            EventKind::Told => "told",
        }
    }

    /// Reads back what [`EventKind::word`] wrote.
    pub fn from_word(word: &str) -> Option<EventKind> {
        EventKind::ALL.into_iter().find(|k| k.word() == word)
    }
}

/// One line of the ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Position in the ledger: grows, never reused.
    pub id: i64,
    /// When, by the wall clock.
    pub at: UnixMs,
    /// The operation.
    pub name: OpName,
    /// The claim's or resolution's generation.
    pub generation: Generation,
    /// What happened.
    pub kind: EventKind,
    /// The attempt's number in its generation, where it is about one.
    pub attempt: Option<u32>,
    /// More, by kind.
    pub detail: Map<String, Value>,
}

/// An event to be written; the store gives it its position.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// When, by the wall clock.
    pub at: UnixMs,
    /// What happened.
    pub kind: EventKind,
    /// The attempt's number in its generation, where it is about one.
    pub attempt: Option<u32>,
    /// More, by kind.
    pub detail: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for kind in EventKind::ALL {
            assert_eq!(EventKind::from_word(kind.word()), Some(kind));
        }
    }
}
