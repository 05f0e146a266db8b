//! `tidegate-fhevm watch`

use anyhow::Context;
use clap::Args;
use tidegate::{
    Tidegate,
    internals::{database::PoolSettings, shutdown},
};
use tidegate_fhevm::{chains::Chains, watch};
use tidegate_node::{Exporter, internals::metrics_router};

use super::{GlobalArgs, figures::Figures};

#[derive(Debug, Args)]
pub(crate) struct Watch {
    #[command(flatten)]
    figures: Figures,
}

impl Watch {
    pub(crate) async fn run(self, global: GlobalArgs) -> anyhow::Result<()> {
        let stop = shutdown::on_signal().context("cannot listen for signals")?;
        let exporter = Exporter::new();
        exporter.install();
        let config = global.config()?;
        let (store, _location) = global.open(&PoolSettings::default()).await?;
        let tidegate = Tidegate::from_pool(store.pool().clone());
        let chains = Chains::connect(&config).await?;
        let figures = metrics_router(exporter, store);
        tokio::try_join!(watch::run(&tidegate, &config, &chains, &stop), self.figures.serve(figures, &stop))?;
        Ok(())
    }
}
