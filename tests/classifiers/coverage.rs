//! What the table calls verified is what the tests run.

use std::collections::BTreeSet;

use idem::policy::classify::TOOLS;

/// What the tests of one tool prove.
pub struct Proved {
    pub tool: &'static str,
    /// The conditions of the rows that each test has to show, or fails.
    pub rows: &'static [&'static [&'static str]],
}

const PROVED: &[Proved] = &[
    crate::curl::PROVED,
    crate::git::PROVED,
    crate::npm::PROVED,
    crate::pip::PROVED,
    crate::psql::PROVED,
    crate::python::PROVED,
    crate::redis::PROVED,
    crate::rsync::PROVED,
    crate::ssh::PROVED,
    crate::wget::PROVED,
];

#[test]
fn a_row_is_marked_as_verified_when_a_test_proves_it() {
    let proved: BTreeSet<(&str, &str)> = PROVED
        .iter()
        .flat_map(|of| {
            of.rows
                .iter()
                .flat_map(|rows| rows.iter().map(|row| (of.tool, *row)))
        })
        .collect();
    let marked = TOOLS.iter().flat_map(|tool| {
        let rows = tool.rows.iter().filter(|row| row.verified);
        rows.map(|row| (tool.name, row.condition))
    });
    assert_eq!(marked.collect::<BTreeSet<_>>(), proved);
}
