//! The compiled contracts of `artefacts/`, which `make contracts` writes.

#[cfg(test)]
pub(crate) mod tests;

use std::path::{Path, PathBuf};

use alloy::primitives::Bytes;
use anyhow::Context as _;
use serde::Deserialize;

/// What the compiler made of one contract.
#[derive(Debug, Deserialize)]
pub struct Artefact {
    /// Its functions, events and errors, in the compiler's form.
    pub abi: Vec<serde_json::Value>,
    /// The code that deploys it, to be followed by the arguments of its constructor.
    pub bytecode: Bytes,
}

/// The artefact of a contract.
///
/// # Errors
///
/// When there is no such contract.
pub fn artefact(name: &str) -> anyhow::Result<Artefact> {
    let file = folder().join(name).with_extension("json");
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not what `make contracts` writes", file.display()))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("artefacts")
}
