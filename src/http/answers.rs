//! What is said of a request: by polls, and with them by submissions, replays, waits and streams.

use std::time::Duration;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{
    request::{RequestError, RequestId, Status},
    retry_after::RetryAfter,
    store::{Eta, Outlook, Ticket},
};

/// A request that is under way.
#[derive(Serialize, ToSchema)]
pub(super) struct InProgress {
    #[schema(inline)]
    status: UnderWay,
    #[schema(value_type = uuid::Uuid)]
    job_id: RequestId,
    /// Where it is in its life.
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
    /// How many waiting requests stand before it in its queue; null: it is in none.
    #[schema(minimum = 0, required)]
    position: Option<i64>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum UnderWay {
    /// It is.
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
    /// The job as which an operator has submitted it again, after it had failed or timed out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = uuid::Uuid, nullable = false)]
    redriven_as: Option<RequestId>,
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

/// What callers are told of a status, besides the status itself.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    /// It is under way.
    Queued,
    /// It has a result.
    Succeeded,
    /// It has none, and will have none.
    Failed,
    /// It took too long.
    TimedOut,
}

impl From<Status> for Word {
    fn from(status: Status) -> Self {
        match status {
            Status::Completed => Self::Succeeded,
            Status::TimedOut => Self::TimedOut,
            Status::Failure => Self::Failed,
            Status::Queued | Status::Processing | Status::TxInFlight | Status::ReceiptReceived => Self::Queued,
        }
    }
}

/// What a poll of this request answers.
pub(super) fn answer(outlook: Outlook) -> Response {
    if outlook.status.is_terminal() {
        return Json(Ended::of(outlook)).into_response();
    }
    in_progress(InProgress::of(&outlook))
}

/// What the submission of a new request answers.
pub(super) fn accepted(ticket: &Ticket) -> Response {
    in_progress(InProgress {
        position: ticket.position,
        ..InProgress::told(ticket.id, ticket.status, ticket.eta)
    })
}

impl InProgress {
    /// The body about a request that has not ended.
    pub(super) fn of(outlook: &Outlook) -> Self {
        Self {
            elapsed_seconds: Some(outlook.elapsed.as_secs()),
            position: outlook.position,
            ..Self::told(outlook.id, outlook.status, outlook.eta)
        }
    }

    fn told(job_id: RequestId, state: Status, eta: Option<Eta>) -> Self {
        Self {
            status: UnderWay::Queued,
            job_id,
            state,
            eta_seconds: eta.map_or(RetryAfter::SOON, |eta| eta.retry_after),
            eta_p50: eta.and_then(|eta| eta.p50).map(tenths),
            eta_p90: eta.and_then(|eta| eta.p90).map(tenths),
            elapsed_seconds: None,
            position: None,
        }
    }
}

impl Ended {
    /// The body about a request that has ended.
    pub(super) fn of(outlook: Outlook) -> Self {
        let status = match outlook.status {
            Status::Completed => End::Succeeded,
            Status::TimedOut => End::TimedOut,
            _ => End::Failed,
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
        Self {
            status,
            job_id: outlook.id,
            state: outlook.status,
            outcome,
            redriven_as: outlook.redriven_as,
        }
    }
}

/// Header and body tell the same number.
fn in_progress(body: InProgress) -> Response {
    (StatusCode::ACCEPTED, body.eta_seconds, Json(body)).into_response()
}

/// Seconds, to a tenth.
fn tenths(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).ceil() / 10.0
}
