//! Webhooks: callback URLs, and the deliveries to them.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::FromRow;
use uuid::Uuid;

use super::{
    Resolution, Store, Submission, Submitted,
    columns::{Milliseconds, milliseconds},
};
use crate::{
    error::Result,
    request::{Executed, JsonText, RequestError, RequestId, Status},
};

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/webhooks.sql");

/// A claimed delivery.
#[derive(Debug, Clone, FromRow)]
pub struct Delivery {
    /// The request that has ended.
    pub request_id: RequestId,
    /// The delivery's own id, the same at every attempt.
    pub id: Uuid,
    /// The token that its settle must present.
    pub nonce: i64,
    /// The callback URL.
    pub url: String,
    /// Host and port, as the allow-list has them.
    pub host_port: String,
    /// Whether that host may have private addresses.
    pub allow_private: bool,
    /// The secrets that sign it, the latest first.
    pub secrets: Vec<String>,
    /// Which attempt this is, from 1.
    pub attempt: i32,
    /// When it was claimed, by the database's clock, in seconds since 1970.
    pub claimed_at: i64,
    /// The length of its lease, from before the claim.
    #[sqlx(rename = "lease_ms", try_from = "Milliseconds")]
    pub lease: Duration,
    /// How long the receiver may take.
    #[sqlx(rename = "timeout_ms", try_from = "Milliseconds")]
    pub timeout: Duration,
    /// The request's kind, in snake case.
    pub kind: String,
    /// The status it ended in.
    pub status: Status,
    /// Its response.
    pub response: Option<JsonText>,
    /// Its error.
    pub error: Option<RequestError>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// Whether the downstream has executed it.
    pub executed: Option<Executed>,
    /// What is known of one that failed or timed out after a send that may have been executed.
    #[sqlx(json(nullable))]
    pub resolution: Option<Resolution>,
    /// What has happened: `request.ended` or `request.resolved`.
    pub event: String,
    /// Whether the host has answered when it was last called.
    pub host_answers: bool,
    /// The request's place in its caller's trace.
    pub traceparent: Option<String>,
    /// Whether this attempt begins a trace of its own, which links to that one.
    pub begins_trace: bool,
}

/// The outcome of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempted {
    /// The receiver has it.
    Delivered {
        /// The status it answered with.
        status: u16,
    },
    /// The receiver refuses it permanently.
    Refused {
        /// The status it answered with, if it did.
        status: Option<u16>,
        /// The reason.
        error: String,
    },
    /// Another attempt may succeed.
    Retry {
        /// The status it answered with, if it did.
        status: Option<u16>,
        /// The reason.
        error: String,
        /// The wait that the receiver asks for.
        wait: Option<Duration>,
    },
    /// Nothing was sent.
    Unsent,
}

/// An attempt that has ended.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The request whose end was delivered.
    pub request_id: RequestId,
    /// The token of the claim.
    pub nonce: i64,
    /// Its outcome.
    pub attempted: Attempted,
}

/// What became of a delivery whose attempt was to be settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookSettled {
    /// The delivery's state now.
    Settled(String),
    /// Another deliverer has it: nothing has changed.
    LeaseLost,
    /// Another transaction holds it: nothing has changed yet.
    Locked,
}

impl From<Option<String>> for WebhookSettled {
    fn from(state: Option<String>) -> Self {
        match state {
            None => Self::LeaseLost,
            Some(state) if state == "locked" => Self::Locked,
            Some(state) => Self::Settled(state),
        }
    }
}

/// An outcome as SQL takes it.
struct Row {
    outcome: &'static str,
    status: Option<i32>,
    error: Option<String>,
    wait_ms: Option<i64>,
}

impl Attempt {
    fn row(&self) -> Row {
        let (outcome, status, error, wait) = match &self.attempted {
            Attempted::Delivered { status } => ("delivered", Some(*status), None, None),
            Attempted::Refused { status, error } => ("refused", *status, Some(error), None),
            Attempted::Retry { status, error, wait } => ("retry", *status, Some(error), *wait),
            Attempted::Unsent => ("unsent", None, None, None),
        };
        Row {
            outcome,
            status: status.map(i32::from),
            error: error.map(|error| error.replace('\0', "")),
            wait_ms: wait.map(milliseconds),
        }
    }
}

impl Store {
    /// Submits one request whose end is delivered to `callback_url`: `tidegate.submit_with_callback`.
    ///
    /// # Errors
    ///
    /// As [`Store::submit`]; [`StoreError::CallbackRefused`](crate::error::StoreError::CallbackRefused) for a URL that
    /// is not allowed.
    pub async fn submit_with_callback(&self, submission: &Submission, callback_url: &str) -> Result<Submitted> {
        run!(self, fetch_one query_as "submit_with_callback"(
            &submission.kind, &submission.payload, callback_url, &submission.idempotency_key,
            &submission.submitter, submission.admission.as_str(), submission.not_before,
            submission.same_key.as_str(), &submission.traceparent
        ))
    }

    /// Takes deliveries that are due: `tidegate.webhook_claim`; at most `unproven` of them to hosts that are new, or have
    /// not answered when they were last called.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn webhook_claim(&self, batch: usize, unproven: usize) -> Result<Vec<Delivery>> {
        let [batch, unproven] = [batch, unproven].map(|count| i32::try_from(count).unwrap_or(i32::MAX));
        run!(self, fetch_all query_as "webhook_claim"(batch, unproven))
    }

    /// Stores the outcome of an attempt: `tidegate.webhook_settle`. Waits for a transaction that holds the delivery.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn webhook_settle(&self, attempt: &Attempt) -> Result<WebhookSettled> {
        let Row { outcome, status, error, wait_ms } = attempt.row();
        let state: Option<String> = run!(self, fetch_one query_scalar "webhook_settle"(
            attempt.request_id.0, attempt.nonce, outcome, status, error, wait_ms
        ))?;
        Ok(WebhookSettled::from(state))
    }

    /// Stores the outcomes of attempts, 1000 at most: `tidegate.webhook_settle_many`. What became of each delivery, in
    /// their order. Waits for no transaction that holds one.
    ///
    /// # Errors
    ///
    /// A database error, which is one for all.
    pub async fn webhook_settle_many(&self, attempts: &[Attempt]) -> Result<Vec<WebhookSettled>> {
        let ids: Vec<_> = attempts.iter().map(|attempt| attempt.request_id.0).collect();
        let nonces: Vec<_> = attempts.iter().map(|attempt| attempt.nonce).collect();
        let rows: Vec<_> = attempts.iter().map(Attempt::row).collect();
        let outcomes: Vec<_> = rows.iter().map(|row| row.outcome).collect();
        let statuses: Vec<_> = rows.iter().map(|row| row.status).collect();
        let errors: Vec<_> = rows.iter().map(|row| row.error.as_deref()).collect();
        let waits: Vec<_> = rows.iter().map(|row| row.wait_ms).collect();
        let states: Vec<Option<String>> = run!(self, fetch_all query_scalar "webhook_settle_many"(
            &ids, &nonces, &outcomes, &statuses, &errors, &waits
        ))?;
        Ok(states.into_iter().map(WebhookSettled::from).collect())
    }
}
