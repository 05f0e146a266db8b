//! Tells a release which revision it is built from, unless the variable `TIDEGATE_BUILD` does.

use std::{env, process::Command};

fn main() {
    println!("cargo::rerun-if-env-changed=TIDEGATE_BUILD");
    // Other builds would be made anew after each commit.
    if env::var("PROFILE").as_deref() != Ok("release") || env::var_os("TIDEGATE_BUILD").is_some() {
        return;
    }
    if let (Some(revision), Some(changes), Some(log)) = (
        git(&["rev-parse", "--short=12", "HEAD"]),
        git(&["status", "--porcelain", "--untracked-files=no"]),
        git(&["rev-parse", "--git-path", "logs/HEAD"]),
    ) {
        let state = if changes.is_empty() { "clean" } else { "dirty" };
        println!("cargo::rerun-if-changed={log}");
        println!("cargo::rerun-if-changed=src");
        println!("cargo::rustc-env=TIDEGATE_BUILD={revision}-{state}");
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
