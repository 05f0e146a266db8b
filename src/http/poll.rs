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
    store::{Cancelled, Eta, Outlook, Ticket},
};

/// `GET /v1/{kind}/{job_id}`: 202 while the request is in progress, 200 when it has ended; 404 for an unknown id, one of
/// another kind, or something that is no id.
pub(super) async fn poll(State(api): State<Arc<Api>>, job: JobPath) -> Result<Response, Problem> {
    let outlook = job.find(&api.store).await?;
    api.polls.count(&outlook);
    Ok(answer(outlook))
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
    /// In how many seconds the answer is there with a probability of 50 and of 90 %, to a tenth.
    #[serde(skip_serializing_if = "Option::is_none")]
    eta_p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eta_p90: Option<f64>,
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
            outlook.eta,
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
        ticket.eta,
        None,
        ticket.position,
    )
}

fn in_progress(
    job_id: RequestId,
    state: Status,
    retry_after: Duration,
    eta: Eta,
    elapsed: Option<Duration>,
    position: Option<i64>,
) -> Response {
    // The body says what is expected; the header may send callers who are told the same at different times.
    let come_back = whole_seconds(eta.come_back.max(retry_after));
    let tenths = |time: Duration| (time.as_secs_f64() * 10.0).ceil() / 10.0;
    let body = InProgress {
        status: "queued",
        job_id,
        state,
        eta_seconds: whole_seconds(retry_after),
        eta_p50: eta.p50.map(tenths),
        eta_p90: eta.p90.map(tenths),
        elapsed_seconds: elapsed.map(|elapsed| elapsed.as_secs()),
        position,
    };
    (
        StatusCode::ACCEPTED,
        [(RETRY_AFTER, come_back.to_string())],
        Json(body),
    )
        .into_response()
}
