//! The variables that a child learns from, and what a call learns from its own.

use crate::domain::name::{Generation, Nonce, OpName};
use crate::domain::owner::ProcessRef;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The operation, for people: the key, behind its scope and a slash where it has one.
pub const OPERATION: &str = "IDEM_OPERATION";
/// The token for an `Idempotency-Key` header.
pub const TOKEN: &str = "IDEM_TOKEN";
/// The fencing token.
pub const GENERATION: &str = "IDEM_GENERATION";
/// The attempt's number in this generation, from 1.
pub const ATTEMPT: &str = "IDEM_ATTEMPT";
/// When the call must be over, in Unix milliseconds.
pub const DEADLINE: &str = "IDEM_DEADLINE";
/// The claims that a process runs under, outermost first.
pub const ANCESTRY: &str = "IDEM_ANCESTRY";
/// The file in which a child may say how it ended.
pub const CONTROL: &str = "IDEM_CONTROL";
/// Why an outcome is unknown, for the command that is told of it.
pub const REASON: &str = "IDEM_REASON";
/// The key of a call: meant for one call only, so children do not see it.
pub const KEY: &str = "IDEM_KEY";

/// One claim that a process runs under, and the process that keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ancestor {
    /// The claim's nonce.
    pub nonce: Nonce,
    /// The keeper.
    pub keeper: ProcessRef,
}

/// Reads `IDEM_ANCESTRY`. What cannot be read is left out: the variable is anyone's to set.
pub fn parse_ancestry(value: &OsStr) -> Vec<Ancestor> {
    let Some(text) = value.to_str() else {
        return Vec::new();
    };
    text.split(',').filter_map(parse_ancestor).collect()
}

fn parse_ancestor(text: &str) -> Option<Ancestor> {
    let mut fields = text.split(':');
    let nonce = Nonce::from_hex(fields.next()?)?;
    let pid = fields.next()?.parse().ok()?;
    let start_ticks = fields.next()?.parse().ok()?;
    fields.next().is_none().then_some(Ancestor {
        nonce,
        keeper: ProcessRef { pid, start_ticks },
    })
}

/// Writes what [`parse_ancestry`] reads.
pub fn format_ancestry(ancestors: &[Ancestor]) -> String {
    let entries: Vec<String> = ancestors
        .iter()
        .map(|a| {
            format!(
                "{}:{}:{}",
                a.nonce.hex(),
                a.keeper.pid,
                a.keeper.start_ticks
            )
        })
        .collect();
    entries.join(",")
}

/// What an attempt, a probe or a cleanup is told about the claim that it runs under.
#[derive(Debug, Clone)]
pub struct ChildContext<'a> {
    /// The operation.
    pub name: &'a OpName,
    /// The record's token.
    pub token: &'a str,
    /// The claim's generation.
    pub generation: Generation,
    /// The number of the attempt that runs, or after which a probe or cleanup runs.
    pub attempt: u32,
    /// The handed-down deadline in Unix milliseconds.
    pub deadline_unix_ms: Option<i64>,
    /// The claims above this one, and this one last.
    pub ancestry: &'a [Ancestor],
}

/// The caller's environment with this claim's variables in place of any earlier ones. `control` is the
/// file for `IDEM_CONTROL`; a probe or a cleanup has none.
pub fn child_environment(
    base: impl Iterator<Item = (OsString, OsString)>,
    context: &ChildContext<'_>,
    control: Option<&Path>,
) -> Vec<(OsString, OsString)> {
    let mut all = without_ours(base);
    let mut set = |name: &str, value: OsString| all.push((name.into(), value));
    set(OPERATION, operation_text(context.name).into());
    set(TOKEN, context.token.into());
    set(GENERATION, context.generation.to_string().into());
    set(ATTEMPT, context.attempt.to_string().into());
    set(ANCESTRY, format_ancestry(context.ancestry).into());
    if let Some(deadline) = context.deadline_unix_ms {
        set(DEADLINE, deadline.to_string().into());
    }
    if let Some(control) = control {
        set(CONTROL, control.into());
    }
    all
}

/// The caller's environment for a command that is told of an unknown outcome. It runs under no claim.
pub fn notice_environment(
    base: impl Iterator<Item = (OsString, OsString)>,
    name: &OpName,
    generation: Generation,
    reason: &str,
) -> Vec<(OsString, OsString)> {
    let mut all = without_ours(base);
    let mut set = |name: &str, value: String| all.push((name.into(), value.into()));
    set(OPERATION, operation_text(name));
    set(GENERATION, generation.to_string());
    set(REASON, reason.replace('\0', " "));
    all
}

fn without_ours(base: impl Iterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
    const OURS: [&str; 9] = [
        OPERATION, TOKEN, GENERATION, ATTEMPT, DEADLINE, ANCESTRY, CONTROL, KEY, REASON,
    ];
    base.filter(|(name, _)| !OURS.iter().any(|own| name == own))
        .collect()
}

fn operation_text(name: &OpName) -> String {
    match name.scope.as_str() {
        "" => name.key.to_string(),
        scope => format!("{scope}/{}", name.key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::name::{Key, Scope};

    #[test]
    fn ancestry_is_read_back_and_junk_is_left_out() {
        let ancestors = [
            Ancestor {
                nonce: Nonce([7; 16]),
                keeper: ProcessRef {
                    pid: 42,
                    start_ticks: 99,
                },
            },
            Ancestor {
                nonce: Nonce([8; 16]),
                keeper: ProcessRef {
                    pid: 43,
                    start_ticks: 100,
                },
            },
        ];
        let text = format_ancestry(&ancestors);
        assert_eq!(parse_ancestry(OsStr::new(&text)), ancestors);
        assert_eq!(parse_ancestry(OsStr::new("")), []);
        assert_eq!(
            parse_ancestry(OsStr::new(&format!("x:1:2,{text},::,1"))),
            ancestors
        );
    }

    #[test]
    fn the_callers_variables_stay_and_ours_are_replaced() {
        let base = [
            ("PATH", "/bin"),
            ("IDEM_KEY", "k"),
            ("IDEM_TOKEN", "old"),
            ("IDEM_SOURCE", "cron"),
        ];
        let name = OpName {
            scope: Scope::default(),
            key: Key::new("k").unwrap(),
        };
        let context = ChildContext {
            name: &name,
            token: "new",
            generation: Generation(3),
            attempt: 2,
            deadline_unix_ms: None,
            ancestry: &[],
        };
        let all = child_environment(
            base.into_iter().map(|(a, b)| (a.into(), b.into())),
            &context,
            None,
        );
        let get = |name: &str| {
            all.iter()
                .filter(|(n, _)| n == name)
                .map(|(_, v)| v.to_str().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(get("PATH"), ["/bin"]);
        assert_eq!(get("IDEM_SOURCE"), ["cron"]);
        assert_eq!(get("IDEM_TOKEN"), ["new"]);
        assert_eq!(get("IDEM_ATTEMPT"), ["2"]);
        assert!(
            get("IDEM_KEY").is_empty()
                && get("IDEM_DEADLINE").is_empty()
                && get("IDEM_CONTROL").is_empty()
        );
    }
}
