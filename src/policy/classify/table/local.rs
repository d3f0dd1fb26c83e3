//! Mail, services, builds and shells.

use super::super::proof;
use super::super::{Tool, Unmatched};
use super::{PERMANENT, TOOL, UNCERTAIN, code, row, safe};

pub static MSMTP: Tool = Tool {
    name: "msmtp",
    commands: &["msmtp"],
    rows: &[
        row(
            "the answer was lost",
            &[(74, 74), (76, 76)],
            r"empty reply|network read error",
            UNCERTAIN,
        ),
        row(
            "not connected",
            &[(75, 75)],
            r"cannot connect",
            safe(proof::always),
        ),
        row(
            "no such host",
            &[(68, 68)],
            r"cannot locate host",
            safe(proof::always),
        ),
        row(
            "no greeting",
            &[(76, 76)],
            r"initial OK",
            safe(proof::always),
        ),
        row(
            "refused for now",
            &[(69, 69)],
            r"not accepted|did not accept",
            safe(proof::always),
        ),
        code("refused", &[(64, 65), (77, 77)], PERMANENT),
    ],
    ..TOOL
};

pub static SENDMAIL: Tool = Tool {
    name: "sendmail",
    commands: &["sendmail"],
    rows: &[code("the message is queued", &[(75, 75)], UNCERTAIN)],
    ..TOOL
};

pub static SYSTEMCTL: Tool = Tool {
    name: "systemctl",
    commands: &["systemctl"],
    subcommands: &["is-active", "is-enabled", "is-failed", "status"],
    unmatched: Unmatched::Default,
    rows: &[code(
        "inactive, or there is no such unit",
        &[(3, 4)],
        PERMANENT,
    )],
    ..TOOL
};

pub static MAKE: Tool = Tool {
    name: "make",
    commands: &["make", "gmake"],
    unmatched: Unmatched::Default,
    rows: &[row(
        "a recipe failed",
        &[(2, 2)],
        r"\*\*\* \[.*\] Error \d+",
        UNCERTAIN,
    )],
    ..TOOL
};

/// Also what counts when `timeout` runs any other command.
pub static TIMEOUT: Tool = Tool {
    name: "timeout",
    commands: &[],
    unmatched: Unmatched::Default,
    rows: &[
        code("it ended the command", &[(124, 124), (137, 137)], UNCERTAIN),
        code("wrong usage of timeout", &[(125, 125)], PERMANENT),
    ],
    ..TOOL
};

/// A script in a file.
pub static BASH: Tool = Tool {
    name: "bash",
    commands: &["bash", "sh", "dash", "ksh", "zsh"],
    unmatched: Unmatched::Default,
    rows: &[
        row("a syntax error", &[(2, 2)], r"(?i)syntax error", PERMANENT),
        code("a signal ended a command in it", &[(129, 192)], UNCERTAIN),
    ],
    ..TOOL
};

/// The codes of `<sysexits.h>`, for a command that keeps to them; only when named.
pub static SYSEXITS: Tool = Tool {
    name: "sysexits",
    commands: &[],
    rows: &[
        code(
            "an error that a repetition does not mend",
            &[(64, 68), (70, 73), (77, 78)],
            PERMANENT,
        ),
        code("an error that may pass", &[(69, 69), (74, 76)], UNCERTAIN),
    ],
    ..TOOL
};
