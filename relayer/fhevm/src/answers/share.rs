//! One share of the answer to a user decryption.

use alloy::{
    hex,
    primitives::{Bytes, U256},
    rpc::types::Log,
    sol_types::SolEvent,
};
use serde_json::{Value, json};

use crate::abi::gateway::Decryption::UserDecryptionResponse;

/// What one KMS node answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// How many shares came before it. It does not name a node.
    pub index: U256,
    /// The share.
    pub payload: Bytes,
    /// The node's signature of it.
    pub signature: Bytes,
    /// The extra data that the node has signed with it.
    pub extra_data: Bytes,
}

impl Share {
    pub(super) fn decode(log: &Log) -> Option<Self> {
        let event = UserDecryptionResponse::decode_log(&log.inner).ok()?.data;
        Some(Self {
            index: event.indexShare,
            payload: event.userDecryptedShare,
            signature: event.signature,
            extra_data: event.extraData,
        })
    }

    /// The index is text, because JSON's numbers do not hold it.
    pub(super) fn response(&self) -> Value {
        json!({
            "payload": hex::encode(&self.payload), "signature": hex::encode(&self.signature),
            "extraData": self.extra_data, "index": self.index.to_string(),
        })
    }
}
