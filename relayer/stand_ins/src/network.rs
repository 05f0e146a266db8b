//! A whole network: a gateway chain, host chains, their contracts, and nodes that answer.

use alloy::signers::local::PrivateKeySigner;

use crate::answering::{self, Answering};
use crate::chain::{Anvil, ChainOptions, Mining};
use crate::coprocessor::{Coprocessor, REJECTED};
use crate::deploy::Operator;
use crate::gateway::{Gateway, GatewayOptions};
use crate::host::{Host, HostOptions};
use crate::kms::Kms;

/// What a network is like.
#[derive(Clone, Debug)]
pub struct NetworkOptions {
    /// The gateway chain.
    pub gateway: ChainOptions,
    /// The host chains.
    pub hosts: Vec<ChainOptions>,
    /// How many nodes the KMS has.
    pub kms: usize,
    /// How many of them must answer a public decryption.
    pub public_threshold: usize,
    /// How many shares end a user decryption.
    pub user_threshold: usize,
    /// How many nodes the coprocessor has, which must agree.
    pub coprocessors: usize,
    /// Where the first node of the KMS stores keys.
    pub storage_url: String,
}

impl Default for NetworkOptions {
    /// Gateway chain 54321 and host chain 31337, a KMS of four nodes that needs three, and one coprocessor.
    fn default() -> NetworkOptions {
        NetworkOptions {
            gateway: ChainOptions { chain_id: 54321, mining: Mining::Mixed, ..ChainOptions::default() },
            hosts: vec![ChainOptions::default()],
            kms: 4,
            public_threshold: 3,
            user_threshold: 3,
            coprocessors: 1,
            storage_url: "http://127.0.0.1:1".to_owned(),
        }
    }
}

/// A network that runs. It ends when this is dropped.
#[derive(Debug)]
pub struct Network {
    // The first to be dropped: it would warn of a chain that has ended.
    _answering: Answering,
    /// The gateway chain.
    pub chain: Anvil,
    /// The contracts of the gateway chain.
    pub gateway: Gateway,
    /// Works the switches of the gateway's contracts, and funds wallets.
    pub operator: Operator,
    /// The host chains, with their contracts.
    pub hosts: Vec<(Anvil, Host)>,
    /// The KMS.
    pub kms: Kms,
    /// The coprocessor.
    pub coprocessor: Coprocessor,
    /// How many shares end a user decryption.
    pub user_threshold: usize,
}

impl Network {
    /// Starts a network whose gateway chain makes a block each second and whose coprocessor rejects the proofs of one
    /// user; and this many wallets, which can pay for 100,000 requests each.
    ///
    /// # Errors
    ///
    /// As of [`start`](Self::start).
    pub async fn with_wallets(count: usize) -> anyhow::Result<(Network, Vec<PrivateKeySigner>)> {
        let usual = NetworkOptions::default();
        let options = NetworkOptions { gateway: ChainOptions { mining: Mining::Every(1), ..usual.gateway }, ..usual };
        let mut network = Network::start(&options).await?;
        network.coprocessor.reject(REJECTED);
        let wallets = network.chain.keys()[..count].to_vec();
        for wallet in &wallets {
            let account = wallet.address();
            network.gateway.fund(&mut network.operator, account, 100_000).await?;
        }
        Ok((network, wallets))
    }

    /// Starts a network.
    ///
    /// # Errors
    ///
    /// When anvil is not installed, or a contract cannot be deployed.
    pub async fn start(options: &NetworkOptions) -> anyhow::Result<Network> {
        let kms = Kms::new(options.kms)?;
        let coprocessor = Coprocessor::new(options.coprocessors)?;
        let signers = GatewayOptions {
            kms: kms.signers(),
            coprocessors: coprocessor.signers(),
            host_chains: options.hosts.iter().map(|host| host.chain_id).collect(),
            public_threshold: options.public_threshold,
            user_threshold: options.user_threshold,
            coprocessor_threshold: options.coprocessors,
        };
        let chain = Anvil::start(options.gateway).await?;
        let rpc = chain.rpc().clone();
        let mut operator = Operator::new(&rpc).await?;
        let gateway = Gateway::deploy(&mut operator, &signers).await?;
        let mut hosts = Vec::new();
        for host in &options.hosts {
            let chain = Anvil::start(*host).await?;
            let options = HostOptions {
                gateway_chain: options.gateway.chain_id,
                gateway,
                signers: &signers,
                storage_url: options.storage_url.clone(),
            };
            let mut operator = Operator::new(chain.rpc()).await?;
            let host_contracts = Host::deploy(&mut operator, &options).await?;
            // The relayer reads keys at the finalized block.
            chain.mine(2 * u64::from(host.slots_in_an_epoch)).await?;
            hosts.push((chain, host_contracts));
        }
        let contracts = [gateway.decryption, gateway.input_verification];
        let answering = answering::answer(&rpc, contracts, kms.clone(), coprocessor.clone()).await?;
        Ok(Network {
            _answering: answering,
            chain,
            gateway,
            operator,
            hosts,
            kms,
            coprocessor,
            user_threshold: options.user_threshold,
        })
    }
}
