//! What a receiver is told: the answer that a `GET` of the job gives, and which delivery this is.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::{
    request::{RequestError, RequestId, Status},
    store::Delivery,
};

#[derive(Serialize)]
struct Message<'a> {
    status: &'static str,
    job_id: RequestId,
    state: Status,
    #[serde(flatten)]
    outcome: Outcome<'a>,
    kind: String,
    finished_at: Option<DateTime<Utc>>,
    delivery_id: Uuid,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome<'a> {
    Result(Option<&'a RawValue>),
    Error(RequestError),
}

/// The body of a delivery. The same at every attempt: a receiver that keeps idempotency keys with their bodies, as
/// Tidegate does, must see a repetition and not a conflict.
pub(super) fn body(delivery: &Delivery) -> serde_json::Result<Vec<u8>> {
    let status = match delivery.status {
        Status::Completed => "succeeded",
        Status::TimedOut => "timed_out",
        _ => "failed",
    };
    let outcome = match &delivery.error {
        None if delivery.status == Status::Completed => Outcome::Result(delivery.response.as_deref()),
        Some(error) => Outcome::Error(error.clone()),
        None => Outcome::Error(RequestError::new(status, "no reason was recorded", false)),
    };
    serde_json::to_vec(&Message {
        status,
        job_id: delivery.request_id,
        state: delivery.status,
        outcome,
        // As paths name it.
        kind: delivery.kind.replace('_', "-"),
        finished_at: delivery.finished_at,
        delivery_id: delivery.id,
    })
}
