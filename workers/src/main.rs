//! `tidegate-worker`: drains Tidegate's queues with ready-made stages, or simulates a downstream.

mod cli;
mod database;
mod downstream;

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context;
use clap::Parser;
use tidegate::{
    internals::{
        shutdown,
        store::Store,
        worker::{self, WorkerError},
    },
    request::Stage,
    stage::Stages,
};
use tidegate_cli::{
    embedded_postgres,
    logs::{LogArgs, print_err, print_out, with_causes},
    traces::Traces,
};
use tidegate_node::{
    Exporter,
    internals::{metrics_router, serve},
};
use tidegate_workers::{
    http_stage,
    simulate::{self, Downstream, StoreResponder},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cli::{Cli, Command, WorkerFlags};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Command::EmbeddedPostgresKeeper { directory } => embedded_postgres::keep(&directory).map_err(Into::into),
        command => run(command, &cli.logs),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_err(format_args!("tidegate-worker: {}", with_causes(&*error)));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command, logs: &LogArgs) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")?;
    runtime.block_on(async {
        let traces = match &command {
            Command::Http { .. } | Command::Simulate { .. } => Traces::start("tidegate-worker", logs, "info")?,
            Command::Downstream { .. } | Command::EmbeddedPostgresKeeper { .. } => {
                logs.start("info");
                Traces::off()
            }
        };
        let ran = run_command(command).await;
        traces.end().await;
        ran
    })
}

async fn run_command(command: Command) -> anyhow::Result<()> {
    let shutdown = shutdown::on_signal().context("cannot listen for signals")?;
    match command {
        Command::Http { worker, http } => {
            http.validate()?;
            let (store, _location) = database::open(&worker, 1).await?;
            let stages = http_stage::stages(&http, &database::flows(&store).await?)?;
            run_worker(store, stages, http.named().collect(), &worker, shutdown).await
        }
        Command::Simulate { worker, simulate } => {
            let (store, _location) = database::open(&worker, StoreResponder::AT_ONCE).await?;
            let named = simulate.kinds.iter().map(|kind| (kind.name.clone(), Stage::Tx));
            let named = named.collect();
            let responder = Arc::new(StoreResponder(store.clone()));
            let downstream = Arc::new(Downstream::new(simulate, Some(responder))?);
            let ran = run_worker(store, simulate::stages(&downstream), named, &worker, shutdown).await;
            finish(&downstream, worker.options().grace).await;
            ran
        }
        Command::Downstream { server, simulate } => downstream::run(server, simulate, shutdown).await,
        // It blocks, so `main` runs it without a runtime.
        Command::EmbeddedPostgresKeeper { .. } => Ok(()),
    }
}

/// Runs the engine's worker, and serves its metrics if the flags ask for it. Refuses a stage that a flag has `named` and
/// that has no queue.
async fn run_worker(
    store: Store,
    stages: Stages,
    named: Vec<(String, Stage)>,
    flags: &WorkerFlags,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let (queues, without) = worker::queues(&store, &stages).await?;
    if let Some((kind, stage)) = without.into_iter().find(|stage| named.contains(stage)) {
        return Err(WorkerError::NoQueue { kind, stage }.into());
    }
    let mut options = database::options(flags)?;
    if options.queues.is_empty() {
        options.queues = queues;
    }
    anyhow::ensure!(
        !options.queues.is_empty(),
        "the database has no kind that this worker has a stage for: make one with `tidegate kind add`, and name it \
         with --kind"
    );
    // Up to three for each queue.
    let store = store.with_own_pool(u32::try_from(3 * options.queues.len())?);
    let Some(address) = flags.metrics_listen else {
        return Ok(worker::run(store, stages, options, shutdown).await?);
    };

    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot serve metrics on {address}"))?;
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "metrics are served beyond loopback, to every host that can connect");
    }
    print_out(format_args!("metrics on http://{address}/metrics"));
    let exporter = Exporter::new();
    options.metrics = exporter.metrics();
    let router = metrics_router(exporter, store.clone());
    // Until the worker has finished, so that its shutdown shows in the metrics.
    let stop = CancellationToken::new();
    let served = tokio::spawn(serve(listener, router, stop.clone()));
    let ran = worker::run(store, stages, options, shutdown).await;
    stop.cancel();
    served.await??;
    Ok(ran?)
}

/// Waits for the downstream's pending responses and prints its counts as a line of JSON. A closed standard output is no
/// error.
async fn finish(downstream: &Downstream, grace: Duration) {
    downstream.drain(grace).await;
    if let Ok(line) = serde_json::to_string(&downstream.stats()) {
        print_out(line);
    }
}
