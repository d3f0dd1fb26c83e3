//! What the table calls verified is what the tests run.

use std::collections::BTreeSet;

use idem::policy::classify::TOOLS;

/// The tools with their tests, and the rows that these prove.
const PROVED: &[(&str, &[(&str, &[&str])])] = &[
    crate::curl::PROVED,
    crate::python::PROVED,
    crate::wget::PROVED,
];

#[test]
fn a_row_is_marked_as_verified_when_a_test_proves_it() {
    let proved: BTreeSet<(&str, &str)> = PROVED
        .iter()
        .flat_map(|(tool, tests)| {
            let rows = tests.iter().flat_map(|(_, rows)| rows.iter());
            rows.map(|row| (*tool, *row))
        })
        .collect();
    let marked = TOOLS.iter().flat_map(|tool| {
        let rows = tool.rows.iter().filter(|row| row.verified);
        rows.map(|row| (tool.name, row.condition))
    });
    assert_eq!(marked.collect::<BTreeSet<_>>(), proved);
}
