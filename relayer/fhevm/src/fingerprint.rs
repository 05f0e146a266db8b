//! What makes two requests the same: a hash of what decides their results. Signatures and validities do not.

use alloy::hex;
use sha2::{Digest, Sha256};

use crate::request::{Payload, User};

/// The idempotency key of a request, in hex. With `submitter`, requests of other submitters have other keys.
#[must_use]
pub fn fingerprint(payload: &Payload, submitter: Option<&str>) -> String {
    let mut hasher = Hasher(Sha256::new());
    match payload {
        Payload::InputProof(request) => {
            hasher.field(b"input proof");
            hasher.field(&request.contract_chain_id.to_be_bytes());
            hasher.field(request.contract_address.as_slice());
            hasher.field(request.user_address.as_slice());
            hasher.field(&request.ciphertext_with_input_verification);
            hasher.field(&request.extra_data);
        }
        Payload::PublicDecrypt(request) => {
            hasher.field(b"public decrypt");
            hasher.list(request.ciphertext_handles.iter().map(|handle| handle.as_slice()));
            hasher.field(&request.extra_data);
        }
        Payload::UserDecrypt(request) => {
            match request.user {
                User::User { user_address } => {
                    hasher.field(b"user decrypt");
                    hasher.field(user_address.as_slice());
                }
                User::Delegated { delegator_address, delegate_address } => {
                    hasher.field(b"delegated user decrypt");
                    hasher.field(delegator_address.as_slice());
                    hasher.field(delegate_address.as_slice());
                }
            }
            hasher.list(request.contract_addresses.iter().map(|contract| contract.as_slice()));
            hasher.field(&request.contracts_chain_id.to_be_bytes());
            let pairs = request.handle_contract_pairs.iter();
            hasher.list(pairs.flat_map(|pair| [pair.handle.as_slice(), pair.contract_address.as_slice()]));
            hasher.field(&request.extra_data);
            hasher.field(&request.public_key);
        }
    }
    if let Some(submitter) = submitter {
        hasher.field(submitter.as_bytes());
    }
    hex::encode(hasher.0.finalize())
}

/// Hashes fields with their lengths, so that no two lists of fields have the same hash.
struct Hasher(Sha256);

impl Hasher {
    fn field(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    fn list<'a>(&mut self, elements: impl Iterator<Item = &'a [u8]>) {
        let elements: Vec<_> = elements.collect();
        self.0.update((elements.len() as u64).to_be_bytes());
        for element in elements {
            self.field(element);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use chrono::Utc;
    use serde_json::{Value, json};

    use super::*;
    use crate::request::Family;

    const A: &str = "0x63c6684e14e27dc59870c5595d574bd6ca5d6ac6";
    const B: &str = "0x3f92107747fcccc58db838122c14149b1c6e5a81";
    const HANDLE: &str = "0x1c92b55f05ee16f6facd3a57d7d9365f7f233b30a1000000000000007a690500";
    const OTHER: &str = "0x4ff5599bba65b9b6c4b79b93cf13bd64e8e91dbdb2010000000000007a690400";

    fn of(family: Family, body: &Value) -> String {
        fingerprint(&family.parse(body.to_string().as_bytes(), Utc::now()).unwrap(), None)
    }

    fn user() -> Value {
        json!({
            "handleContractPairs": [{"handle": HANDLE, "contractAddress": A}, {"handle": OTHER, "contractAddress": A}],
            "requestValidity": {"startTimestamp": "1700000000", "durationDays": "10"},
            "contractsChainId": "31337", "contractAddresses": [A, B], "userAddress": B,
            "signature": "ab".repeat(65), "publicKey": "dd1d", "extraData": "0x00",
        })
    }

    #[test]
    fn the_signature_the_validity_and_the_spelling_are_not_part_of_it() {
        let family = Family::UserDecrypt;
        let same = of(family, &user());
        for (pointer, value) in [
            ("/signature", json!("cd".repeat(65))),
            ("/requestValidity/startTimestamp", json!("1600000000")),
            ("/requestValidity/durationDays", json!("1")),
            ("/contractsChainId", json!(31337)),
            ("/contractsChainId", json!("0x7A69")),
            ("/publicKey", json!("DD1D")),
            ("/userAddress", json!(format!("0x{}", B[2..].to_uppercase()))),
        ] {
            let mut other = user();
            *other.pointer_mut(pointer).unwrap() = value;
            assert_eq!(of(family, &other), same, "{pointer}");
        }
    }

    #[test]
    fn every_other_field_is_part_of_it_and_so_is_the_order() {
        let context = format!("0x0107{}", "00".repeat(31));
        let mut known = HashSet::from([of(Family::UserDecrypt, &user())]);
        for (pointer, value) in [
            ("/publicKey", json!("dd1d00")),
            ("/extraData", json!(context)),
            ("/contractsChainId", json!("5")),
            ("/contractAddresses", json!([B, A])),
            ("/contractAddresses", json!([A])),
            ("/userAddress", json!(A)),
            ("/handleContractPairs/0/handle", json!(OTHER)),
            ("/handleContractPairs/1/handle", json!(HANDLE)),
            ("/handleContractPairs/0/contractAddress", json!(B)),
        ] {
            let mut other = user();
            *other.pointer_mut(pointer).unwrap() = value;
            assert!(known.insert(of(Family::UserDecrypt, &other)), "{pointer}");
        }
        let mut delegated = user();
        for (name, value) in
            [("delegatorAddress", B), ("delegateAddress", A), ("startTimestamp", "1"), ("durationDays", "1")]
        {
            delegated[name] = json!(value);
        }
        assert!(known.insert(of(Family::DelegatedUserDecrypt, &delegated)));
        delegated["delegatorAddress"] = json!(A);
        delegated["delegateAddress"] = json!(B);
        assert!(known.insert(of(Family::DelegatedUserDecrypt, &delegated)));
    }

    #[test]
    fn with_a_submitter_the_keys_of_submitters_differ() {
        let body = json!({"ciphertextHandles": [HANDLE], "extraData": "0x00"}).to_string();
        let payload = Family::PublicDecrypt.parse(body.as_bytes(), Utc::now()).unwrap();
        let keys = [None, Some(""), Some("a"), Some("b")].map(|submitter| fingerprint(&payload, submitter));
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 4);
    }
}
