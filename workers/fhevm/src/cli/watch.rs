//! `tidegate-fhevm watch`

use anyhow::Context;
use tidegate::{Tidegate, database::PoolSettings, shutdown};
use tidegate_fhevm::{chains::Chains, watch};

use super::GlobalArgs;

pub(super) async fn run(global: GlobalArgs) -> anyhow::Result<()> {
    let stop = shutdown::on_signal().context("cannot listen for signals")?;
    let config = global.config()?;
    let (store, _location) = global.open(&PoolSettings::default()).await?;
    let tidegate = Tidegate::from_pool(store.pool().clone());
    let chains = Chains::connect(&config).await?;
    watch::run(&tidegate, &config, &chains, &stop).await
}
