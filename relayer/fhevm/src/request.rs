//! Requests: the families of the API, and their bodies as they are stored.
//!
//! A body is stored decoded and canonical: bytes in lower-case hex with `0x`, numbers as decimal strings. So two
//! spellings are one request.

mod delegated;
mod input_proof;
mod public_decrypt;
mod user_decrypt;

use std::fmt;

use alloy::primitives::B256;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::{
    input_proof::InputProof,
    public_decrypt::PublicDecrypt,
    user_decrypt::{Pair, User, UserDecrypt, Validity},
};
use crate::{
    fields::{Checked, Fault, Fields},
    labels::{Detail, Label, Refusal},
};

/// A family of requests: a route of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// Verifies an encrypted input.
    InputProof,
    /// Decrypts for all.
    PublicDecrypt,
    /// Decrypts for a user.
    UserDecrypt,
    /// Decrypts for a user to whom another has delegated.
    DelegatedUserDecrypt,
}

impl Family {
    /// Every family.
    pub const ALL: [Self; 4] = [Self::InputProof, Self::PublicDecrypt, Self::UserDecrypt, Self::DelegatedUserDecrypt];

    /// The path of its submissions.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::InputProof => "/v2/input-proof",
            Self::PublicDecrypt => "/v2/public-decrypt",
            Self::UserDecrypt => "/v2/user-decrypt",
            Self::DelegatedUserDecrypt => "/v2/delegated-user-decrypt",
        }
    }

    /// The kind of its requests. Families of one kind find each other's jobs.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::InputProof => "fhevm_input_proof",
            Self::PublicDecrypt => "fhevm_public_decrypt",
            Self::UserDecrypt | Self::DelegatedUserDecrypt => "fhevm_user_decrypt",
        }
    }

    /// Reads the body of a submission.
    ///
    /// # Errors
    ///
    /// The refusal for its caller: no JSON, fields that ask for what is not served, all the fields that are missing, or
    /// all that break their rules.
    pub fn parse(self, body: &[u8], now: DateTime<Utc>) -> Result<Payload, Refusal> {
        let value: Value = serde_json::from_slice(body).map_err(|_| Label::MalformedJson)?;
        let mut fields = Fields::of(&value).map_err(of_body)?;
        refuse_unserved(&mut fields);
        if !fields.are_sound() {
            return Err(fields.refusal());
        }
        let payload = match self {
            Self::InputProof => InputProof::read(&mut fields).map(Payload::InputProof),
            Self::PublicDecrypt => PublicDecrypt::read(&mut fields).map(Payload::PublicDecrypt),
            Self::UserDecrypt => UserDecrypt::read(&mut fields, now).map(Payload::UserDecrypt),
            Self::DelegatedUserDecrypt => delegated::read(&mut fields, now).map(Payload::UserDecrypt),
        };
        payload.ok_or_else(|| fields.refusal())
    }
}

/// Refuses what asks for another decryption than this relayer makes: other unknown members change nothing, and are
/// ignored. Such a body has other fields, too, so this comes before those that are missing.
fn refuse_unserved(fields: &mut Fields<'_>) {
    fields.refuse("encryptedStores", |stores| !stores.is_null());
    fields.refuse("attestationType", |name| name.as_str().is_some_and(|name| name.starts_with("solana")));
}

/// The refusal of a body that is no object.
fn of_body(fault: Fault) -> Refusal {
    match fault {
        Fault::Missing(names) => Refusal::missing(&names),
        Fault::Invalid(issue) => Refusal::invalid(vec![Detail::new("request", issue)]),
    }
}

/// The stored payload of a request.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "family", rename_all = "snake_case")]
pub enum Payload {
    /// Of [`Family::InputProof`].
    InputProof(InputProof),
    /// Of [`Family::PublicDecrypt`].
    PublicDecrypt(PublicDecrypt),
    /// Of [`Family::UserDecrypt`] and [`Family::DelegatedUserDecrypt`].
    UserDecrypt(UserDecrypt),
}

impl Payload {
    /// The handles to decrypt; none of an input proof.
    pub fn handles(&self) -> impl Iterator<Item = &B256> {
        let (handles, pairs): (&[B256], &[Pair]) = match self {
            Self::InputProof(_) => (&[], &[]),
            Self::PublicDecrypt(request) => (&request.ciphertext_handles, &[]),
            Self::UserDecrypt(request) => (&[], &request.handle_contract_pairs),
        };
        handles.iter().chain(pairs.iter().map(|pair| &pair.handle))
    }
}

/// Without what callers have sent: logs must not have it.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InputProof(_) => "an input proof",
            Self::PublicDecrypt(_) => "a public decryption",
            Self::UserDecrypt(_) => "a user decryption",
        })
    }
}

/// The host chain of a handle.
#[must_use]
pub fn chain_of(handle: &B256) -> u64 {
    let mut id = [0; 8];
    id.copy_from_slice(&handle[22..30]);
    u64::from_be_bytes(id)
}

/// Numbers as decimal strings, in JSON.
mod decimal {
    use std::{fmt::Display, str::FromStr};

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(number: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// What a rule makes of one field of an object in another field.
fn nested<'a, T>(value: &'a Value, read: impl FnOnce(&mut Fields<'a>) -> Option<T>) -> Checked<T> {
    let mut fields = Fields::of(value)?;
    read(&mut fields).ok_or_else(|| fields.fault())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HANDLE: &str = "0x1C92b55f05ee16f6facd3a57d7d9365f7f233b30a1000000000000007a690500";
    const ADDRESS: &str = "0x63C6684e14e27dc59870c5595d574bd6ca5d6ac6";

    fn delegated() -> Value {
        json!({
            "handleContractPairs": [{"handle": HANDLE, "contractAddress": ADDRESS}],
            "contractsChainId": "0x7A69",
            "contractAddresses": [ADDRESS],
            "delegatorAddress": ADDRESS,
            "delegateAddress": ADDRESS,
            "startTimestamp": "0x10",
            "durationDays": "010",
            "signature": "AB".repeat(65),
            "publicKey": "DD1d",
            "extraData": "0x00",
        })
    }

    #[test]
    fn a_stored_body_has_one_spelling_and_is_read_back_as_it_was() {
        let payload = Family::DelegatedUserDecrypt.parse(delegated().to_string().as_bytes(), Utc::now()).unwrap();

        let stored = serde_json::to_value(&payload).unwrap();

        assert_eq!(
            stored,
            json!({
                "family": "user_decrypt",
                "variant": "delegated",
                "delegatorAddress": ADDRESS.to_lowercase(),
                "delegateAddress": ADDRESS.to_lowercase(),
                "handleContractPairs": [{"handle": HANDLE.to_lowercase(), "contractAddress": ADDRESS.to_lowercase()}],
                "contractsChainId": "31337",
                "contractAddresses": [ADDRESS.to_lowercase()],
                "requestValidity": {"startTimestamp": "16", "durationDays": "10"},
                "signature": format!("0x{}", "ab".repeat(65)),
                "publicKey": "0xdd1d",
                "extraData": "0x00",
            })
        );
        assert_eq!(serde_json::from_value::<Payload>(stored).unwrap(), payload);
        assert_eq!(payload.handles().map(chain_of).collect::<Vec<_>>(), [31337]);
    }

    #[test]
    fn all_missing_fields_are_named_at_once_each_once() {
        let mut body = delegated();
        body["handleContractPairs"] = json!([{"handle": HANDLE}, {"handle": 5}]);
        body.as_object_mut().unwrap().remove("extraData");

        let refusal = Family::DelegatedUserDecrypt.parse(body.to_string().as_bytes(), Utc::now());

        assert_eq!(refusal, Err(Refusal::missing(&["contractAddress", "extraData"])));
    }

    #[test]
    fn the_debug_form_has_nothing_of_the_body() {
        let body = json!({"ciphertextHandles": [HANDLE], "extraData": "0x00"});
        let payload = Family::PublicDecrypt.parse(body.to_string().as_bytes(), Utc::now());
        assert_eq!(format!("{payload:?}"), "Ok(a public decryption)");
    }
}
