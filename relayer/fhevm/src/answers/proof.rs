//! The answer to an input proof.

use alloy::{
    primitives::{B256, Bytes},
    rpc::types::Log,
    sol_types::SolEvent,
};
use serde_json::{Value, json};

use crate::abi::gateway::InputVerification::VerifyProofResponse;

/// What the coprocessors found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// The input is valid.
    Accepted {
        /// The handles of its values.
        handles: Vec<B256>,
        /// The coprocessors' signatures of the handles.
        signatures: Vec<Bytes>,
    },
    /// It is not.
    Rejected,
}

impl Proof {
    pub(super) fn accepted(log: &Log) -> Option<Self> {
        let event = VerifyProofResponse::decode_log(&log.inner).ok()?.data;
        Some(Self::Accepted { handles: event.ctHandles, signatures: event.signatures })
    }

    /// The extra data is that of every request: the event has none.
    pub(super) fn response(&self) -> Value {
        match self {
            Self::Accepted { handles, signatures } => {
                json!({ "accepted": true, "extraData": "0x00", "handles": handles, "signatures": signatures })
            }
            Self::Rejected => json!({ "accepted": false, "extraData": "0x00" }),
        }
    }
}
