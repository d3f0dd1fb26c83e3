//! What is counted, and sums of it.

use super::decision::Refusal;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One thing that is counted. The numbers are kept in files, so none is ever given a new meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Count {
    /// A claim was won.
    Execution = 1,
    /// A stored result was handed out.
    Replay = 2,
    /// The result of an execution that was waited for was handed out.
    Wait = 3,
    /// `--if-running skip` met one that runs.
    Skip = 4,
    /// A further attempt under one claim.
    Retry = 5,
    /// An attempt that was cut off by its timeout or the deadline.
    Timeout = 6,
    /// An operation's outcome became unknown.
    Unknown = 7,
    /// Another call claimed first.
    RaceLost = 8,
    /// Refused: it still runs.
    StillRunning = 16,
    /// Refused: the key was used for a different command.
    Mismatch = 17,
    /// Refused: the outcome is unknown.
    OutcomeUnknown = 18,
    /// Refused: a person must approve it.
    NeedsApproval = 19,
    /// Refused: a person rejected it.
    Rejected = 20,
    /// Refused: the proposal has expired.
    ProposalExpired = 21,
    /// Refused: the call runs under this very operation.
    OwnAncestry = 22,
    /// Refused by a breaker.
    Breaker = 32,
    /// Refused by a bulkhead: no permit.
    Bulkhead = 33,
    /// Refused: the deadline had passed.
    Deadline = 34,
    /// Refused: its task has ended.
    Task = 35,
}

impl Count {
    /// Everything that is counted.
    pub const ALL: [Count; 19] = [
        Count::Execution,
        Count::Replay,
        Count::Wait,
        Count::Skip,
        Count::Retry,
        Count::Timeout,
        Count::Unknown,
        Count::RaceLost,
        Count::StillRunning,
        Count::Mismatch,
        Count::OutcomeUnknown,
        Count::NeedsApproval,
        Count::Rejected,
        Count::ProposalExpired,
        Count::OwnAncestry,
        Count::Breaker,
        Count::Bulkhead,
        Count::Deadline,
        Count::Task,
    ];

    /// The word used in the store, and in JSON where it is the reason of a refusal.
    pub fn word(self) -> &'static str {
        match self {
            Count::Execution => "execution",
            Count::Replay => "replay",
            Count::Wait => "wait",
            Count::Skip => "skip",
            Count::Retry => "retry",
            Count::Timeout => "timeout",
            Count::Unknown => "became_unknown",
            Count::RaceLost => "race_lost",
            Count::StillRunning => "running",
            Count::Mismatch => "mismatch",
            Count::OutcomeUnknown => "unknown",
            Count::NeedsApproval => "needs_approval",
            Count::Rejected => "rejected",
            Count::ProposalExpired => "proposal_expired",
            Count::OwnAncestry => "own_ancestry",
            Count::Breaker => "breaker",
            Count::Bulkhead => "bulkhead",
            Count::Deadline => "deadline",
            Count::Task => "task",
        }
    }

    /// Reads back what [`Count::word`] wrote.
    pub fn from_word(word: &str) -> Option<Count> {
        Count::ALL.into_iter().find(|count| count.word() == word)
    }

    /// The number used in files.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Reads back what [`Count::code`] gave.
    pub fn from_code(code: u8) -> Option<Count> {
        Count::ALL.into_iter().find(|count| count.code() == code)
    }

    /// Whether it is a refusal, so that its word is a reason.
    pub fn is_refusal(self) -> bool {
        self.code() >= Count::StillRunning.code()
    }

    /// A refusal after a look at the record.
    pub fn of_refusal(refusal: Refusal) -> Count {
        match refusal {
            Refusal::StillRunning => Count::StillRunning,
            Refusal::Mismatch => Count::Mismatch,
            Refusal::Unknown => Count::OutcomeUnknown,
            Refusal::NeedsApproval => Count::NeedsApproval,
            Refusal::Rejected => Count::Rejected,
            Refusal::ProposalExpired => Count::ProposalExpired,
            Refusal::OwnAncestry => Count::OwnAncestry,
        }
    }
}

/// How often each thing was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<Count, u64>);

impl Tally {
    /// Counts some more.
    pub fn add(&mut self, count: Count, times: u64) {
        if times > 0 {
            let sum = self.0.entry(count).or_default();
            *sum = sum.saturating_add(times);
        }
    }

    /// Adds another tally.
    pub fn add_all(&mut self, other: &Tally) {
        for (count, times) in &other.0 {
            self.add(*count, *times);
        }
    }

    /// How often.
    pub fn of(&self, count: Count) -> u64 {
        self.0.get(&count).copied().unwrap_or(0)
    }

    /// Calls that were refused or skipped because another one was running.
    pub fn conflicts(&self) -> u64 {
        self.of(Count::StillRunning)
            .saturating_add(self.of(Count::Skip))
    }

    /// Refusals that happened, by reason.
    pub fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let refusals = self.0.iter().filter(|(count, _)| count.is_refusal());
        refusals.map(|(count, times)| (count.word(), *times))
    }

    /// As it is stored.
    pub fn to_json(&self) -> Value {
        let fields = self.0.iter();
        let fields = fields.map(|(count, times)| (count.word().to_owned(), Value::from(*times)));
        Value::Object(fields.collect())
    }

    /// Reads back what [`Tally::to_json`] wrote. Words of a later version are left out.
    pub fn from_json(value: &Value) -> Tally {
        let nothing = Map::new();
        let mut tally = Tally::default();
        for (word, times) in value.as_object().unwrap_or(&nothing) {
            if let (Some(count), Some(times)) = (Count::from_word(word), times.as_u64()) {
                tally.add(count, times);
            }
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn words_and_numbers_are_read_back_and_unique() {
        for count in Count::ALL {
            assert_eq!(Count::from_word(count.word()), Some(count));
            assert_eq!(Count::from_code(count.code()), Some(count));
        }
        let words: HashSet<_> = Count::ALL.map(Count::word).into_iter().collect();
        assert_eq!(words.len(), Count::ALL.len());
        assert_eq!(Count::from_code(0), None);
    }

    #[test]
    fn a_tally_adds_up_and_is_read_back() {
        let mut tally = Tally::default();
        tally.add(Count::Replay, 2);
        tally.add(Count::Mismatch, 0);
        let mut other = Tally::default();
        other.add(Count::Replay, 3);
        other.add(Count::StillRunning, 1);
        other.add(Count::Skip, 1);
        tally.add_all(&other);
        assert_eq!((tally.of(Count::Replay), tally.conflicts()), (5, 2));
        assert_eq!(tally.refusals().collect::<Vec<_>>(), [("running", 1)]);
        assert_eq!(Tally::from_json(&tally.to_json()), tally);
        assert_eq!(Tally::from_json(&Value::Null), Tally::default());
    }
}
