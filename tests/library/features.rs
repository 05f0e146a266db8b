//! Does a program that embeds Tidegate compile only what it needs?

use std::{collections::BTreeSet, process::Command};

/// The crates of a program that has `tidegate` with these options of Cargo.
fn crates(options: &[&str]) -> BTreeSet<String> {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--package", "tidegate", "--edges", "normal", "--prefix", "none", "--offline", "--locked"])
        .args(options)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let words = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    String::from_utf8(tree.stdout).unwrap().lines().map(words).collect()
}

/// The names of crates.
fn names(crates: &BTreeSet<String>) -> BTreeSet<&str> {
    crates.iter().filter_map(|of| of.split(' ').next()).collect()
}

#[test]
fn without_features_no_server_and_no_command_line_are_compiled() {
    let (all, none) = (crates(&[]), crates(&["--no-default-features"]));
    let server = [
        "axum",
        "clap",
        "comfy-table",
        "hyper",
        "metrics-exporter-prometheus",
        "reqwest",
        "tower-http",
        "tracing-subscriber",
        "utoipa",
        "utoipa-swagger-ui",
    ];
    for name in server {
        assert!(names(&all).contains(name), "no feature needs {name} any more");
        assert!(!names(&none).contains(name), "{name} is compiled without any feature");
    }
    // Half of the 268 that every program had to compile when there were no features, and those of refinery.
    assert!(none.len() <= 140, "{} crates without features", none.len());
}
