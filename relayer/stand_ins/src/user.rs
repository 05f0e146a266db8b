//! Users, who sign what they want decrypted.

use alloy::primitives::{Address, Bytes, U256};
use alloy::signers::SignerSync as _;
use alloy::signers::local::PrivateKeySigner;
use alloy::sol_types::SolStruct;

use crate::abi::{DelegatedUserDecryptRequestVerification, UserDecryptRequestVerification};
use crate::kms::domain;

/// What a user or delegate signs, less the delegator.
#[derive(Clone, Debug)]
pub struct Permit {
    /// What shares are encrypted for.
    pub public_key: Bytes,
    /// The contracts whose ciphertexts may be decrypted.
    pub contracts: Vec<Address>,
    /// When it begins, in seconds since 1970.
    pub start: u64,
    /// How long it lasts.
    pub days: u64,
    /// The KMS context.
    pub extra_data: Bytes,
}

impl Permit {
    /// The signature of a user, for ciphertexts of a host chain.
    ///
    /// # Errors
    ///
    /// When the key cannot sign.
    pub fn sign(&self, user: &PrivateKeySigner, host_chain: u64, decryption: Address) -> anyhow::Result<Bytes> {
        let message = UserDecryptRequestVerification {
            publicKey: self.public_key.clone(),
            contractAddresses: self.contracts.clone(),
            startTimestamp: U256::from(self.start),
            durationDays: U256::from(self.days),
            extraData: self.extra_data.clone(),
        };
        sign(user, &message, host_chain, decryption)
    }

    /// The signature of a delegate, for ciphertexts of the delegator.
    ///
    /// # Errors
    ///
    /// When the key cannot sign.
    pub fn sign_delegated(
        &self,
        delegate: &PrivateKeySigner,
        delegator: Address,
        host_chain: u64,
        decryption: Address,
    ) -> anyhow::Result<Bytes> {
        let message = DelegatedUserDecryptRequestVerification {
            publicKey: self.public_key.clone(),
            contractAddresses: self.contracts.clone(),
            delegatorAddress: delegator,
            startTimestamp: U256::from(self.start),
            durationDays: U256::from(self.days),
            extraData: self.extra_data.clone(),
        };
        sign(delegate, &message, host_chain, decryption)
    }
}

fn sign(
    by: &PrivateKeySigner,
    message: &impl SolStruct,
    host_chain: u64,
    decryption: Address,
) -> anyhow::Result<Bytes> {
    let digest = message.eip712_signing_hash(&domain("Decryption", host_chain, decryption));
    Ok(by.sign_hash_sync(&digest)?.as_bytes().into())
}
