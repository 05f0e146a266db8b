//! Submissions over HTTP, by callers that obey `Retry-After` and keep the promises they got.

use std::{sync::Arc, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng};
use reqwest::{Response, StatusCode, header::RETRY_AFTER};
use serde_json::Value;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{Load, Submission, Way};
use crate::scene;

/// The outcome of an attempt.
enum Attempt {
    /// There is nothing more to do; the request, if one was promised.
    Done(Option<Uuid>),
    /// Come back after this long. The submission may have been stored, or certainly was not.
    Later(Duration, bool),
    /// There was no answer.
    Nothing,
}

impl Load {
    /// Submits until there is an answer, as far as that is safe; returns the first request that was promised.
    pub(super) async fn submit_over_http(&self, submission: &Submission, random: &mut StdRng) -> Option<Uuid> {
        // Whether a request may be stored whose caller got no answer.
        let mut open = false;
        loop {
            let node = self.nodes[random.random_range(0..self.nodes.len())];
            let wait = match self.post(submission, node).await {
                Attempt::Done(id) => return id,
                Attempt::Later(wait, may_be_stored) => {
                    self.ledger.entries().put_off += 1;
                    open |= may_be_stored;
                    if submission.is_optional() && !open {
                        return None;
                    }
                    wait
                }
                Attempt::Nothing => {
                    open = true;
                    Duration::from_millis(random.random_range(100..800))
                }
            };
            if open && submission.key.is_none() {
                self.ledger.entries().unanswered += submission.payloads.len() as u64;
                return None;
            }
            if (self.stop.is_cancelled() && !open) || !self.wait(wait).await {
                return None;
            }
        }
    }

    async fn post(&self, submission: &Submission, node: std::net::SocketAddr) -> Attempt {
        let path = submission.kind.path;
        let (url, body) = if submission.is_batch {
            let body = Value::Array(submission.payloads.clone());
            (format!("http://{node}/v1/{path}/batch"), body)
        } else {
            (format!("http://{node}/v1/{path}"), submission.payloads[0].clone())
        };
        let mut call = self.client.post(url).json(&body);
        if let Some(key) = &submission.key {
            call = call.header("Idempotency-Key", key);
        }
        if submission.calls_back {
            call = call.header("Tidegate-Callback-Url", &self.callback);
        }
        let Ok(answer) = call.send().await else {
            return Attempt::Nothing;
        };
        let status = answer.status();
        if let Some(wait) = self.put_off(&answer, "a submission") {
            return Attempt::Later(wait, status == StatusCode::SERVICE_UNAVAILABLE);
        }
        let Ok(body) = answer.json::<Value>().await else {
            // A 202 without its body promises a request whose id the caller does not know.
            return Attempt::Nothing;
        };
        let ids: Vec<Uuid> = if submission.is_batch {
            serde_json::from_value(body["job_ids"].clone()).unwrap_or_default()
        } else {
            serde_json::from_value(body["job_id"].clone()).into_iter().collect()
        };
        match status.as_u16() {
            202 => self.promised(submission, &ids, "http"),
            200 if !submission.is_batch => {
                self.promised(submission, &ids, "http");
                self.told(&body);
            }
            _ => self.journal.wrong(format!("{node} answered {status} to {submission:?}: {body}")),
        }
        Attempt::Done(ids.first().copied())
    }

    /// How long an answer sends its caller away; none when it does not. It always says when to come back.
    pub(super) fn put_off(&self, answer: &Response, what: &str) -> Option<Duration> {
        if !matches!(answer.status().as_u16(), 429 | 503) {
            return None;
        }
        let seconds = answer
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse::<u64>().ok())
            .filter(|seconds| *seconds >= 1);
        if seconds.is_none() {
            self.journal.wrong(format!("{what} got {} without Retry-After", answer.status()));
        }
        Some(Duration::from_secs(seconds.unwrap_or(1)))
    }
}

/// Many identical submissions at once under one key, at all nodes. All who are answered are told of the same request;
/// the same key with another payload is refused.
pub async fn storm(load: &Arc<Load>, count: usize, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let kind = scene::KINDS[random.random_range(0..4)];
    let submission =
        Submission { way: Some(Way::Http), submitter: None, ..load.submission(kind, 1, false, true, &mut random) };
    let mut callers = JoinSet::new();
    for number in 0..count {
        let (load, submission) = (Arc::clone(load), submission.clone());
        let node = load.nodes[number % load.nodes.len()];
        callers.spawn(async move {
            load.post(&submission, node).await;
        });
    }
    while callers.join_next().await.is_some() {}
    // One of them sees it through.
    load.submit_over_http(&submission, &mut random).await;

    let mut other = submission.payloads[0].clone();
    other["other"] = Value::Bool(true);
    let node = load.nodes[random.random_range(0..load.nodes.len())];
    let call = load
        .client
        .post(format!("http://{node}/v1/{}", kind.path))
        .header("Idempotency-Key", submission.key.clone().unwrap_or_default())
        .json(&other);
    if let Ok(answer) = call.send().await
        && !matches!(answer.status().as_u16(), 422 | 429 | 503)
        && load.has_promised(&submission.mark(0))
    {
        let status = answer.status();
        let body = answer.text().await.unwrap_or_default();
        // After a failure the key is free again, and then names the next request.
        if status != StatusCode::ACCEPTED {
            load.journal.wrong(format!("{node} answered {status} to a key reused with another payload: {body}"));
        }
    }
}

impl Load {
    fn has_promised(&self, mark: &str) -> bool {
        let entries = self.ledger.entries();
        entries.promises.iter().rev().any(|promise| promise.mark == mark)
    }
}
