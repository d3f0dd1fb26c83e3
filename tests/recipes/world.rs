//! A home of its own, with `idem` and stand-ins for other programs first on the path.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::command::Cmd;
use crate::env::{IDEM, TestEnv};
use crate::readme::recipe;

/// Where the system's own Python is; the first one on a path may be a wrapper that needs its owner's home.
const PYTHON: &str = "/usr/bin/python3";

/// One recipe's world.
pub struct World {
    pub t: TestEnv,
}

impl World {
    pub fn new() -> World {
        let w = World { t: TestEnv::new() };
        fs::create_dir(w.bin()).expect("a directory for programs");
        symlink(IDEM, w.bin().join("idem")).expect("idem on the path");
        if Path::new(PYTHON).exists() {
            symlink(PYTHON, w.bin().join("python3")).expect("python3 on the path");
        }
        w
    }

    /// Where the programs are.
    pub fn bin(&self) -> PathBuf {
        self.t.root().join("bin")
    }

    /// A stand-in for a program.
    #[track_caller]
    pub fn tool(&self, name: &str, script: &str) {
        let path = format!("../bin/{name}");
        self.t.script(&path, format!("#!/bin/sh\n{script}\n"));
    }

    /// A directory that only its owner may enter.
    pub fn private_dir(&self, name: &str) -> PathBuf {
        let dir = self.t.root().join(name);
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(&dir).expect("a private directory");
        dir
    }

    /// Any program, with the stand-ins on its path.
    pub fn command(&self, program: &str) -> Cmd {
        let inherited = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        let mut path = OsString::from(self.bin());
        path.push(":");
        path.push(inherited);
        self.t.command(program).env("PATH", path)
    }

    /// A line for the shell.
    pub fn sh(&self, line: &str) -> Cmd {
        self.command("sh").args(["-c", line])
    }

    /// A recipe, as a script.
    #[track_caller]
    pub fn recipe(&self, name: &str) -> Cmd {
        self.sh(&recipe(name))
    }
}

/// Time zones in which it is the evening now, and the night of the day after: far from any midnight.
pub fn today_and_tomorrow() -> (String, String) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let hour = now.expect("a time after 1970").as_secs() / 3600 % 24;
    let to_evening = 20 - i64::try_from(hour).expect("an hour");
    let east = if to_evening > 12 {
        to_evening - 24
    } else {
        to_evening
    };
    // POSIX counts towards the west.
    (format!("DAY{}", -east), format!("DAY{}", -(east + 6)))
}

/// Shell code that waits until a file exists.
pub const GATE: &str = "until test -e go; do sleep 0.02; done";
