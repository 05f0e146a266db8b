//! What callers and downstreams do: submit, ask, respond, cancel.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::{Value, value::RawValue};
use sqlx::{FromRow, types::Json};
use uuid::Uuid;

use super::Store;
use crate::{
    error::StoreError,
    request::{RequestError, RequestId, Status},
};

/// Whether the gates may refuse a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Admission {
    /// They may.
    #[default]
    Enforce,
    /// They may not: the work was promised already.
    Accepted,
}

impl Admission {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Accepted => "accepted",
        }
    }
}

/// One request to submit.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The kind, in snake case.
    pub kind: String,
    /// The payload, as JSON text.
    pub payload: Box<RawValue>,
    /// The caller's key: the same key and payload within the window is the same request.
    pub idempotency_key: Option<String>,
    /// Who submits.
    pub submitter: Option<String>,
    /// Whether the gates may refuse it.
    pub admission: Admission,
    /// The earliest start.
    pub not_before: Option<DateTime<Utc>>,
}

/// How to tell a caller when to come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Eta {
    /// The advice with jitter, whole seconds: never before `retry_after`, so that callers told the same spread out.
    pub come_back: Duration,
    /// In what time the answer is there as likely as not; known for observed ETAs.
    pub p50: Option<Duration>,
    /// In what time the answer is there with a probability of 90 %; known for observed ETAs.
    pub p90: Option<Duration>,
}

impl Eta {
    fn new(spread_seconds: Option<i32>, p50_ms: Option<i64>, p90_ms: Option<i64>) -> Self {
        let millis = |ms: i64| Duration::from_millis(ms.try_into().unwrap_or_default());
        Self {
            come_back: seconds(spread_seconds),
            p50: p50_ms.map(millis),
            p90: p90_ms.map(millis),
        }
    }
}

/// Where a submitted request stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The request, its caller's job id.
    pub id: RequestId,
    /// Its status.
    pub status: Status,
    /// How many waiting messages stand before it, when it is in a queue.
    pub position: Option<i64>,
    /// When to ask again; zero for a request that has ended.
    pub retry_after: Duration,
    /// How to tell the caller so.
    pub eta: Eta,
}

/// What became of a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submitted {
    /// A new request.
    Accepted(Ticket),
    /// The earlier request of the same idempotency key.
    Replayed(Ticket),
    /// The gate is closed; nothing was stored.
    Refused {
        /// When to submit again, with jitter.
        retry_after: Duration,
    },
}

#[derive(FromRow)]
pub(super) struct SubmittedRow {
    id: Option<Uuid>,
    outcome: String,
    status: Option<String>,
    queue_position: Option<i64>,
    retry_after_seconds: Option<i32>,
    spread_seconds: Option<i32>,
    eta_p50_ms: Option<i64>,
    eta_p90_ms: Option<i64>,
}

impl TryFrom<SubmittedRow> for Submitted {
    type Error = StoreError;

    fn try_from(row: SubmittedRow) -> Result<Self, StoreError> {
        let retry_after = seconds(row.retry_after_seconds);
        let eta = Eta::new(row.spread_seconds, row.eta_p50_ms, row.eta_p90_ms);
        let (Some(id), Some(status)) = (row.id, row.status) else {
            return Ok(Self::Refused {
                retry_after: eta.come_back,
            });
        };
        let ticket = Ticket {
            id: RequestId(id),
            status: decode(status)?,
            position: row.queue_position,
            retry_after,
            eta,
        };
        Ok(if row.outcome == "replayed" {
            Self::Replayed(ticket)
        } else {
            Self::Accepted(ticket)
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
    /// When to ask again; zero when it has ended.
    pub retry_after: Duration,
    /// How to tell the caller so.
    pub eta: Eta,
    /// What the caller was told at submit.
    pub predicted: Option<Duration>,
    /// When it was submitted.
    pub submitted_at: DateTime<Utc>,
    /// The response, when it has one.
    pub response: Option<Box<RawValue>>,
    /// What went wrong, when something did.
    pub error: Option<RequestError>,
    /// Who submitted it.
    pub submitter: Option<String>,
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
    spread_seconds: Option<i32>,
    eta_p50_ms: Option<i64>,
    eta_p90_ms: Option<i64>,
    predicted_seconds: Option<i32>,
    submitted_at: DateTime<Utc>,
    response: Option<Json<Box<RawValue>>>,
    error: Option<Json<Value>>,
    submitter: Option<String>,
}

impl TryFrom<OutlookRow> for Outlook {
    type Error = StoreError;

    fn try_from(row: OutlookRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: RequestId(row.id),
            kind: row.kind,
            status: decode(row.status)?,
            place: row.place,
            queue: row.queue,
            position: row.queue_position,
            elapsed: Duration::try_from_secs_f64(row.elapsed_seconds).unwrap_or_default(),
            age: Duration::try_from_secs_f64(row.age_seconds).unwrap_or_default(),
            retry_after: seconds(row.retry_after_seconds),
            eta: Eta::new(row.spread_seconds, row.eta_p50_ms, row.eta_p90_ms),
            predicted: row.predicted_seconds.map(|told| seconds(Some(told))),
            submitted_at: row.submitted_at,
            response: row.response.map(|Json(response)| response),
            error: row.error.map(|Json(error)| stored_error(&error)),
            submitter: row.submitter,
        })
    }
}

/// A response, share or verdict of the downstream.
#[derive(Debug, Clone)]
pub struct Response {
    /// The request, when the downstream knows it.
    pub id: Option<RequestId>,
    /// The reference of its receipt, otherwise.
    pub reference: Option<String>,
    /// Which share this is, for requests that collect several.
    pub part: Option<String>,
    /// The verdict, for proofs.
    pub accept: Option<bool>,
    /// The response itself, as JSON text.
    pub response: Box<RawValue>,
}

/// What became of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Responded {
    /// The request it was for, when that is known yet.
    pub id: Option<RequestId>,
    /// The request's status now.
    pub status: Option<Status>,
    /// `completed`, `rejected`, `stored`, `duplicate`, `early` or `late`.
    pub outcome: String,
}

/// What became of a wish to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// It will not be sent.
    Cancelled,
    /// It was sent already, or has ended.
    NotCancellable(Status),
    /// There is no such request.
    Unknown,
}

impl Store {
    /// Submits one request: `tidegate.submit`.
    ///
    /// # Errors
    ///
    /// Unknown kind, kind without nominal times, key reused with another payload, database trouble.
    pub async fn submit(&self, submission: &Submission) -> Result<Submitted, StoreError> {
        let row: SubmittedRow = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/submit.sql"))
                .bind(&submission.kind)
                .bind(Json(&submission.payload))
                .bind(&submission.idempotency_key)
                .bind(&submission.submitter)
                .bind(submission.admission.as_str())
                .bind(submission.not_before),
            fetch_one
        );
        row.try_into()
    }

    /// Submits several requests of one kind, all or none: `tidegate.submit_batch`. While a gate is closed, a batch with
    /// a new request in it is refused whole.
    ///
    /// # Errors
    ///
    /// As [`Store::submit`].
    pub async fn submit_batch(
        &self,
        kind: &str,
        payloads: &[Box<RawValue>],
        idempotency_keys: Option<&[Option<String>]>,
        submitter: Option<&str>,
        admission: Admission,
    ) -> Result<Vec<Submitted>, StoreError> {
        let payloads: Vec<_> = payloads.iter().map(Json).collect();
        let rows: Vec<SubmittedRow> = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/submit_batch.sql"))
                .bind(kind)
                .bind(payloads)
                .bind(idempotency_keys)
                .bind(submitter)
                .bind(admission.as_str()),
            fetch_all
        );
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Submits requests of one kind that have nothing to do with each other: `tidegate.submit_group`. While a gate is
    /// closed, each is refused or replayed by itself; an error is still an error for all. `not_before` delays them all.
    ///
    /// # Errors
    ///
    /// As [`Store::submit`].
    pub async fn submit_group(
        &self,
        kind: &str,
        payloads: &[Box<RawValue>],
        idempotency_keys: Option<&[Option<String>]>,
        submitter: Option<&str>,
        not_before: Option<DateTime<Utc>>,
    ) -> Result<Vec<Submitted>, StoreError> {
        let payloads: Vec<_> = payloads.iter().map(Json).collect();
        let rows: Vec<SubmittedRow> = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/submit_group.sql"))
                .bind(kind)
                .bind(payloads)
                .bind(idempotency_keys)
                .bind(submitter)
                .bind(not_before),
            fetch_all
        );
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Submits several requests of one kind, all or none, under one key: `tidegate.submit_batch_once`.
    ///
    /// # Errors
    ///
    /// As [`Store::submit`].
    pub async fn submit_batch_once(
        &self,
        kind: &str,
        payloads: &[Box<RawValue>],
        idempotency_key: &str,
        submitter: Option<&str>,
        admission: Admission,
    ) -> Result<Vec<Submitted>, StoreError> {
        let payloads: Vec<_> = payloads.iter().map(Json).collect();
        let rows: Vec<SubmittedRow> = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/submit_batch_once.sql"))
                .bind(kind)
                .bind(payloads)
                .bind(idempotency_key)
                .bind(submitter)
                .bind(admission.as_str()),
            fetch_all
        );
        rows.into_iter().map(TryInto::try_into).collect()
    }

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

    /// Stores a response of the downstream: `tidegate.respond`.
    ///
    /// # Errors
    ///
    /// Unknown request id, a response that does not fit the request's flow, database trouble.
    pub async fn respond(&self, response: &Response) -> Result<Responded, StoreError> {
        let (id, status, outcome): (Option<Uuid>, Option<String>, String) = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/respond.sql"))
                .bind(Json(&response.response))
                .bind(response.id.map(|id| id.0))
                .bind(&response.reference)
                .bind(&response.part)
                .bind(response.accept),
            fetch_one
        );
        Ok(Responded {
            id: id.map(RequestId),
            status: status.map(decode).transpose()?,
            outcome,
        })
    }

    /// Cancels a request that was not sent yet: `tidegate.cancel`.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn cancel(&self, id: RequestId) -> Result<Cancelled, StoreError> {
        let (outcome, status): (String, Option<String>) = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/cancel.sql")).bind(id.0),
            fetch_one
        );
        Ok(match (outcome.as_str(), status) {
            ("cancelled", _) => Cancelled::Cancelled,
            (_, Some(status)) => Cancelled::NotCancellable(decode(status)?),
            (_, None) => Cancelled::Unknown,
        })
    }
}

fn seconds(count: Option<i32>) -> Duration {
    Duration::from_secs(u64::try_from(count.unwrap_or_default()).unwrap_or_default())
}

/// A word of the database's; a strange one means a schema from another time.
pub(super) fn decode<T>(word: String) -> Result<T, StoreError>
where
    T: TryFrom<String>,
    T::Error: std::fmt::Display,
{
    T::try_from(word).map_err(|error: T::Error| StoreError::NotMigrated(error.to_string()))
}

/// An error as it stands in the row; hand-written ones may lack a field.
pub(super) fn stored_error(error: &Value) -> RequestError {
    let text = |name: &str| error.get(name).and_then(Value::as_str);
    RequestError {
        code: text("code").unwrap_or("unknown").to_owned(),
        message: text("message").unwrap_or_default().to_owned(),
        retryable: error
            .get("retryable")
            .and_then(Value::as_bool)
            .unwrap_or(false),
    }
}
