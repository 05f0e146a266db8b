//! The program `tidegate-fhevm-stand-ins`: runs the relayer's programs against stand-ins.

mod database;
mod demo;
mod sdk;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use tidegate_cli::logs::LogArgs;

/// Runs the real programs of the relayer against chains, contracts, a coprocessor and a KMS of its own.
#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    logs: LogArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run 200 requests through two API nodes and two workers, with a kill and a reorganisation on the way
    Demo,
    /// Run the published SDK through all its flows, against two nodes behind one address, one of which is killed
    Sdk,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    cli.logs.start("warn");
    match cli.command {
        Command::Demo => demo::run().await.context("the demo has failed"),
        Command::Sdk => sdk::run().await.context("the SDK's flows have failed"),
    }
}
