use alloy::primitives::{Bytes, LogData};
use serde_json::json;

use super::*;

const CONTRACTS: Contracts =
    Contracts { decryption: Address::repeat_byte(1), input_verification: Address::repeat_byte(2) };

fn log(address: Address, data: LogData) -> Log {
    let inner = alloy::primitives::Log { address, data };
    Log { inner, ..Log::default() }
}

fn response(log: &Log) -> Value {
    CONTRACTS.event(log).unwrap().answer.unwrap().response()
}

#[test]
fn requests_are_found_in_both_layouts() {
    let id = (U256::from(1) << 248) + U256::from(1);
    let (handle, extra_data) = (B256::repeat_byte(7), Bytes::from_static(&[0]));
    let short = Decryption::PublicDecryptionRequest {
        decryptionId: id,
        ctHandles: vec![handle],
        extraData: extra_data.clone(),
    };
    let long =
        with_materials::PublicDecryptionRequest { decryptionId: id, snsCtMaterials: Vec::new(), extraData: extra_data };
    for data in [short.encode_log_data(), long.encode_log_data()] {
        let event = CONTRACTS.event(&log(CONTRACTS.decryption, data));
        let contract = CONTRACTS.decryption;
        assert_eq!(event, Some(Event { contract, id, answer: None }));
    }
}

#[test]
fn a_log_of_another_contract_or_of_the_other_one_does_not_count() {
    let data = InputVerification::RejectProofResponse { zkProofId: U256::from(5) }.encode_log_data();
    assert!(CONTRACTS.event(&log(CONTRACTS.input_verification, data.clone())).is_some());
    assert_eq!(CONTRACTS.event(&log(CONTRACTS.decryption, data.clone())), None);
    assert_eq!(CONTRACTS.event(&log(Address::repeat_byte(3), data)), None);
    assert_eq!(CONTRACTS.event(&log(CONTRACTS.decryption, LogData::default())), None);
}

#[test]
fn bytes_that_are_no_event_do_not_count() {
    let mut data = InputVerification::VerifyProofResponse {
        zkProofId: U256::from(5),
        ctHandles: vec![B256::repeat_byte(7)],
        signatures: vec![Bytes::from_static(&[1])],
    }
    .encode_log_data();
    data.data = data.data.slice(..40);
    assert_eq!(CONTRACTS.event(&log(CONTRACTS.input_verification, data)), None);
}

#[test]
fn responses_have_the_form_of_their_family() {
    let id = U256::from(9);
    let accepted = InputVerification::VerifyProofResponse {
        zkProofId: id,
        ctHandles: vec![B256::repeat_byte(7)],
        signatures: vec![Bytes::from_static(&[0xab])],
    };
    assert_eq!(
        response(&log(CONTRACTS.input_verification, accepted.encode_log_data())),
        json!({
            "accepted": true, "extraData": "0x00",
            "handles": [format!("0x{}", "07".repeat(32))], "signatures": ["0xab"],
        })
    );
    let rejected = InputVerification::RejectProofResponse { zkProofId: id };
    assert_eq!(
        response(&log(CONTRACTS.input_verification, rejected.encode_log_data())),
        json!({ "accepted": false, "extraData": "0x00" })
    );
    let public = Decryption::PublicDecryptionResponse {
        decryptionId: id,
        decryptedResult: Bytes::from_static(&[0x2a]),
        signatures: vec![Bytes::from_static(&[0xab])],
        extraData: Bytes::new(),
    };
    assert_eq!(
        response(&log(CONTRACTS.decryption, public.encode_log_data())),
        json!({ "decryptedValue": "2a", "signatures": ["ab"], "extraData": "0x" })
    );
    let share = Decryption::UserDecryptionResponse {
        decryptionId: id,
        indexShare: U256::MAX,
        userDecryptedShare: Bytes::from_static(&[1]),
        signature: Bytes::from_static(&[2]),
        extraData: Bytes::from_static(&[0]),
    };
    assert_eq!(
        response(&log(CONTRACTS.decryption, share.encode_log_data())),
        json!({ "payload": "01", "signature": "02", "extraData": "0x00", "index": U256::MAX.to_string() })
    );
}
