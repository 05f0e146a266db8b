//! `POST /v2/input-proof`

use alloy::primitives::{Address, Bytes};
use serde::{Deserialize, Serialize};

use super::decimal;
use crate::fields::{Fields, address, chain_id, plain_hex, proof_extra_data};

/// An encrypted input to verify.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InputProof {
    /// The chain of the contract.
    #[serde(with = "decimal")]
    pub contract_chain_id: u64,
    /// The contract that the input is for.
    pub contract_address: Address,
    /// The user that has encrypted it.
    pub user_address: Address,
    /// The ciphertext with its proof.
    pub ciphertext_with_input_verification: Bytes,
    /// Passed to the gateway as it is.
    pub extra_data: Bytes,
}

impl InputProof {
    pub(super) fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let contract_chain_id = fields.take("contractChainId", chain_id);
        let contract_address = fields.take("contractAddress", address);
        let user_address = fields.take("userAddress", address);
        let ciphertext_with_input_verification = fields.take("ciphertextWithInputVerification", plain_hex);
        let extra_data = fields.take("extraData", proof_extra_data);
        Some(Self {
            contract_chain_id: contract_chain_id?,
            contract_address: contract_address?,
            user_address: user_address?,
            ciphertext_with_input_verification: ciphertext_with_input_verification?,
            extra_data: extra_data?,
        })
    }
}
