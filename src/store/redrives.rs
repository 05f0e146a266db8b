//! Redrives of failed requests.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::FromRow;
use uuid::Uuid;

use super::Store;
use crate::error::Result;

/// The options of `redrive`.
#[derive(Debug, Clone, Copy)]
pub struct Redrive<'a> {
    /// Requests per transaction.
    pub batch: i32,
    /// Only count.
    pub dry_run: bool,
    /// Only this kind.
    pub kind: Option<&'a str>,
    /// Only requests that ended then or later.
    pub since: Option<DateTime<Utc>>,
    /// Only errors of this code; none: all but requests that were cancelled, or may have been sent and must not be sent
    /// twice.
    pub code: Option<&'a str>,
}

/// One batch of `redrive`.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct RedriveStep {
    /// Requests submitted again (or to be).
    pub redriven: i64,
    /// Requests that the gates had no room for, up to the begin of the next batch.
    pub refused: i64,
    /// Their Retry-After.
    pub retry_after_seconds: Option<i32>,
    /// The old requests.
    pub ids: Vec<Uuid>,
    /// The new ones, in the same order.
    pub new_ids: Vec<Uuid>,
    /// Old requests that a submission would refuse now.
    pub unfit_ids: Vec<Uuid>,
    /// Why, in the same order.
    pub unfit_reasons: Vec<String>,
    /// The begin of the next batch; none at the end, or when a queue is full.
    pub next_after: Option<Uuid>,
}

impl Store {
    /// Redrives one bounded batch of requests that failed or timed out: `tidegate.redrive`.
    ///
    /// # Errors
    ///
    /// Unknown kind, a gate that is too busy to count, a database error.
    pub async fn redrive(&self, step: &Redrive<'_>, after: Option<Uuid>) -> Result<RedriveStep> {
        run!(self, fetch_one query_as "redrive.sql"(
            step.batch, after, step.kind, step.since, step.code, step.dry_run, self.actor.as_deref()
        ))
    }

    /// The time that long ago, by the database's clock.
    ///
    /// # Errors
    ///
    /// A database error, a time before its calendar.
    pub async fn time_ago(&self, ago: Duration) -> Result<DateTime<Utc>> {
        run!(self, fetch_one query_scalar "seconds_ago.sql"(ago.as_secs_f64()))
    }
}
