//! The tasks that one process of the fleet runs at a time: it reads the gateway's events, searches for those that were
//! left out, and reads the key's place.

use std::time::Duration;

use alloy::rpc::types::Log;
use anyhow::Context;
use sqlx::PgConnection;
use tidegate::Tidegate;
use tidegate_evm::{HandlerError, PageHandler, WatchOptions, Watcher, store::BlockId};
use tokio_util::sync::CancellationToken;

use crate::{
    answers,
    chains::Chains,
    config::Config,
    key_url,
    reconcile::{self, Schedule},
    responses::{ApplyError, Responses, SignerSets},
};

impl PageHandler for Responses {
    async fn prepare(&self) -> Result<(), HandlerError> {
        Ok(Responses::prepare(self).await?)
    }

    async fn apply(
        &self,
        transaction: &mut PgConnection,
        logs: &[Log],
        others: &[BlockId],
    ) -> Result<Vec<u64>, HandlerError> {
        match Responses::apply(self, transaction, logs, others).await {
            Ok(_) => Ok(Vec::new()),
            Err(ApplyError::Blocks(needed)) => Ok(needed),
            Err(error) => Err(error.into()),
        }
    }

    async fn dropped(&self, transaction: &mut PgConnection, from: u64) -> Result<(), HandlerError> {
        Ok(Responses::dropped(self, transaction, from).await?)
    }
}

/// What applies the events of a configuration's gateway.
#[must_use]
pub fn responses(tidegate: &Tidegate, config: &Config, chains: &Chains) -> Responses {
    let signers = config.gateway.gateway_config.map(SignerSets::new);
    Responses::new(tidegate.clone(), chains.gateway.clone(), chains.contracts, signers)
}

/// The name of the watcher, and of its cursor.
pub(crate) const WATCHER: &str = "fhevm";

/// How many blocks before the newest one the watcher begins the first time: it needs an older block to go back to.
const BEFORE: u64 = 64;

/// Reads the events of a configuration's gateway.
pub async fn watcher(tidegate: &Tidegate, config: &Config, chains: &Chains) -> Watcher<Responses> {
    let (gateway, contracts) = (&config.gateway, &chains.contracts);
    let addresses = vec![contracts.decryption, contracts.input_verification];
    let options = WatchOptions {
        confirmations: gateway.confirmations,
        after: chains.gateway.block_number().await.ok().map(|head| head.saturating_sub(BEFORE)),
        poll: Duration::from_millis(gateway.poll_ms),
        range_max: gateway.range,
        ..WatchOptions::new(WATCHER, addresses, answers::TOPICS.to_vec())
    };
    let pool = tidegate.store().pool().clone();
    Watcher::new(chains.gateway.clone(), pool, options, responses(tidegate, config, chains))
}

/// Runs the tasks whenever this process is the one, until `stop`.
///
/// # Errors
///
/// A database error that does not pass by itself.
pub async fn run(
    tidegate: &Tidegate,
    config: &Config,
    chains: &Chains,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let watcher = watcher(tidegate, config, chains).await;
    let watching = watcher.watch(tidegate, stop.clone());
    let responses = responses(tidegate, config, chains);
    let schedule =
        Schedule { confirmations: config.gateway.confirmations, range: config.gateway.range, ..Schedule::default() };
    let reconciling = tidegate.singleton("fhevm_reconcile").until(stop.clone());
    let reconciling = reconciling.run(async |_, cancelled| reconcile::run(&responses, schedule, &cancelled).await);
    let reading = async {
        // A fixed answer needs no reading.
        let Some(source) = chains.key_url().filter(|_| config.keyurl.r#static.is_none()) else {
            return Ok(());
        };
        let singleton = tidegate.singleton("fhevm_key_url").until(stop.clone());
        singleton.run(async |_, cancelled| key_url::run(&source, responses.store(), &cancelled).await).await
    };
    tokio::try_join!(watching, reconciling, reading).context("cannot watch the gateway")?;
    Ok(())
}
