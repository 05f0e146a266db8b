//! One request: where it stands, and how to call it off.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    Api,
    openapi::{
        parameters::JobParameters,
        refusals::{Call, Cancelling, OfJob, Refusals},
    },
    path::{JobPath, unknown},
    problem::{NOT_CANCELLABLE, Problem, whole_seconds},
};
use crate::{
    request::{RequestError, RequestId, Status},
    store::{Cancelled, Outlook, Ticket},
};

/// `GET /v1/{kind}/{job_id}`: 202 while the request is in progress, 200 when it has ended; 404 for an unknown id, one of
/// another kind, or something that is no id.
#[utoipa::path(
    get,
    path = "/v1/{kind}/{job_id}",
    operation_id = "poll",
    tag = "requests",
    summary = "Ask where a request stands, or for its result",
    params(JobParameters),
    responses(
        (status = 202, description = "The request is under way: come back", body = InProgress),
        (status = 200, description = "The request has ended", body = Ended),
        Refusals<(Call, OfJob)>,
    ),
    security((), ("api_key" = ["submit"])),
)]
pub(super) async fn poll(State(api): State<Arc<Api>>, job: JobPath) -> Result<Response, Problem> {
    let outlook = job.find(&api.store).await?;
    api.metrics
        .polled(&outlook.kind, outlook.status.is_terminal());
    Ok(answer(outlook))
}

/// `DELETE /v1/{kind}/{job_id}`: 200 when the request will not be sent (also when it was cancelled before, so that a
/// repeated call gets the same answer), 409 when it was sent or has ended.
#[utoipa::path(
    delete,
    path = "/v1/{kind}/{job_id}",
    operation_id = "cancel",
    tag = "requests",
    summary = "Cancel a request that was not sent yet",
    params(JobParameters),
    responses(
        (status = 200, description = "The request will not be sent", body = CancelledJob),
        Refusals<(Call, OfJob, Cancelling)>,
    ),
    security((), ("api_key" = ["submit"])),
)]
pub(super) async fn cancel(
    State(api): State<Arc<Api>>,
    job: JobPath,
) -> Result<Json<CancelledJob>, Problem> {
    let before = job.find(&api.store).await?;
    let cancelled_before = before.error.is_some_and(|error| error.code == "cancelled");
    match api.store.cancel(job.id).await? {
        Cancelled::NotCancellable(status) if !cancelled_before => Err(NOT_CANCELLABLE.because(
            format!("the request is {status}; only what is queued or processing can be cancelled"),
        )),
        Cancelled::Unknown => Err(unknown(job.id)),
        Cancelled::Cancelled | Cancelled::NotCancellable(_) => Ok(Json(CancelledJob {
            outcome: CancelOutcome::Cancelled,
            job_id: job.id,
            state: Status::Failure,
        })),
    }
}

/// A request that is called off.
#[derive(Serialize, ToSchema)]
pub(super) struct CancelledJob {
    #[schema(inline)]
    outcome: CancelOutcome,
    #[schema(value_type = uuid::Uuid)]
    job_id: RequestId,
    /// Where it is in its life.
    state: Status,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum CancelOutcome {
    Cancelled,
}

/// A request that is under way.
#[derive(Serialize, ToSchema)]
pub(super) struct InProgress {
    #[schema(inline)]
    status: Waiting,
    #[schema(value_type = uuid::Uuid)]
    job_id: RequestId,
    /// Where it is in its life.
    state: Status,
    /// In how many seconds to ask again: as `Retry-After`.
    #[schema(minimum = 1)]
    eta_seconds: u64,
    /// How long it has been in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    elapsed_seconds: Option<u64>,
    /// How many waiting requests stand before it in its queue; null: it is in none.
    #[schema(minimum = 0, required)]
    position: Option<i64>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Waiting {
    Queued,
}

/// A request that has ended.
#[derive(Serialize, ToSchema)]
pub(super) struct Ended {
    #[schema(inline)]
    status: End,
    #[schema(value_type = uuid::Uuid)]
    job_id: RequestId,
    /// Where it is in its life.
    state: Status,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum End {
    Succeeded,
    Failed,
    TimedOut,
}

/// What came of a request.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    /// The downstream's response, of a request that has succeeded.
    Result(Option<Box<RawValue>>),
    /// Why it has not.
    Error(RequestError),
}

/// What a poll of this request answers.
pub(super) fn answer(outlook: Outlook) -> Response {
    let status = match outlook.status {
        Status::Completed => End::Succeeded,
        Status::TimedOut => End::TimedOut,
        Status::Failure => End::Failed,
        Status::Queued | Status::Processing | Status::TxInFlight | Status::ReceiptReceived => {
            return in_progress(
                outlook.id,
                outlook.status,
                outlook.retry_after,
                Some(outlook.elapsed),
                outlook.position,
            );
        }
    };
    let outcome = match outlook.error {
        None if outlook.status == Status::Completed => Outcome::Result(outlook.response),
        Some(error) => Outcome::Error(error),
        None => Outcome::Error(RequestError::new(
            outlook.status.as_str(),
            "no reason was recorded",
            false,
        )),
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
        status: Waiting::Queued,
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
