//! What traces cost: submissions over HTTP and a drain, with traces off, of 1 % and of all requests.
//!
//! The node is `tidegate serve`, the worker is this program again, with a stage that answers at once; the collector is a route of
//! this process that answers at once. Rounds of the three take turns. The processor time of each process is less noisy than its
//! rates: compare within one run.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a benchmark stops at the first thing that is wrong"
)]

mod support;

use std::{
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Router, body::Bytes, extract::State, routing::post};
use clap::Parser;
use support::{BATCH, Bench, number};
use tidegate::{
    internals::{
        database::{self, PoolSettings},
        shutdown,
        store::Store,
        worker::{self, WorkerOptions},
    },
    request::Request,
    stage::{JsonText, Receipt, Sent, Stages, Transact},
};
use tidegate_cli::{database_location::DatabaseLocation, logs::LogArgs, traces::Traces};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

/// The shares of requests whose traces are exported; none: traces are off.
const SHARES: [(&str, Option<&str>); 3] = [("off", None), ("1 %", Some("0.01")), ("100 %", Some("1"))];

/// Takes each request at once, and its receipt is the response.
struct Noop;

impl Transact for Noop {
    type Payload = JsonText;

    async fn send(&self, _: &Request) -> Sent {
        Sent::Receipt(Receipt { reference: None, response: Some(true.into()) })
    }
}

#[derive(Parser)]
struct Options {
    #[command(flatten)]
    logs: LogArgs,
}

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    support::run(async {
        match arguments.get(1).map(String::as_str) {
            Some("--worker") => work(&arguments[2]).await,
            _ => measure().await,
        }
    });
}

async fn work(url: &str) {
    let logs = Options::parse_from(["worker"]).logs;
    let traces = Traces::start("worker", &logs, "error").unwrap();
    let pool = database::connect(url, &PoolSettings::default()).await.unwrap();
    let stages = Stages::new().transact("direct", Noop);
    let options = WorkerOptions {
        queues: vec!["tx".to_owned()],
        batch: BATCH,
        concurrency: 4 * BATCH,
        ..WorkerOptions::default()
    };
    worker::run(Store::new(pool), stages, options, shutdown::on_signal().unwrap()).await.unwrap();
    traces.end().await;
}

/// The figures of one round.
#[derive(Clone, Copy)]
struct Figures {
    submitted_per_second: f64,
    /// Processor time for each request, microseconds.
    node_us: f64,
    drained_per_second: f64,
    worker_us: f64,
    /// Bytes that the collector got, for each request.
    exported_bytes: f64,
}

async fn measure() {
    let requests = number("REQUESTS", 20_000);
    let rounds = number("ROUNDS", 5);
    let location = support::location().await;
    println!("{requests} direct requests over HTTP, then their drain with a no-op stage; medians of {rounds} rounds");
    let header = ["submitted/s", "node us", "drained/s", "worker us", "exported B"];
    println!("{:<8} {}", "traces", header.map(|name| format!("{name:>12}")).join(" "));
    let mut all = SHARES.map(|_| Vec::new());
    for _ in 0..rounds {
        for (figures, (_, share)) in all.iter_mut().zip(SHARES) {
            figures.push(round(&location, requests, share).await);
        }
    }
    for ((name, _), figures) in SHARES.iter().zip(all) {
        let columns: [fn(&Figures) -> f64; 5] = [
            |of| of.submitted_per_second,
            |of| of.node_us,
            |of| of.drained_per_second,
            |of| of.worker_us,
            |of| of.exported_bytes,
        ];
        let medians = columns.map(|column| {
            let mut values: Vec<_> = figures.iter().map(column).collect();
            values.sort_by(f64::total_cmp);
            format!("{:>12.1}", values[values.len() / 2])
        });
        println!("{name:<8} {}", medians.join(" "));
    }
}

async fn round(location: &DatabaseLocation, requests: usize, share: Option<&str>) -> Figures {
    let bench = Bench::new(location).await;
    let (collector, exported) = collector().await;
    let command = traced(Command::new(env!("CARGO_BIN_EXE_tidegate")), &collector, share);
    let (node, address) = serve(command, &bench.url).await;
    submit(&address, requests / 20).await;
    let before = processor_us(&node);
    let begun = Instant::now();
    submit(&address, requests).await;
    let submitted = begun.elapsed().as_secs_f64();
    // Spans are exported every five seconds, or as soon as a batch of them has gathered.
    let node_us = stop(node, before).await;

    let mut command = traced(Command::new(std::env::current_exe().unwrap()), &collector, share);
    let worker = command.args(["--worker", &bench.url]).stdin(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    let total = requests + requests / 20;
    loop {
        let sql = "select coalesce(sum(drained), 0)::bigint from tidegate.queue_drain";
        let drained: i64 = sqlx::query_scalar(sql).fetch_one(&bench.pool).await.unwrap();
        if usize::try_from(drained).unwrap() >= total {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let worker_us = stop(worker, 0.0).await;
    let sql = "select extract(epoch from max(finished_at) - min(tx_in_flight_at))::float8 from tidegate.request";
    let drained: f64 = sqlx::query_scalar(sql).fetch_one(&bench.pool).await.unwrap();
    bench.drop().await;
    let (requests, total) = (requests as f64, total as f64);
    Figures {
        submitted_per_second: requests / submitted,
        node_us: node_us / requests,
        drained_per_second: total / drained,
        worker_us: worker_us / total,
        exported_bytes: exported.load(Ordering::Relaxed) as f64 / total,
    }
}

/// With the variables of this share. The queue is longer than by default, so that no span is dropped.
fn traced(mut command: Command, collector: &str, share: Option<&str>) -> Command {
    if let Some(share) = share {
        command
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
            .env("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
            .env("OTEL_TRACES_SAMPLER_ARG", share)
            .env("OTEL_BSP_MAX_QUEUE_SIZE", "20000");
    }
    command
}

/// A collector that counts bytes.
async fn collector() -> (String, Arc<AtomicUsize>) {
    let bytes = Arc::new(AtomicUsize::new(0));
    let count = |State(bytes): State<Arc<AtomicUsize>>, body: Bytes| async move {
        bytes.fetch_add(body.len(), Ordering::Relaxed);
    };
    let router = Router::new().route("/v1/traces", post(count)).with_state(Arc::clone(&bytes));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, bytes)
}

async fn serve(mut command: Command, url: &str) -> (Child, String) {
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--webhooks", "0"]).env("DATABASE_URL", url);
    let mut node = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(node.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (node, line.rsplit_once(' ').unwrap().1.to_owned())
}

/// Submits over 32 connections.
async fn submit(address: &str, requests: usize) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{address}/v1/direct");
    let body = format!("{{\"to\":\"{}\"}}", "x".repeat(91));
    let submitters = (0..32).map(|place| {
        let (client, url, body) = (client.clone(), url.clone(), body.clone());
        tokio::spawn(async move {
            for _ in (place..requests).step_by(32) {
                let posting = client.post(&url).header("content-type", "application/json").body(body.clone());
                assert_eq!(posting.send().await.unwrap().status(), 202);
            }
        })
    });
    for submitter in submitters.collect::<Vec<_>>() {
        submitter.await.unwrap();
    }
}

/// Stops a process, which exports its last spans. Returns its processor time since it had `before`.
async fn stop(mut process: Child, before: f64) -> f64 {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(process.id().unwrap()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let mut last = before;
    // The figure goes with the process.
    while process.try_wait().unwrap().is_none() {
        last = processor_us(&process).max(last);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    last - before
}

/// The processor time that a process has used, in microseconds.
fn processor_us(process: &Child) -> f64 {
    let pid = process.id().unwrap();
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return 0.0 };
    // Behind the name of the program, which may have spaces; in hundredths of a second.
    let fields: Vec<_> = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
    let ticks = |field: usize| fields.get(field).and_then(|text| text.parse::<f64>().ok()).unwrap_or_default();
    (ticks(11) + ticks(12)) * 10_000.0
}
