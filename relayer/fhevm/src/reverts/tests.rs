use alloy::{
    primitives::{Address, B256, U256},
    sol_types::SolError,
};
use serde_json::{Value, json};

use super::*;

fn payload(family: &str, variant: &Value) -> Payload {
    let (address, handle) = (Address::ZERO, B256::ZERO);
    let mut payload = json!({
        "family": family,
        "contractChainId": "1", "contractAddress": address, "userAddress": address,
        "ciphertextWithInputVerification": "0xab",
        "ciphertextHandles": [handle],
        "handleContractPairs": [{"handle": handle, "contractAddress": address}],
        "requestValidity": {"startTimestamp": "1", "durationDays": "1"},
        "contractsChainId": "1", "contractAddresses": [address], "signature": "0x01", "publicKey": "0x02",
        "extraData": "0x00",
    });
    payload.as_object_mut().unwrap().extend(variant.as_object().unwrap().clone());
    serde_json::from_value(payload).unwrap()
}

fn families() -> [Payload; 4] {
    let (user, other) = (Address::ZERO, Address::ZERO);
    [
        payload("input_proof", &json!({})),
        payload("public_decrypt", &json!({})),
        payload("user_decrypt", &json!({"variant": "user"})),
        payload("user_decrypt", &json!({"variant": "delegated", "delegatorAddress": user, "delegateAddress": other})),
    ]
}

fn label(meaning: Meaning) -> Label {
    match meaning {
        Says(label) => label,
        Blames(..) => Label::ValidationFailed,
    }
}

fn blamed(data: &[u8], payload: &Payload) -> Option<String> {
    let details = error(data, payload).details?;
    let details: Vec<Detail> = serde_json::from_str(details.get()).unwrap();
    Some(details[0].field.clone())
}

#[test]
fn no_selector_has_two_rows() {
    let mut selectors: Vec<_> = TABLE.iter().map(|(selector, _)| selector).collect();
    selectors.sort_unstable();
    selectors.dedup();
    assert_eq!(selectors.len(), TABLE.len());
}

#[test]
fn a_revert_that_blames_the_request_names_a_field_and_an_issue_and_no_other_does() {
    for (selector, meaning) in TABLE {
        for payload in families() {
            let error = error(selector, &payload);
            assert_eq!(error.code, label(*meaning).code());
            assert_eq!(error.details.is_some(), matches!(meaning, Blames(..)), "{}", error.code);
        }
    }
}

#[test]
fn the_field_is_the_one_that_the_family_has() {
    let [proof, public, user, delegated] = families();
    let disabled = errors::HostChainDisabled { chainId: U256::from(5) }.abi_encode();
    assert_eq!(blamed(&disabled, &proof).as_deref(), Some("contractChainId"));
    assert_eq!(blamed(&disabled, &public).as_deref(), Some("ciphertextHandles"));
    assert_eq!(blamed(&disabled, &user).as_deref(), Some("contractsChainId"));
    let unsupported = errors::UnsupportedFHEType { fheType: 99 }.abi_encode();
    assert_eq!(blamed(&unsupported, &public).as_deref(), Some("ciphertextHandles"));
    assert_eq!(blamed(&unsupported, &delegated).as_deref(), Some("handleContractPairs"));
}

#[test]
fn three_reverts_are_not_the_end() {
    let of = |data: Vec<u8>| action(&data);
    let material = errors::CiphertextMaterialNotFound { ctHandle: B256::ZERO };
    assert_eq!(of(material.abi_encode()), Action::AwaitMaterial);
    let future = errors::StartTimestampInFuture { currentTimestamp: U256::ZERO, startTimestamp: U256::ZERO };
    assert_eq!(of(future.abi_encode()), Action::AwaitClock);
    assert_eq!(of(errors::EnforcedPause {}.abi_encode()), Action::Fail);
    assert_eq!(of(Vec::new()), Action::Fail);
}

#[test]
fn an_unknown_revert_is_stored_shortened_and_its_caller_gets_no_bytes() {
    let proof = &families()[0];
    let error = error(&[0xab; 300], proof);
    assert_eq!(error.code, "label:internal_server_error");
    assert_eq!(error.message, Label::InternalServerError.message());
    let details: Value = serde_json::from_str(error.details.unwrap().get()).unwrap();
    assert_eq!(details["bytes"], 300);
    assert_eq!(details["revert"].as_str().unwrap().len(), 2 + 2 * SHOWN);
    assert!(!is_known(&[0xab; 300]) && !is_known(&[1, 2]));
}

/// Where the facts that the project was made from are at hand, labels and fields are compared with them.
#[test]
fn the_table_agrees_with_the_facts() {
    let facts = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fhevm/error-selectors.tsv");
    let Ok(facts) = std::fs::read_to_string(facts) else {
        return;
    };
    let mut seen = 0;
    for line in facts
        .lines()
        .filter(|line| line.starts_with("0x") && !line.contains("v3)") && !line.contains("{attestedPayload"))
    {
        let cells: Vec<_> = line.split('\t').collect();
        let selector = hex::decode(cells[0]).unwrap();
        let meaning = find(&selector).unwrap_or_else(|| panic!("{line}"));
        let label = label(meaning);
        let (status, rest) = cells[3].split_once(' ').unwrap();
        let word = rest.split(' ').next().unwrap();
        assert_eq!((&*label.status().to_string(), label.as_str()), (status, word), "{line}");
        if let Blames(Field(field), _) = meaning {
            assert!(rest.contains(&format!("{{{field}")), "{line}");
        }
        seen += 1;
    }
    assert_eq!(seen, TABLE.len());
}
