//! `POST /v2/user-decrypt`, and what the delegated form has in common with it.

use alloy::primitives::{Address, B256, Bytes};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{decimal, nested};
use crate::fields::{
    Checked, Fields, address, chain_id, days, each, extra_data, handle, plain_hex, signature, timestamp,
};

/// Handles to decrypt for a user.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserDecrypt {
    /// The user that may decrypt.
    #[serde(flatten)]
    pub user: User,
    /// The handles, each with the contract that holds it, at least one.
    pub handle_contract_pairs: Vec<Pair>,
    /// When the user's permission holds.
    pub request_validity: Validity,
    /// The chain of the contracts.
    #[serde(with = "decimal")]
    pub contracts_chain_id: u64,
    /// The contracts that the user's permission is for, at least one.
    pub contract_addresses: Vec<Address>,
    /// The user's permission.
    pub signature: Bytes,
    /// The key under which the user gets the result.
    pub public_key: Bytes,
    /// Passed to the gateway as it is.
    pub extra_data: Bytes,
}

/// The user of a decryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "variant", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum User {
    /// The owner of the handles.
    User {
        /// Its address.
        user_address: Address,
    },
    /// Another, to whom the owner has delegated.
    Delegated {
        /// The owner.
        delegator_address: Address,
        /// The other.
        delegate_address: Address,
    },
}

/// A handle, and the contract that holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pair {
    /// The handle.
    pub handle: B256,
    /// The contract.
    pub contract_address: Address,
}

/// When a permission holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Validity {
    /// From this second on, in Unix time.
    #[serde(with = "decimal")]
    pub start_timestamp: u64,
    /// For so many days.
    #[serde(with = "decimal")]
    pub duration_days: u32,
}

impl Validity {
    pub(super) fn read(fields: &mut Fields<'_>, now: DateTime<Utc>) -> Option<Self> {
        let start_timestamp = fields.take("startTimestamp", |value| timestamp(value, now));
        let duration_days = fields.take("durationDays", days);
        Some(Self { start_timestamp: start_timestamp?, duration_days: duration_days? })
    }
}

fn pair(value: &Value) -> Checked<Pair> {
    nested(value, |fields| {
        let handle = fields.take("handle", handle);
        let contract_address = fields.take("contractAddress", address);
        Some(Pair { handle: handle?, contract_address: contract_address? })
    })
}

impl UserDecrypt {
    pub(super) fn read(fields: &mut Fields<'_>, now: DateTime<Utc>) -> Option<Self> {
        let validity = |fields: &mut Fields<'_>| {
            fields.take("requestValidity", |value| nested(value, |fields| Validity::read(fields, now)))
        };
        let user = |fields: &mut Fields<'_>| {
            let user_address = fields.take("userAddress", address)?;
            Some(User::User { user_address })
        };
        Self::read_with(fields, validity, user)
    }

    /// Reads what both forms have, and by these functions what they have in different fields.
    pub(super) fn read_with<'a>(
        fields: &mut Fields<'a>,
        validity: impl FnOnce(&mut Fields<'a>) -> Option<Validity>,
        user: impl FnOnce(&mut Fields<'a>) -> Option<User>,
    ) -> Option<Self> {
        let handle_contract_pairs = fields.take("handleContractPairs", each(pair));
        let request_validity = validity(fields);
        let contracts_chain_id = fields.take("contractsChainId", chain_id);
        let contract_addresses = fields.take("contractAddresses", each(address));
        let user = user(fields);
        let signature = fields.take("signature", signature);
        let public_key = fields.take("publicKey", plain_hex);
        let extra_data = fields.take("extraData", extra_data);
        Some(Self {
            user: user?,
            handle_contract_pairs: handle_contract_pairs?,
            request_validity: request_validity?,
            contracts_chain_id: contracts_chain_id?,
            contract_addresses: contract_addresses?,
            signature: signature?,
            public_key: public_key?,
            extra_data: extra_data?,
        })
    }
}
