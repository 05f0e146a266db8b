//! A downstream that loses half of its calls, each apart from the others, and answers the rest with jitter.

use std::{
    collections::HashSet,
    future::IntoFuture,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::json;
use tokio::{net::TcpListener, task::JoinHandle, time::sleep};
use uuid::Uuid;

use crate::{evidence::Seen, journal::now_us};

/// How often a call is not answered at all, as if the network were partitioned.
const SILENT: f64 = 0.2;

/// How often a call is answered with an error; neither these nor the silent ones take the request.
const FAILED: f64 = 0.3;

/// How long an answer takes.
pub(crate) const JITTER_MS: std::ops::RangeInclusive<u64> = 1..=60;

/// A silent call ends when its caller gives up.
const SILENCE: Duration = Duration::from_secs(60);

struct Shared {
    random: StdRng,
    taken: HashSet<Uuid>,
    log: Vec<Seen>,
}

type Downstream = Arc<Mutex<Shared>>;

/// It ends with the value.
pub(super) struct Lossy {
    pub(super) address: SocketAddr,
    shared: Downstream,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Lossy {
    pub(super) async fn start(seed: u64) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Mutex::new(Shared {
            random: StdRng::seed_from_u64(seed),
            taken: HashSet::new(),
            log: Vec::new(),
        }));
        let router = Router::new()
            .route("/send/{kind}", post(send))
            .route("/receipt/{kind}/{id}", get(receipt))
            .with_state(shared.clone());
        let serving = tokio::spawn(axum::serve(listener, router).into_future());
        Ok(Self { address, shared, serving })
    }

    /// What it has seen.
    pub(super) fn stop(self) -> Vec<Seen> {
        std::mem::take(&mut lock(&self.shared).log)
    }
}

impl Drop for Lossy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn lock(downstream: &Downstream) -> MutexGuard<'_, Shared> {
    downstream.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn note(&mut self, id: Uuid, event: &str) {
        let at_us = now_us();
        self.log.push(Seen {
            us: at_us.unsigned_abs(),
            at_us,
            id: Some(id),
            kind: super::KIND.into(),
            event: event.into(),
            key: None,
        });
    }
}

fn answer(id: Uuid) -> Response {
    Json(json!({ "response": { "id": id } })).into_response()
}

async fn send(State(downstream): State<Downstream>, headers: HeaderMap) -> Response {
    let id = headers.get("idempotency-key").and_then(|id| id.to_str().ok()?.parse().ok());
    let Some(id) = id else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let (drawn, jitter) = {
        let mut shared = lock(&downstream);
        shared.note(id, "send");
        let drawn: f64 = shared.random.random();
        let jitter = Duration::from_millis(shared.random.random_range(JITTER_MS));
        if drawn >= SILENT + FAILED && shared.taken.insert(id) {
            shared.note(id, "taken");
        }
        (drawn, jitter)
    };
    if drawn < SILENT {
        sleep(SILENCE).await;
    }
    sleep(jitter).await;
    if drawn < SILENT + FAILED { StatusCode::INTERNAL_SERVER_ERROR.into_response() } else { answer(id) }
}

async fn receipt(State(downstream): State<Downstream>, Path((_, id)): Path<(String, Uuid)>) -> Response {
    if lock(&downstream).taken.contains(&id) { answer(id) } else { StatusCode::NOT_FOUND.into_response() }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[tokio::test]
    async fn half_of_the_calls_are_lost_and_the_log_says_which_were_taken() {
        let lossy = Lossy::start(7).await.unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut answers = HashMap::<_, usize>::new();
        let calls = (0..200).map(|_| {
            let call = client
                .post(format!("http://{}/send/measured", lossy.address))
                .header("Idempotency-Key", Uuid::new_v4().to_string())
                .timeout(Duration::from_secs(2));
            async move { call.send().await.map_or(0, |answer| answer.status().as_u16()) }
        });
        for status in futures_util::future::join_all(calls).await {
            *answers.entry(status).or_default() += 1;
        }
        let taken = lossy.stop().iter().filter(|seen| &*seen.event == "taken").count();
        assert_eq!(answers.get(&200), Some(&taken));
        assert!((70..130).contains(&taken), "{answers:?}");
        assert!(answers[&0] > 15 && answers[&500] > 30, "{answers:?}");
    }
}
