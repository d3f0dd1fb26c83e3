//! Package managers, registries and forges.

use super::super::proof;
use super::super::{Says, Tool};
use super::{FAILED, PERMANENT, TOOL, UNCERTAIN, row, safe};

pub static NPM: Tool = Tool {
    name: "npm",
    commands: &["npm"],
    subcommands: &["publish"],
    valued: &[
        "--prefix",
        "--registry",
        "--userconfig",
        "-C",
        "-w",
        "--workspace",
    ],
    rows: &[
        // Scripts that run after the upload can fail in any words, those of npm included.
        row(
            "a script of the package failed",
            FAILED,
            r"^npm (error|ERR!) command (failed|sh)",
            UNCERTAIN,
        )
        .seen(),
        row(
            "the answer was lost",
            &[(1, 1)],
            r"^npm (error|ERR!) code (ECONNRESET|FETCH_ERROR)",
            UNCERTAIN,
        )
        .seen(),
        row(
            "not connected",
            &[(1, 1)],
            r"^npm (error|ERR!) code ECONNREFUSED",
            safe(proof::npm),
        )
        .seen(),
        row(
            "an HTTP error",
            &[(1, 1)],
            r"^npm (?:error|ERR!) code E(\d{3})$",
            Says::Http(proof::npm),
        )
        .seen(),
        row(
            "no login, or no package to publish",
            &[(1, 1), (254, 254)],
            r"^npm (error|ERR!) code (ENEEDAUTH|EOTP|EPRIVATE|EJSONPARSE|ENOENT)",
            PERMANENT,
        )
        .seen(),
        row(
            "another error",
            &[(1, 1)],
            r"^npm (error|ERR!) code ",
            UNCERTAIN,
        )
        .seen(),
    ],
    ..TOOL
};

pub static TWINE: Tool = Tool {
    name: "twine",
    commands: &["twine"],
    subcommands: &["upload"],
    rows: &[
        // It tries five times on its own, and uploads one file after the other.
        row(
            "not connected, or the answer was lost",
            &[(1, 1)],
            r"NewConnectionError|Connection aborted",
            UNCERTAIN,
        )
        .on_either(),
        row(
            "an HTTP error",
            &[(1, 1)],
            r"HTTPError: (\d{3})",
            Says::Http(proof::named),
        )
        .on_either(),
    ],
    ..TOOL
};

pub static PIP: Tool = Tool {
    name: "pip",
    commands: &["pip"],
    subcommands: &["install"],
    rows: &[
        // The same last line follows a refused connection, a reset, a 503 and a 404.
        row(
            "no package was found, or none was reached",
            &[(1, 1)],
            r"No matching distribution",
            UNCERTAIN,
        )
        .seen(),
    ],
    ..TOOL
};

pub static CARGO: Tool = Tool {
    name: "cargo",
    commands: &["cargo"],
    subcommands: &["publish"],
    valued: &["--config", "-Z", "-C", "--color"],
    rows: &[
        // It looks at the index again, to see what it has uploaded.
        row(
            "it had uploaded a package",
            FAILED,
            r"^ *Uploaded ",
            Says::Repeats,
        ),
        row(
            "the index was not reached",
            &[(101, 101)],
            r"download of config\.json",
            safe(proof::always),
        ),
        row(
            "the answer was lost",
            &[(101, 101)],
            r"\[(28|52|56)\]",
            UNCERTAIN,
        ),
        row(
            "an HTTP error",
            &[(101, 101)],
            r"\(status (\d{3})",
            Says::Http(proof::always),
        ),
    ],
    ..TOOL
};

pub static APT: Tool = Tool {
    name: "apt-get",
    commands: &["apt-get", "apt"],
    rows: &[
        row(
            "a script of a package failed",
            &[(100, 100)],
            r"Sub-process .* returned an error",
            UNCERTAIN,
        ),
        row(
            "the lock is held",
            &[(100, 100)],
            r"Could not get lock",
            safe(proof::always),
        ),
        row(
            "there is no such package",
            &[(100, 100)],
            r"Unable to locate",
            PERMANENT,
        ),
    ],
    ..TOOL
};

pub static GH: Tool = Tool {
    name: "gh",
    commands: &["gh"],
    rows: &[
        row("it retried", FAILED, r"(?i)retrying", Says::Repeats),
        row(
            "the answer was lost",
            &[(1, 1)],
            r"read tcp|: EOF",
            UNCERTAIN,
        ),
        row(
            "not connected",
            &[(1, 1)],
            r"dial tcp|error connecting",
            safe(proof::gh),
        ),
        row(
            "an HTTP error",
            &[(1, 1)],
            r"\(HTTP (\d{3})\)",
            Says::Http(proof::gh),
        ),
        super::code("not logged in", &[(4, 4)], PERMANENT),
    ],
    ..TOOL
};
