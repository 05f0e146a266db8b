use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use alloy::primitives::{hex, keccak256};
use serde_json::Value;

use super::{artefact, folder};
use crate::target;

/// The real ABI: for each function, event and error the contracts that have it, its signature, and its selector or topic.
const REAL: &str = include_str!("abi.tsv");

/// The rows of [`REAL`]: contracts, kind, signature, selector.
fn real() -> impl Iterator<Item = [&'static str; 4]> {
    REAL.lines().map(|line| line.split('\t').collect::<Vec<_>>().try_into().unwrap())
}

/// The signature without what the selector does not depend on.
fn hashed(signature: &str) -> String {
    let end = signature.find(") (").map_or(signature.len(), |end| end + 1);
    signature[..end].replace(" indexed", "")
}

/// The name of the real error with the selector that revert data begins with.
pub(crate) fn error_name(data: &[u8]) -> Option<String> {
    let selector = hex::encode_prefixed(data.get(..4)?);
    let [_, _, signature, _] = real().find(|[_, kind, _, own]| *kind == "error" && *own == selector)?;
    Some(signature.split('(').next()?.to_owned())
}

#[test]
fn the_contracts_have_the_real_abi() {
    let mut contracts = BTreeMap::<&str, Vec<String>>::new();
    for [names, kind, signature, selector] in real() {
        let hash = keccak256(hashed(signature));
        let bytes = if kind == "event" { &hash[..] } else { &hash[..4] };
        assert_eq!(hex::encode_prefixed(bytes), selector, "{signature}");
        for name in names.split(',') {
            let own = contracts.entry(name).or_insert_with(|| {
                artefact(name)
                    .unwrap()
                    .abi
                    .iter()
                    .map(|item| format!("{} {}", item["type"].as_str().unwrap(), signed(item)))
                    .collect()
            });
            assert!(own.contains(&format!("{kind} {signature}")), "{name} lacks {kind} {signature}, and has {own:#?}");
        }
    }
    assert_eq!(real().count(), 103);
}

/// The signature of an item of an artefact's ABI.
fn signed(item: &Value) -> String {
    let name = item["name"].as_str().unwrap_or_default();
    let inputs = types(&item["inputs"]);
    match item["outputs"].as_array() {
        Some(outputs) if !outputs.is_empty() => format!("{name}{inputs} {}", types(&item["outputs"])),
        _ => format!("{name}{inputs}"),
    }
}

fn types(parameters: &Value) -> String {
    let one = |parameter: &Value| {
        let name = parameter["type"].as_str().unwrap();
        let name =
            name.strip_prefix("tuple").map(|array| types(&parameter["components"]) + array).unwrap_or(name.to_owned());
        if parameter["indexed"] == true { name + " indexed" } else { name }
    };
    format!("({})", parameters.as_array().into_iter().flatten().map(one).collect::<Vec<_>>().join(","))
}

/// Where the facts that the project was made from are at hand, the fixture is compared with them.
#[test]
fn the_fixture_agrees_with_the_facts() {
    let facts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fhevm");
    let (Ok(abi), Ok(selectors)) =
        (fs::read_to_string(facts.join("abi.txt")), fs::read_to_string(facts.join("selectors.tsv")))
    else {
        return;
    };
    // A wallet answers it, which no stand-in is.
    let other = "isValidSignature(bytes32,bytes)";
    let stated = abi.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(unnamed);
    let mut stated: Vec<String> = stated.filter(|line| !line.contains(other)).collect();
    let mut own: Vec<String> = real().map(|[_, kind, signature, _]| format!("{kind} {signature}")).collect();
    stated.sort();
    own.sort();
    assert_eq!(own, stated);

    let mut stated: Vec<String> =
        selectors.lines().skip(1).filter(|line| !line.contains(other)).map(str::to_owned).collect();
    let mut own: Vec<String> =
        real().map(|[_, kind, signature, selector]| format!("{kind}\t{}\t{selector}", hashed(signature))).collect();
    stated.sort();
    own.sort();
    assert_eq!(own, stated);
}

/// A declaration without the names of its parameters.
fn unnamed(declaration: &str) -> String {
    let (kind, rest) = declaration.split_once(' ').unwrap();
    let (name, parameters) = rest.split_once('(').unwrap();
    let spaced = format!("({parameters}").replace('(', " ( ").replace(')', " ) ").replace(',', " , ");
    let mut text = format!("{kind} {name}");
    let mut is_type = true;
    for word in spaced.split_whitespace() {
        match word {
            "(" | "," => is_type = true,
            "view" => continue,
            "returns" => text.push(' '),
            _ => {}
        }
        match word {
            "(" | "," | ")" => text.push_str(word),
            "[]" => text.push_str("[]"),
            "indexed" => text.push_str(" indexed"),
            _ if is_type && word != "returns" => {
                text.push_str(word);
                is_type = false;
            }
            _ => {}
        }
        is_type &= word != ")";
    }
    text
}

#[test]
fn the_artefacts_are_those_of_the_contracts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiled = tempfile::tempdir().unwrap();
    let compiler = Command::new("node")
        .arg(root.join("compile.mjs"))
        .args([&target().join("fhevm"), compiled.path()])
        .status()
        .expect("cannot run node: run `make test-fhevm` or relayer/tests/prepare, which install it");
    assert!(compiler.success(), "the contracts do not compile");
    let files = |folder: &Path| {
        let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap());
        files.map(|file| (file.file_name(), fs::read(file.path()).unwrap())).collect::<BTreeMap<_, _>>()
    };
    assert!(files(&folder()) == files(compiled.path()), "the artefacts are old: run `make contracts`");
}
