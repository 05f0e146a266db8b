//! A noisy neighbour: what nine callers feel whose submitters share a queue with one of `BULK` requests, in a fifo queue and in a
//! fair one.
//!
//! Both queues send 100/s at most. One submitter brings its requests in batches, at the beginning. Nine submit 5/s each for
//! `SECONDS`, over HTTP, each with its own key, and poll as Retry-After says, for as long again at most. Both run at once, with a node
//! and a worker. Of the fair queue's nine, two have the weights 2 and 5, and one is paused for a third of the time.
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
    sync::{Arc, Mutex},
    time::Duration,
};

use node::Node;
use reqwest::Client;
use serde_json::{Value, json};
use support::{Bench, number};
use tidegate::{
    internals::{
        api_key::{ApiKey, Scope},
        worker::{self, WorkerOptions},
    },
    request::{Request, RequestId},
    stage::{JsonText, Sent, Stages, Transact},
};
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep},
};
use tokio_util::sync::CancellationToken;

const QUEUES: [&str; 2] = ["fifo", "fair"];
const SUBMITTERS: usize = 9;
const PER_SECOND: u64 = 5;
const BATCH: usize = 1000;

/// A downstream that answers after 20 ms.
#[derive(Clone, Default)]
struct Downstream {
    /// When it has answered each request.
    answered: Arc<Mutex<HashMap<RequestId, Instant>>>,
}

impl Transact for Downstream {
    type Payload = JsonText;

    async fn send(&self, request: &Request) -> Sent {
        sleep(Duration::from_millis(20)).await;
        self.answered.lock().unwrap().insert(request.id, Instant::now());
        Sent::response(json!(true))
    }
}

/// What one request took.
struct Outcome {
    submitter: usize,
    polls: u32,
    /// From the submission to the result, and how old the result was then; none: not within the time.
    done: Option<(Duration, Duration)>,
}

/// A caller with its key.
#[derive(Clone)]
struct Caller {
    client: Client,
    url: String,
    key: String,
    submitter: usize,
    until: Instant,
    downstream: Downstream,
}

fn main() {
    support::run(measure());
}

async fn measure() {
    let bulk = number("BULK", 100_000);
    let seconds = u64::try_from(number("SECONDS", 120)).unwrap();
    let location = support::location().await;
    let bench = Bench::new(&location).await;
    for queue in QUEUES {
        let fair_by = if queue == "fair" { "'submitter'" } else { "null" };
        let sql = format!(
            "select tidegate.queue_add('{queue}', 'tx', per_seconds => 100, high_water => 1000000, fair_by => {fair_by});
             select tidegate.kind_add('{queue}', 'direct', tx_queue => '{queue}');
             update tidegate.kind set eta = 'observed', deadline = '1 day' where name = '{queue}';
             update tidegate.policy set deadline_ms = 80000000 where kind = '{queue}' and stage = 'tx'"
        );
        sqlx::raw_sql(&sql).execute(&bench.pool).await.unwrap();
    }
    let mut keys = Vec::new();
    for submitter in 0..=SUBMITTERS {
        let key = ApiKey::generate().unwrap();
        bench.store.key_create(&key, &format!("k{submitter}"), &[Scope::Submit], None).await.unwrap();
        keys.push(key.expose().to_owned());
    }
    let node = Node::start(&bench.url).await;
    let stop = CancellationToken::new();
    let downstream = Downstream::default();
    let mut stages = Stages::new();
    for queue in QUEUES {
        stages = stages.transact(queue, downstream.clone());
    }
    let queues = QUEUES.map(str::to_owned).to_vec();
    let options = WorkerOptions { queues, batch: 20, concurrency: 64, ..WorkerOptions::default() };

    let client = Client::builder().no_proxy().build().unwrap();
    let until = Instant::now() + Duration::from_secs(2 * seconds);
    let callers = |queue: &str| -> Vec<Caller> {
        let of_key = |(submitter, key): (usize, &String)| Caller {
            client: client.clone(),
            url: format!("http://{}/v1/{queue}", node.address),
            key: key.clone(),
            submitter,
            until,
            downstream: downstream.clone(),
        };
        keys.iter().enumerate().map(of_key).collect()
    };
    for queue in QUEUES {
        callers(queue)[0].bring(bulk).await;
    }
    let worker = tokio::spawn(worker::run(bench.store.clone(), stages, options, stop.clone()));
    let mut running = JoinSet::new();
    for queue in QUEUES {
        for caller in callers(queue).into_iter().skip(1) {
            running.spawn(async move { (queue, caller.submit_for(Duration::from_secs(seconds)).await) });
        }
    }
    let settings = tokio::spawn(set_keys(bench.store.clone(), Duration::from_secs(seconds)));
    let outcomes = running.join_all().await;
    settings.await.unwrap();
    println!(
        "{bulk} requests of one submitter, 100 sends/s, {SUBMITTERS} others with {PER_SECOND}/s each for {seconds} s\n"
    );
    println!("queue  submitters               requests  in time  p50, s  p99, s  polls/request  p99 lateness, s");
    for queue in QUEUES {
        let of_queue: Vec<&Outcome> =
            outcomes.iter().filter(|(of, _)| *of == queue).flat_map(|(_, outcomes)| outcomes).collect();
        let of = |submitters: &[usize]| -> Vec<&Outcome> {
            of_queue.iter().filter(|outcome| submitters.contains(&outcome.submitter)).copied().collect()
        };
        if queue == "fifo" {
            report(queue, "all nine", &of_queue);
        } else {
            report(queue, "six of weight 1", &of(&[1, 2, 3, 4, 5, 6]));
            report(queue, "one of weight 2", &of(&[7]));
            report(queue, "one of weight 5", &of(&[8]));
            report(queue, "one, paused for a third", &of(&[9]));
        }
    }
    stop.cancel();
    worker.await.unwrap().unwrap();
    drop(node);
    bench.drop().await;
}

/// Weights from the beginning, and a pause in the second third.
async fn set_keys(store: tidegate::internals::store::Store, time: Duration) {
    store.fair_key_set("fair", "k7", Some(2), None).await.unwrap();
    store.fair_key_set("fair", "k8", Some(5), None).await.unwrap();
    sleep(time / 3).await;
    store.fair_key_set("fair", "k9", None, Some(true)).await.unwrap();
    sleep(time / 3).await;
    store.fair_key_set("fair", "k9", None, Some(false)).await.unwrap();
}

impl Caller {
    /// Submits so many in batches.
    async fn bring(&self, count: usize) {
        for _ in 0..count.div_ceil(BATCH) {
            let batch = vec![json!({}); BATCH];
            let (status, _, body) = self.ask(self.client.post(format!("{}/batch", self.url)).json(&batch)).await;
            assert_eq!(status, 202, "{body}");
        }
    }

    async fn submit_for(self, time: Duration) -> Vec<Outcome> {
        let mut ticks = interval(Duration::from_secs(1) / u32::try_from(PER_SECOND).unwrap());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut calls = JoinSet::new();
        for _ in 0..time.as_secs() * PER_SECOND {
            ticks.tick().await;
            calls.spawn(self.clone().call());
        }
        calls.join_all().await
    }

    async fn call(self) -> Outcome {
        let begun = Instant::now();
        let (status, mut wait, ticket) = self.ask(self.client.post(&self.url).json(&json!({}))).await;
        assert_eq!(status, 202, "{ticket}");
        let job = ticket["job_id"].as_str().unwrap().to_owned();
        let mut polls = 0;
        while Instant::now() + wait < self.until {
            sleep(wait).await;
            polls += 1;
            let (status, told, answer) = self.ask(self.client.get(format!("{}/{job}", self.url))).await;
            if status == 200 {
                assert_eq!(answer["status"], "succeeded", "{answer}");
                let answered = self.downstream.answered.lock().unwrap().get(&job.parse().unwrap()).copied();
                let late = answered.map_or(Duration::ZERO, |at| at.elapsed());
                return Outcome { submitter: self.submitter, polls, done: Some((begun.elapsed(), late)) };
            }
            wait = told;
        }
        Outcome { submitter: self.submitter, polls, done: None }
    }

    async fn ask(&self, request: reqwest::RequestBuilder) -> (u16, Duration, Value) {
        let answer = request.bearer_auth(&self.key).send().await.unwrap();
        let status = answer.status().as_u16();
        let wait = answer.headers().get("retry-after").map_or(0, |value| value.to_str().unwrap().parse().unwrap());
        (status, Duration::from_secs(wait), answer.json().await.unwrap())
    }
}

fn report(queue: &str, who: &str, outcomes: &[&Outcome]) {
    let done: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.done).collect();
    let polls: u32 = outcomes.iter().map(|outcome| outcome.polls).sum();
    let mut took: Vec<_> = done.iter().map(|(took, _)| took.as_secs_f64()).collect();
    let mut late: Vec<_> = done.iter().map(|(_, late)| late.as_secs_f64()).collect();
    // What has no result in time took longer than all that have.
    took.resize(outcomes.len(), f64::INFINITY);
    println!(
        "{queue:<6} {who:<24} {:>8} {:>8} {:>7.1} {:>7.1} {:>14.2} {:>16}",
        outcomes.len(),
        done.len(),
        quantile(&mut took, 0.5),
        quantile(&mut took, 0.99),
        f64::from(polls) / outcomes.len() as f64,
        if late.is_empty() { "-".to_owned() } else { format!("{:.1}", quantile(&mut late, 0.99)) }
    );
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get((values.len().saturating_sub(1) as f64 * share) as usize).copied().unwrap_or(f64::NAN)
}
