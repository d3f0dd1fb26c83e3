//! Clouds, clusters and what is deployed to them.

use super::super::proof;
use super::super::{Says, Tool};
use super::{FAILED, PERMANENT, TOOL, UNCERTAIN, code, row, safe, throttled};

pub static AWS: Tool = Tool {
    name: "aws",
    commands: &["aws"],
    rows: &[
        row(
            "the answer was lost",
            &[(255, 255)],
            r"Read timeout|Connection was closed before",
            UNCERTAIN,
        ),
        row(
            "not connected",
            &[(255, 255)],
            r"Could not connect|Connect timeout",
            safe(proof::aws),
        ),
        row(
            "the service throttles",
            &[(254, 255)],
            r"An error occurred \((Throttl|TooManyRequests|RequestLimitExceeded|SlowDown|ProvisionedThroughput)",
            throttled(proof::aws),
        ),
        row(
            "an error of the service",
            &[(254, 255)],
            r"An error occurred \((Internal|ServiceUnavailable|RequestTimeout|5)",
            UNCERTAIN,
        ),
        row(
            "the service refused",
            &[(254, 255)],
            r"An error occurred \(",
            PERMANENT,
        ),
        code(
            "wrong usage or configuration",
            &[(252, 253), (2, 2)],
            PERMANENT,
        ),
    ],
    ..TOOL
};

pub static GCLOUD: Tool = Tool {
    name: "gcloud",
    commands: &["gcloud"],
    rows: &[
        // It tries five times, so that a refusal says nothing about the tries before.
        row(
            "not connected, or the answer was lost",
            &[(1, 1)],
            r"NewConnectionError|Connection aborted",
            UNCERTAIN,
        ),
        row("no account", &[(1, 1)], r"active account", PERMANENT),
        row("wrong usage", &[(2, 2)], r"Invalid choice", PERMANENT),
    ],
    ..TOOL
};

pub static KUBECTL: Tool = Tool {
    name: "kubectl",
    commands: &["kubectl"],
    rows: &[
        row(
            "it had printed a result before",
            FAILED,
            r"\S",
            Says::Repeats,
        )
        .on_stdout(),
        row(
            "the answer was lost",
            &[(1, 1)],
            r"Unable to connect to the server: (EOF|read tcp|context deadline)",
            UNCERTAIN,
        ),
        row(
            "not connected",
            &[(1, 1)],
            r"^(The connection to the server .* was refused|Unable to connect to the server: .*(no such host|dial tcp))",
            safe(proof::kubectl),
        ),
        row(
            "the server throttles",
            &[(1, 1)],
            r"\(TooManyRequests\)",
            throttled(proof::kubectl),
        ),
        row(
            "an error of the server",
            &[(1, 1)],
            r"InternalError|ServiceUnavailable|\(Timeout\)",
            UNCERTAIN,
        ),
        row(
            "the server refused",
            &[(1, 1)],
            r"Forbidden|NotFound|AlreadyExists",
            PERMANENT,
        ),
    ],
    ..TOOL
};

pub static HELM: Tool = Tool {
    name: "helm",
    commands: &["helm"],
    rows: &[row(
        "another operation is in progress",
        &[(1, 1)],
        r"another operation .* in progress",
        safe(proof::always),
    )],
    ..TOOL
};

pub static TERRAFORM: Tool = Tool {
    name: "terraform",
    commands: &["terraform", "tofu"],
    rows: &[
        row(
            "it had begun to change something",
            FAILED,
            r": (Creating|Modifying|Destroying)\.\.\.",
            Says::Repeats,
        )
        .on_stdout(),
        row(
            "halted in the middle",
            &[(1, 1)],
            r"execution halted",
            UNCERTAIN,
        ),
        row(
            "the state is locked",
            &[(1, 1)],
            r"Error acquiring the state lock",
            safe(proof::always),
        ),
        code(
            "the plan has changes",
            &[(2, 2)],
            Says::Fine(proof::terraform_plan),
        ),
        code("it was killed", &[(137, 137)], UNCERTAIN),
    ],
    ..TOOL
};

pub static DOCKER_PUSH: Tool = Tool {
    name: "docker-push",
    commands: &["docker"],
    subcommands: &["push"],
    valued: &[
        "-c",
        "--context",
        "-H",
        "--host",
        "--config",
        "-l",
        "--log-level",
    ],
    rows: &[
        row(
            "the answer was lost",
            &[(1, 1)],
            r"error during connect",
            UNCERTAIN,
        ),
        row(
            "no daemon",
            &[(1, 1)],
            r"Cannot connect to the Docker daemon",
            safe(proof::always),
        ),
        row(
            "the registry throttles",
            &[(1, 1)],
            r"toomanyrequests",
            throttled(proof::always),
        ),
        row(
            "the registry refused",
            &[(1, 1)],
            r"denied|unauthorized",
            PERMANENT,
        ),
    ],
    ..TOOL
};

pub static DOCKER_RUN: Tool = Tool {
    name: "docker-run",
    commands: &["docker"],
    subcommands: &["run"],
    valued: DOCKER_PUSH.valued,
    rows: &[
        row(
            "the answer was lost",
            &[(125, 125)],
            r"error during connect",
            UNCERTAIN,
        ),
        row(
            "no daemon",
            &[(125, 125)],
            r"Cannot connect to the Docker daemon",
            // What runs in the container may say the same.
            safe(proof::named),
        ),
    ],
    ..TOOL
};

pub static ANSIBLE: Tool = Tool {
    name: "ansible-playbook",
    commands: &["ansible-playbook"],
    rows: &[
        row(
            "some task had run before",
            &[(4, 4)],
            r"\bok=[1-9]|\bchanged=[1-9]",
            Says::Repeats,
        )
        .on_stdout(),
        row("a task failed", &[(2, 2)], r"\bfailed=[1-9]", UNCERTAIN).on_stdout(),
        row(
            "no host was reached",
            &[(4, 4)],
            r"\bok=0 .*\bunreachable=[1-9]",
            safe(proof::always),
        )
        .on_stdout(),
        row(
            "a file is not readable",
            &[(4, 4)],
            r"unable to read",
            PERMANENT,
        )
        .on_either(),
    ],
    ..TOOL
};
