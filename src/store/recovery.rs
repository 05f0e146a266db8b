//! Recovery of lost requests, checks of histories, and redrives of failed requests.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use sqlx::FromRow;
use uuid::Uuid;

use super::{Store, lists::states};
use crate::{error::Result, request::Status};

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/recovery.sql");

/// The history of a set of requests in figures, read from rows and events alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow, Serialize)]
pub struct Lives {
    /// Requests without a row.
    pub missing: i64,
    /// Requests that have not ended.
    pub unfinished: i64,
    /// Requests with more or fewer than one terminal status in their history, of those that have one.
    pub finished_twice: i64,
    /// Steps that no rule allows, or that do not follow from the step before.
    pub illegal_steps: i64,
    /// Sends whose worker was lost.
    pub recovered: i64,
}

/// The options of `recover`.
#[derive(Debug, Clone, Copy)]
pub struct Recover<'a> {
    /// Requests repaired per transaction, at most.
    pub batch: i32,
    /// Only count.
    pub dry_run: bool,
    /// Only this kind.
    pub kind: Option<&'a str>,
    /// Reset requests under a live lease too.
    pub reset_all: bool,
    /// Even while live leases exist.
    pub force: bool,
    /// The record that counts it; none: each batch is a run of its own.
    pub run: Option<i64>,
}

/// One batch of `recover`.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct RecoverStep {
    /// Live requests that were read.
    pub examined: i64,
    /// In flight without a lease: back to processing.
    pub reset: i64,
    /// In flight without a lease, `at_most_once`: ended as `outcome_unknown`.
    pub ended: i64,
    /// Without a message: got one.
    pub rebuilt: i64,
    /// Of these, under a new number.
    pub renumbered: i64,
    /// Not counted at their quotas: counted again.
    pub counted: i64,
    /// The requests concerned.
    pub ids: Vec<Uuid>,
    /// The begin of the next batch; none at the end.
    pub next_after: Option<Uuid>,
}

/// One batch of `recover_deadlines`.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct DeadlineStep {
    /// Live requests that were read.
    pub examined: i64,
    /// Past their deadline: ended.
    pub expired: i64,
    /// Without a deadline: got one.
    pub dated: i64,
    /// The requests concerned.
    pub ids: Vec<Uuid>,
    /// The begin of the next batch; none at the end.
    pub next_after: Option<Uuid>,
}

/// One batch of `remove_stray_messages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow, Serialize)]
pub struct StrayStep {
    /// Messages removed (or to be removed).
    pub removed: i64,
    /// The begin of the next batch; none at the end.
    pub next_after: Option<i64>,
}

/// One batch of `recover_responses`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow, Serialize)]
pub struct ResponseStep {
    /// Early responses applied (or to be applied).
    pub applied: i64,
    /// Whether there are more.
    pub more: bool,
}

/// A count that was wrong: of the requests of one kind in one status.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct WrongCount {
    /// The kind.
    pub kind: String,
    /// The status.
    pub status: String,
    /// The stored count.
    pub counted: i64,
    /// How many requests there are.
    pub requests: i64,
}

/// The requests in flight that one worker holds on one queue.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct LiveSends {
    /// The queue.
    pub queue: String,
    /// The worker, if its claim named one.
    pub worker: Option<String>,
    /// How many.
    pub requests: i64,
    /// When the last of their leases runs out.
    pub until: DateTime<Utc>,
    /// In how many seconds, by the database's clock, rounded up.
    pub seconds: i64,
}

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
    /// Only errors of this code; none: all but `cancelled`.
    pub code: Option<&'a str>,
    /// Also requests that were, or may have been, executed.
    pub may_repeat: bool,
    /// Only those of this submitter.
    pub submitter: Option<&'a str>,
    /// Only requests that ended before this time.
    pub until: Option<DateTime<Utc>>,
    /// Only these; none: all.
    pub requests: Option<&'a [Uuid]>,
    /// Only those in one of these statuses; none: all that failed or timed out.
    pub statuses: &'a [Status],
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
    /// Reads the history of requests and counts broken rules.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn lives(&self, ids: &[Uuid]) -> Result<Lives> {
        run!(self, fetch_one query_as "lives"(ids))
    }

    /// Opens the record of a run of `recover`, to which its batches add: `tidegate.recovery_begins`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn recovery_begins(&self, options: &Value) -> Result<i64> {
        run!(self, fetch_one query_scalar "recovery_begins"(options, self.actor.as_deref()))
    }

    /// Closes the record of a run: `tidegate.recovery_ends`. Returns the sum of its batches.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn recovery_ends(&self, run: i64) -> Result<Option<Value>> {
        run!(self, fetch_one query_scalar "recovery_ends"(run))
    }

    /// The sum of all recoveries, by figure.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn recovered(&self) -> Result<Vec<(String, i64)>> {
        run!(self, fetch_all query_as "recovered"())
    }

    /// Makes the tables of queues that have lost them, and sets sequences that were set back:
    /// `tidegate.recover_storage`. Returns the names of these queues.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn recover_storage(&self, dry_run: bool, run: Option<i64>) -> Result<Vec<String>> {
        run!(self, fetch_all query_scalar "recover_storage"(dry_run, run))
    }

    /// One bounded batch of recovery: `tidegate.recover`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn recover(&self, step: &Recover<'_>, after: Option<Uuid>) -> Result<RecoverStep> {
        run!(self, fetch_one query_as "recover"(
            step.batch, after, step.dry_run, step.kind, step.reset_all, step.force, step.run
        ))
    }

    /// The requests in flight under a live lease, of a kind or of all, whose lease ends no later than `until`; the
    /// longest lease first.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn live_sends(&self, kind: Option<&str>, until: Option<DateTime<Utc>>) -> Result<Vec<LiveSends>> {
        run!(self, fetch_all query_as "live_sends"(kind, until))
    }

    /// One bounded batch of deadlines that no duty would find: `tidegate.recover_deadlines`.
    ///
    /// # Errors
    ///
    /// Unknown kind, a database error.
    pub async fn recover_deadlines(&self, step: &Recover<'_>, after: Option<Uuid>) -> Result<DeadlineStep> {
        run!(self, fetch_one query_as "recover_deadlines"(step.batch, after, step.dry_run, step.kind, step.run))
    }

    /// One bounded batch of removing messages without a live request: `tidegate.remove_stray_messages`.
    ///
    /// # Errors
    ///
    /// Unknown queue, a database error.
    pub async fn remove_stray_messages(
        &self,
        queue: &str,
        step: &Recover<'_>,
        after: Option<i64>,
    ) -> Result<StrayStep> {
        run!(self, fetch_one query_as "remove_stray_messages"(queue, step.batch, after, step.dry_run, step.run))
    }

    /// One bounded batch of early responses: `tidegate.recover_responses`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn recover_responses(&self, step: &Recover<'_>) -> Result<ResponseStep> {
        run!(self, fetch_one query_as "recover_responses"(step.batch, step.dry_run, step.run))
    }

    /// Corrects the counts by kind and status: `tidegate.recover_counts`. Returns those that were wrong.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn recover_counts(&self, dry_run: bool, run: Option<i64>) -> Result<Vec<WrongCount>> {
        run!(self, fetch_all query_as "recover_counts"(dry_run, run))
    }

    /// Flips the gates whose state does not fit their depth: `tidegate.recover_gates`. Returns their number.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn recover_gates(&self, dry_run: bool, run: Option<i64>) -> Result<i64> {
        run!(self, fetch_one query_scalar "recover_gates"(dry_run, run))
    }

    /// Redrives one bounded batch of requests that failed or timed out: `tidegate.redrive`.
    ///
    /// # Errors
    ///
    /// Unknown kind, a gate that is too busy to count, a database error.
    pub async fn redrive(&self, step: &Redrive<'_>, after: Option<Uuid>) -> Result<RedriveStep> {
        run!(self, fetch_one query_as "redrive"(
            step.batch, after, step.kind, step.since, step.code, step.dry_run, self.actor.as_deref(), step.may_repeat,
            step.submitter, step.until, step.requests, states(step.statuses)
        ))
    }

    /// The time that long ago, by the database's clock.
    ///
    /// # Errors
    ///
    /// A database error, a time before its calendar.
    pub async fn time_ago(&self, ago: Duration) -> Result<DateTime<Utc>> {
        run!(self, fetch_one query_scalar "seconds_ago"(ago.as_secs_f64()))
    }
}
