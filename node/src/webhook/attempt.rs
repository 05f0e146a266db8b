//! One attempt: one POST to an untrusted receiver, and the evaluation of its answer.

use std::{error::Error, sync::Arc, time::Duration};

use reqwest::{
    Client, Response, StatusCode, Url,
    dns::Resolve,
    header::{CONTENT_TYPE, HeaderMap},
    redirect::Policy,
};
use serde::Serialize;
use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP};
use tidegate::internals::{
    store::{Attempted, Delivery},
    traces::{TRACEPARENT, valid_traceparent},
};
use uuid::Uuid;

use super::{
    guard::{Guard, admit},
    retry_after::retry_after,
    signature::sign,
};
use crate::api::answers::{Ended, Ending};

/// How much of an answer's body is read, in bytes, and for how long, so that the connection can be reused.
const BODY_MAX: usize = 64 * 1024;
const BODY_WITHIN: Duration = Duration::from_millis(500);

/// Two clients, so that hosts without private addresses never share a connection to one.
pub(super) struct Clients {
    public: Client,
    private: Client,
}

impl Clients {
    pub(super) fn new(resolver: &Arc<dyn Resolve>) -> reqwest::Result<Self> {
        let client = |allow_private| {
            Client::builder()
                .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
                // A redirect may name a host that is not allowed; a proxy would resolve names itself.
                .redirect(Policy::none())
                .no_proxy()
                .dns_resolver(Arc::new(Guard { resolver: Arc::clone(resolver), allow_private }))
                .pool_idle_timeout(Duration::from_secs(30))
                .build()
        };
        Ok(Self { public: client(false)?, private: client(true)? })
    }

    /// Makes an attempt within this time.
    pub(super) async fn attempt(&self, delivery: &Delivery, within: Duration) -> Attempted {
        let url = match admit(&delivery.url, &delivery.host_port, delivery.allow_private) {
            Ok(url) => url,
            Err(error) => return Attempted::Refused { status: None, error },
        };
        if delivery.secrets.is_empty() {
            return again("there is no signing secret: tidegate webhook secret rotate".to_owned());
        }
        let body = match message(delivery) {
            Ok(body) => body,
            Err(error) => return again(format!("failed to serialise the delivery: {error}")),
        };
        let (id, secrets) = (delivery.id.to_string(), delivery.secrets.iter().map(String::as_str));
        let signature = match sign(secrets, &id, delivery.claimed_at, &body) {
            Ok(signature) => signature,
            Err(error) => return again(format!("a signing secret is not whsec_ and base64 ({error})")),
        };
        match tokio::time::timeout(within, self.post(url, delivery, signature, body)).await {
            Err(_) => again(format!("no answer within {within:?}")),
            Ok(Err(error)) => again(reason(&error)),
            Ok(Ok(response)) => {
                let attempted = evaluate(response.status(), response.headers());
                drain(response).await;
                attempted
            }
        }
    }

    async fn post(&self, url: Url, delivery: &Delivery, signature: String, body: Vec<u8>) -> reqwest::Result<Response> {
        let client = if delivery.allow_private { &self.private } else { &self.public };
        let post = client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header("idempotency-key", delivery.id.to_string())
            .header(HEADER_WEBHOOK_ID, delivery.id.to_string())
            .header(HEADER_WEBHOOK_TIMESTAMP, delivery.claimed_at)
            .header(HEADER_WEBHOOK_SIGNATURE, signature)
            .header("tidegate-attempt", delivery.attempt);
        let post = match delivery.traceparent.as_deref().and_then(valid_traceparent) {
            Some(traceparent) => post.header(TRACEPARENT, traceparent),
            None => post,
        };
        post.body(body).send().await
    }
}

/// The body of a delivery: the answer to a poll of the ended request, and the delivery's id.
#[derive(Serialize)]
struct Message {
    #[serde(flatten)]
    ended: Ended,
    event: String,
    kind: String,
    delivery_id: Uuid,
}

/// The body of a delivery, the same at every attempt: a receiver that stores idempotency keys with their bodies must
/// find a replay and not a conflict.
fn message(delivery: &Delivery) -> serde_json::Result<Vec<u8>> {
    let delivery = delivery.clone();
    serde_json::to_vec(&Message {
        ended: Ending {
            job_id: delivery.request_id,
            state: delivery.status,
            response: delivery.response,
            error: delivery.error,
            executed: delivery.executed,
            finished_at: delivery.finished_at,
            resolution: delivery.resolution,
            redriven_as: None,
        }
        .into(),
        event: delivery.event,
        // In kebab case, as in paths.
        kind: delivery.kind.replace('_', "-"),
        delivery_id: delivery.id,
    })
}

/// A retry without an answer of the receiver.
pub(super) fn again(error: String) -> Attempted {
    Attempted::Retry { status: None, error, wait: None }
}

/// Evaluates an answer: 2xx accepts, 410 refuses permanently; any other, a redirect too, is retried.
fn evaluate(status: StatusCode, headers: &HeaderMap) -> Attempted {
    let number = status.as_u16();
    if status.is_success() {
        Attempted::Delivered { status: number }
    } else if status == StatusCode::GONE {
        Attempted::Refused { status: Some(number), error: "the receiver refused permanently: 410 Gone".to_owned() }
    } else {
        Attempted::Retry {
            status: Some(number),
            error: format!("the receiver answered {status}"),
            wait: retry_after(headers),
        }
    }
}

async fn drain(mut response: Response) {
    let reading = async {
        let mut read = 0;
        while read <= BODY_MAX
            && let Ok(Some(chunk)) = response.chunk().await
        {
            read += chunk.len();
        }
    };
    // With an unread rest the connection is closed.
    let _ = tokio::time::timeout(BODY_WITHIN, reading).await;
}

/// The innermost error, which is the most specific one.
fn reason(error: &reqwest::Error) -> String {
    let mut innermost: &dyn Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    format!("failed to send: {innermost}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_2xx_accepts_and_only_410_refuses_permanently() {
        let of = |status| evaluate(StatusCode::from_u16(status).unwrap(), &HeaderMap::new());

        for status in [200, 201, 202, 204] {
            assert_eq!(of(status), Attempted::Delivered { status });
        }
        assert!(matches!(of(410), Attempted::Refused { status: Some(410), .. }));
        for status in [301, 307, 308, 400, 401, 404, 429, 500, 503] {
            assert!(matches!(of(status), Attempted::Retry { .. }), "{status}");
        }
    }
}
