//! `tidegate-faults`: breaks a running Tidegate on purpose, and checks afterwards that every promise held.

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use tidegate_cli::{embedded_postgres, logs::LogArgs};
use tidegate_faults::{booker::Booker, options::Options, receiver::Receiver, run};

/// Breaks a running Tidegate on purpose, and checks afterwards that every promise held.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(flatten)]
    logs: LogArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Inject faults at random into a fleet of its own, then check
    Run(Options),
    /// Be a worker of that fleet whose receipts have an effect in the database
    #[command(hide = true)]
    Booker(Booker),
    /// Be a receiver of webhooks that often fails
    #[command(hide = true)]
    Receiver(Receiver),
    /// Stop a private `PostgreSQL` server once no process uses it
    #[command(hide = true)]
    EmbeddedPostgresKeeper {
        /// Where the server is kept
        directory: PathBuf,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // The callers' own connections have only injected faults.
    cli.logs.start("warn,sqlx=error");
    let done = tokio::runtime::Runtime::new().map_err(anyhow::Error::from).and_then(|runtime| {
        runtime.block_on(async {
            match cli.command {
                Command::Run(options) => Ok(run::run(options).await?.holds()),
                Command::Booker(booker) => booker.run().await.map(|()| true),
                Command::Receiver(receiver) => receiver.run().await.map(|()| true),
                Command::EmbeddedPostgresKeeper { directory } => {
                    tokio::task::spawn_blocking(move || embedded_postgres::keep(&directory)).await??;
                    Ok(true)
                }
            }
        })
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tidegate-faults: {error:#}");
            ExitCode::FAILURE
        }
    }
}
