//! Build script: lays what a short call runs side by side in the executable.
//!
//! A replay takes about as long as the system needs to page it in, and each place that is far from the
//! others costs another page fault. `hot.ld` names the functions and tables that replays and first runs
//! touch (written by `benches/layout`); names that a build does not have are left out. Where the linker
//! cannot read it, it is left out as a whole: the same program, slower.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn main() {
    println!("cargo:rerun-if-changed=src/layout/build.rs");
    println!("cargo:rerun-if-changed=src/layout/hot.ld");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    let linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    let release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/layout/hot.ld");
    let argument = format!("-T{}", script.display());
    if linux && release && links_with(&argument) {
        println!("cargo:rustc-link-arg-bin=idem={argument}");
    }
}

/// Whether an empty program can be linked like that.
fn links_with(argument: &str) -> bool {
    let (Some(rustc), Some(target), Some(out)) = (
        env::var_os("RUSTC"),
        env::var_os("TARGET"),
        env::var_os("OUT_DIR").map(PathBuf::from),
    ) else {
        return false;
    };
    let source = out.join("empty.rs");
    if fs::write(&source, "fn main() {}\n").is_err() {
        return false;
    }
    let mut compiler = Command::new(rustc);
    compiler.arg("--target").arg(target);
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    compiler.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = std::ffi::OsString::from("linker=");
        option.push(linker);
        compiler.arg("-C").arg(option);
    }
    compiler.arg("-C").arg(format!("link-arg={argument}"));
    compiler.arg("-o").arg(out.join("empty")).arg(source);
    compiler.stdin(Stdio::null());
    compiler.output().is_ok_and(|done| done.status.success())
}
