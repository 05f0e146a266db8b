//! What the logs of the gateway's contracts say, and the responses that are stored for them.

mod proof;
mod public;
mod share;
#[cfg(test)]
mod tests;

use alloy::{
    primitives::{Address, B256, U256},
    rpc::types::Log,
    sol_types::SolEvent,
};
use serde_json::Value;

pub use self::{proof::Proof, public::Public, share::Share};
use crate::abi::{
    gateway::{Decryption, InputVerification},
    with_materials,
};

/// The topics of the events that count.
pub const TOPICS: [B256; 9] = [
    InputVerification::VerifyProofRequest::SIGNATURE_HASH,
    InputVerification::VerifyProofResponse::SIGNATURE_HASH,
    InputVerification::RejectProofResponse::SIGNATURE_HASH,
    Decryption::PublicDecryptionRequest::SIGNATURE_HASH,
    with_materials::PublicDecryptionRequest::SIGNATURE_HASH,
    Decryption::PublicDecryptionResponse::SIGNATURE_HASH,
    Decryption::UserDecryptionRequest::SIGNATURE_HASH,
    with_materials::UserDecryptionRequest::SIGNATURE_HASH,
    Decryption::UserDecryptionResponse::SIGNATURE_HASH,
];

/// The contracts whose logs count.
#[derive(Debug, Clone, Copy)]
pub struct Contracts {
    /// `Decryption`.
    pub decryption: Address,
    /// `InputVerification`.
    pub input_verification: Address,
}

/// An event of one of the contracts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The contract.
    pub contract: Address,
    /// The id that the contract gave to the request.
    pub id: U256,
    /// The answer; none: the contract took the request.
    pub answer: Option<Answer>,
}

/// An answer of the coprocessors or the KMS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// To an input proof.
    Proof(Proof),
    /// To a public decryption.
    Public(Public),
    /// To a user decryption: one share of it.
    Share(Share),
}

impl Answer {
    /// The response that is stored for it.
    #[must_use]
    pub fn response(&self) -> Value {
        match self {
            Self::Proof(proof) => proof.response(),
            Self::Public(public) => public.response(),
            Self::Share(share) => share.response(),
        }
    }

    /// The name of its event, for figures.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Proof(Proof::Accepted { .. }) => "VerifyProofResponse",
            Self::Proof(Proof::Rejected) => "RejectProofResponse",
            Self::Public(_) => "PublicDecryptionResponse",
            Self::Share(_) => "UserDecryptionResponse",
        }
    }
}

impl Contracts {
    /// The event of a log; `None` if it is of another contract, or not one that counts.
    #[must_use]
    pub fn event(&self, log: &Log) -> Option<Event> {
        let topics = log.topics();
        let id = U256::from_be_bytes(topics.get(1)?.0);
        let contract = log.address();
        let answer = if contract == self.input_verification {
            match topics[0] {
                InputVerification::VerifyProofRequest::SIGNATURE_HASH => None,
                InputVerification::VerifyProofResponse::SIGNATURE_HASH => Some(Answer::Proof(Proof::accepted(log)?)),
                InputVerification::RejectProofResponse::SIGNATURE_HASH => Some(Answer::Proof(Proof::Rejected)),
                _ => return None,
            }
        } else if contract == self.decryption {
            match topics[0] {
                Decryption::PublicDecryptionRequest::SIGNATURE_HASH
                | with_materials::PublicDecryptionRequest::SIGNATURE_HASH
                | Decryption::UserDecryptionRequest::SIGNATURE_HASH
                | with_materials::UserDecryptionRequest::SIGNATURE_HASH => None,
                Decryption::PublicDecryptionResponse::SIGNATURE_HASH => Some(Answer::Public(Public::decode(log)?)),
                Decryption::UserDecryptionResponse::SIGNATURE_HASH => Some(Answer::Share(Share::decode(log)?)),
                _ => return None,
            }
        } else {
            return None;
        };
        Some(Event { contract, id, answer })
    }
}
