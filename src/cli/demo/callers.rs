//! The callers of the demo: each submits one request and comes back exactly when it is told to.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use reqwest::{Client, Response, StatusCode, header::RETRY_AFTER};
use serde_json::{Value, json};
use tokio::{sync::Notify, time::Instant};
use uuid::Uuid;

/// The path of each kind, in turn.
const KINDS: [&str; 4] = ["public-decrypt", "user-decrypt", "input-proof", "direct"];

/// Submissions per second: faster than the downstream takes them, so that queues build up.
const ARRIVALS: u64 = 40;

/// What one caller saw.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) status: String,
    /// What the 202 promised.
    pub(super) predicted: Duration,
    /// How long the answer took to reach this caller.
    pub(super) actual: Duration,
    pub(super) polls: u32,
}

/// All callers, and what they have seen so far.
pub(super) struct Callers {
    expected: u32,
    answered: AtomicU32,
    refused: AtomicU32,
    seen: Mutex<Seen>,
    all: Notify,
}

#[derive(Default)]
struct Seen {
    accepted: Vec<Uuid>,
    answers: Vec<Answer>,
    troubles: Vec<String>,
}

impl Callers {
    /// Starts them; they arrive one after the other and then run by themselves.
    pub(super) fn start(api: &str, requests: u32) -> Arc<Self> {
        let callers = Arc::new(Self {
            expected: requests,
            answered: AtomicU32::new(0),
            refused: AtomicU32::new(0),
            seen: Mutex::default(),
            all: Notify::new(),
        });
        let client = Client::new();
        let begin = Instant::now();
        for number in 0..requests {
            let callers = Arc::clone(&callers);
            let (client, api) = (client.clone(), api.to_owned());
            tokio::spawn(async move {
                let arrival = begin + Duration::from_millis(u64::from(number) * 1000 / ARRIVALS);
                tokio::time::sleep_until(arrival).await;
                if let Err(error) = callers.call(&client, &api, number).await {
                    callers
                        .seen()
                        .troubles
                        .push(format!("caller {number}: {error:#}"));
                }
                if callers.answered.fetch_add(1, Ordering::Relaxed) + 1 == callers.expected {
                    callers.all.notify_waiters();
                }
            });
        }
        callers
    }

    async fn call(&self, client: &Client, api: &str, number: u32) -> anyhow::Result<()> {
        let kind = KINDS[number as usize % KINDS.len()];
        let payload =
            json!({ "number": number, "to": "0x52908400098527886e0f7030069857d2e4169ee7" });
        let (id, location, mut wait, begun) = loop {
            let response = client
                .post(format!("{api}/v1/{kind}"))
                .header("Idempotency-Key", format!("demo-{number}"))
                .json(&payload)
                .send()
                .await?;
            let wait = retry_after(&response)?;
            match response.status() {
                StatusCode::ACCEPTED => {
                    let body: Value = response.json().await?;
                    let id: Uuid = serde_json::from_value(body["job_id"].clone())?;
                    break (id, format!("{api}/v1/{kind}/{id}"), wait, Instant::now());
                }
                StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(wait).await;
                }
                status => anyhow::bail!("POST answered {status}: {}", response.text().await?),
            }
        };
        self.seen().accepted.push(id);

        let predicted = wait;
        let mut polls = 0;
        loop {
            tokio::time::sleep(wait).await;
            let response = client.get(&location).send().await?;
            polls += 1;
            match response.status() {
                StatusCode::ACCEPTED | StatusCode::SERVICE_UNAVAILABLE => {
                    wait = retry_after(&response)?;
                }
                StatusCode::OK => {
                    let body: Value = response.json().await?;
                    self.seen().answers.push(Answer {
                        status: body["status"].as_str().unwrap_or("?").to_owned(),
                        predicted,
                        actual: begun.elapsed(),
                        polls,
                    });
                    return Ok(());
                }
                status => anyhow::bail!("GET answered {status}: {}", response.text().await?),
            }
        }
    }

    /// How many callers are done, answered or in trouble.
    pub(super) fn answered(&self) -> u32 {
        self.answered.load(Ordering::Relaxed)
    }

    /// How many callers there are.
    pub(super) fn expected(&self) -> u32 {
        self.expected
    }

    /// How often a caller was told to submit later.
    pub(super) fn refused(&self) -> u32 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(super) fn all_answered(&self) -> bool {
        self.answered() == self.expected
    }

    /// Waits until all are done.
    pub(super) async fn wait(&self) {
        let done = self.all.notified();
        if !self.all_answered() {
            done.await;
        }
    }

    pub(super) fn accepted(&self) -> Vec<Uuid> {
        self.seen().accepted.clone()
    }

    pub(super) fn answers(&self) -> Vec<Answer> {
        self.seen().answers.clone()
    }

    pub(super) fn troubles(&self) -> Vec<String> {
        self.seen().troubles.clone()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The seconds a caller is told to wait; every answer but the last carries them.
fn retry_after(response: &Response) -> anyhow::Result<Duration> {
    if response.status() == StatusCode::OK {
        return Ok(Duration::ZERO);
    }
    let seconds = response
        .headers()
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse().ok());
    match seconds {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => anyhow::bail!("{} without Retry-After", response.status()),
    }
}
