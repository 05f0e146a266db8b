//! `POST /v2/public-decrypt`

use alloy::primitives::{B256, Bytes};
use serde::{Deserialize, Serialize};

use crate::fields::{Fields, each, extra_data, handle};

/// Handles to decrypt for all.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PublicDecrypt {
    /// The handles, at least one.
    pub ciphertext_handles: Vec<B256>,
    /// Passed to the gateway as it is.
    pub extra_data: Bytes,
}

impl PublicDecrypt {
    pub(super) fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let ciphertext_handles = fields.take("ciphertextHandles", each(handle));
        let extra_data = fields.take("extraData", extra_data);
        Some(Self { ciphertext_handles: ciphertext_handles?, extra_data: extra_data? })
    }
}
