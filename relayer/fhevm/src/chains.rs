//! The chains of a configuration.

use alloy::primitives::Address;
use tidegate_evm::{Chain, ChainError, fees::FeeBounds};

use crate::{
    answers::Contracts,
    config::{self, Config},
    key_url,
};

/// The access control list of a host chain.
#[derive(Debug, Clone)]
pub struct HostChain {
    /// The chain.
    pub chain: Chain,
    /// Its contract `ACL`.
    pub acl: Address,
}

/// Where thresholds of KMS contexts are read.
#[derive(Debug, Clone)]
pub struct Kms {
    /// The host chain that carries the KMS protocol.
    pub chain: Chain,
    /// Its contract `ProtocolConfig`.
    pub protocol_config: Address,
}

/// The chains of a configuration, with their contracts.
#[derive(Clone)]
pub struct Chains {
    /// The gateway chain, with the fees that transactions may offer.
    pub gateway: Chain,
    /// Its contracts whose logs count.
    pub contracts: Contracts,
    /// The host chains.
    pub hosts: Vec<HostChain>,
    kms: Option<config::Kms>,
}

impl Chains {
    /// Connects to the endpoints of the chains.
    ///
    /// # Errors
    ///
    /// When the endpoints of a chain are all of other chains.
    pub async fn connect(config: &Config) -> Result<Self, ChainError> {
        let (gateway, fees) = (&config.gateway, &config.fees);
        let bounds = FeeBounds { floor: fees.floor.into(), cap: fees.cap.into(), tip: fees.tip.map(u128::from) };
        let mut hosts = Vec::new();
        for host in &config.host_chains {
            let chain = Chain::connect(host.chain_id, &host.http).await?;
            hosts.push(HostChain { chain, acl: host.acl });
        }
        Ok(Self {
            gateway: Chain::connect(gateway.chain_id, &gateway.http).await?.with_fee_bounds(bounds),
            contracts: Contracts { decryption: gateway.decryption, input_verification: gateway.input_verification },
            hosts,
            kms: config.kms,
        })
    }

    /// Where thresholds of KMS contexts are read.
    pub(crate) fn kms(&self) -> Option<Kms> {
        let (chain, kms) = self.kms_chain()?;
        Some(Kms { chain, protocol_config: kms.protocol_config })
    }

    /// Where the place of the public key is read.
    #[must_use]
    pub fn key_url(&self) -> Option<key_url::Source> {
        let (chain, kms) = self.kms_chain()?;
        let (protocol_config, kms_generation) = (kms.protocol_config, kms.kms_generation);
        Some(key_url::Source { chain, protocol_config, kms_generation })
    }

    fn kms_chain(&self) -> Option<(Chain, config::Kms)> {
        let kms = self.kms?;
        let host = self.hosts.iter().find(|host| host.chain.id() == kms.chain_id)?;
        Some((host.chain.clone(), kms))
    }
}
