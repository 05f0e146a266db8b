//! Telling who wants to know that a request has ended: callbacks, the outbox, and who may be told.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::{Value, value::RawValue};
use sqlx::{FromRow, types::Json};
use uuid::Uuid;

use super::{
    Store, Submission, Submitted,
    submissions::SubmittedRow,
    words::{decode, stored_error},
};
use crate::{
    error::StoreError,
    request::{RequestError, RequestId, Status},
};

/// A delivery that this process is to make now.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The request that has ended.
    pub request_id: RequestId,
    /// The delivery's own id, the same at every attempt.
    pub id: Uuid,
    /// What its settle has to show.
    pub nonce: i64,
    /// Where to.
    pub url: String,
    /// Host and port that the allow-list was asked about.
    pub host_port: String,
    /// Whether that host may have private addresses.
    pub allow_private: bool,
    /// What to sign with, the latest first.
    pub secrets: Vec<String>,
    /// Which attempt this is, from 1.
    pub attempt: i32,
    /// When it was claimed, by the database's clock, in seconds since 1970.
    pub claimed_at: i64,
    /// How long it is held, from before the claim was asked for.
    pub lease: Duration,
    /// How long the receiver may take.
    pub timeout: Duration,
    /// The request's kind, in snake case.
    pub kind: String,
    /// The status it ended in.
    pub status: Status,
    /// Its response.
    pub response: Option<Box<RawValue>>,
    /// What went wrong with it.
    pub error: Option<RequestError>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
}

#[derive(FromRow)]
struct DeliveryRow {
    request_id: Uuid,
    id: Uuid,
    nonce: i64,
    url: String,
    host_port: String,
    allow_private: Option<bool>,
    secrets: Vec<String>,
    attempt: i32,
    claimed_at: i64,
    lease_ms: i32,
    timeout_ms: i32,
    kind: String,
    status: String,
    response: Option<Json<Box<RawValue>>>,
    error: Option<Json<Value>>,
    finished_at: Option<DateTime<Utc>>,
}

/// What came of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempted {
    /// The receiver has it.
    Delivered {
        /// The status it answered with.
        status: u16,
    },
    /// The receiver never wants it.
    Refused {
        /// The status it answered with, if it did.
        status: Option<u16>,
        /// In words.
        error: String,
    },
    /// Another attempt may succeed.
    Retry {
        /// The status it answered with, if it did.
        status: Option<u16>,
        /// In words.
        error: String,
        /// How long the receiver wants to be left alone.
        wait: Option<Duration>,
    },
    /// Nothing was sent.
    Unsent,
}

impl Store {
    /// Submits one request that tells `callback_url` when it ends: `tidegate.submit_with_callback`.
    ///
    /// # Errors
    ///
    /// As [`Store::submit`]; [`StoreError::CallbackRefused`] for a URL that may not be named.
    pub async fn submit_with_callback(
        &self,
        submission: &Submission,
        callback_url: &str,
    ) -> Result<Submitted, StoreError> {
        let row: SubmittedRow = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/submit_with_callback.sql"))
                .bind(&submission.kind)
                .bind(Json(&submission.payload))
                .bind(callback_url)
                .bind(&submission.idempotency_key)
                .bind(&submission.submitter)
                .bind(submission.admission.as_str())
                .bind(submission.not_before),
            fetch_one
        );
        row.try_into()
    }

    /// Takes deliveries that are due: `tidegate.webhook_claim`.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn webhook_claim(&self, batch: usize) -> Result<Vec<Delivery>, StoreError> {
        let batch = i32::try_from(batch).unwrap_or(i32::MAX);
        let rows: Vec<DeliveryRow> = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/webhook_claim.sql")).bind(batch),
            fetch_all
        );
        let millis = |count: i32| Duration::from_millis(u64::try_from(count).unwrap_or_default());
        rows.into_iter()
            .map(|row| {
                Ok(Delivery {
                    request_id: RequestId(row.request_id),
                    id: row.id,
                    nonce: row.nonce,
                    url: row.url,
                    host_port: row.host_port,
                    allow_private: row.allow_private.unwrap_or(false),
                    secrets: row.secrets,
                    attempt: row.attempt,
                    claimed_at: row.claimed_at,
                    lease: millis(row.lease_ms),
                    timeout: millis(row.timeout_ms),
                    kind: row.kind,
                    status: decode(row.status)?,
                    response: row.response.map(|Json(response)| response),
                    error: row.error.map(|Json(error)| stored_error(&error)),
                    finished_at: row.finished_at,
                })
            })
            .collect()
    }

    /// Says what came of an attempt: `tidegate.webhook_settle`. The delivery's state; `None` when the lease was lost.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn webhook_settle(
        &self,
        request_id: RequestId,
        nonce: i64,
        attempted: &Attempted,
    ) -> Result<Option<String>, StoreError> {
        let (outcome, status, error, wait) = match attempted {
            Attempted::Delivered { status } => ("delivered", Some(*status), None, None),
            Attempted::Refused { status, error } => ("refused", *status, Some(error), None),
            Attempted::Retry { status, error, wait } => ("retry", *status, Some(error), *wait),
            Attempted::Unsent => ("unsent", None, None, None),
        };
        Ok(ask!(
            self,
            sqlx::query_scalar(include_str!("../../sql/queries/webhook_settle.sql"))
                .bind(request_id.0)
                .bind(nonce)
                .bind(outcome)
                .bind(status.map(i32::from))
                .bind(error.map(|error| error.replace('\0', "")))
                .bind(wait.map(|wait| i64::try_from(wait.as_millis()).unwrap_or(i64::MAX))),
            fetch_one
        ))
    }
}
