//! `tidegate-fhevm check`

use alloy::eips::BlockNumberOrTag;
use anyhow::{Context, ensure};
use clap::Args;
use tidegate::internals::database::PoolSettings;
use tidegate_cli::logs::print_out;
use tidegate_evm::{
    checker::{self, Expected},
    store::Store,
};
use tidegate_fhevm::{chains::Chains, store::Store as References};

use super::GlobalArgs;

/// Compares the gateway chain with the requests: each has one transaction, and no wallet has a gap.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The first block to read [default: the first one that has a transaction of a wallet]
    #[arg(long, value_name = "BLOCK")]
    from: Option<u64>,
    /// Nothing is on its way: each nonce that was taken has to be mined
    #[arg(long)]
    at_rest: bool,
}

impl Check {
    pub(crate) async fn run(self, global: GlobalArgs) -> anyhow::Result<()> {
        let config = global.config()?;
        let (database, _location) = global.open(&PoolSettings::default()).await?;
        let references = References::new(database.pool().clone());
        let chains = Chains::connect(&config).await?;
        let chain_id = config.gateway.chain_id;
        let from = match self.from {
            Some(from) => Some(from),
            None => references.first_block(chain_id).await?,
        };
        let head = chains.gateway.header(BlockNumberOrTag::Latest).await?;
        let head = head.context("the chain has no block")?.number;
        let from = from.unwrap_or(head);
        ensure!(from <= head, "block {from} is not there: the last one is {head}");
        let blocks = from..=head;
        // What these blocks have was signed before, so the database has it.
        let expected = Expected {
            wallets: Store::new(database.pool().clone()).expected(chain_id).await?,
            requests: references.expected(&chains.contracts, &blocks).await?,
            at_rest: self.at_rest,
        };
        let report = checker::check(&chains.gateway, &expected, blocks).await?;
        print_out(&report);
        ensure!(report.violations.is_empty(), "{} violations", report.violations.len());
        Ok(())
    }
}
