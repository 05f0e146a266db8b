//! One request: where it stands, and how to call it off.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    Api,
    path::{JobPath, unknown},
    problem::{NOT_CANCELLABLE, Problem, whole_seconds},
};
use crate::{
    request::{RequestError, RequestId, Status},
    store::{Cancelled, Outlook, Ticket},
};

/// `GET /v1/{kind}/{job_id}`: 202 while the request is in progress, 200 when it has ended; 404 for an unknown id, one of
/// another kind, or something that is no id.
pub(super) async fn poll(State(api): State<Arc<Api>>, job: JobPath) -> Result<Response, Problem> {
    Ok(answer(job.find(&api.store).await?))
}

/// `DELETE /v1/{kind}/{job_id}`: 200 when the request will not be sent (also when it was cancelled before, so that a
/// repeated call gets the same answer), 409 when it was sent or has ended.
pub(super) async fn cancel(
    State(api): State<Arc<Api>>,
    job: JobPath,
) -> Result<Json<Value>, Problem> {
    let before = job.find(&api.store).await?;
    let cancelled_before = before.error.is_some_and(|error| error.code == "cancelled");
    match api.store.cancel(job.id).await? {
        Cancelled::NotCancellable(status) if !cancelled_before => Err(NOT_CANCELLABLE.because(
            format!("the request is {status}; only what is queued or processing can be cancelled"),
        )),
        Cancelled::Unknown => Err(unknown(job.id)),
        Cancelled::Cancelled | Cancelled::NotCancellable(_) => Ok(Json(json!({
            "outcome": "cancelled",
            "job_id": job.id,
            "state": Status::Failure,
        }))),
    }
}

#[derive(Serialize)]
struct InProgress {
    status: &'static str,
    job_id: RequestId,
    state: Status,
    eta_seconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    elapsed_seconds: Option<u64>,
    position: Option<i64>,
}

#[derive(Serialize)]
struct Ended {
    status: &'static str,
    job_id: RequestId,
    state: Status,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Result(Option<Box<RawValue>>),
    Error(RequestError),
}

/// What callers are told of a status, besides the status itself.
pub(super) const fn word(status: Status) -> &'static str {
    match status {
        Status::Completed => "succeeded",
        Status::TimedOut => "timed_out",
        Status::Failure => "failed",
        Status::Queued | Status::Processing | Status::TxInFlight | Status::ReceiptReceived => {
            "queued"
        }
    }
}

/// What a poll of this request answers.
pub(super) fn answer(outlook: Outlook) -> Response {
    if !outlook.status.is_terminal() {
        return in_progress(
            outlook.id,
            outlook.status,
            outlook.retry_after,
            Some(outlook.elapsed),
            outlook.position,
        );
    }
    let status = word(outlook.status);
    let outcome = match outlook.error {
        None if outlook.status == Status::Completed => Outcome::Result(outlook.response),
        Some(error) => Outcome::Error(error),
        None => Outcome::Error(RequestError::new(status, "no reason was recorded", false)),
    };
    let ended = Ended {
        status,
        job_id: outlook.id,
        state: outlook.status,
        outcome,
    };
    Json(ended).into_response()
}

/// What the submission of a new request answers.
pub(super) fn accepted(ticket: &Ticket) -> Response {
    in_progress(
        ticket.id,
        ticket.status,
        ticket.retry_after,
        None,
        ticket.position,
    )
}

fn in_progress(
    job_id: RequestId,
    state: Status,
    retry_after: Duration,
    elapsed: Option<Duration>,
    position: Option<i64>,
) -> Response {
    let seconds = whole_seconds(retry_after);
    let body = InProgress {
        status: "queued",
        job_id,
        state,
        eta_seconds: seconds,
        elapsed_seconds: elapsed.map(|elapsed| elapsed.as_secs()),
        position,
    };
    (
        StatusCode::ACCEPTED,
        [(RETRY_AFTER, seconds.to_string())],
        Json(body),
    )
        .into_response()
}
