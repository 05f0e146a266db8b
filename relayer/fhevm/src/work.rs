//! A worker: the stages of all kinds, and the keepers of its wallets.

use std::{sync::Arc, time::Duration};

use alloy::sol_types::SolCall;
use anyhow::{Context, ensure};
use futures_util::future::try_join_all;
use tidegate::{Stages, Tidegate};
use tidegate_evm::{
    CallRequest, LocalSigner, Sender, SenderOptions, Signer,
    keeper::{
        Keeper, KeeperOptions,
        funds::{Funds, TokenFunds},
    },
    store,
};
use tokio_util::sync::CancellationToken;

use crate::{
    abi::gateway::ProtocolPayment,
    chains::Chains,
    config::{self, Config},
    kinds,
    readiness::Readiness,
    request::Family,
    store::Store,
    transact::{self, Transact},
};

/// How long a send waits for a wallet or a receipt. The policies' timeout is longer.
const PATIENCE: Duration = Duration::from_secs(150);

/// How many sends and checks run at once, at least.
const CONCURRENCY: usize = 800;

/// The key of a configured wallet.
///
/// # Errors
///
/// When it cannot be read.
pub fn signer(wallet: &config::Wallet) -> anyhow::Result<LocalSigner> {
    let key = match (&wallet.key_env, &wallet.key_file) {
        (Some(variable), None) => LocalSigner::from_env(variable),
        (None, Some(file)) => LocalSigner::from_file(file),
        _ => anyhow::bail!("wallet {} has key_env or key_file, not both", wallet.name),
    };
    key.with_context(|| format!("wallet {}", wallet.name))
}

/// What a wallet needs to pay for requests.
#[must_use]
pub fn funds(config: &Config) -> Funds {
    let gateway = &config.gateway;
    let token = gateway.fee_token.zip(gateway.protocol_payment).map(|(token, spender)| {
        let price = |input: Vec<u8>| CallRequest::default().to(spender).input(input.into());
        let prices = vec![
            price(ProtocolPayment::getInputVerificationPriceCall {}.abi_encode()),
            price(ProtocolPayment::getPublicDecryptionPriceCall {}.abi_encode()),
            price(ProtocolPayment::getUserDecryptionPriceCall {}.abi_encode()),
        ];
        TokenFunds { token, spender, prices }
    });
    Funds { rate: kinds::SENDS_OF_ALL, token, ..Funds::default() }
}

/// The stages of all kinds, over these keys.
#[must_use]
pub fn stages(tidegate: &Tidegate, config: &Config, chains: &Chains, signers: Vec<Arc<dyn Signer>>) -> Stages {
    let pool = tidegate.store().pool();
    let mut options = SenderOptions::default();
    options.gas_factor = config.fees.gas_factor;
    options.patience = PATIENCE;
    options.confirmations = config.gateway.confirmations;
    options.lacks_funds = transact::lacks_funds;
    let sender = Sender::new(chains.gateway.clone(), pool.clone(), signers, options);
    let transact = Transact::new(sender, Store::new(pool.clone()), chains.contracts, config.hold_while_paused);
    let threshold = config.kms.map_or(config::STATIC_THRESHOLD, |kms| kms.static_threshold);
    let readiness = || Readiness::new(tidegate.clone(), chains, threshold);
    Stages::new()
        .transact(Family::InputProof.kind(), transact.clone())
        .transact(Family::PublicDecrypt.kind(), transact.clone())
        .transact(Family::UserDecrypt.kind(), transact)
        .readiness(Family::PublicDecrypt.kind(), readiness())
        .readiness(Family::UserDecrypt.kind(), readiness())
}

/// Runs the stages and the keepers until `stop`.
///
/// # Errors
///
/// When a key cannot be read, no wallet is adopted, or the database has an error that does not pass by itself.
pub async fn run(
    tidegate: &Tidegate,
    config: &Config,
    chains: &Chains,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let signers = config.wallets.iter().map(|wallet| Ok(Arc::new(signer(wallet)?) as Arc<dyn Signer>));
    let signers: Vec<_> = signers.collect::<anyhow::Result<_>>()?;
    let mut keepers = Vec::new();
    for (signer, wallet) in signers.iter().zip(&config.wallets) {
        let store = store::Store::new(tidegate.store().pool().clone());
        let options = KeeperOptions {
            stuck_after: Duration::from_secs(config.fees.stuck_after_s),
            lost_depth: config.gateway.lost_depth,
            lost_quorum: config.gateway.lost_quorum,
            funds: funds(config),
            ..KeeperOptions::default()
        };
        match Keeper::of(chains.gateway.clone(), store, Arc::clone(signer), options).await? {
            Some(keeper) => keepers.push(keeper),
            None => tracing::warn!(
                wallet = wallet.name,
                "not adopted, so nothing is sent from it: run `tidegate-fhevm wallet add {}`, then start this again",
                wallet.name,
            ),
        }
    }
    ensure!(
        !keepers.is_empty(),
        "no wallet is adopted: run `tidegate-fhevm wallet add NAME` for one of the configuration"
    );
    let in_flight = config.wallets.iter().map(|wallet| usize::try_from(wallet.in_flight_max).unwrap_or_default());
    let stages = stages(tidegate, config, chains, signers);
    let worker = tidegate.worker(stages).concurrency(CONCURRENCY.max(in_flight.sum()));
    let working = async { anyhow::Ok(worker.run_until(stop.cancelled()).await?) };
    let keeping = try_join_all(keepers.into_iter().map(async |keeper| {
        keeper.keep(tidegate, stop.clone()).await?;
        anyhow::Ok(())
    }));
    tokio::try_join!(working, keeping)?;
    Ok(())
}
