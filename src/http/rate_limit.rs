//! `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10): how much room there is for submissions.
//!
//! The policy is the gate of the queue that a kind's new requests enter, under the queue's name: a quota `q` of as many
//! messages as close it, which are served in `w` seconds. `r` is the room left, and in `t` seconds there is the whole
//! quota again, or, behind a closed gate, it opens. `w` and `t` are left out where nothing limits the queue, or nothing is
//! served. The fields inform and promise nothing: nobody waits for them, and without a young copy of the gates
//! they are left out.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header::RETRY_AFTER},
    middleware::Next,
    response::Response,
};

use super::{path::KindPath, problem::Problem};
use crate::gate::{Gate, Gates};

static POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
static LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Completes the answers of submissions, taken or refused by the gate.
pub(super) async fn tell(
    State(gates): State<Gates>,
    KindPath { kind }: KindPath,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let mut response = next.run(request).await;
    let refused = match response.status() {
        StatusCode::ACCEPTED => false,
        StatusCode::TOO_MANY_REQUESTS => true,
        _ => return Ok(response),
    };
    if let Some(gate) = gates.of_kind(&kind) {
        let headers = response.headers_mut();
        let opens_in = headers
            .get(RETRY_AFTER)
            .filter(|_| refused)
            .and_then(|value| value.to_str().ok()?.parse().ok());
        insert(headers, &POLICY, &policy(&gate));
        insert(headers, &LIMIT, &limit(&gate, opens_in));
    }
    Ok(response)
}

fn insert(headers: &mut HeaderMap, name: &HeaderName, value: &str) {
    // Queues have plain names, so their headers are always valid.
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}

fn policy(gate: &Gate) -> String {
    let Gate {
        queue, high_water, ..
    } = gate;
    match gate.seconds_to_drain(*high_water) {
        Some(window) => format!("\"{queue}\";q={high_water};w={window}"),
        None => format!("\"{queue}\";q={high_water}"),
    }
}

/// `opens_in`: the answer is that the gate is closed, and for how long.
fn limit(gate: &Gate, opens_in: Option<u64>) -> String {
    let queue = &gate.queue;
    let (room, whole_in) = match opens_in {
        Some(seconds) => (0, Some(seconds)),
        None => (gate.room(), gate.seconds_to_drain(gate.depth)),
    };
    match whole_in {
        Some(seconds) => format!("\"{queue}\";r={room};t={seconds}"),
        None => format!("\"{queue}\";r={room}"),
    }
}
