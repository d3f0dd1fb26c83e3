//! The table: every tool with its rows, by what they are used for.

mod cloud;
mod data;
mod local;
mod packages;
mod web;

use super::proof::always;
use super::{On, Proof, Row, Says, Tool, Unmatched};
use crate::domain::outcome::Class;

/// Every tool. The first one that fits a command line counts.
pub static TOOLS: &[&Tool] = &[
    &web::CURL,
    &web::WGET,
    &web::HTTPIE,
    &web::PYTHON,
    &web::SSH,
    &web::SCP,
    &web::RSYNC,
    &web::GIT,
    &data::PSQL,
    &data::MYSQL,
    &data::REDIS,
    &data::RESTIC,
    &data::BORG,
    &data::RCLONE,
    &cloud::AWS,
    &cloud::GCLOUD,
    &cloud::KUBECTL,
    &cloud::HELM,
    &cloud::TERRAFORM,
    &cloud::DOCKER_PUSH,
    &cloud::DOCKER_RUN,
    &cloud::ANSIBLE,
    &packages::NPM,
    &packages::TWINE,
    &packages::PIP,
    &packages::CARGO,
    &packages::APT,
    &packages::GH,
    &local::MSMTP,
    &local::SENDMAIL,
    &local::SYSTEMCTL,
    &local::MAKE,
    &local::TIMEOUT,
    &local::BASH,
    &local::SYSEXITS,
];

/// A tool without subcommands, whose silence tells nothing.
const TOOL: Tool = Tool {
    name: "",
    commands: &[],
    subcommands: &[],
    valued: &[],
    rows: &[],
    unmatched: Unmatched::Uncertain,
    warning: super::proof::no_warning,
};

type Exits = &'static [(u8, u8)];

/// Any code but 0.
const FAILED: Exits = &[(1, 255)];

/// A row of a message on stderr; rows that the tests provoke from the real tool are marked with
/// [`Row::seen`].
const fn row(condition: &'static str, exits: Exits, pattern: &'static str, says: Says) -> Row {
    Row {
        condition,
        exits,
        on: On::Stderr,
        pattern: Some(pattern),
        says,
        verified: false,
    }
}

/// A row of an exit code alone.
const fn code(condition: &'static str, exits: Exits, says: Says) -> Row {
    Row {
        condition,
        exits,
        on: On::Stderr,
        pattern: None,
        says,
        verified: false,
    }
}

impl Row {
    /// A test runs the real tool into it.
    const fn seen(mut self) -> Row {
        self.verified = true;
        self
    }

    /// The message stands on stdout.
    const fn on_stdout(mut self) -> Row {
        self.on = On::Stdout;
        self
    }

    /// The message stands on either stream.
    const fn on_either(mut self) -> Row {
        self.on = On::Either;
        self
    }
}

/// Nothing happened, if the proof holds.
const fn safe(proof: Proof) -> Says {
    Says::Class(Class::Safe, proof)
}

/// Nothing happened and the other side asks to wait, if the proof holds.
const fn throttled(proof: Proof) -> Says {
    Says::Class(Class::Throttled, proof)
}

/// It ran to its end and said no.
const PERMANENT: Says = Says::Class(Class::Permanent, always);

/// It may have happened.
const UNCERTAIN: Says = Says::Class(Class::Uncertain, always);
