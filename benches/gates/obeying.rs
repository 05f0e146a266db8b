//! Whether callers that obey `Retry-After` find the gate open when they come back, while the queue drains steadily: in real
//! time, with one node and with three.
//!
//! Each caller submits without a key, waits for exactly the seconds of `Retry-After`, and submits again until it is accepted.
//! On average fewer callers come than the queue serves, because waiting cannot help against a lasting overload.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use rand::{SeedableRng, rngs::StdRng};
use rand_distr::{Distribution, Exp};
use reqwest::Client;
use tidegate::{
    internals::worker::{self, WorkerOptions},
    request::Request,
    stage::{JsonText, Receipt, Sent, Stages, Transact},
};
use tidegate_cli::database_location::DatabaseLocation;
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, interval, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    node::Node,
    support::{Bench, number},
};

/// The arrivals of callers. Numbers are for a queue that serves 10 per second and closes at 30; `SCALE` multiplies all of them.
#[derive(Clone, Copy)]
enum Load {
    /// 100 at once, every 30 s.
    Bursts,
    /// 120 at once, every 15 s: 8 per second in the long run.
    DenseBursts,
    /// 20 per second at random for 20 s, then 2 per second for 40 s: 8 per second in the long run.
    Surges,
}

const LOADS: [Load; 3] = [Load::Bursts, Load::DenseBursts, Load::Surges];

impl Load {
    const fn name(self) -> &'static str {
        match self {
            Self::Bursts => "bursts",
            Self::DenseBursts => "dense_bursts",
            Self::Surges => "surges",
        }
    }

    /// Arrival of each caller, in seconds from the beginning.
    fn arrivals(self, minutes: usize, scale: usize) -> Vec<f64> {
        let bursts = |count: usize, size: usize, every: f64| {
            let burst = move |burst| {
                let at = every * f64::from(u32::try_from(burst).unwrap());
                std::iter::repeat_n(at, size * scale)
            };
            (0..count).flat_map(burst).collect()
        };
        match self {
            Self::Bursts => bursts(2 * minutes, 100, 30.0),
            Self::DenseBursts => bursts(4 * minutes, 120, 15.0),
            Self::Surges => {
                let mut random = StdRng::seed_from_u64(number("SEED", 1).try_into().unwrap());
                let scale = f64::from(u32::try_from(scale).unwrap());
                let end = 60.0 * f64::from(u32::try_from(minutes).unwrap());
                let mut at = 0.0;
                let next = || {
                    let rate = if at % 60.0 < 20.0 { 20.0 } else { 2.0 };
                    at += Exp::new(rate * scale).unwrap().sample(&mut random);
                    at
                };
                std::iter::repeat_with(next).take_while(|at| *at < end).collect()
            }
        }
    }
}

/// Takes each request at once, and its receipt is the response.
struct Noop;

impl Transact for Noop {
    type Payload = JsonText;

    async fn send(&self, _: &Request) -> Sent {
        Sent::Receipt(Receipt { reference: None, response: Some(true.into()) })
    }
}

/// Counts of the callers of a case.
#[derive(Default)]
struct Seen {
    refused: AtomicU64,
    returned: AtomicU64,
    found_open: AtomicU64,
    told_seconds: AtomicU64,
    /// From the first attempt of each caller until it was accepted.
    waited: Mutex<Vec<Duration>>,
}

/// Figures of the queue, sampled all the time.
#[derive(Default)]
struct Watched {
    deepest: i64,
    /// Time in which refused callers waited.
    crowded: Duration,
    /// How many messages the queue served in that time.
    served: i64,
}

struct Row {
    load: Load,
    nodes: usize,
    text: String,
}

pub(crate) async fn measure(location: &DatabaseLocation) {
    let minutes = number("MINUTES", 2);
    let scale = number("SCALE", 1);
    println!(
        "\ncallers that obey Retry-After, for {minutes} min: {} per second served, high water {}, low water {}",
        10 * scale,
        30 * scale,
        15 * scale
    );
    println!(
        "{:<13} {:>5} {:>8} {:>8} {:>10} {:>9} {:>6} {:>8} {:>15} {:>7} {:>8} {:>6}",
        "load",
        "nodes",
        "callers",
        "returns",
        "found open",
        "attempts",
        "told",
        "waited",
        "most",
        "closed",
        "deepest",
        "used"
    );
    let (one, three) = tokio::join!(with_nodes(location, 1, minutes, scale), with_nodes(location, 3, minutes, scale));
    let mut rows: Vec<_> = one.into_iter().chain(three).collect();
    rows.sort_by_key(|row| (row.load as u8, row.nodes));
    for row in rows {
        println!("{:<13} {:>5} {}", row.load.name(), row.nodes, row.text);
    }
}

/// All cases at once on a database of their own, each with a kind and a queue of its own.
async fn with_nodes(location: &DatabaseLocation, nodes: usize, minutes: usize, scale: usize) -> Vec<Row> {
    let bench = Bench::with_suffix(location, &format!("_nodes_{nodes}")).await;
    let mut stages = Stages::new();
    for load in LOADS {
        create_kind(&bench, load.name(), scale).await;
        stages = stages.transact(load.name(), Noop);
    }
    let stop = CancellationToken::new();
    let options = WorkerOptions {
        queues: LOADS.map(|load| load.name().to_owned()).to_vec(),
        batch: (20 * scale).min(500),
        concurrency: (20 * scale).min(2000),
        ..WorkerOptions::default()
    };
    let working = worker::run(bench.store.clone(), stages, options, stop.clone());
    let working = tokio::spawn(working);
    let mut fleet = Vec::new();
    for _ in 0..nodes {
        fleet.push(Node::start(&bench.url).await);
    }
    let addresses: Arc<[_]> = fleet.iter().map(|node| node.address).collect();
    // Each node needs time to listen and to count the nodes.
    sleep(Duration::from_secs(5)).await;

    let mut cases = JoinSet::new();
    for load in LOADS {
        let (pool, addresses) = (bench.pool.clone(), Arc::clone(&addresses));
        cases.spawn(async move {
            let arrivals = load.arrivals(minutes, scale);
            let seen = Arc::new(Seen::default());
            let ended = CancellationToken::new();
            let watching = watch(pool.clone(), load, Arc::clone(&seen), ended.clone());
            let watching = tokio::spawn(watching);
            come(load, &arrivals, &addresses, &seen).await;
            ended.cancel();
            let watched = watching.await.unwrap();
            let text = report(&pool, load, scale, &seen, &watched).await;
            Row { load, nodes, text }
        });
    }
    let rows = cases.join_all().await;
    stop.cancel();
    working.await.unwrap().unwrap();
    drop(fleet);
    bench.drop().await;
    rows
}

async fn create_kind(bench: &Bench, kind: &str, scale: usize) {
    for sql in [
        format!("insert into tidegate.queue (name, stage, per_seconds) values ('{kind}', 'tx', {})", 10 * scale),
        format!(
            "update tidegate.gate set high_water = {}, low_water = {} where queue = '{kind}'",
            30 * scale,
            15 * scale
        ),
        format!(
            "insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms)
             values ('{kind}', 'direct', '{kind}', 200, 100)"
        ),
    ] {
        sqlx::query(&sql).execute(&bench.pool).await.unwrap();
    }
}

/// Each caller submits, at the next node after each refusal, until it is accepted.
async fn come(load: Load, arrivals: &[f64], nodes: &[std::net::SocketAddr], seen: &Arc<Seen>) {
    let began_at = Instant::now() + Duration::from_secs(1);
    let client = Client::builder().no_proxy().build().unwrap();
    // More calls at once would only queue for a core.
    let calls = Arc::new(Semaphore::new(256));
    let path = load.name().replace('_', "-");
    let mut callers = JoinSet::new();
    for (number, arrival) in arrivals.iter().enumerate() {
        let urls: Vec<_> =
            (0..nodes.len()).map(|turn| format!("http://{}/v1/{path}", nodes[(number + turn) % nodes.len()])).collect();
        let (client, calls, seen) = (client.clone(), Arc::clone(&calls), Arc::clone(seen));
        let arrives_at = began_at + Duration::from_secs_f64(*arrival);
        callers.spawn(async move {
            sleep_until(arrives_at).await;
            for attempt in 0.. {
                let turn = calls.acquire().await.unwrap();
                let request = client.post(&urls[attempt % urls.len()]).json(&serde_json::json!({ "number": number }));
                let answer = request.send().await.unwrap();
                drop(turn);
                let is_open = answer.status().as_u16() == 202;
                seen.returned.fetch_add(u64::from(attempt > 0), Relaxed);
                if is_open {
                    seen.found_open.fetch_add(u64::from(attempt > 0), Relaxed);
                    break;
                }
                assert_eq!(answer.status().as_u16(), 429, "{answer:?}");
                let told = answer.headers()["retry-after"].to_str().unwrap();
                let told: u64 = told.parse().unwrap();
                seen.refused.fetch_add(1, Relaxed);
                seen.told_seconds.fetch_add(told, Relaxed);
                sleep(Duration::from_secs(told)).await;
            }
            seen.waited.lock().unwrap().push(arrives_at.elapsed());
        });
    }
    callers.join_all().await;
}

/// Samples the queue until all callers are accepted and it is empty.
async fn watch(pool: sqlx::PgPool, load: Load, seen: Arc<Seen>, ended: CancellationToken) -> Watched {
    let look = format!(
        "select (select c.depth from tidegate.queue_counts() as c where c.queue = '{0}'),
           (select coalesce(sum(d.drained), 0)::bigint from tidegate.queue_drain as d where d.queue = '{0}')",
        load.name()
    );
    let mut watched = Watched::default();
    let mut looks = interval(Duration::from_millis(50));
    let (mut looked_at, mut served_before) = (Instant::now(), 0);
    loop {
        looks.tick().await;
        let (depth, served): (i64, i64) = sqlx::query_as(&look).fetch_one(&pool).await.unwrap();
        watched.deepest = watched.deepest.max(depth);
        let now = Instant::now();
        if seen.returned.load(Relaxed) < seen.refused.load(Relaxed) {
            watched.crowded += now - looked_at;
            watched.served += served - served_before;
        }
        (looked_at, served_before) = (now, served);
        if ended.is_cancelled() && depth == 0 {
            return watched;
        }
    }
}

async fn report(pool: &sqlx::PgPool, load: Load, scale: usize, seen: &Seen, watched: &Watched) -> String {
    let (closed, deepest): (i64, i64) = sqlx::query_as(
        "select count(*) filter (where e.state = 'too_many_requests'), coalesce(max(e.depth), 0)
         from tidegate.gate_event as e where e.gate = $1",
    )
    .bind(load.name())
    .fetch_one(pool)
    .await
    .unwrap();
    let deepest = deepest.max(watched.deepest);
    let high_water = i64::try_from(30 * scale).unwrap();
    assert!(deepest <= high_water, "{deepest} behind {}", load.name());

    let of = |count: &AtomicU64| f64::from(u32::try_from(count.load(Relaxed)).unwrap());
    let mut waited: Vec<_> = seen.waited.lock().unwrap().clone();
    waited.sort();
    let callers = f64::from(u32::try_from(waited.len()).unwrap());
    let mean_waited = waited.iter().sum::<Duration>().as_secs_f64() / callers;
    let (returned, refused) = (of(&seen.returned), of(&seen.refused));
    let most = f64::from(u32::try_from(10 * scale).unwrap()) * watched.crowded.as_secs_f64();
    let served = f64::from(i32::try_from(watched.served).unwrap());
    format!(
        "{callers:>8.0} {returned:>8.0} {:>8.1} % {:>9.2} {:>4.1} s {mean_waited:>6.1} s {:>13.1} s {closed:>7} {deepest:>8} {:>4.0} %",
        100.0 * of(&seen.found_open) / returned.max(1.0),
        1.0 + refused / callers,
        of(&seen.told_seconds) / refused.max(1.0),
        waited[waited.len() - 1].as_secs_f64(),
        100.0 * served / most.max(1.0),
    )
}
