//! What callers feel: the latencies of submissions, polls, responses and webhooks at one node, over HTTP.
//!
//! 64 connections submit `RATE` requests a second and poll each once; a worker sends them, the downstream responds over HTTP, and the
//! node posts the ends to a receiver. `SECONDS` each: alone, while another submitter brings 100,000 requests in batches, while ended
//! requests are removed, and while a transaction holds an old snapshot. At last `WAITING` callers wait at once.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a benchmark stops at the first thing that is wrong"
)]

#[path = "gates/node.rs"]
mod node;
mod support;

use std::{
    collections::HashMap,
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use node::Node;
use reqwest::Client;
use serde_json::{Value, json};
use sqlx::{Connection, Executor, PgConnection};
use support::{Bench, number};
use tidegate::{
    Kind, Stages, Tidegate,
    request::{JsonText, Request},
    stage::Sent,
};
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle, time::interval};

const CALLERS: usize = 64;
/// Connections of the downstream.
const RESPONDERS: usize = 8;
/// Requests of the other submitter, and in one of its batches.
const BULK: usize = 100_000;
const BULK_BATCH: usize = 1000;
/// Ticks of processor time per second that Linux reports.
const TICKS: f64 = 100.0;

const OPERATIONS: [&str; 4] = ["submit", "poll", "respond", "webhook, after the response"];

/// What all tasks share.
#[derive(Default)]
struct Shared {
    /// Milliseconds, by operation.
    times: Mutex<[Vec<f64>; OPERATIONS.len()]>,
    /// When the downstream began to respond to each request.
    responded: Mutex<HashMap<String, Instant>>,
}

impl Shared {
    fn record(&self, operation: usize, began: Instant) {
        self.times.lock().unwrap()[operation].push(began.elapsed().as_secs_f64() * 1000.0);
    }
}

fn main() {
    support::run(measure());
}

async fn measure() {
    let (rate, seconds, waiting) = (number("RATE", 200), number("SECONDS", 60), number("WAITING", 1000));
    let location = support::location().await;
    let bench = Bench::new(&location).await;
    let tidegate = Tidegate::from_pool(bench.pool.clone());
    let far = 1_000_000_000;
    tidegate.register(Kind::direct("bulk").high_water(far).low_water(far - 1)).await.unwrap();
    let shared = Arc::new(Shared::default());
    let receiver = receive(Arc::clone(&shared)).await;
    bench.store.webhook_host_add(receiver.trim_start_matches("http://"), true).await.unwrap();
    let node = Node::start(&bench.url).await;
    let base = format!("http://{}", node.address);

    let (sent, responses) = mpsc::unbounded_channel();
    let stages = Stages::new().send("direct", move |request: Request<JsonText>| {
        let _ = sent.send(request.id.to_string());
        async move { Sent::receipt(request.id.to_string()) }
    });
    let worker = tidegate.worker(stages).start().await.unwrap();
    respond(&base, responses, &shared);
    let calls = Calls { base: base.clone(), callback: format!("{receiver}/done"), rate, shared: Arc::clone(&shared) };

    println!("{CALLERS} connections, {rate} requests a second, {seconds} s each; milliseconds");
    println!("{:<44} {:>8} {:>9} {:>9} {:>9}", "", "calls", "p50", "p99", "p99.9");
    let time = Duration::from_secs(seconds as u64);
    // Fills caches and makes the node's connections.
    calls.put(Duration::from_secs(5)).await;
    shared.times.lock().unwrap().iter_mut().for_each(Vec::clear);

    phase("alone", &calls, time, &node, &bench).await;
    let done = Arc::new(AtomicUsize::new(0));
    let bulk = tokio::spawn(submit_bulk(base.clone(), Arc::clone(&done)));
    phase("while another submits 100,000", &calls, time, &node, &bench).await;
    println!("{:<44} {:>8}\n", "the other has submitted", done.load(Ordering::Relaxed));
    bulk.abort();
    // Requests are kept as long as their keys stand for them.
    let short = "update tidegate.policy set dedup_window = '1 second', span_reorder = '0' where kind = 'direct'";
    sqlx::query(short).execute(&bench.pool).await.unwrap();
    bench.store.config_set("direct.retention", "1 second").await.unwrap();
    phase("while ended requests are removed", &calls, time, &node, &bench).await;
    let mut old = PgConnection::connect(&bench.url).await.unwrap();
    old.execute("begin isolation level repeatable read").await.unwrap();
    old.execute("select count(*) from tidegate.kind").await.unwrap();
    phase("while a snapshot is held", &calls, time, &node, &bench).await;
    old.close().await.unwrap();

    wait(&base, waiting, &node).await;
    worker.stop().await.unwrap();
    drop(node);
    bench.drop().await;
}

/// A receiver of webhooks; returns its address.
async fn receive(shared: Arc<Shared>) -> String {
    async fn done(State(shared): State<Arc<Shared>>, Json(end): Json<Value>) -> StatusCode {
        let began = shared.responded.lock().unwrap().remove(end["job_id"].as_str().unwrap());
        if let Some(began) = began {
            shared.record(3, began);
        }
        StatusCode::NO_CONTENT
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/done", post(done)).with_state(shared);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

/// The downstream: answers what the worker has sent.
fn respond(base: &str, sent: mpsc::UnboundedReceiver<String>, shared: &Arc<Shared>) {
    let sent = Arc::new(tokio::sync::Mutex::new(sent));
    let client = client();
    for _ in 0..RESPONDERS {
        let (sent, client, shared) = (Arc::clone(&sent), client.clone(), Arc::clone(shared));
        let url = format!("{base}/v1/responses");
        tokio::spawn(async move {
            loop {
                let Some(id) = sent.lock().await.recv().await else { return };
                let began = Instant::now();
                shared.responded.lock().unwrap().insert(id.clone(), began);
                let answer = client.post(&url).json(&json!({ "job_id": id, "response": { "paid": true } }));
                // 202: it came before the receipt was stored.
                assert!(answer.send().await.unwrap().status().is_success());
                shared.record(2, began);
            }
        });
    }
}

/// The load of the callers.
struct Calls {
    base: String,
    callback: String,
    /// Requests per second.
    rate: usize,
    shared: Arc<Shared>,
}

impl Calls {
    async fn put(&self, time: Duration) {
        let stop = Arc::new(AtomicBool::new(false));
        let client = client();
        let period = Duration::from_secs_f64(CALLERS as f64 / self.rate as f64);
        let callers: Vec<JoinHandle<()>> = (0..CALLERS)
            .map(|number| {
                let (client, stop, shared) = (client.clone(), Arc::clone(&stop), Arc::clone(&self.shared));
                let (url, callback) = (format!("{}/v1/direct", self.base), self.callback.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(period.mul_f64(number as f64 / CALLERS as f64)).await;
                    let mut next = interval(period);
                    while !stop.load(Ordering::Relaxed) {
                        next.tick().await;
                        let began = Instant::now();
                        let submission = client.post(&url).header("tidegate-callback-url", &callback);
                        let answer = submission.json(&json!({ "amount": 100 })).send().await.unwrap();
                        assert_eq!(answer.status(), 202);
                        shared.record(0, began);
                        let answer: Value = answer.json().await.unwrap();
                        let began = Instant::now();
                        let poll = client.get(format!("{url}/{}", answer["job_id"].as_str().unwrap()));
                        assert!(poll.send().await.unwrap().status().is_success());
                        shared.record(1, began);
                    }
                })
            })
            .collect();
        tokio::time::sleep(time).await;
        stop.store(true, Ordering::Relaxed);
        for caller in callers {
            caller.await.unwrap();
        }
    }
}

async fn phase(name: &str, calls: &Calls, time: Duration, node: &Node, bench: &Bench) {
    let server = postmaster(bench).await;
    let before = (processor_seconds(node.id(), false), processor_seconds(server, true));
    calls.put(time).await;
    let after = (processor_seconds(node.id(), false), processor_seconds(server, true));
    let times = std::mem::take(&mut *calls.shared.times.lock().unwrap());
    println!("{name}");
    let requests = times[0].len() as f64;
    for (operation, mut times) in OPERATIONS.into_iter().zip(times) {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        println!("  {operation:<42} {:>8} {:>9.2} {:>9.2} {:>9.2}", times.len(), at(0.5), at(0.99), at(0.999));
    }
    println!(
        "  processor time for each request: node {:.2} ms, PostgreSQL {:.2} ms\n",
        (after.0 - before.0) / requests * 1000.0,
        (after.1 - before.1) / requests * 1000.0
    );
}

/// Submits many requests in batches, one after the other.
async fn submit_bulk(base: String, done: Arc<AtomicUsize>) {
    let client = client();
    let payloads: Vec<_> = (0..BULK_BATCH).map(|n| json!({ "n": n })).collect();
    while done.load(Ordering::Relaxed) < BULK {
        let batch = client.post(format!("{base}/v1/bulk/batch")).json(&payloads);
        assert_eq!(batch.send().await.unwrap().status(), 202);
        done.fetch_add(BULK_BATCH, Ordering::Relaxed);
    }
}

/// The memory of a node at which many wait.
async fn wait(base: &str, callers: usize, node: &Node) {
    let client = client();
    let submitted: Value =
        client.post(format!("{base}/v1/bulk")).json(&json!({})).send().await.unwrap().json().await.unwrap();
    let url = format!("{base}/v1/bulk/{}", submitted["job_id"].as_str().unwrap());
    let before = memory_kb(node.id());
    let waits: Vec<_> =
        (0..callers).map(|_| tokio::spawn(client.get(&url).header("prefer", "wait=20").send())).collect();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let with = memory_kb(node.id());
    for wait in waits {
        assert_eq!(wait.await.unwrap().unwrap().status(), 202);
    }
    let each = with.saturating_sub(before) * 1000 / callers as u64;
    println!("{callers} callers that wait: {with} kB instead of {before} kB, {each} kB for each thousand");
}

fn client() -> Client {
    Client::builder().no_proxy().build().unwrap()
}

/// The process id of the server, which has to be on this machine.
async fn postmaster(bench: &Bench) -> u32 {
    let backend: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&bench.pool).await.unwrap();
    let status = fs::read_to_string(format!("/proc/{backend}/status")).expect("the server is on this machine");
    status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().parse().unwrap()
}

/// The processor time of a process, and of its children.
fn processor_seconds(process: u32, with_children: bool) -> f64 {
    let ticks = |process: &str, and_ended: bool| -> f64 {
        let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { return 0.0 };
        // The name is in parentheses, and may have blanks.
        let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let times = if and_ended { &fields[11..15] } else { &fields[11..13] };
        times.iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum()
    };
    let mut all = ticks(&process.to_string(), with_children);
    if with_children {
        let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
        all += children.split_whitespace().map(|child| ticks(child, false)).sum::<f64>();
    }
    all / TICKS
}

fn memory_kb(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim_end_matches("kB").trim().parse().unwrap()
}
