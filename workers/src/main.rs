//! `tidegate-worker`: drains Tidegate's queues with ready-made stages, or plays the downstream.

mod cli;
mod database;
mod downstream;

use std::{io::Write, process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context;
use clap::Parser;
use serde::Serialize;
use tidegate::{
    embedded_postgres, shutdown, stage::Stages, store::Store, telemetry, worker,
    worker::WorkerOptions,
};
use tidegate_workers::{
    http_stage,
    simulate::{self, Downstream, SimulateOptions, StoreResponder},
};
use tokio_util::sync::CancellationToken;

use crate::cli::{Cli, Command, WorkerFlags};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Command::EmbeddedPostgresKeeper { directory } => {
            embedded_postgres::keep(&directory).map_err(Into::into)
        }
        command => {
            telemetry::start("info");
            run(command)
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate-worker: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        let shutdown = shutdown::on_signal().context("cannot listen for signals")?;
        match command {
            Command::Http { worker, http } => {
                let stages = http_stage::stages(&http)?;
                let database = database::open(&worker, 0).await?;
                let store = database.store.clone();
                run_worker(store, stages, database::options(&worker)?, shutdown).await
            }
            Command::Simulate { worker, simulate } => {
                let database = database::open(&worker, StoreResponder::AT_ONCE).await?;
                run_simulation(database.store.clone(), simulate, worker, shutdown).await
            }
            Command::Downstream { server, simulate } => {
                downstream::run(server, simulate, shutdown).await
            }
            // Blocks, and so runs without a runtime.
            Command::EmbeddedPostgresKeeper { .. } => Ok(()),
        }
    })
}

async fn run_simulation(
    store: Store,
    simulate: SimulateOptions,
    worker: WorkerFlags,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let responder = Arc::new(StoreResponder(store.clone()));
    let downstream = Arc::new(Downstream::new(simulate, Some(responder))?);
    let options = database::options(&worker)?;
    let grace = options.grace;
    let ran = run_worker(store, simulate::stages(&downstream), options, shutdown).await;
    finish(&downstream, grace).await;
    ran
}

/// Where this program meets the engine's runner.
async fn run_worker(
    store: Store,
    stages: Stages,
    options: WorkerOptions,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    Ok(worker::run(store, stages, options, shutdown).await?)
}

/// Lets a downstream deliver what it owes, and prints what it has seen.
async fn finish(downstream: &Downstream, grace: Duration) {
    downstream.drain(grace).await;
    print_line(&downstream.stats());
}

/// Prints one line of JSON; nobody may be reading any more, which is no error.
fn print_line(value: &impl Serialize) {
    if let Ok(line) = serde_json::to_string(value) {
        let _ = writeln!(std::io::stdout(), "{line}");
    }
}
