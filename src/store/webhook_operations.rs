//! Webhooks for operators: allowed hosts, signing secrets and deliveries.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::FromRow;
use uuid::Uuid;

use super::Store;
use crate::{error::Result, request::RequestId};

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/webhook_operations.sql");

/// A host that callback URLs may name.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct CallbackHost {
    /// A name, an address or a wildcard, perhaps with a port.
    pub host: String,
    /// Whether it may have private addresses.
    pub allow_private: bool,
    /// When it was allowed.
    pub created_at: DateTime<Utc>,
    /// By which database user.
    pub created_by: String,
}

/// A secret that signs deliveries; the secret itself is shown once, when it is made.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct SigningSecret {
    /// Ascending.
    pub id: i64,
    /// The host it is for; none: every host without one of its own.
    pub host: Option<String>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it stops; none: it is the current one.
    pub expires_at: Option<DateTime<Utc>>,
}

/// One row of the outbox.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct DeliveryRecord {
    /// The request that has ended.
    #[serde(rename = "job_id")]
    pub request_id: Uuid,
    /// The delivery's own id.
    #[serde(rename = "delivery_id")]
    pub id: Uuid,
    /// The callback URL.
    pub url: String,
    /// `pending`, `delivered` or `failed`.
    pub state: String,
    /// Attempts begun.
    pub attempt: i32,
    /// When the next attempt may begin; of one under way, when its lease runs out.
    pub due_at: DateTime<Utc>,
    /// Whether an attempt is under way.
    pub under_way: bool,
    /// The status of the last answer.
    pub last_status: Option<i32>,
    /// The last error.
    pub last_error: Option<String>,
    /// When the request ended.
    pub created_at: DateTime<Utc>,
    /// When the delivery ended.
    pub finished_at: Option<DateTime<Utc>>,
}

/// How many deliveries are not made; counted up to 100,000 each.
#[derive(Debug, Clone, Copy, PartialEq, FromRow)]
pub struct WebhookCounts {
    /// Those that wait for an attempt.
    pub waiting: i64,
    /// Those with an attempt under way.
    pub under_way: i64,
    /// Those that have failed.
    pub failed: i64,
    /// The age of the oldest that has not failed, in seconds; 0: there is none.
    pub oldest_seconds: f64,
}

impl Store {
    /// How many deliveries are not made, of all hosts.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn webhook_counts(&self) -> Result<WebhookCounts> {
        run!(self, fetch_one query_as "webhook_counts"())
    }

    /// Sets the callback URL of a kind: `tidegate.set_kind_callback`. Returns the one before.
    ///
    /// # Errors
    ///
    /// Unknown kind, a URL that is not allowed, a database error.
    pub async fn set_kind_callback(&self, kind: &str, url: Option<&str>) -> Result<Option<String>> {
        run!(self, fetch_one query_scalar "set_kind_callback"(kind, url))
    }

    /// The hosts that callback URLs may name.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn webhook_hosts(&self) -> Result<Vec<CallbackHost>> {
        run!(self, fetch_all query_as "webhook_hosts"())
    }

    /// Lets callback URLs name a host: `tidegate.webhook_host_add`. Whether it is new to the list.
    ///
    /// # Errors
    ///
    /// An invalid host, a database error.
    pub async fn webhook_host_add(&self, host: &str, allow_private: bool) -> Result<bool> {
        run!(self, fetch_one query_scalar "webhook_host_add"(host, allow_private))
    }

    /// Takes a host off the list: `tidegate.webhook_host_remove`. Whether it was there.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn webhook_host_remove(&self, host: &str) -> Result<bool> {
        run!(self, fetch_one query_scalar "webhook_host_remove"(host))
    }

    /// The secrets that sign, without the secrets.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn webhook_secrets(&self) -> Result<Vec<SigningSecret>> {
        run!(self, fetch_all query_as "webhook_secret_list"())
    }

    /// Makes a new signing secret: `tidegate.webhook_secret_rotate`. Its id and the secret.
    ///
    /// # Errors
    ///
    /// A host that is not on the list, a database error.
    pub async fn webhook_secret_rotate(&self, host: Option<&str>, overlap: Duration) -> Result<(i64, String)> {
        run!(self, fetch_one query_as "webhook_secret_rotate"(host, overlap.as_secs_f64()))
    }

    /// The latest deliveries, or those that failed; the latest request first.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn webhook_deliveries(&self, failed: bool, limit: u32) -> Result<Vec<DeliveryRecord>> {
        run!(self, fetch_all query_as "webhook_list"(failed, i64::from(limit)))
    }

    /// Delivers the end of a request again: `tidegate.webhook_redeliver`. The state its delivery was in, if it has one.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn webhook_redeliver(&self, id: RequestId) -> Result<Option<String>> {
        run!(self, fetch_one query_scalar "webhook_redeliver"(id.0))
    }

    /// Repeats a batch of failed deliveries: `tidegate.webhook_redeliver_failed`. Returns their number and the begin of
    /// the next.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn webhook_redeliver_failed(&self, batch: i32, after: Option<Uuid>) -> Result<(i64, Option<Uuid>)> {
        run!(self, fetch_one query_as "redeliver_failed"(batch, after))
    }
}
