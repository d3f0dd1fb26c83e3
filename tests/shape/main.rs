//! The shape of the code: what may import what, and that the README's map is the tree.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below a directory, with its text.
fn sources(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found
}

/// A file of tests, or the part of a file before its tests.
fn without_tests<'t>(path: &Path, text: &'t str) -> &'t str {
    let is_tests = path
        .components()
        .any(|part| part.as_os_str().to_string_lossy().contains("tests"));
    if is_tests {
        return "";
    }
    text.split("#[cfg(test)]").next().unwrap_or("")
}

/// Fails for each place below `src/<layer>` that names one of these.
fn must_not_name(layer: &str, words: &[&str]) {
    let mut found = Vec::new();
    let files = sources(&root().join("src").join(layer));
    assert!(!files.is_empty(), "there is no src/{layer}");
    for (path, text) in &files {
        for (n, line) in without_tests(path, text).lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            let named = words.iter().find(|word| code.contains(**word));
            found.extend(named.map(|word| format!("{}:{}: {word}", path.display(), n + 1)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What reads a clock, the system, chance or a database. The traits of `std::io` and the numbers of
/// `libc` do nothing by themselves.
const IMPURE: [&str; 9] = [
    "std::fs",
    "std::env",
    "std::net",
    "std::process",
    "std::thread",
    "Instant::now",
    "SystemTime",
    "rand::",
    "rusqlite",
];

const ADAPTERS: [&str; 4] = [
    "crate::process",
    "crate::store",
    "crate::cli",
    "crate::commands",
];

#[test]
fn the_domain_is_pure_and_knows_nobody() {
    must_not_name("domain", &IMPURE);
    must_not_name("domain", &ADAPTERS);
    must_not_name("domain", &["crate::engine", "crate::policy"]);
}

#[test]
fn the_policies_are_pure_and_know_the_domain_alone() {
    must_not_name("policy", &IMPURE);
    must_not_name("policy", &ADAPTERS);
    must_not_name("policy", &["crate::engine"]);
}

#[test]
fn the_engine_knows_no_adapter() {
    must_not_name("engine", &ADAPTERS);
    must_not_name("engine", &["rusqlite", "SystemTime", "Instant::now"]);
}

#[test]
fn adapters_know_neither_commands_nor_what_was_typed() {
    for layer in ["process", "store"] {
        must_not_name(layer, &["crate::commands", "crate::cli"]);
    }
}

/// The names in the README's map: everything that is indented below `src/`, and the top level.
fn map() -> (Vec<String>, Vec<String>) {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let section = readme.split("## The code").nth(1).unwrap();
    let block = section.split("```").nth(1).unwrap();
    let name = |line: &str| line.split_whitespace().next().unwrap_or("").to_owned();
    let (below, top): (Vec<&str>, Vec<&str>) = block
        .lines()
        .filter(|line| !line.trim().is_empty())
        // A line that goes on from the one above begins further in.
        .filter(|line| !line.starts_with("   "))
        .partition(|line| line.starts_with("  "));
    (
        below.into_iter().map(name).collect(),
        top.into_iter().map(name).collect(),
    )
}

#[test]
fn the_map_in_the_readme_is_the_tree() {
    let (below, top) = map();
    let mut there: Vec<String> = fs::read_dir(root().join("src"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() { name + "/" } else { name }
        })
        .filter(|name| name != "lib.rs")
        .collect();
    there.sort();
    let mut told = below;
    told.sort();
    assert_eq!(told, there);
    for directory in top {
        assert!(
            root().join(&directory).is_dir(),
            "the README's map names {directory}"
        );
    }
}

/// A file that is longer has more than one subject.
const MOST_LINES: usize = 610;

#[test]
fn no_file_is_long() {
    let mut long = Vec::new();
    for directory in ["src", "tests", "benches"] {
        for (path, text) in sources(&root().join(directory)) {
            let lines = text.lines().count();
            if lines > MOST_LINES {
                long.push(format!("{}: {lines} lines", path.display()));
            }
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}
