//! What the pages for operators cost: the time of each page, the statement time of a node whose pages are watched, and a cancel of many
//! requests from a page beside submissions.
//!
//! `ENDED` and `LIVE` say how many requests there are, `SECONDS` how long each state is measured, `CANCELLED` how many are cancelled. The
//! node is `tidegate serve`. Statement time is `pg_stat_database.active_time`, which sessions report some seconds late. The duties of
//! maintenance, which have much to do after so many submissions, rest while it is measured; what the pages cost is the difference from the
//! time without viewers.
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
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use node::Node;
use reqwest::{Client, header::LOCATION, redirect::Policy};
use support::{Bench, number};
use tidegate::internals::store::Admission;

const PAGES: [&str; 13] = [
    "/ui",
    "/ui/honesty",
    "/ui/requests",
    "/ui/requests?kind=direct&state=failure",
    "/ui/requests?state=processing",
    "/ui/requests?submitter=nobody",
    "/ui/gates",
    "/ui/stages",
    "/ui/workers",
    "/ui/webhooks",
    "/ui/settings",
    "/ui/doctor",
    "/ui/history?queue=tx&hours=24",
];
const LIVE_PAGES: [&str; 4] = ["now", "gates", "stages", "workers"];

/// Ended requests in one statement.
const CHUNK: usize = 500_000;
/// Connections that submit beside a cancel.
const SUBMITTERS: usize = 8;

fn main() {
    support::run(measure());
}

async fn measure() {
    let location = support::location().await;
    let bench = Bench::new(&location).await;
    let (ended, live) = (number("ENDED", 200_000), number("LIVE", 20_000));
    let seconds = Duration::from_secs(number("SECONDS", 20) as u64);
    fill(&bench, ended, live).await;
    let node = Node::start(&bench.url).await;
    let base = format!("http://{}", node.address);
    let client = Client::builder().no_proxy().redirect(Policy::none()).build().unwrap();
    println!("{ended} ended and {live} live requests");
    times(&client, &base).await;
    watched(&bench, &client, &base, seconds).await;
    cancel(&bench, &client, &base, seconds).await;
    drop(node);
    bench.drop().await;
}

/// Ended requests are written without their lives, with deadlines that pass one after the other; live ones are submitted.
async fn fill(bench: &Bench, ended: usize, live: usize) {
    let mut session = bench.pool.acquire().await.unwrap();
    sqlx::query("set statement_timeout = 0").execute(&mut *session).await.unwrap();
    for from in (0..ended).step_by(CHUNK) {
        let rows = CHUNK.min(ended - from);
        let sql = format!(
            "set session_replication_role = replica;
             insert into tidegate.request (id, kind, flow, req_status, transition_no, cause, deadline_at, processing_at,
               receipt_received_at, finished_at, payload, response, error, tx_attempt)
             select tidegate_internal.uuid_v7(clock_timestamp() - interval '20 hours' * ({ended} - n) / {ended}),
               'direct', 'direct', case when n % 20 = 0 then 'failure' else 'completed' end::tidegate.request_status, 4,
               'receipt', now() + interval '1 day' * n / {ended}, now(), now(), now(), '{{\"to\": 1}}',
               case when n % 20 > 0 then '{{\"ok\": true}}'::jsonb end,
               case when n % 20 = 0 then '{{\"code\": \"internal_error\", \"message\": \"\", \"retryable\": false}}'::jsonb end, 1
             from generate_series({from} + 1, {from} + {rows}) as n;
             reset session_replication_role"
        );
        sqlx::raw_sql(&sql).execute(&mut *session).await.unwrap();
    }
    bench.submit(live).await;
    for sql in ["vacuum analyze tidegate.request", "vacuum analyze pgmq.q_tx", "select tidegate.recover_counts()"] {
        sqlx::query(sql).execute(&mut *session).await.unwrap();
    }
    sqlx::query("reset statement_timeout").execute(&mut *session).await.unwrap();
}

async fn page(client: &Client, url: &str) -> String {
    let answer = client.get(url).send().await.unwrap();
    assert!(answer.status().is_success(), "{url}: {}", answer.status());
    answer.text().await.unwrap()
}

async fn times(client: &Client, base: &str) {
    println!("\n{:<42} {:>10} {:>10} {:>10}", "page", "first ms", "median ms", "worst ms");
    for path in PAGES {
        let mut times = Vec::new();
        for _ in 0..6 {
            // Each has a look of its own.
            tokio::time::sleep(Duration::from_millis(1100)).await;
            let asked = Instant::now();
            page(client, &format!("{base}{path}")).await;
            times.push(asked.elapsed().as_secs_f64() * 1000.0);
        }
        let first = times.remove(0);
        times.sort_by(f64::total_cmp);
        println!("{path:<42} {first:>10.1} {:>10.1} {:>10.1}", times[2], times[4]);
    }
}

/// The statement time of the database, in milliseconds.
async fn active_ms(bench: &Bench) -> f64 {
    // Sessions report at most once a second, and idle ones within ten.
    tokio::time::sleep(Duration::from_secs(11)).await;
    let sql = "select active_time from pg_stat_database where datname = current_database()";
    sqlx::query_scalar(sql).fetch_one(&bench.pool).await.unwrap()
}

async fn watched(bench: &Bench, client: &Client, base: &str, time: Duration) {
    let duties = async |change: &str| {
        let sql = format!("update tidegate.maintenance set ran_at = tidegate.clock(), period = period {change}");
        sqlx::query(&sql).execute(&bench.pool).await.unwrap();
    };
    duties("+ interval '1 hour'").await;
    // One that has begun ends.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut costs = Vec::new();
    for viewers in [0, 1, 0, 10, 0] {
        let streams: Vec<_> = (0..viewers)
            .flat_map(|_| LIVE_PAGES)
            .map(|live| {
                let stream = client.get(format!("{base}/ui/live/{live}"));
                tokio::spawn(async move {
                    let mut answer = stream.send().await.unwrap();
                    while let Ok(Some(_)) = answer.chunk().await {}
                })
            })
            .collect();
        let (begun, before) = (Instant::now(), active_ms(bench).await);
        let waited = begun.elapsed();
        tokio::time::sleep(time).await;
        let after = active_ms(bench).await;
        let seconds = (begun.elapsed() - waited).as_secs_f64();
        costs.push((viewers, (after - before) / seconds));
        for stream in streams {
            stream.abort();
        }
    }
    duties("- interval '1 hour'").await;

    println!("\n{:<42} {:>16} {:>16}", "watched", "statements ms/s", "for the pages");
    for (place, (viewers, cost)) in costs.iter().enumerate() {
        let what = format!("{viewers} viewers of each of {} live pages", LIVE_PAGES.len());
        let without = if *viewers == 0 { *cost } else { f64::midpoint(costs[place - 1].1, costs[place + 1].1) };
        println!("{what:<42} {cost:>16.1} {:>16.1}", cost - without);
    }
}

/// Cancels requests from the list of them while others are submitted.
async fn cancel(bench: &Bench, client: &Client, base: &str, time: Duration) {
    let cancelled = number("CANCELLED", 10_000);
    let payloads = vec!["{}".parse().unwrap(); 1000];
    for _ in 0..cancelled.div_ceil(1000) {
        bench.store.submit_batch("input_proof", &payloads, None, None, Admission::Accepted, None).await.unwrap();
    }
    println!("\n{:<42} {:>10} {:>10} {:>10}", "submissions over 8 connections", "a second", "p50 ms", "p99 ms");
    let alone = Submissions::start(client, base);
    tokio::time::sleep(time).await;
    alone.end("alone").await;

    let list = format!("{base}/ui/requests?kind=input_proof");
    let html = page(client, &list).await;
    let (_, seal) = html.split_once(r#"name="seal" value=""#).unwrap();
    let seal = seal.split('"').next().unwrap();
    let beside = Submissions::start(client, base);
    let begun = Instant::now();
    let form = [("seal", seal), ("kind", "input_proof"), ("act", "cancel_all")];
    let answer = client.post(format!("{base}/ui/requests/start")).form(&form).send().await.unwrap();
    let job = format!("{base}{}", answer.headers()[LOCATION].to_str().unwrap());
    while client.get(&job).send().await.unwrap().headers().contains_key("refresh") {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let took = begun.elapsed().as_secs_f64();
    beside.end(&format!("beside a cancel of {cancelled}")).await;
    let sql = "select count(*) from tidegate.request where kind = 'input_proof' and req_status = 'failure'";
    let done: i64 = sqlx::query_scalar(sql).fetch_one(&bench.pool).await.unwrap();
    println!("{done} were cancelled in {took:.1} s");
}

/// Callers that submit one request after another.
struct Submissions {
    begun: Instant,
    stop: Arc<AtomicBool>,
    callers: Vec<tokio::task::JoinHandle<Vec<f64>>>,
}

impl Submissions {
    fn start(client: &Client, base: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let callers = (0..SUBMITTERS).map(|_| {
            let (client, url, stop) = (client.clone(), format!("{base}/v1/direct"), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut times = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let asked = Instant::now();
                    let posting = client.post(&url).header("content-type", "application/json").body("{}");
                    assert_eq!(posting.send().await.unwrap().status(), 202);
                    times.push(asked.elapsed().as_secs_f64() * 1000.0);
                }
                times
            })
        });
        Self { begun: Instant::now(), callers: callers.collect(), stop }
    }

    async fn end(self, what: &str) {
        self.stop.store(true, Ordering::Relaxed);
        let mut times = Vec::new();
        for caller in self.callers {
            times.extend(caller.await.unwrap());
        }
        let seconds = self.begun.elapsed().as_secs_f64();
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        println!("{what:<42} {:>10.0} {:>10.2} {:>10.2}", times.len() as f64 / seconds, at(0.5), at(0.99));
    }
}
