//! What submitters do: submit one request, or several.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::value::RawValue;
use sqlx::{FromRow, types::Json};
use uuid::Uuid;

use super::{
    Store,
    outlooks::Eta,
    words::{decode, retry_after},
};
use crate::{
    error::StoreError,
    request::{RequestId, Status},
    retry_after::RetryAfter,
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

/// Where a submitted request stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The request, its caller's job id.
    pub id: RequestId,
    /// Its status.
    pub status: Status,
    /// How many waiting messages stand before it, when it is in a queue.
    pub position: Option<i64>,
    /// When to ask again; `None` when it has ended, and for the replays of a group, whose callers poll.
    pub eta: Option<Eta>,
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
        /// When to submit again.
        retry_after: RetryAfter,
    },
}

#[derive(FromRow)]
pub(super) struct SubmittedRow {
    id: Option<Uuid>,
    outcome: String,
    status: Option<String>,
    queue_position: Option<i64>,
    retry_after_seconds: Option<i32>,
    eta_p50_ms: Option<i64>,
    eta_p90_ms: Option<i64>,
}

impl TryFrom<SubmittedRow> for Submitted {
    type Error = StoreError;

    fn try_from(row: SubmittedRow) -> Result<Self, StoreError> {
        let (Some(id), Some(status)) = (row.id, row.status) else {
            return Ok(Self::Refused {
                retry_after: retry_after(row.retry_after_seconds),
            });
        };
        let status = decode(status)?;
        let ticket = Ticket {
            id: RequestId(id),
            status,
            position: row.queue_position,
            eta: Eta::new(status, row.retry_after_seconds, row.eta_p50_ms, row.eta_p90_ms),
        };
        Ok(if row.outcome == "replayed" {
            Self::Replayed(ticket)
        } else {
            Self::Accepted(ticket)
        })
    }
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
    /// `submitters` is one for each, or `None` if none has any. With a `key_patience`, no key of another transaction is
    /// waited for any longer.
    ///
    /// # Errors
    ///
    /// As [`Store::submit`]; of several submitters, one has a cap; a key was waited for too long
    /// (SQLSTATE 55P03).
    pub async fn submit_group(
        &self,
        kind: &str,
        payloads: &[Box<RawValue>],
        idempotency_keys: Option<&[Option<String>]>,
        submitters: Option<&[Option<String>]>,
        not_before: Option<DateTime<Utc>>,
        key_patience: Option<Duration>,
    ) -> Result<Vec<Submitted>, StoreError> {
        let patience_ms = key_patience.map(|time| i32::try_from(time.as_millis()).unwrap_or(i32::MAX));
        let payloads: Vec<_> = payloads.iter().map(Json).collect();
        let rows: Vec<SubmittedRow> = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/submit_group.sql"))
                .bind(kind)
                .bind(payloads)
                .bind(idempotency_keys)
                .bind(submitters)
                .bind(not_before)
                .bind(patience_ms),
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
}
