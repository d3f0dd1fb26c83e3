//! The tools that the tests run, and what happens where one is missing.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A tool's name or the pattern of its path, and the Debian package that has it; one a line. The
/// script that runs all tests installs them.
const PACKAGES: &str = include_str!("packages");

/// Whether everything is there. Where it is not, a developer's run leaves the test out, and says so;
/// continuous integration must not.
pub fn met(test: &str, tools: &[&str]) -> bool {
    let missing: Vec<&str> = tools
        .iter()
        .copied()
        .filter(|tool| find(tool).is_none())
        .collect();
    if missing.is_empty() {
        return true;
    }
    let packages: BTreeSet<&str> = missing.iter().map(|tool| package(tool)).collect();
    let packages: Vec<&str> = packages.into_iter().collect();
    let message = format!(
        "{test}: left out for want of {}; install {}",
        missing.join(", "),
        packages.join(" ")
    );
    assert!(
        std::env::var_os("CI").is_none_or(|ci| ci != "true"),
        "{message}"
    );
    // What a passing test prints is only shown when it goes around the test harness.
    let _ = writeln!(std::io::stderr(), "{message}");
    false
}

/// The path of a tool that is listed as needed.
pub fn path(tool: &str) -> PathBuf {
    find(tool).unwrap_or_else(|| panic!("{tool} was not asked for"))
}

fn entry(tool: &str) -> (&'static str, &'static str) {
    let mut entries = PACKAGES.lines().filter_map(|line| line.split_once(':'));
    let listed = entries.find(|(place, _)| place.rsplit('/').next() == Some(tool));
    listed.unwrap_or_else(|| panic!("{tool} is not in the list of packages"))
}

fn package(tool: &str) -> &'static str {
    entry(tool).1
}

fn find(tool: &str) -> Option<PathBuf> {
    let place = entry(tool).0;
    if place.contains('/') {
        return expand(Path::new("/"), place.trim_start_matches('/'));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut places = std::env::split_paths(&path).chain(usual);
    places.find_map(|dir| Some(dir.join(place)).filter(|file| file.is_file()))
}

/// The last path, by name, that fits a pattern in which `*` stands for any name.
fn expand(dir: &Path, pattern: &str) -> Option<PathBuf> {
    let (first, rest) = pattern.split_once('/').unwrap_or((pattern, ""));
    let mut names = vec![dir.join(first)];
    if first == "*" {
        names = dir.read_dir().ok()?.flatten().map(|e| e.path()).collect();
        names.sort();
    }
    let inside = |path: PathBuf| match rest {
        "" => Some(path).filter(|p| p.exists()),
        _ => expand(&path, rest),
    };
    names.into_iter().rev().find_map(inside)
}

/// Whether the tests run as root, as they do in a container.
pub fn is_root() -> bool {
    Path::new("/proc/self").metadata().unwrap().uid() == 0
}
