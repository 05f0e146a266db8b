//! `tidegate-fhevm wallet …`

use anyhow::Context;
use clap::Subcommand;
use tidegate::internals::database::PoolSettings;
use tidegate_cli::logs::print_out;
use tidegate_evm::{
    Signer,
    operations::{self, ResyncOptions},
    store::Store,
    wallets,
};
use tidegate_fhevm::{
    chains::Chains,
    config::{Config, Wallet as Configured},
    store::Store as References,
    work,
};

use super::GlobalArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum Wallet {
    /// Adopt the account of a wallet of the configuration: from then on no other program may use its key
    Add {
        /// Its name in the configuration
        name: String,
    },
    /// Show the wallets of the gateway chain
    List,
    /// Show what a wallet has, what requests cost, and how many it can pay for
    Check {
        /// Its name
        name: String,
    },
    /// Let a wallet finish what it has, and give it no new requests
    Drain {
        /// Its name
        name: String,
    },
    /// Send nothing of a wallet any more; frees nothing
    Off {
        /// Its name
        name: String,
    },
    /// Compare a wallet that is off with the chain, and take it into use again if nothing is uncertain
    Resync {
        /// Its name
        name: String,
    },
}

impl Wallet {
    pub(crate) async fn run(self, global: GlobalArgs) -> anyhow::Result<()> {
        let config = global.config()?;
        let id = config.gateway.chain_id;
        let (database, _location) = global.open(&PoolSettings::default()).await?;
        let store = Store::new(database.pool().clone());
        match self {
            Self::Add { name } => {
                let (wallet, chains) = (configured(&config, &name)?, Chains::connect(&config).await?);
                let address = work::signer(wallet)?.address();
                let in_flight_max = u32::try_from(wallet.in_flight_max).context("in_flight_max is negative")?;
                let first = wallets::adopt(&chains.gateway, &store, address, &name, in_flight_max).await?;
                print_out(format_args!("{name} is {address}, from nonce {first} on"));
            }
            Self::List => print_out(operations::list(&store, id).await?),
            Self::Check { name } => {
                let chains = Chains::connect(&config).await?;
                print_out(operations::check(&chains.gateway, &store, &name, &work::funds(&config)).await?);
            }
            Self::Drain { name } => print_out(operations::drain(&store, id, &name).await?),
            Self::Off { name } => print_out(operations::off(&store, id, &name).await?),
            Self::Resync { name } => {
                let chains = Chains::connect(&config).await?;
                let calls = References::new(database.pool().clone()).calls_without_slot(&chains.contracts).await?;
                let options = ResyncOptions {
                    lost_depth: config.gateway.lost_depth,
                    lost_quorum: config.gateway.lost_quorum,
                    ..ResyncOptions::default()
                };
                print_out(operations::resync(&chains.gateway, &store, &name, &calls, options).await?);
            }
        }
        Ok(())
    }
}

fn configured<'a>(config: &'a Config, name: &str) -> anyhow::Result<&'a Configured> {
    let found = config.wallets.iter().find(|wallet| wallet.name == name);
    found.with_context(|| format!("the configuration has no wallet {name}: add it to [[wallets]], with its key"))
}
