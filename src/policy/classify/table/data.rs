//! Databases and backups.

use super::super::proof;
use super::super::{Says, Tool};
use super::{FAILED, PERMANENT, TOOL, UNCERTAIN, code, row, safe};
use crate::domain::outcome::Class;

pub static PSQL: Tool = Tool {
    name: "psql",
    commands: &["psql", "pg_dump"],
    warning: proof::psql_warning,
    rows: &[
        row(
            "no session",
            &[(1, 2)],
            r"^(psql|pg_dump): error: (connection to server .*(refused|timeout expired|reset|too many clients)|could not translate host)",
            safe(proof::one_session),
        )
        .seen(),
        row("no such database or role", &[(1, 2)], r"FATAL: +(database|role)", PERMANENT).seen(),
        row(
            "the session was lost",
            &[(1, 3)],
            r"connection to server was lost|^FATAL: +terminating|closed the connection unexpectedly",
            UNCERTAIN,
        )
        .seen(),
        row("an error in its one command", &[(1, 1)], r"(^|: )ERROR:", Says::Class(Class::Permanent, proof::one_command)).seen(),
        row("an error in the middle of a script", &[(3, 3)], r"(^|: )ERROR:", UNCERTAIN).seen(),
    ],
    ..TOOL
};

pub static MYSQL: Tool = Tool {
    name: "mysql",
    commands: &["mysql", "mariadb"],
    rows: &[
        row(
            "it connected again",
            FAILED,
            r"Trying to reconnect",
            Says::Repeats,
        ),
        row(
            "the session was lost",
            &[(1, 1)],
            r"^ERROR 2013 .*during query",
            UNCERTAIN,
        ),
        row(
            "no session",
            &[(1, 1)],
            r"^ERROR (200[235] \(HY000\): |2013 .*'handshake: |1040 \(.*\): )",
            safe(proof::always),
        ),
        row(
            "refused by the server",
            &[(1, 1)],
            r"^ERROR (1045|1049|1064|1062) ",
            PERMANENT,
        ),
    ],
    ..TOOL
};

pub static REDIS: Tool = Tool {
    name: "redis-cli",
    commands: &["redis-cli"],
    rows: &[
        row(
            "the session was lost",
            &[(1, 1)],
            r"Error: (Connection reset|Server closed)",
            UNCERTAIN,
        )
        .on_either()
        .seen(),
        row(
            "not connected",
            &[(1, 1)],
            r"Could not connect",
            safe(proof::always),
        )
        .on_either()
        .seen(),
        row(
            "an error reply",
            &[(0, 1)],
            r"^(\(error\) )?(ERR|WRONGTYPE|NOAUTH|OOM)\b",
            PERMANENT,
        )
        .on_either()
        .seen(),
    ],
    ..TOOL
};

pub static RESTIC: Tool = Tool {
    name: "restic",
    commands: &["restic"],
    rows: &[
        row(
            "the repository is locked",
            &[(11, 11), (1, 1)],
            r"already locked",
            safe(proof::always),
        ),
        code(
            "there is no repository, or its password is wrong",
            &[(10, 10), (12, 12)],
            PERMANENT,
        ),
    ],
    ..TOOL
};

pub static BORG: Tool = Tool {
    name: "borg",
    commands: &["borg"],
    rows: &[
        row(
            "the repository is locked",
            &[(2, 2)],
            r"create/acquire the lock",
            safe(proof::always),
        ),
        code(
            "it ended with warnings",
            &[(1, 1)],
            Says::Fine(proof::always),
        ),
    ],
    ..TOOL
};

pub static RCLONE: Tool = Tool {
    name: "rclone",
    commands: &["rclone"],
    rows: &[
        code("the source is missing", &[(3, 3)], PERMANENT),
        code(
            "nothing was to be transferred",
            &[(9, 9)],
            Says::Fine(proof::always),
        ),
        code("wrong usage", &[(2, 2)], PERMANENT),
        row(
            "an unknown option or command",
            &[(1, 1)],
            r"unknown (flag|shorthand flag|command)",
            PERMANENT,
        ),
        row(
            "not connected",
            &[(1, 1)],
            r"connection refused|no such host",
            safe(proof::named),
        ),
        code("some files may have been transferred", &[(1, 1)], UNCERTAIN),
    ],
    ..TOOL
};
