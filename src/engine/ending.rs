//! How an execution's end looks to its caller and in its record. Pure.

use super::hands::HowEnded;
use crate::domain::outcome::{Class, Cut, Exit};

/// The status that a time limit gives.
const TIMED_OUT: i32 = 124;
/// The status of an unknown outcome.
const UNKNOWN: i32 = 122;
/// The status of a failure whose command returned 0.
const FAILED_WITH_ZERO: i32 = 1;

/// What the caller is to get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerEnd {
    /// This exit code.
    Code(i32),
    /// Death by this signal; `group`: the child held the terminal.
    Signal {
        /// The signal's number.
        signal: i32,
        /// Raise it on the whole group.
        group: bool,
    },
}

/// The caller's end after a last attempt that ended so and a final class.
pub fn caller_end(how: &HowEnded, held_terminal: bool, class: Class) -> CallerEnd {
    match how {
        HowEnded::NotStarted { code, .. } => CallerEnd::Code(*code),
        HowEnded::Ended {
            cut: Some(Cut::Timeout | Cut::Deadline),
            ..
        } => CallerEnd::Code(TIMED_OUT),
        HowEnded::Ended {
            exit: Exit::Signal(signal),
            ..
        } => CallerEnd::Signal {
            signal: *signal,
            group: held_terminal,
        },
        HowEnded::Ended {
            exit: Exit::Code(0),
            cut: Some(Cut::Interrupted(signal)),
        } => CallerEnd::Code(128 + signal),
        HowEnded::Ended {
            exit: Exit::Code(0),
            ..
        } => CallerEnd::Code(code_for_zero(class)),
        HowEnded::Ended {
            exit: Exit::Code(code),
            ..
        } => CallerEnd::Code(*code),
    }
}

/// A class that is not success never ends with 0.
fn code_for_zero(class: Class) -> i32 {
    match class {
        Class::Success => 0,
        Class::Uncertain => UNKNOWN,
        Class::Safe | Class::Throttled | Class::Retryable | Class::Permanent => FAILED_WITH_ZERO,
    }
}

/// The exit code that the record gets and that a replay ends with; an unknown outcome has none.
pub fn recorded_code(how: &HowEnded, class: Class) -> Option<i32> {
    match (how, class) {
        (_, Class::Uncertain) => None,
        (HowEnded::NotStarted { code, .. }, _) => Some(*code),
        (
            HowEnded::Ended {
                exit: Exit::Signal(signal),
                ..
            },
            _,
        ) => Some(128 + signal),
        (
            HowEnded::Ended {
                exit: Exit::Code(0),
                ..
            },
            class,
        ) => Some(code_for_zero(class)),
        (
            HowEnded::Ended {
                exit: Exit::Code(code),
                ..
            },
            _,
        ) => Some(*code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(exit: Exit, cut: Option<Cut>) -> HowEnded {
        HowEnded::Ended { exit, cut }
    }

    #[test]
    fn the_childs_own_code_passes_unless_idem_ended_it() {
        let code = |how: &HowEnded, class| caller_end(how, false, class);
        assert_eq!(
            code(&ended(Exit::Code(7), None), Class::Permanent),
            CallerEnd::Code(7)
        );
        assert_eq!(
            code(&ended(Exit::Code(0), None), Class::Success),
            CallerEnd::Code(0)
        );
        assert_eq!(
            code(&ended(Exit::Code(3), None), Class::Success),
            CallerEnd::Code(3)
        );
        let timeout = Some(Cut::Timeout);
        assert_eq!(
            code(&ended(Exit::Signal(15), timeout), Class::Uncertain),
            CallerEnd::Code(124)
        );
        assert_eq!(
            code(&ended(Exit::Code(0), timeout), Class::Uncertain),
            CallerEnd::Code(124)
        );
        let term = Some(Cut::Interrupted(15));
        assert_eq!(
            code(&ended(Exit::Code(40), term), Class::Uncertain),
            CallerEnd::Code(40)
        );
    }

    #[test]
    fn what_is_not_a_success_never_ends_with_zero() {
        let zero = ended(Exit::Code(0), None);
        assert_eq!(
            caller_end(&zero, false, Class::Uncertain),
            CallerEnd::Code(122)
        );
        assert_eq!(
            caller_end(&zero, false, Class::Retryable),
            CallerEnd::Code(1)
        );
        let term = ended(Exit::Code(0), Some(Cut::Interrupted(15)));
        assert_eq!(
            caller_end(&term, false, Class::Uncertain),
            CallerEnd::Code(143)
        );
        assert_eq!(recorded_code(&zero, Class::Permanent), Some(1));
        assert_eq!(recorded_code(&zero, Class::Uncertain), None);
    }

    #[test]
    fn a_signal_is_raised_again() {
        let segv = ended(Exit::Signal(11), None);
        let end = caller_end(&segv, true, Class::Uncertain);
        assert_eq!(
            end,
            CallerEnd::Signal {
                signal: 11,
                group: true
            }
        );
    }
}
