//! The programs that a test server consists of. Where one is missing a developer's run leaves the tests
//! out and says so; continuous integration must not.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A program's name, or the pattern of its path, and the Debian package that has it; one a line. The
/// script that runs all tests installs them.
const PACKAGES: &str = include_str!("packages");

/// Whether all of them are there.
pub fn present() -> bool {
    let missing: Vec<&str> = entries()
        .filter(|(place, _)| find(place).is_none())
        .map(|(_, package)| package)
        .collect();
    if missing.is_empty() {
        return true;
    }
    let message = format!(
        "left out for want of a test server; install {}",
        missing.join(" ")
    );
    assert!(
        std::env::var_os("CI").is_none_or(|ci| ci != "true"),
        "{message}"
    );
    // What a passing test prints is only shown when it goes around the test harness.
    let _ = writeln!(std::io::stderr(), "{message}");
    false
}

/// The path of one of them.
pub fn path(program: &str) -> PathBuf {
    let place = entries()
        .map(|(place, _)| place)
        .find(|place| place.rsplit('/').next() == Some(program));
    let place = place.unwrap_or_else(|| panic!("{program} is not in the list of packages"));
    find(place).unwrap_or_else(|| panic!("{program} is not there"))
}

fn entries() -> impl Iterator<Item = (&'static str, &'static str)> {
    PACKAGES.lines().filter_map(|line| line.split_once(':'))
}

fn find(place: &str) -> Option<PathBuf> {
    if let Some((before, after)) = place.split_once('*') {
        let mut versions: Vec<PathBuf> = Path::new(before)
            .read_dir()
            .ok()?
            .flatten()
            .map(|e| e.path())
            .collect();
        versions.sort();
        let inside = |version: PathBuf| version.join(after.trim_start_matches('/'));
        return versions
            .into_iter()
            .rev()
            .map(inside)
            .find(|path| path.exists());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut places = std::env::split_paths(&path).chain(usual);
    places.find_map(|directory| Some(directory.join(place)).filter(|file| file.is_file()))
}

/// Whether this process is root, which a server refuses to be.
pub fn is_root() -> bool {
    Path::new("/proc/self").metadata().unwrap().uid() == 0
}
