//! The command line: one file a command.

mod check;
mod figures;
mod init;
mod serve;
mod wallet;
mod watch;
mod work;

use std::path::PathBuf;

use anyhow::{anyhow, ensure};
use clap::{Args, Parser, Subcommand};
use tidegate::{
    StoreError,
    internals::{database::PoolSettings, store::Store},
};
use tidegate_cli::{
    database_location::{DatabaseArgs, DatabaseLocation},
    logs::LogArgs,
};
use tidegate_fhevm::{config::Config, request::Family};

/// The file of the configuration, if no other is named.
const FILE: &str = "fhevm.toml";

/// What is to be done about a database that lacks what the relayer needs.
const INIT: &str = "run `tidegate-fhevm init` first";

/// The relayer of the fhEVM gateway, on Tidegate.
///
/// The first SIGTERM or Ctrl-C stops gracefully, the second at once.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Bring the database to this version, and make the kinds of the relayer where they are missing; harmless to repeat
    Init,
    /// Serve the relayer's HTTP API, and Tidegate's own
    Serve(Box<serve::Serve>),
    /// Check and send requests from the wallets of the configuration, and watch the gateway
    Work(work::Work),
    /// Watch the gateway without sending: apply the answers of requests, and read the key's place
    Watch(watch::Watch),
    /// Manage the wallets that requests are sent from
    #[command(subcommand)]
    Wallet(wallet::Wallet),
    Check(check::Check),
    /// Stop the private PostgreSQL server in a directory once no process uses it
    #[command(hide = true)]
    EmbeddedPostgresKeeper {
        /// Where the server is kept
        directory: PathBuf,
    },
}

impl Command {
    pub(crate) async fn run(self, global: GlobalArgs) -> anyhow::Result<()> {
        match self {
            Self::Init => init::run(global).await,
            Self::Serve(serve) => serve.run(global).await,
            Self::Work(work) => work.run(global).await,
            Self::Watch(watch) => watch.run(global).await,
            Self::Wallet(wallet) => wallet.run(global).await,
            Self::Check(check) => check.run(global).await,
            // It blocks, so `main` runs it without a runtime.
            Self::EmbeddedPostgresKeeper { .. } => Ok(()),
        }
    }
}

/// The options of all commands.
#[derive(Debug, Args)]
pub(crate) struct GlobalArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    pub(crate) logs: LogArgs,
    /// The configuration; each of its keys is also a variable, such as `TIDEGATE_FHEVM__GATEWAY__CHAIN_ID`
    /// [default:
    /// fhevm.toml, if it is there]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_FHEVM_CONFIG", global = true)]
    config: Option<PathBuf>,
}

impl GlobalArgs {
    fn config(&self) -> anyhow::Result<Config> {
        let usual = || Some(PathBuf::from(FILE)).filter(|file| file.exists());
        let file = self.config.clone().or_else(usual);
        Config::load(file.as_deref(), std::env::vars())
    }

    /// A store over the database, which has the relayer's tables and kinds. The embedded server runs as long as its
    /// location lives.
    async fn open(self, settings: &PoolSettings) -> anyhow::Result<(Store, DatabaseLocation)> {
        let location = self.database.locate().await?;
        let store = location.open(settings).await.map_err(|error| match error.downcast_ref() {
            Some(StoreError::NotMigrated(cause)) => anyhow!("the database is not migrated: {INIT} ({cause})"),
            _ => error,
        })?;
        for family in Family::ALL {
            let kind = family.kind();
            let found = store.kinds(Some(kind)).await?;
            ensure!(!found.is_empty(), "there is no kind \"{kind}\": {INIT}");
        }
        Ok((store, location))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_command_lines_of_the_manual_are_some() {
        let page = include_str!("../../../docs/fhevm.md");
        let lines = page.lines().map(|line| line.split('#').next().unwrap_or_default());
        let commands = lines.flat_map(|line| line.split('`')).filter(|text| text.starts_with("tidegate-fhevm "));
        let commands: Vec<_> = commands.collect();
        assert!(commands.len() > 5, "{commands:?}");
        for command in commands {
            let parsed = Cli::try_parse_from(command.split_whitespace());
            assert!(parsed.is_ok(), "{command}");
        }
    }
}
