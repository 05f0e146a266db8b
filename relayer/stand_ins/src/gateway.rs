//! The contracts of the gateway chain.

use alloy::primitives::{Address, U256};
use alloy::sol_types::SolValue as _;

use crate::abi::{FeeToken, GatewayConfig};
use crate::deploy::Operator;

/// What the contracts are to know.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// The signers of the KMS.
    pub kms: Vec<Address>,
    /// The signers of the coprocessor.
    pub coprocessors: Vec<Address>,
    /// The chains whose ciphertexts are known.
    pub host_chains: Vec<u64>,
    /// How many nodes of the KMS must answer a public decryption.
    pub public_threshold: usize,
    /// How many shares end a user decryption on the chain.
    pub user_threshold: usize,
    /// How many coprocessors must agree.
    pub coprocessor_threshold: usize,
}

/// The first KMS context. Ids of contexts begin with a byte 7.
pub fn first_context() -> U256 {
    (U256::from(7) << 248) | U256::from(1)
}

/// The price of each kind of request, in the fee token.
pub const PRICE: u64 = 1_000;

/// The addresses of the contracts.
#[derive(Clone, Copy, Debug)]
pub struct Gateway {
    /// Takes requests for decryption.
    pub decryption: Address,
    /// Takes requests for the verification of ciphertexts.
    pub input_verification: Address,
    /// Signers, thresholds, host chains.
    pub config: Address,
    /// Takes the price of requests.
    pub payment: Address,
    /// What requests are paid with.
    pub token: Address,
    /// Which ciphertexts there are.
    pub commits: Address,
}

impl Gateway {
    /// Deploys the contracts.
    ///
    /// # Errors
    ///
    /// When the chain refuses a transaction.
    pub async fn deploy(operator: &mut Operator, options: &GatewayOptions) -> anyhow::Result<Gateway> {
        let chains: Vec<U256> = options.host_chains.iter().map(|chain| U256::from(*chain)).collect();
        let signers = (options.kms.clone(), options.coprocessors.clone(), chains, first_context());
        let config = operator.deploy("GatewayConfig", &signers.abi_encode_params()).await?;
        let token = operator.deploy("FeeToken", &[]).await?;
        let price = U256::from(PRICE);
        let prices = (token, price, price, price);
        let payment = operator.deploy("ProtocolPayment", &prices.abi_encode_params()).await?;
        let commits = operator.deploy("CiphertextCommits", &[]).await?;
        let input_verification = operator.deploy("InputVerification", &(config, payment).abi_encode_params()).await?;
        let decryption = operator.deploy("Decryption", &(config, payment, commits).abi_encode_params()).await?;
        let thresholds = GatewayConfig::setThresholdsCall {
            public_: U256::from(options.public_threshold),
            user: U256::from(options.user_threshold),
            coprocessor: U256::from(options.coprocessor_threshold),
        };
        operator.send(config, &thresholds).await?;
        operator.mined().await?;
        Ok(Gateway { decryption, input_verification, config, payment, token, commits })
    }

    /// Gives an account fee tokens for so many requests, and approves their payment. Uses no nonce of the account.
    ///
    /// # Errors
    ///
    /// When the chain refuses a transaction.
    pub async fn fund(&self, operator: &mut Operator, account: Address, requests: u64) -> anyhow::Result<()> {
        let value = U256::from(PRICE) * U256::from(requests);
        operator.send(self.token, &FeeToken::mintCall { account, value }).await?;
        let approval = FeeToken::setAllowanceCall { owner: account, spender: self.payment, value: U256::MAX };
        operator.send(self.token, &approval).await?;
        operator.mined().await
    }
}
