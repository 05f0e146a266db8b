//! The compiled contracts of `artefacts/`, which `make contracts` writes.

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

macro_rules! contracts {
    ($($name:literal),* $(,)?) => {
        /// The names of all contracts.
        pub const NAMES: &[&str] = &[$($name),*];

        fn text(name: &str) -> Option<&'static str> {
            match name {
                $($name => Some(include_str!(concat!("../artefacts/", $name, ".json"))),)*
                _ => None,
            }
        }
    };
}

contracts![
    "CiphertextCommits",
    "Counter",
    "Decryption",
    "FeeToken",
    "GatewayConfig",
    "InputVerification",
    "ProtocolPayment"
];

/// The artefact of a contract.
///
/// # Errors
///
/// When there is no such contract.
pub fn artefact(name: &str) -> anyhow::Result<Artefact> {
    let text = text(name).with_context(|| format!("there is no contract {name} among the stand-ins"))?;
    serde_json::from_str(text).with_context(|| format!("the artefact of {name}: run `make contracts`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_artefact_is_named_and_can_be_read() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/artefacts");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        files.sort();
        assert_eq!(files, NAMES);
        for name in NAMES {
            assert!(!artefact(name).unwrap().bytecode.is_empty(), "{name}");
        }
    }
}
