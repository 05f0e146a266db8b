//! The answers about a request: those of polls, submissions, replays, waits and streams, and the body of a webhook.

use std::time::Duration;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use chrono::{DateTime, Utc};
use serde::Serialize;
use tidegate::{
    internals::store::{Eta, Outlook, Resolution, Ticket},
    request::{Executed, JsonText, RequestError, RequestId, Status},
    retry_after::RetryAfter,
};
use utoipa::ToSchema;

use super::openapi::schemas::{self, ErrorDocument, ResolutionDocument};
use super::retry_after_header::WithRetryAfter;

/// A request that is under way.
#[derive(Serialize, ToSchema)]
pub(super) struct InProgress {
    #[schema(schema_with = schemas::queued)]
    status: PublicStatus,
    #[schema(value_type = uuid::Uuid)]
    job_id: RequestId,
    /// Its status in the history.
    state: Status,
    /// In how many seconds to ask again: as `Retry-After`.
    #[schema(value_type = u64, minimum = 1)]
    eta_seconds: RetryAfter,
    /// In how many seconds the answer is there with a probability of 50 and of 90 %, to a tenth.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    eta_p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    eta_p90: Option<f64>,
    /// How long it has been in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    elapsed_seconds: Option<u64>,
    /// How many waiting requests are before it in its queue; null: it is in none.
    #[schema(minimum = 0, required)]
    position: Option<i64>,
    /// True when its cancel was requested during a send: unless the send succeeds, it ends as cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    cancelling: Option<bool>,
}

/// A request that has ended.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum Ended {
    Succeeded(Succeeded),
    Unsuccessful(Unsuccessful),
}

/// A request that has a result.
#[derive(Serialize, ToSchema)]
pub(crate) struct Succeeded {
    #[schema(schema_with = schemas::succeeded)]
    status: PublicStatus,
    #[schema(value_type = uuid::Uuid)]
    job_id: RequestId,
    /// Its status in the history.
    state: Status,
    #[schema(schema_with = schemas::executed_yes)]
    executed: Executed,
    #[schema(required)]
    finished_at: Option<DateTime<Utc>>,
    /// The downstream's response.
    #[schema(value_type = schemas::Json)]
    result: Option<JsonText>,
}

/// A request that has failed or timed out.
#[derive(Serialize, ToSchema)]
pub(crate) struct Unsuccessful {
    #[schema(schema_with = schemas::unsuccessful)]
    status: PublicStatus,
    #[schema(value_type = uuid::Uuid)]
    job_id: RequestId,
    /// Its status in the history.
    state: Status,
    /// Whether the downstream has executed it; unknown: it was sent, and what came of it is not known.
    #[schema(schema_with = schemas::executed)]
    executed: Executed,
    #[schema(required)]
    finished_at: Option<DateTime<Utc>>,
    #[schema(value_type = ErrorDocument)]
    error: RequestError,
    /// How it is known whether it was executed, if it was sent and may have been executed at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ResolutionDocument, nullable = false)]
    resolution: Option<Resolution>,
    /// The job as which it was submitted again, by an operator or under its key, after it had failed or timed out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = uuid::Uuid, nullable = false)]
    redriven_as: Option<RequestId>,
}

/// The summary of a status.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum PublicStatus {
    /// It is under way.
    Queued,
    /// It has a result.
    Succeeded,
    /// It has none, and will have none.
    Failed,
    /// It took too long.
    TimedOut,
}

impl From<Status> for PublicStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Completed => Self::Succeeded,
            Status::TimedOut => Self::TimedOut,
            Status::Failure => Self::Failed,
            Status::Queued | Status::Processing | Status::TxInFlight | Status::ReceiptReceived => Self::Queued,
        }
    }
}

/// The answer to a poll.
pub(super) fn answer(outlook: Outlook) -> Response {
    if outlook.status.is_terminal() {
        return Json(Ended::of(outlook)).into_response();
    }
    in_progress(InProgress::of(&outlook))
}

/// The answer to the submission of a new request.
pub(super) fn accepted(ticket: &Ticket) -> Response {
    in_progress(InProgress::new(ticket.id, ticket.status, ticket.eta, ticket.position))
}

impl InProgress {
    /// The body about a request that has not ended.
    pub(super) fn of(outlook: &Outlook) -> Self {
        Self {
            elapsed_seconds: Some(outlook.elapsed.as_secs()),
            cancelling: outlook.cancelling.then_some(true),
            ..Self::new(outlook.id, outlook.status, outlook.eta, outlook.position)
        }
    }

    fn new(job_id: RequestId, state: Status, eta: Option<Eta>, position: Option<i64>) -> Self {
        Self {
            status: state.into(),
            job_id,
            state,
            eta_seconds: eta.map_or(RetryAfter::SOON, |eta| eta.retry_after),
            eta_p50: eta.and_then(|eta| eta.p50).map(tenths),
            eta_p90: eta.and_then(|eta| eta.p90).map(tenths),
            elapsed_seconds: None,
            position,
            cancelling: None,
        }
    }
}

/// How a request has ended.
pub(crate) struct Ending {
    pub(crate) job_id: RequestId,
    pub(crate) state: Status,
    pub(crate) response: Option<JsonText>,
    pub(crate) error: Option<RequestError>,
    pub(crate) executed: Option<Executed>,
    pub(crate) finished_at: Option<DateTime<Utc>>,
    pub(crate) resolution: Option<Resolution>,
    pub(crate) redriven_as: Option<RequestId>,
}

impl Ended {
    /// The body about a request that has ended.
    pub(super) fn of(outlook: Outlook) -> Self {
        Ending {
            job_id: outlook.id,
            state: outlook.status,
            response: outlook.response,
            error: outlook.error,
            executed: outlook.executed,
            finished_at: outlook.finished_at,
            resolution: outlook.resolution,
            redriven_as: outlook.redriven_as,
        }
        .into()
    }
}

impl From<Ending> for Ended {
    fn from(ending: Ending) -> Self {
        let Ending { job_id, state, finished_at, .. } = ending;
        let status = state.into();
        let executed = ending.executed.unwrap_or(Executed::Unknown);
        match ending.error {
            None if state == Status::Completed => {
                Self::Succeeded(Succeeded { status, job_id, state, executed, finished_at, result: ending.response })
            }
            error => Self::Unsuccessful(Unsuccessful {
                status,
                job_id,
                state,
                executed,
                finished_at,
                error: error.unwrap_or_else(|| RequestError::new(state.as_str(), "no reason was recorded", false)),
                resolution: ending.resolution,
                redriven_as: ending.redriven_as,
            }),
        }
    }
}

/// `Retry-After` equals `eta_seconds`.
fn in_progress(body: InProgress) -> Response {
    (StatusCode::ACCEPTED, WithRetryAfter(body.eta_seconds), Json(body)).into_response()
}

/// Seconds, rounded up to a tenth.
pub(super) fn tenths(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).ceil() / 10.0
}
