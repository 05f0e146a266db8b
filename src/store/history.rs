//! A day of history by the minute.

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::FromRow;

use super::Store;
use crate::error::Result;

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/history.sql");

/// What became of the requests of a kind in one minute: `tidegate.kind_history`.
#[derive(Debug, Clone, Serialize, FromRow, utoipa::ToSchema)]
pub struct KindMinute {
    /// The kind.
    #[serde(skip)]
    pub kind: String,
    /// Its beginning.
    pub minute: DateTime<Utc>,
    /// Requests that were completed.
    pub completed: i64,
    /// Requests that failed, cancelled ones too.
    pub failed: i64,
    /// Requests that timed out.
    pub timed_out: i64,
    /// Checks that were made.
    pub checks: i64,
    /// Sends that were made.
    pub sends: i64,
    /// Sends that failed: timeouts, no connection, 5xx.
    pub failed_sends: i64,
    /// Sends that were to be made again.
    pub retries: i64,
    /// Median of what a send took.
    pub p50_ms: Option<i32>,
    /// 95th percentile of that.
    pub p95_ms: Option<i32>,
    /// 99th percentile of that.
    pub p99_ms: Option<i32>,
}

/// A queue in one minute: `tidegate.queue_history`.
#[derive(Debug, Clone, Serialize, FromRow, utoipa::ToSchema)]
pub struct QueueMinute {
    /// The queue.
    #[serde(skip)]
    pub queue: String,
    /// Its beginning.
    pub minute: DateTime<Utc>,
    /// The queue's messages.
    pub depth: i64,
    /// Messages that left it.
    pub drained: i64,
}

impl Store {
    /// The minutes of a kind, or of all, since a time, of the last day at most; none for an unknown kind.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn kind_history(&self, kind: Option<&str>, since: DateTime<Utc>) -> Result<Vec<KindMinute>> {
        run!(self, fetch_all query_as "kind_history"(kind, since))
    }

    /// The minutes of a queue, or of all, since a time, of the last day at most; none for an unknown queue.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn queue_history(&self, queue: Option<&str>, since: DateTime<Utc>) -> Result<Vec<QueueMinute>> {
        run!(self, fetch_all query_as "queue_history"(queue, since))
    }
}
