//! What a revert of the contracts means for the request that met it: one table.

use alloy::{hex, sol_types::SolError};
use serde_json::json;
use tidegate::request::RequestError;

use crate::{
    abi::reverts as errors,
    labels::{Detail, Label},
    request::{Payload, User},
};

/// The most bytes of a revert's data that a stored error shows.
const SHOWN: usize = 256;

/// What becomes of a request whose call reverts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It fails.
    Fail,
    /// The material is not on the gateway yet, though the readiness check has seen it: the call is repeated for a while.
    AwaitMaterial,
    /// The chain's clock is behind ours: the call is repeated once.
    AwaitClock,
}

/// The field at fault, by the family of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blamed {
    /// This one.
    Field(&'static str),
    /// The one with the handles.
    Handles,
    /// The one with the chain's id.
    Chain,
}

/// What a revert means for the caller of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// This label; not the request's fault.
    Says(Label),
    /// [`Label::ValidationFailed`], for this issue of this field.
    Blames(Blamed, &'static str),
}

use Blamed::{Chain, Field, Handles};
use Meaning::{Blames, Says};

const SIGNATURE: Meaning = Blames(Field("signature"), "Signature is invalid");
const CONTRACTS: Blamed = Field("contractAddresses");
const PAIRS: Blamed = Field("handleContractPairs");
const VALIDITY: Blamed = Field("requestValidity");
const EXTRA_DATA: Blamed = Field("extraData");
const EMPTY: &str = "The gateway refuses an empty list";
const TYPE: &str = "Has a handle of a type that the gateway refuses";

/// A row of the table: a selector and its meaning.
type Row = ([u8; 4], Meaning);

const fn row<E: SolError>(meaning: Meaning) -> Row {
    (E::SELECTOR, meaning)
}

static TABLE: &[Row] = &[
    row::<errors::EnforcedPause>(Says(Label::ProtocolPaused)),
    row::<errors::ERC20InsufficientBalance>(Says(Label::InsufficientBalance)),
    row::<errors::ERC20InsufficientAllowance>(Says(Label::InsufficientAllowance)),
    row::<errors::CiphertextMaterialNotFound>(Says(Label::ReadinessCheckTimedOut)),
    row::<errors::InvalidUserSignature>(SIGNATURE),
    row::<errors::ECDSAInvalidSignature>(SIGNATURE),
    row::<errors::ECDSAInvalidSignatureLength>(SIGNATURE),
    row::<errors::ECDSAInvalidSignatureS>(SIGNATURE),
    row::<errors::EmptyCtHandles>(Blames(Field("ciphertextHandles"), EMPTY)),
    row::<errors::EmptyCtHandleContractPairs>(Blames(PAIRS, EMPTY)),
    row::<errors::EmptyContractAddresses>(Blames(CONTRACTS, EMPTY)),
    row::<errors::ContractAddressesMaxLengthExceeded>(Blames(CONTRACTS, "Has more addresses than the gateway takes")),
    row::<errors::ContractNotInContractAddresses>(Blames(PAIRS, "Has a contract that is not in contractAddresses")),
    row::<errors::CtHandleChainIdDiffersFromContractChainId>(Blames(
        Field("contractsChainId"),
        "Is not the chain of every handle",
    )),
    row::<errors::DelegatorAddressInContractAddresses>(Blames(
        Field("delegatorAddress"),
        "Must not be one of contractAddresses",
    )),
    row::<errors::UserAddressInContractAddresses>(Blames(Field("userAddress"), "Must not be one of contractAddresses")),
    row::<errors::DifferentKeyIdsNotAllowed>(Blames(Handles, "Has handles under different keys")),
    row::<errors::HostChainNotRegistered>(Blames(Chain, "The gateway does not know the host chain")),
    row::<errors::HostChainDisabled>(Blames(Chain, "The gateway has disabled the host chain")),
    row::<errors::InvalidExtraDataLength>(Blames(EXTRA_DATA, "Has a length that the gateway refuses")),
    row::<errors::UnsupportedExtraDataVersion>(Blames(EXTRA_DATA, "Has a version that the gateway refuses")),
    row::<errors::InvalidNullContextId>(Blames(EXTRA_DATA, "Has a context id of zero")),
    row::<errors::InvalidKmsContext>(Blames(EXTRA_DATA, "Has a KMS context that the gateway refuses")),
    row::<errors::InvalidFHEType>(Blames(Handles, TYPE)),
    row::<errors::UnsupportedFHEType>(Blames(Handles, TYPE)),
    row::<errors::MaxDecryptionRequestBitSizeExceeded>(Blames(
        Handles,
        "Has more bits in all than the gateway decrypts at once",
    )),
    row::<errors::InvalidNullDurationDays>(Blames(VALIDITY, "Lasts no time")),
    row::<errors::MaxDurationDaysExceeded>(Blames(VALIDITY, "Lasts longer than the gateway takes")),
    row::<errors::StartTimestampInFuture>(Blames(VALIDITY, "Starts in the future of the gateway chain")),
    row::<errors::UserDecryptionRequestExpired>(Blames(VALIDITY, "Is over")),
];

fn find(data: &[u8]) -> Option<Meaning> {
    let selector = data.first_chunk::<4>()?;
    TABLE.iter().find_map(|(of, meaning)| (of == selector).then_some(*meaning))
}

/// What becomes of a request whose call reverts with `data`.
#[must_use]
pub fn action(data: &[u8]) -> Action {
    match data.first_chunk() {
        Some(&errors::CiphertextMaterialNotFound::SELECTOR) => Action::AwaitMaterial,
        Some(&errors::StartTimestampInFuture::SELECTOR) => Action::AwaitClock,
        _ => Action::Fail,
    }
}

/// Whether `data` has a meaning of its own.
#[must_use]
pub fn is_known(data: &[u8]) -> bool {
    find(data).is_some()
}

/// The error in which a request ends whose call reverts with `data`.
#[must_use]
pub fn error(data: &[u8], payload: &Payload) -> RequestError {
    match find(data) {
        Some(Says(label)) => label.error(),
        Some(Blames(blamed, issue)) => {
            let details = json!([Detail::new(field(blamed, payload), issue)]);
            Label::ValidationFailed.error().with_details(details)
        }
        None => {
            let shown = hex::encode_prefixed(&data[..data.len().min(SHOWN)]);
            let details = json!({ "revert": shown, "bytes": data.len() });
            Label::InternalServerError.error().with_details(details)
        }
    }
}

fn field(blamed: Blamed, payload: &Payload) -> &'static str {
    match (blamed, payload) {
        // The contract calls the delegate the user.
        (Field("userAddress"), Payload::UserDecrypt(request)) if matches!(request.user, User::Delegated { .. }) => {
            "delegateAddress"
        }
        (Field(field), _) => field,
        (Handles | Chain, Payload::PublicDecrypt(_)) => "ciphertextHandles",
        (Handles, _) => "handleContractPairs",
        (Chain, Payload::InputProof(_)) => "contractChainId",
        (Chain, Payload::UserDecrypt(_)) => "contractsChainId",
    }
}

#[cfg(test)]
mod tests;
