//! Webhooks: callback URLs, and the deliveries to them.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::FromRow;
use uuid::Uuid;

use super::{
    Resolution, Store,
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
    pub lease_token: i64,
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

impl Store {
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

    /// Stores the outcome of an attempt: `tidegate.webhook_settle`. The delivery's state; `None` when the lease was
    /// lost.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn webhook_settle(
        &self,
        request_id: RequestId,
        lease_token: i64,
        attempted: &Attempted,
    ) -> Result<Option<String>> {
        let (outcome, status, error, wait) = match attempted {
            Attempted::Delivered { status } => ("delivered", Some(*status), None, None),
            Attempted::Refused { status, error } => ("refused", *status, Some(error), None),
            Attempted::Retry { status, error, wait } => ("retry", *status, Some(error), *wait),
            Attempted::Unsent => ("unsent", None, None, None),
        };
        run!(self, fetch_one query_scalar "webhook_settle"(
            request_id.0, lease_token, outcome, status.map(i32::from), error.map(|error| error.replace('\0', "")),
            wait.map(milliseconds)
        ))
    }
}
