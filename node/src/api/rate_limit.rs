//! Submissions at the gate: refused from memory when it is closed; their answers state the room left.
//!
//! A submission without `Idempotency-Key` to a closed gate is refused here, from the node's [copy](crate::state::gates) of the
//! gates, without a statement and without parsing its body. With a key, from its caller or derived by its kind, it may
//! be a replay, which only the database can decide; with `Tidegate-Admission` no gate refuses it.
//!
//! `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10): The policy is the gate of the queue
//! that a kind's new requests enter, or the one that has refused, under its name: a quota `q` of as many messages as
//! close it, which are served in `w` seconds. `r` is the room left, and in `t` seconds there is the whole quota again,
//! or, behind a closed gate, it opens. `w` and `t` are left out where nothing limits the queue, or nothing is served.
//! The fields are no promise: no call waits for them, and without a recent copy of the gates they are left out.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header::CONNECTION},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tidegate::{internals::store::GateRow, retry_after::RetryAfter};

use super::{
    body,
    context::Api,
    path::KindPath,
    problem::Problem,
    submit::{ADMISSION, IDEMPOTENCY_KEY, gate_closed},
};
use crate::state::access::Caller;
use crate::state::gates::Figures;

/// Refuses submissions to a closed gate; adds the headers to the answers of the others.
pub(super) async fn at_gate(
    State(api): State<Arc<Api>>,
    KindPath { kind }: KindPath,
    caller: Caller,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let gates = &api.node.gates;
    let submitter = caller.submitter();
    let decided_later = [IDEMPOTENCY_KEY, ADMISSION].map(|header| request.headers().contains_key(header));
    if !decided_later.contains(&true)
        && let Some(refusal) = gates.refuse(&kind, submitter)
    {
        api.node.metrics.refused_from_memory(&kind);
        let opens_in = RetryAfter::seconds(refusal.seconds);
        let mut response = gate_closed(opens_in, Some(&refusal.gate)).into_response();
        add_headers(response.headers_mut(), &refusal.gate, Some(opens_in));
        if !body::discard(request, api.node.options.http.body_limit).await {
            // The rest of the body would be read as the next request.
            return Ok(([(CONNECTION, "close")], response).into_response());
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
        add_headers(response.headers_mut(), &gate, opens_in);
    }
    Ok(response)
}

/// `opens_in`: set when the gate refuses; when it is expected to open.
fn add_headers(headers: &mut HeaderMap, gate: &GateRow, opens_in: Option<RetryAfter>) {
    let name = gate.public_name();
    let high_water = gate.high_water;
    let (room, whole_in) = match opens_in {
        Some(opens_in) => (0, Some(opens_in.as_secs())),
        None => (gate.room(), gate.seconds_to_drain(gate.depth)),
    };
    let window = gate.seconds_to_drain(high_water).map(|seconds| format!(";w={seconds}"));
    let time = whole_in.map(|seconds| format!(";t={seconds}"));
    let policy = format!("\"{name}\";q={high_water}{}", window.unwrap_or_default());
    let limit = format!("\"{name}\";r={room}{}", time.unwrap_or_default());
    for (header, value) in [("ratelimit-policy", policy), ("ratelimit", limit)] {
        // Queues and kinds have plain names, so their headers are always valid.
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(header, value);
        }
    }
}
