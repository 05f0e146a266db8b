//! Does a program that embeds Tidegate compile only what it needs?

use std::{collections::BTreeSet, process::Command};

/// The crates that a program compiles for one of Tidegate's packages.
fn crates(package: &str) -> BTreeSet<String> {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--package", package, "--edges", "normal", "--prefix", "none", "--offline", "--locked"])
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
fn an_embedder_compiles_no_server_and_no_command_line_and_a_server_no_commands() {
    let (engine, node, program) = (crates("tidegate"), crates("tidegate-node"), crates("tidegate-cli"));
    for name in ["axum", "hyper", "metrics-exporter-prometheus", "reqwest", "tower-http", "utoipa-swagger-ui"] {
        assert!(names(&node).contains(name), "the node does not need {name} any more");
        assert!(!names(&engine).contains(name), "the engine compiles {name}");
    }
    for name in ["clap_complete", "comfy-table", "tracing-subscriber"] {
        assert!(names(&program).contains(name), "the program does not need {name} any more");
        assert!(!names(&node).contains(name), "the node compiles {name}");
    }
    for name in ["clap", "anyhow"] {
        assert!(!names(&engine).contains(name), "the engine compiles {name}");
    }
    // Half of what every program had to compile before the engine was a package of its own; and refinery, and TLS.
    assert!(engine.len() <= 150, "the engine compiles {} crates", engine.len());
}

#[test]
fn packages_depend_downwards_only_and_have_no_features() {
    for (package, above) in [
        ("tidegate-policy", &["tidegate", "tidegate-node", "tidegate-cli"][..]),
        ("tidegate", &["tidegate-node", "tidegate-cli", "tidegate-workers"]),
        ("tidegate-node", &["tidegate-cli", "tidegate-workers"]),
        ("tidegate-cli", &["tidegate-workers"]),
        ("tidegate-evm", &["tidegate-node", "tidegate-cli", "tidegate-fhevm"]),
    ] {
        let crates = crates(package);
        for name in above {
            assert!(!names(&crates).contains(name), "{package} depends on {name}");
        }
    }
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() >= 10, "{}", packages.len());
    for package in packages {
        assert_eq!(package["features"], serde_json::json!({}), "{} is cut in pieces by features", package["name"]);
    }
}
