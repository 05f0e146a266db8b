//! Submissions at the gate: refused from memory when it is closed, and told how much room there is.
//!
//! A submission without `Idempotency-Key` to a closed gate is answered here, from the node's [copy](crate::gate) of the
//! gates: no statement, and its body is not looked at. With a key, its caller's or one that its kind makes, it may repeat
//! one that was taken, which only the database knows.
//!
//! `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10): The policy is the gate of the queue
//! that a kind's new requests enter, or the one that has refused, under its name: a quota `q` of as many
//! messages as close it, which are served in `w` seconds. `r` is the room left, and in `t` seconds there is the whole
//! quota again, or, behind a closed gate, it opens. `w` and `t` are left out where nothing limits the queue, or nothing is
//! served. The fields inform and promise nothing: nobody waits for them, and without a young copy of the gates
//! they are left out.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header::CONNECTION},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{
    access::Caller,
    body,
    metrics::NodeMetrics,
    path::KindPath,
    problem::Problem,
    submit::{IDEMPOTENCY_KEY, gate_closed},
};
use crate::{
    gate::{Gate, Gates, Refusal},
    retry_after::RetryAfter,
};

static POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
static LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// What submissions meet at the gate.
#[derive(Clone)]
pub(super) struct Keeper {
    pub(super) gates: Gates,
    pub(super) metrics: Arc<NodeMetrics>,
    /// The largest body of a submission, in bytes.
    pub(super) body_limit: usize,
}

/// Refuses what a closed gate is in the way of, and completes the answers of the other submissions, taken or refused by
/// the database.
pub(super) async fn keep(
    State(keeper): State<Keeper>,
    KindPath { kind }: KindPath,
    caller: Caller,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let Keeper {
        gates,
        metrics,
        body_limit,
    } = keeper;
    let submitter = caller.submitter();
    if !request.headers().contains_key(&IDEMPOTENCY_KEY)
        && let Some(refusal) = gates.refuse(&kind, submitter)
    {
        metrics.refused_from_memory(&kind);
        let mut response = refused(&refusal);
        if !body::hear_out(request, body_limit).await {
            // What is still being sent would be taken for the next call.
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        return Ok(response);
    }

    let mut response = next.run(request).await;
    let refused = match response.status() {
        StatusCode::ACCEPTED => false,
        StatusCode::TOO_MANY_REQUESTS => true,
        _ => return Ok(response),
    };
    if let Some(gate) = gates.of_submission(&kind, submitter, refused) {
        let opens_in = response.extensions().get().filter(|_| refused).copied();
        tell(response.headers_mut(), &gate, opens_in);
    }
    Ok(response)
}

fn refused(refusal: &Refusal) -> Response {
    let opens_in = RetryAfter::seconds(refusal.seconds);
    let mut response = gate_closed(opens_in).into_response();
    tell(response.headers_mut(), &refusal.gate, Some(opens_in));
    response
}

/// `opens_in`: the answer is that the gate is closed, and for how long.
fn tell(headers: &mut HeaderMap, gate: &Gate, opens_in: Option<RetryAfter>) {
    // A submitter's name may be anything, and says nothing to itself.
    let name = if gate.of_submitter { "submitter" } else { &gate.name };
    insert(headers, &POLICY, &policy(name, gate));
    insert(headers, &LIMIT, &limit(name, gate, opens_in));
}

fn insert(headers: &mut HeaderMap, name: &HeaderName, value: &str) {
    // Queues and kinds have plain names, so their headers are always valid.
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}

fn policy(name: &str, gate: &Gate) -> String {
    let high_water = gate.high_water;
    match gate.seconds_to_drain(high_water) {
        Some(window) => format!("\"{name}\";q={high_water};w={window}"),
        None => format!("\"{name}\";q={high_water}"),
    }
}

fn limit(name: &str, gate: &Gate, opens_in: Option<RetryAfter>) -> String {
    let (room, whole_in) = match opens_in {
        Some(opens_in) => (0, Some(opens_in.as_secs())),
        None => (gate.room(), gate.seconds_to_drain(gate.depth)),
    };
    match whole_in {
        Some(seconds) => format!("\"{name}\";r={room};t={seconds}"),
        None => format!("\"{name}\";r={room}"),
    }
}
