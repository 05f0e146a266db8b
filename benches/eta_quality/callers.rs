//! Callers that obey Retry-After: submit, wait, poll, until the answer is there.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use super::{Mode, downstream::Downstream, load::Schedule};

const FIXED: Duration = Duration::from_secs(4);

/// Counts of one caller.
pub(crate) struct Outcome {
    /// Polls up to and including the one that returned the answer.
    pub(crate) polls: u32,
    /// Age of the answer at that poll.
    pub(crate) late: Duration,
    /// Whether the answer was there within the p90 stated at submit, if one was.
    pub(crate) p90_held: Option<bool>,
}

#[derive(Clone)]
pub(crate) struct Callers {
    client: reqwest::Client,
    address: SocketAddr,
    began_at: Instant,
    /// The limit of concurrent calls.
    calls: Arc<Semaphore>,
}

impl Callers {
    pub(crate) fn new(address: SocketAddr, began_at: Instant) -> Self {
        Self {
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            address,
            began_at,
            calls: Arc::new(Semaphore::new(256)),
        }
    }

    pub(crate) async fn run(
        &self,
        kind: &str,
        mode: Mode,
        schedule: &Schedule,
        downstream: &Downstream,
    ) -> Vec<Outcome> {
        let mut callers = JoinSet::new();
        for (place, arrival) in schedule.arrivals.iter().enumerate() {
            let (callers_too, downstream) = (self.clone(), downstream.clone());
            let (arrives_at, path) = (self.began_at + *arrival, kind.replace('_', "-"));
            callers.spawn(async move {
                sleep_until(arrives_at).await;
                callers_too.call(place, &path, mode, &downstream).await
            });
        }
        callers.join_all().await
    }

    async fn call(&self, place: usize, path: &str, mode: Mode, downstream: &Downstream) -> Outcome {
        let url = format!("http://{}/v1/{path}", self.address);
        let (_, mut wait, ticket) = self.ask(self.client.post(&url).json(&json!({ "place": place }))).await;
        let submitted_at = Instant::now();
        let job = ticket["job_id"].as_str().unwrap().to_owned();
        let p90 = ticket["eta_p90"].as_f64().map(Duration::from_secs_f64);

        let mut polls = 0;
        loop {
            sleep(if mode == Mode::Fixed { FIXED } else { wait }).await;
            polls += 1;
            let (status, told, answer) = self.ask(self.client.get(format!("{url}/{job}"))).await;
            if status == 200 {
                assert_eq!(answer["status"], "succeeded", "{answer}");
                let ready_at = downstream.ready_at(job.parse().unwrap());
                return Outcome {
                    polls,
                    late: ready_at.elapsed(),
                    p90_held: p90.map(|p90| ready_at <= submitted_at + p90),
                };
            }
            wait = told;
        }
    }

    async fn ask(&self, request: reqwest::RequestBuilder) -> (u16, Duration, Value) {
        let _turn = self.calls.acquire().await.unwrap();
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let wait = answer.headers().get("retry-after").map_or(0, |value| value.to_str().unwrap().parse().unwrap());
        let body: Value = answer.json().await.unwrap();
        assert!(matches!(status, 200 | 202), "{status}: {body}");
        (status, Duration::from_secs(wait), body)
    }
}
