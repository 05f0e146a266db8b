//! The callers of the demo: each submits one request and comes back exactly when it is told to.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use reqwest::{Client, RequestBuilder, Response, StatusCode, header::RETRY_AFTER};
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};
use uuid::Uuid;

/// The path of each kind, in turn; those who come at once all submit the last.
const KINDS: [&str; 4] = ["public-decrypt", "user-decrypt", "input-proof", "direct"];

/// Submissions per second at first: a little faster than the downstream takes them.
const ARRIVALS: u32 = 24;

/// Calls under way at once: more would only wait for each other, each with a connection of its own.
const CALLS: usize = 256;

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

/// How many callers come one after the other; the others come at once when those are through.
pub(super) const fn one_by_one(requests: u32) -> u32 {
    requests / 2
}

/// The marks of the gate, high and low: those who come at once are four times as many as it has room for, so that it
/// closes even if a busy machine takes two seconds to let them in.
pub(super) const fn marks(requests: u32) -> (u32, u32) {
    (requests / 8, requests / 32)
}

/// All callers, and what they have seen so far.
pub(super) struct Callers {
    expected: u32,
    answered: AtomicU32,
    turned_away: AtomicU32,
    put_off: AtomicU32,
    slowest_submission_ms: AtomicU64,
    calls: Semaphore,
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
    /// Starts them; they arrive one after the other, the rest all at once, and then run by themselves.
    pub(super) fn start(api: &str, requests: u32) -> Arc<Self> {
        let callers = Arc::new(Self {
            expected: requests,
            answered: AtomicU32::new(0),
            turned_away: AtomicU32::new(0),
            put_off: AtomicU32::new(0),
            slowest_submission_ms: AtomicU64::new(0),
            calls: Semaphore::new(CALLS),
            seen: Mutex::default(),
            all: Notify::new(),
        });
        let client = Client::new();
        let begin = Instant::now();
        for number in 0..requests {
            let callers = Arc::clone(&callers);
            let (client, api) = (client.clone(), api.to_owned());
            tokio::spawn(async move {
                let before = number.min(one_by_one(requests));
                let arrival = begin + Duration::from_secs(1) * before / ARRIVALS;
                tokio::time::sleep_until(arrival).await;
                if let Err(error) = callers.call(&client, &api, number).await {
                    callers.seen().troubles.push(format!("caller {number}: {error:#}"));
                }
                if callers.answered.fetch_add(1, Ordering::Relaxed) + 1 == callers.expected {
                    callers.all.notify_waiters();
                }
            });
        }
        callers
    }

    async fn call(&self, client: &Client, api: &str, number: u32) -> anyhow::Result<()> {
        let kind = if number < one_by_one(self.expected) {
            KINDS[number as usize % KINDS.len()]
        } else {
            KINDS[KINDS.len() - 1]
        };
        let payload = json!({ "number": number, "to": "0x52908400098527886e0f7030069857d2e4169ee7" });
        let (id, location, mut wait, begun) = loop {
            let request = client
                .post(format!("{api}/v1/{kind}"))
                .header("Idempotency-Key", format!("demo-{number}"))
                .json(&payload);
            let submitted = Instant::now();
            let response = self.send(request).await?;
            let took = u64::try_from(submitted.elapsed().as_millis())?;
            self.slowest_submission_ms.fetch_max(took, Ordering::Relaxed);
            let wait = retry_after(&response)?;
            match response.status() {
                StatusCode::ACCEPTED => {
                    let body: Value = response.json().await?;
                    let id: Uuid = serde_json::from_value(body["job_id"].clone())?;
                    break (id, format!("{api}/v1/{kind}/{id}"), wait, Instant::now());
                }
                StatusCode::TOO_MANY_REQUESTS => {
                    self.turned_away.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(wait).await;
                }
                StatusCode::SERVICE_UNAVAILABLE => {
                    self.put_off.fetch_add(1, Ordering::Relaxed);
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
            let response = self.send(client.get(&location)).await?;
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

    async fn send(&self, request: RequestBuilder) -> anyhow::Result<Response> {
        let _turn = self.calls.acquire().await?;
        Ok(request.send().await?)
    }

    /// How many callers are done, answered or in trouble.
    pub(super) fn answered(&self) -> u32 {
        self.answered.load(Ordering::Relaxed)
    }

    /// How many callers there are.
    pub(super) fn expected(&self) -> u32 {
        self.expected
    }

    /// How often a caller was told to submit later because a gate was closed.
    pub(super) fn turned_away(&self) -> u32 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// How often a caller was told to submit later for another reason.
    pub(super) fn put_off(&self) -> u32 {
        self.put_off.load(Ordering::Relaxed)
    }

    /// The longest time that a call to submit took.
    pub(super) fn slowest_submission(&self) -> Duration {
        Duration::from_millis(self.slowest_submission_ms.load(Ordering::Relaxed))
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

#[cfg(test)]
mod tests {
    use super::{marks, one_by_one};

    #[test]
    fn those_who_come_at_once_fill_the_queue_four_times() {
        for requests in 40..=5000 {
            let (high, low) = marks(requests);
            let at_once = requests - one_by_one(requests);
            assert!(low < high && at_once >= high * 4, "{requests}");
        }
    }
}
