//! The stages against a local service with the answers of each test.

mod answers;
mod asks;
mod calls;
mod meanings;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use axum::{
    Router,
    body::Body,
    extract::{Request as Call, State},
    http::{HeaderMap, Response},
};
use tokio::{net::TcpListener, time::sleep};

use super::*;
use crate::testing;

type Seen = Vec<(String, String, HeaderMap, String)>;
type Answers = Arc<dyn Fn() -> Response<Body> + Send + Sync>;

/// A service with one answer for everything.
#[derive(Clone)]
struct Fake {
    answers: Answers,
    delay: Duration,
    seen: Arc<Mutex<Seen>>,
    address: SocketAddr,
}

impl Fake {
    async fn start(answers: impl Fn() -> Response<Body> + Send + Sync + 'static) -> Self {
        Self::start_slow(Duration::ZERO, answers).await
    }

    async fn start_slow(delay: Duration, answers: impl Fn() -> Response<Body> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let fake =
            Self { answers: Arc::new(answers), delay, seen: Arc::default(), address: listener.local_addr().unwrap() };
        let router = Router::new().fallback(answer).with_state(fake.clone());
        tokio::spawn(async { axum::serve(listener, router).await });
        fake
    }

    /// The stages of a direct kind that call it.
    fn stages(&self, flags: &str) -> (HttpReadiness, HttpTransact) {
        stages_at(&format!("http://{}", self.address), "direct", flags)
    }
}

async fn answer(State(fake): State<Fake>, call: Call) -> Response<Body> {
    let (parts, body) = call.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    fake.seen.lock().unwrap().push((
        parts.method.to_string(),
        parts.uri.to_string(),
        parts.headers,
        String::from_utf8(body.to_vec()).unwrap(),
    ));
    sleep(fake.delay).await;
    (fake.answers)()
}

fn request() -> Request {
    testing::request("direct")
}

fn response(status: u16, headers: &[(&str, &str)], body: &'static str) -> Response<Body> {
    let mut builder = Response::builder().status(status);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(Body::from(body)).unwrap()
}

/// The outcomes of all stages for one answer, which is an envelope.
async fn outcomes(
    status: u16,
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
) -> (Check, Sent, Result<Found, RequestError>) {
    let fake = Fake::start(move || response(status, headers, body)).await;
    let (readiness, transact) = fake.stages("--answer envelope");
    let request = request();
    (readiness.check(&request).await, transact.send(&request).await, transact.find_receipt(&request).await)
}

/// The code, the wait in seconds and `may_have_left` of a retry.
fn retry(sent: Sent) -> (String, Option<u64>, bool) {
    match sent {
        Sent::Retry { error, after, may_have_left } => {
            assert!(error.retryable);
            (error.code, after.map(|after| after.as_secs()), may_have_left)
        }
        other => panic!("not a retry: {other:?}"),
    }
}

const JSON: (&str, &str) = ("content-type", "application/json");
