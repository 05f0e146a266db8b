//! The contracts of a host chain.

use alloy::primitives::{Address, U256};
use alloy::sol_types::SolValue as _;
use anyhow::ensure;

use crate::abi::{KMSGeneration, KmsNodeParams, KmsThresholds, ProtocolConfig};
use crate::deploy::{OPERATOR, Operator};
use crate::gateway::{Gateway, GatewayOptions, first_context};

/// What a host chain tells of the gateway.
#[derive(Clone, Debug)]
pub struct HostOptions<'a> {
    /// The gateway's chain id.
    pub gateway_chain: u64,
    /// The gateway's contracts.
    pub gateway: Gateway,
    /// The signers and thresholds of the gateway.
    pub signers: &'a GatewayOptions,
    /// Where the first node of the KMS stores keys.
    pub storage_url: String,
}

/// The folder below the storage URL that has keys.
pub const STORAGE_PREFIX: &str = "PUB-p1";

/// The addresses of the contracts.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// Who may use which ciphertext.
    pub acl: Address,
    /// The signers of the KMS, for the SDK.
    pub kms_verifier: Address,
    /// The signers of the coprocessor, for the SDK.
    pub input_verifier: Address,
    /// The contexts of the KMS.
    pub protocol_config: Address,
    /// The keys of the KMS.
    pub kms_generation: Address,
}

/// The id of the active key. Ids of keys begin with a byte 4.
pub fn first_key() -> U256 {
    (U256::from(4) << 248) | U256::from(1)
}

/// The id of the active CRS. Ids of CRSs begin with a byte 5.
pub fn first_crs() -> U256 {
    (U256::from(5) << 248) | U256::from(1)
}

/// The address of the ACL on every host chain: the operator's first contract.
pub fn acl() -> Address {
    OPERATOR.create(0)
}

impl Host {
    /// Deploys the contracts, with one context, one key and one CRS.
    ///
    /// # Errors
    ///
    /// When the chain refuses a transaction.
    pub async fn deploy(operator: &mut Operator, options: &HostOptions<'_>) -> anyhow::Result<Host> {
        let HostOptions { gateway_chain, gateway, signers, storage_url } = options;
        let chain = U256::from(*gateway_chain);
        let context = first_context();
        let acl = operator.deploy("ACL", &[]).await?;
        ensure!(acl == self::acl(), "the host chain's contracts must be the first that are deployed on it");
        let kms = (chain, gateway.decryption, U256::from(signers.public_threshold), signers.kms.clone(), context);
        let kms_verifier = operator.deploy("KMSVerifier", &kms.abi_encode_params()).await?;
        let threshold = U256::from(signers.coprocessor_threshold);
        let input = (chain, gateway.input_verification, threshold, signers.coprocessors.clone());
        let input_verifier = operator.deploy("InputVerifier", &input.abi_encode_params()).await?;
        let protocol_config = operator.deploy("ProtocolConfig", &[]).await?;
        let kms_generation = operator.deploy("KMSGeneration", &[]).await?;

        let nodes = (1..).zip(&signers.kms).map(|(party, signer)| KmsNodeParams {
            txSenderAddress: *signer,
            signerAddress: *signer,
            ipAddress: "127.0.0.1".to_owned(),
            storageUrl: storage_url.clone(),
            partyId: party,
            mpcIdentity: format!("node-{party}"),
            caCert: Vec::new().into(),
            storagePrefix: STORAGE_PREFIX.to_owned(),
        });
        let thresholds = KmsThresholds {
            publicDecryption: U256::from(signers.public_threshold),
            userDecryption: U256::from(signers.user_threshold),
            kmsGen: U256::from(1),
            mpc: U256::from(1),
        };
        let define = ProtocolConfig::defineContextCall { contextId: context, nodes: nodes.collect(), thresholds };
        operator.send(protocol_config, &define).await?;
        let urls = vec![storage_url.clone()];
        let activate = KMSGeneration::activateCall { keyId: first_key(), crsId: first_crs(), storageUrls: urls };
        operator.send(kms_generation, &activate).await?;
        operator.mined().await?;
        Ok(Host { acl, kms_verifier, input_verifier, protocol_config, kms_generation })
    }
}
