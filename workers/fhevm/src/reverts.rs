//! What a revert of the contracts means for the request that met it: one table.

use alloy::{hex, sol_types::SolError};
use serde::Serialize;
use serde_json::{json, value::to_raw_value};
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
    /// None: not the request's fault.
    Nothing,
    /// This one.
    Field(&'static str),
    /// The one with the handles.
    Handles,
    /// The one with the chain's id.
    Chain,
}

/// A row of the table.
struct Row {
    selector: [u8; 4],
    label: Label,
    blamed: Blamed,
    issue: &'static str,
    action: Action,
}

const fn row(selector: [u8; 4], label: Label, action: Action) -> Row {
    Row {
        selector,
        label,
        blamed: Blamed::Nothing,
        issue: "",
        action,
    }
}

const fn invalid(selector: [u8; 4], blamed: Blamed, issue: &'static str) -> Row {
    Row {
        selector,
        label: Label::ValidationFailed,
        blamed,
        issue,
        action: Action::Fail,
    }
}

const SIGNATURE: Blamed = Blamed::Field("signature");
const CONTRACTS: Blamed = Blamed::Field("contractAddresses");
const PAIRS: Blamed = Blamed::Field("handleContractPairs");
const VALIDITY: Blamed = Blamed::Field("requestValidity");
const EXTRA_DATA: Blamed = Blamed::Field("extraData");

const BAD_SIGNATURE: &str = "Signature is invalid";

static TABLE: &[Row] = &[
    row(errors::EnforcedPause::SELECTOR, Label::ProtocolPaused, Action::Fail),
    row(
        errors::ERC20InsufficientBalance::SELECTOR,
        Label::InsufficientBalance,
        Action::Fail,
    ),
    row(
        errors::ERC20InsufficientAllowance::SELECTOR,
        Label::InsufficientAllowance,
        Action::Fail,
    ),
    row(
        errors::CiphertextMaterialNotFound::SELECTOR,
        Label::ReadinessCheckTimedOut,
        Action::AwaitMaterial,
    ),
    invalid(errors::InvalidUserSignature::SELECTOR, SIGNATURE, BAD_SIGNATURE),
    invalid(errors::ECDSAInvalidSignature::SELECTOR, SIGNATURE, BAD_SIGNATURE),
    invalid(errors::ECDSAInvalidSignatureLength::SELECTOR, SIGNATURE, BAD_SIGNATURE),
    invalid(errors::ECDSAInvalidSignatureS::SELECTOR, SIGNATURE, BAD_SIGNATURE),
    invalid(
        errors::EmptyCtHandles::SELECTOR,
        Blamed::Field("ciphertextHandles"),
        "The gateway refuses an empty list",
    ),
    invalid(
        errors::EmptyCtHandleContractPairs::SELECTOR,
        PAIRS,
        "The gateway refuses an empty list",
    ),
    invalid(
        errors::EmptyContractAddresses::SELECTOR,
        CONTRACTS,
        "The gateway refuses an empty list",
    ),
    invalid(
        errors::ContractAddressesMaxLengthExceeded::SELECTOR,
        CONTRACTS,
        "Has more addresses than the gateway takes",
    ),
    invalid(
        errors::ContractNotInContractAddresses::SELECTOR,
        PAIRS,
        "Has a contract that is not in contractAddresses",
    ),
    invalid(
        errors::CtHandleChainIdDiffersFromContractChainId::SELECTOR,
        Blamed::Field("contractsChainId"),
        "Is not the chain of every handle",
    ),
    invalid(
        errors::DelegatorAddressInContractAddresses::SELECTOR,
        Blamed::Field("delegatorAddress"),
        "Must not be one of contractAddresses",
    ),
    invalid(
        errors::UserAddressInContractAddresses::SELECTOR,
        Blamed::Field("userAddress"),
        "Must not be one of contractAddresses",
    ),
    invalid(
        errors::DifferentKeyIdsNotAllowed::SELECTOR,
        Blamed::Handles,
        "Has handles under different keys",
    ),
    invalid(
        errors::HostChainNotRegistered::SELECTOR,
        Blamed::Chain,
        "The gateway does not know the host chain",
    ),
    invalid(
        errors::HostChainDisabled::SELECTOR,
        Blamed::Chain,
        "The gateway has disabled the host chain",
    ),
    invalid(
        errors::InvalidExtraDataLength::SELECTOR,
        EXTRA_DATA,
        "Has a length that the gateway refuses",
    ),
    invalid(
        errors::UnsupportedExtraDataVersion::SELECTOR,
        EXTRA_DATA,
        "Has a version that the gateway refuses",
    ),
    invalid(
        errors::InvalidNullContextId::SELECTOR,
        EXTRA_DATA,
        "Has a context id of zero",
    ),
    invalid(
        errors::InvalidKmsContext::SELECTOR,
        EXTRA_DATA,
        "Has a KMS context that the gateway refuses",
    ),
    invalid(
        errors::InvalidFHEType::SELECTOR,
        Blamed::Handles,
        "Has a handle of a type that the gateway refuses",
    ),
    invalid(
        errors::UnsupportedFHEType::SELECTOR,
        Blamed::Handles,
        "Has a handle of a type that the gateway refuses",
    ),
    invalid(
        errors::MaxDecryptionRequestBitSizeExceeded::SELECTOR,
        Blamed::Handles,
        "Has more bits in all than the gateway decrypts at once",
    ),
    invalid(errors::InvalidNullDurationDays::SELECTOR, VALIDITY, "Lasts no time"),
    invalid(
        errors::MaxDurationDaysExceeded::SELECTOR,
        VALIDITY,
        "Lasts longer than the gateway takes",
    ),
    Row {
        selector: errors::StartTimestampInFuture::SELECTOR,
        label: Label::ValidationFailed,
        blamed: VALIDITY,
        issue: "Starts in the future of the gateway chain",
        action: Action::AwaitClock,
    },
    invalid(errors::UserDecryptionRequestExpired::SELECTOR, VALIDITY, "Is over"),
];

fn find(data: &[u8]) -> Option<&'static Row> {
    let selector = data.first_chunk::<4>()?;
    TABLE.iter().find(|row| row.selector == *selector)
}

/// What becomes of a request whose call reverts with `data`.
#[must_use]
pub fn action(data: &[u8]) -> Action {
    find(data).map_or(Action::Fail, |row| row.action)
}

/// Whether `data` has a meaning of its own.
#[must_use]
pub fn is_known(data: &[u8]) -> bool {
    find(data).is_some()
}

/// The error in which a request ends whose call reverts with `data`.
#[must_use]
pub fn error(data: &[u8], payload: &Payload) -> RequestError {
    let Some(row) = find(data) else {
        let shown = hex::encode_prefixed(&data[..data.len().min(SHOWN)]);
        return with_details(
            Label::InternalServerError,
            &json!({ "revert": shown, "bytes": data.len() }),
        );
    };
    match field(row.blamed, payload) {
        Some(field) => with_details(row.label, &[Detail::new(field, row.issue)]),
        None => row.label.error(),
    }
}

fn with_details(label: Label, details: &impl Serialize) -> RequestError {
    let mut error = label.error();
    error.details = to_raw_value(details).ok();
    error
}

fn field(blamed: Blamed, payload: &Payload) -> Option<&'static str> {
    let user = match payload {
        Payload::UserDecrypt(request) => Some(&request.user),
        _ => None,
    };
    Some(match (blamed, payload) {
        (Blamed::Nothing, _) => return None,
        // The contract calls the delegate the user.
        (Blamed::Field("userAddress"), _) if matches!(user, Some(User::Delegated { .. })) => "delegateAddress",
        (Blamed::Field(field), _) => field,
        (Blamed::Handles, Payload::PublicDecrypt(_)) => "ciphertextHandles",
        (Blamed::Handles, _) => "handleContractPairs",
        (Blamed::Chain, Payload::InputProof(_)) => "contractChainId",
        (Blamed::Chain, Payload::PublicDecrypt(_)) => "ciphertextHandles",
        (Blamed::Chain, Payload::UserDecrypt(_)) => "contractsChainId",
    })
}

#[cfg(test)]
mod tests;
