//! What an attempt tells and what an operation becomes.

/// What one attempt tells about the side effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// It happened.
    Success,
    /// Nothing happened.
    Safe,
    /// Nothing happened, and the other side asks to wait.
    Throttled,
    /// It failed, and the caller declared such failures repeatable.
    Retryable,
    /// It ran to its end and said no.
    Permanent,
    /// It may have happened.
    Uncertain,
}

impl Class {
    /// Every class, in the order of the documentation.
    pub const ALL: [Class; 6] = [
        Class::Success,
        Class::Safe,
        Class::Throttled,
        Class::Retryable,
        Class::Permanent,
        Class::Uncertain,
    ];

    /// The word used in JSON, in the store and in messages.
    pub fn word(self) -> &'static str {
        match self {
            Class::Success => "success",
            Class::Safe => "safe",
            Class::Throttled => "throttled",
            Class::Retryable => "retryable",
            Class::Permanent => "permanent",
            Class::Uncertain => "uncertain",
        }
    }

    /// Reads back what [`Class::word`] wrote.
    pub fn from_word(word: &str) -> Option<Class> {
        Class::ALL.into_iter().find(|c| c.word() == word)
    }

    /// Whether an attempt of this class may have left something half done, so that a cleanup has work.
    pub fn leaves_traces(self) -> bool {
        matches!(self, Class::Retryable | Class::Permanent | Class::Uncertain)
    }
}

/// The state of an operation's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Recorded, waiting for a person's approval.
    Held,
    /// Claimed; someone executes it, or did until they died.
    Running,
    /// It happened.
    Succeeded,
    /// It ended without success.
    Failed,
    /// Nobody knows whether it happened.
    Unknown,
}

impl State {
    /// Every state, in the order of the documentation.
    pub const ALL: [State; 5] = [
        State::Held,
        State::Running,
        State::Succeeded,
        State::Failed,
        State::Unknown,
    ];

    /// The word used in JSON, in the store and in messages.
    pub fn word(self) -> &'static str {
        match self {
            State::Held => "held",
            State::Running => "running",
            State::Succeeded => "succeeded",
            State::Failed => "failed",
            State::Unknown => "unknown",
        }
    }

    /// Reads back what [`State::word`] wrote.
    pub fn from_word(word: &str) -> Option<State> {
        State::ALL.into_iter().find(|s| s.word() == word)
    }

    /// Only these two expire and are purged.
    pub fn settled(self) -> bool {
        matches!(self, State::Succeeded | State::Failed)
    }
}

/// How a child process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It returned this code, 0–255.
    Code(i32),
    /// A signal with this number killed it.
    Signal(i32),
}

/// Why idem itself ended an attempt, if it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The attempt's own time limit passed.
    Timeout,
    /// The total time of the call passed.
    Deadline,
    /// INT, TERM or QUIT (this number) was forwarded to it.
    Interrupted(i32),
    /// The caller went away, and `--on-caller-loss kill` asked for the child's end.
    CallerLost,
    /// What the caller pipes in could not be kept, so the child would have got only a part of it.
    InputLost,
}

/// The operation's state after a final attempt of this class.
pub fn state_after(class: Class) -> State {
    match class {
        Class::Success => State::Succeeded,
        Class::Uncertain => State::Unknown,
        Class::Safe | Class::Throttled | Class::Retryable | Class::Permanent => State::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for class in Class::ALL {
            assert_eq!(Class::from_word(class.word()), Some(class));
        }
        for state in State::ALL {
            assert_eq!(State::from_word(state.word()), Some(state));
        }
    }
}
