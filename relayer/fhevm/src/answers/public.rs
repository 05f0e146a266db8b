//! The answer to a public decryption.

use alloy::{hex, primitives::Bytes, rpc::types::Log, sol_types::SolEvent};
use serde_json::{Value, json};

use crate::abi::gateway::Decryption::PublicDecryptionResponse;

/// The values, signed by the KMS nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Public {
    /// The values, as the contract encodes them.
    pub value: Bytes,
    /// The nodes' signatures of them.
    pub signatures: Vec<Bytes>,
    /// The extra data that the nodes have signed with them.
    pub extra_data: Bytes,
}

impl Public {
    pub(super) fn decode(log: &Log) -> Option<Self> {
        let event = PublicDecryptionResponse::decode_log(&log.inner).ok()?.data;
        Some(Self { value: event.decryptedResult, signatures: event.signatures, extra_data: event.extraData })
    }

    pub(super) fn response(&self) -> Value {
        let signatures: Vec<_> = self.signatures.iter().map(hex::encode).collect();
        json!({
            "decryptedValue": hex::encode(&self.value), "signatures": signatures, "extraData": self.extra_data,
        })
    }
}
