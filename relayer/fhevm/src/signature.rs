//! Whose signatures responses have: EIP-712, in the domains of the gateway's contracts.

use std::borrow::Cow;

use alloy::{
    primitives::{Address, Bytes, Signature, U256},
    sol_types::{Eip712Domain, SolStruct},
};

use crate::{
    abi::signed::{CiphertextVerification, PublicDecryptVerification, UserDecryptResponseVerification},
    answers::{Proof, Public, Share},
    request::{InputProof, PublicDecrypt, UserDecrypt},
};

/// The domains of the contracts of one gateway.
#[derive(Debug, Clone)]
pub struct Domains {
    decryption: Eip712Domain,
    input_verification: Eip712Domain,
}

impl Domains {
    /// Those of the contracts at these addresses.
    #[must_use]
    pub fn new(chain_id: u64, decryption: Address, input_verification: Address) -> Self {
        Self {
            decryption: domain("Decryption", chain_id, decryption),
            input_verification: domain("InputVerification", chain_id, input_verification),
        }
    }

    /// The KMS node that signed a share. Over other bytes than it signed, this is another address.
    #[must_use]
    pub fn share_signer(&self, request: &UserDecrypt, share: &Share) -> Option<Address> {
        let signed = UserDecryptResponseVerification {
            publicKey: request.public_key.clone(),
            ctHandles: request.handle_contract_pairs.iter().map(|pair| pair.handle).collect(),
            userDecryptedShare: share.payload.clone(),
            extraData: share.extra_data.clone(),
        };
        signer(&signed, &self.decryption, &share.signature)
    }

    /// The KMS nodes that signed a public decryption.
    pub fn public_signers(&self, request: &PublicDecrypt, public: &Public) -> Vec<Option<Address>> {
        let signed = PublicDecryptVerification {
            ctHandles: request.ciphertext_handles.clone(),
            decryptedResult: public.value.clone(),
            extraData: public.extra_data.clone(),
        };
        signers(&signed, &self.decryption, &public.signatures)
    }

    /// The coprocessors that signed the handles of an input; none of a rejection, which has no signatures.
    pub fn proof_signers(&self, request: &InputProof, proof: &Proof) -> Vec<Option<Address>> {
        let Proof::Accepted { handles, signatures } = proof else {
            return Vec::new();
        };
        let signed = CiphertextVerification {
            ctHandles: handles.clone(),
            userAddress: request.user_address,
            contractAddress: request.contract_address,
            contractChainId: U256::from(request.contract_chain_id),
            extraData: request.extra_data.clone(),
        };
        signers(&signed, &self.input_verification, signatures)
    }
}

fn domain(name: &'static str, chain_id: u64, contract: Address) -> Eip712Domain {
    let (name, version) = (Cow::Borrowed(name), Cow::Borrowed("1"));
    Eip712Domain::new(Some(name), Some(version), Some(U256::from(chain_id)), Some(contract), None)
}

fn signers(signed: &impl SolStruct, domain: &Eip712Domain, signatures: &[Bytes]) -> Vec<Option<Address>> {
    signatures.iter().map(|signature| signer(signed, domain, signature)).collect()
}

fn signer(signed: &impl SolStruct, domain: &Eip712Domain, signature: &[u8]) -> Option<Address> {
    let signature = Signature::from_raw(signature).ok()?;
    signature.recover_address_from_prehash(&signed.eip712_signing_hash(domain)).ok()
}

#[cfg(test)]
mod tests {
    use alloy::{
        primitives::B256,
        signers::{SignerSync, local::PrivateKeySigner},
    };
    use serde_json::json;

    use super::*;

    fn domains() -> Domains {
        Domains::new(31337, Address::repeat_byte(1), Address::repeat_byte(2))
    }

    fn user() -> UserDecrypt {
        let address = Address::repeat_byte(3);
        serde_json::from_value(json!({
            "variant": "user", "userAddress": address,
            "handleContractPairs": [{"handle": B256::repeat_byte(4), "contractAddress": address}],
            "requestValidity": {"startTimestamp": "1", "durationDays": "1"},
            "contractsChainId": "1", "contractAddresses": [address], "signature": "0x01", "publicKey": "0x02",
            "extraData": "0x00",
        }))
        .unwrap()
    }

    #[test]
    fn a_share_is_of_its_signer_and_with_any_other_byte_of_another() {
        let node = PrivateKeySigner::random();
        let mut share = Share {
            index: U256::ZERO,
            payload: Bytes::from_static(&[9, 9]),
            signature: Bytes::new(),
            extra_data: Bytes::from_static(&[0]),
        };
        let signed = UserDecryptResponseVerification {
            publicKey: Bytes::from_static(&[2]),
            ctHandles: vec![B256::repeat_byte(4)],
            userDecryptedShare: share.payload.clone(),
            extraData: share.extra_data.clone(),
        };
        let hash = signed.eip712_signing_hash(&domain("Decryption", 31337, Address::repeat_byte(1)));
        share.signature = node.sign_hash_sync(&hash).unwrap().as_bytes().to_vec().into();

        assert_eq!(domains().share_signer(&user(), &share), Some(node.address()));

        let elsewhere = Domains::new(31338, Address::repeat_byte(1), Address::repeat_byte(2));
        assert_ne!(elsewhere.share_signer(&user(), &share), Some(node.address()));
        let mut other = user();
        other.public_key = Bytes::from_static(&[3]);
        assert_ne!(domains().share_signer(&other, &share), Some(node.address()));
        share.signature = Bytes::from_static(&[1, 2, 3]);
        assert_eq!(domains().share_signer(&user(), &share), None);
    }

    #[test]
    fn the_types_are_spelled_as_the_contracts_hash_them() {
        let types = [
            UserDecryptResponseVerification::eip712_root_type(),
            PublicDecryptVerification::eip712_root_type(),
            CiphertextVerification::eip712_root_type(),
        ];
        assert_eq!(
            types,
            [
                "UserDecryptResponseVerification(bytes publicKey,bytes32[] ctHandles,bytes userDecryptedShare,\
                 bytes extraData)",
                "PublicDecryptVerification(bytes32[] ctHandles,bytes decryptedResult,bytes extraData)",
                "CiphertextVerification(bytes32[] ctHandles,address userAddress,address contractAddress,\
                 uint256 contractChainId,bytes extraData)",
            ]
        );
    }
}
