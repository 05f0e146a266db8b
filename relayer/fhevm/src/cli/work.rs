//! `tidegate-fhevm work`

use anyhow::Context;
use clap::Args;
use tidegate::{
    Tidegate,
    internals::{database::PoolSettings, shutdown},
};
use tidegate_fhevm::{chains::Chains, watch, work};
use tidegate_node::{Exporter, internals::metrics_router};

use super::{GlobalArgs, figures::Figures};

#[derive(Debug, Args)]
pub(crate) struct Work {
    /// The most database connections, besides those of the queues and of the tasks that one process of the fleet runs
    #[arg(long, default_value_t = 20)]
    connections: u32,
    #[command(flatten)]
    figures: Figures,
}

impl Work {
    pub(crate) async fn run(self, global: GlobalArgs) -> anyhow::Result<()> {
        let stop = shutdown::on_signal().context("cannot listen for signals")?;
        let exporter = Exporter::new();
        exporter.install();
        let config = global.config()?;
        let settings = PoolSettings { connections_max: self.connections.max(4), ..PoolSettings::default() };
        let (store, _location) = global.open(&settings).await?;
        let tidegate = Tidegate::from_pool(store.pool().clone());
        let chains = Chains::connect(&config).await?;
        let working = work::run(&tidegate, &config, &chains, &stop);
        let watching = watch::run(&tidegate, &config, &chains, &stop);
        let figures = metrics_router(exporter, store);
        tokio::try_join!(working, watching, self.figures.serve(figures, &stop))?;
        Ok(())
    }
}
