//! The callers of the demo: each submits one request and polls exactly when its Retry-After is over.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Context;
use reqwest::{Client, RequestBuilder, Response, StatusCode, header::RETRY_AFTER};
use serde_json::{Value, json};
use tidegate::internals::lock::lock;
use tokio::{sync::Semaphore, time::Instant};
use uuid::Uuid;

/// The paths of the kinds, used in turn; the callers that arrive at once all use the last.
const KINDS: [&str; 4] = ["public-decrypt", "user-decrypt", "input-proof", "direct"];

/// Submissions per second at first: a little more than the downstream's rate.
const ARRIVALS: u32 = 24;

/// Calls under way at once: more would only wait for each other, each with its own connection.
const CALLS: usize = 256;

/// The answer that one caller got.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) status: String,
    /// The Retry-After of the 202.
    pub(super) predicted: Duration,
    /// How long the answer took to reach this caller.
    pub(super) actual: Duration,
    pub(super) polls: u32,
}

/// How many callers arrive one after the other; the others arrive at once after them.
pub(super) const fn one_by_one(requests: u32) -> u32 {
    requests / 2
}

/// The marks of the gate, high and low: the callers that arrive at once are four times as many as its room, so that it
/// closes even if a busy machine takes two seconds to admit them.
pub(super) const fn marks(requests: u32) -> (u32, u32) {
    (requests / 8, requests / 32)
}

/// All callers, and their results so far.
pub(super) struct Callers {
    pub(super) expected: u32,
    calls: Semaphore,
    results: Mutex<Results>,
}

/// The results of all callers so far.
#[derive(Debug, Default, Clone)]
pub(super) struct Results {
    /// How often a submission was refused because a gate was closed (429).
    pub(super) refused: u32,
    /// How often a submission was refused for another reason (503).
    pub(super) unavailable: u32,
    /// The longest time that a call to submit took.
    pub(super) slowest_submission: Duration,
    pub(super) accepted: Vec<Uuid>,
    pub(super) answers: Vec<Answer>,
    pub(super) errors: Vec<String>,
}

impl Callers {
    /// Starts the tasks of all callers.
    pub(super) fn start(api: &str, requests: u32) -> Arc<Self> {
        let callers = Arc::new(Self { expected: requests, calls: Semaphore::new(CALLS), results: Mutex::default() });
        let client = Client::new();
        let begin = Instant::now();
        for number in 0..requests {
            let callers = Arc::clone(&callers);
            let (client, api) = (client.clone(), api.to_owned());
            tokio::spawn(async move {
                let before = number.min(one_by_one(requests));
                tokio::time::sleep_until(begin + Duration::from_secs(1) * before / ARRIVALS).await;
                if let Err(error) = callers.call(&client, &api, number).await {
                    lock(&callers.results).errors.push(format!("caller {number}: {error:#}"));
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
            let wait = retry_after(&response)?;
            {
                let slowest = &mut lock(&self.results).slowest_submission;
                *slowest = submitted.elapsed().max(*slowest);
            }
            match response.status() {
                StatusCode::ACCEPTED => {
                    let body: Value = response.json().await?;
                    let id: Uuid = serde_json::from_value(body["job_id"].clone())?;
                    break (id, format!("{api}/v1/{kind}/{id}"), wait, Instant::now());
                }
                StatusCode::TOO_MANY_REQUESTS => lock(&self.results).refused += 1,
                StatusCode::SERVICE_UNAVAILABLE => lock(&self.results).unavailable += 1,
                status => anyhow::bail!("POST answered {status}: {}", response.text().await?),
            }
            tokio::time::sleep(wait).await;
        };
        lock(&self.results).accepted.push(id);

        let predicted = wait;
        let mut polls = 0;
        loop {
            tokio::time::sleep(wait).await;
            let response = self.send(client.get(&location)).await?;
            polls += 1;
            match response.status() {
                StatusCode::ACCEPTED | StatusCode::SERVICE_UNAVAILABLE => wait = retry_after(&response)?,
                StatusCode::OK => {
                    let body: Value = response.json().await?;
                    lock(&self.results).answers.push(Answer {
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
        let _permit = self.calls.acquire().await?;
        Ok(request.send().await?)
    }

    /// How many callers are done, with an answer or an error.
    pub(super) fn answered(&self) -> u32 {
        let results = lock(&self.results);
        u32::try_from(results.answers.len() + results.errors.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn all_answered(&self) -> bool {
        self.answered() == self.expected
    }

    pub(super) fn results(&self) -> Results {
        lock(&self.results).clone()
    }
}

/// The Retry-After of an answer; every answer but the last has one.
fn retry_after(response: &Response) -> anyhow::Result<Duration> {
    if response.status() == StatusCode::OK {
        return Ok(Duration::ZERO);
    }
    let header = response.headers().get(RETRY_AFTER).context("an answer without Retry-After")?;
    Ok(Duration::from_secs(header.to_str()?.parse()?))
}

#[cfg(test)]
mod tests {
    use super::{marks, one_by_one};

    #[test]
    fn the_callers_at_once_are_at_least_four_times_the_high_mark() {
        for requests in 40..=5000 {
            let (high, low) = marks(requests);
            let at_once = requests - one_by_one(requests);
            assert!(low < high && at_once >= high * 4, "{requests}");
        }
    }
}
