//! What polls tell: where a request stands, and when to ask again.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::{Value, value::RawValue};
use sqlx::{FromRow, types::Json};
use uuid::Uuid;

use super::{
    Store,
    words::{decode, retry_after, stored_error},
};
use crate::{
    error::StoreError,
    request::{RequestError, RequestId, Status},
    retry_after::RetryAfter,
};

/// When to ask for a request again, and when its answer is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eta {
    /// When to ask again.
    pub retry_after: RetryAfter,
    /// In what time the answer is there as likely as not; known for observed ETAs.
    pub p50: Option<Duration>,
    /// In what time the answer is there with a probability of 90 %; known for observed ETAs.
    pub p90: Option<Duration>,
}

impl Eta {
    /// From a row's columns; `None` when the request has ended, or the row does not tell.
    pub(super) fn new(status: Status, seconds: Option<i32>, p50_ms: Option<i64>, p90_ms: Option<i64>) -> Option<Self> {
        let millis = |ms: i64| Duration::from_millis(ms.try_into().unwrap_or_default());
        seconds.filter(|_| !status.is_terminal()).map(|_| Self {
            retry_after: retry_after(seconds),
            p50: p50_ms.map(millis),
            p90: p90_ms.map(millis),
        })
    }
}

/// All that a poll of one request tells.
#[derive(Debug, Clone)]
pub struct Outlook {
    /// The request.
    pub id: RequestId,
    /// Its kind, in snake case.
    pub kind: String,
    /// Its status.
    pub status: Status,
    /// `readiness_queue`, `checking`, `tx_queue`, `tx_in_flight`, `awaiting_response` or `finished`.
    pub place: String,
    /// The queue it is in.
    pub queue: Option<String>,
    /// How many waiting messages stand before it.
    pub position: Option<i64>,
    /// Time in the current status.
    pub elapsed: Duration,
    /// Time since it was submitted.
    pub age: Duration,
    /// When to ask again; `None` when it has ended.
    pub eta: Option<Eta>,
    /// What the caller was told at submit.
    pub predicted: Option<RetryAfter>,
    /// When it was submitted.
    pub submitted_at: DateTime<Utc>,
    /// The response, when it has one.
    pub response: Option<Box<RawValue>>,
    /// What went wrong, when something did.
    pub error: Option<RequestError>,
    /// Who submitted it.
    pub submitter: Option<String>,
    /// The request as which it was submitted again, after it had failed.
    pub redriven_as: Option<RequestId>,
}

#[derive(FromRow)]
pub(super) struct OutlookRow {
    id: Uuid,
    kind: String,
    status: String,
    place: String,
    queue: Option<String>,
    queue_position: Option<i64>,
    elapsed_seconds: f64,
    age_seconds: f64,
    retry_after_seconds: Option<i32>,
    eta_p50_ms: Option<i64>,
    eta_p90_ms: Option<i64>,
    predicted_seconds: Option<i32>,
    submitted_at: DateTime<Utc>,
    response: Option<Json<Box<RawValue>>>,
    error: Option<Json<Value>>,
    submitter: Option<String>,
    redriven_as: Option<Uuid>,
}

impl TryFrom<OutlookRow> for Outlook {
    type Error = StoreError;

    fn try_from(row: OutlookRow) -> Result<Self, StoreError> {
        let status = decode(row.status)?;
        Ok(Self {
            id: RequestId(row.id),
            kind: row.kind,
            status,
            place: row.place,
            queue: row.queue,
            position: row.queue_position,
            elapsed: Duration::try_from_secs_f64(row.elapsed_seconds).unwrap_or_default(),
            age: Duration::try_from_secs_f64(row.age_seconds).unwrap_or_default(),
            eta: Eta::new(status, row.retry_after_seconds, row.eta_p50_ms, row.eta_p90_ms),
            predicted: row.predicted_seconds.map(|told| retry_after(Some(told))),
            submitted_at: row.submitted_at,
            response: row.response.map(|Json(response)| response),
            error: row.error.map(|Json(error)| stored_error(&error)),
            submitter: row.submitter,
            redriven_as: row.redriven_as.map(RequestId),
        })
    }
}

/// Whose a request is.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Owner {
    /// Its kind.
    pub kind: String,
    /// Who has submitted it.
    pub submitter: Option<String>,
}

impl Store {
    /// Where a request stands: `tidegate.request_outlook`; `None` for an unknown id.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn outlook(&self, id: RequestId) -> Result<Option<Outlook>, StoreError> {
        let row: Option<OutlookRow> = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/request_outlook.sql")).bind(id.0),
            fetch_optional
        );
        row.map(TryInto::try_into).transpose()
    }

    /// Whose a request is; `None` for an unknown id. Reads no more than that.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn owner(&self, id: RequestId) -> Result<Option<Owner>, StoreError> {
        Ok(ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/request_owner.sql")).bind(id.0),
            fetch_optional
        ))
    }
}
