//! Statements of operators and of the fleet itself: set-up, overviews, liveness, maintenance.

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::FromRow;

use super::Store;
use crate::{
    error::Result,
    request::{RequestId, Stage},
};

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/operations.sql");

/// A setting that `initialise` or `kind_add` wrote.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize, utoipa::ToSchema)]
#[schema(as = MadeSetting)]
pub struct Setting {
    /// Its row, such as `queue tx`.
    pub subject: String,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// How many requests of a kind are in a status.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct RequestCount {
    /// The kind.
    pub kind: String,
    /// The status, in snake case.
    pub status: String,
    /// How many.
    pub requests: i64,
}

/// One row of `queue_overview`.
#[derive(Debug, Clone, PartialEq, FromRow, Serialize, utoipa::ToSchema)]
pub struct QueueOverview {
    /// The queue.
    pub queue: String,
    /// The stage it serves.
    #[schema(pattern = "^(readiness|tx)$")]
    pub stage: String,
    /// Whose turns it serves; none: in order of arrival.
    #[schema(required, pattern = "^(submitter|kind)$")]
    pub fair_by: Option<String>,
    /// Whether claims are stopped.
    pub paused: bool,
    /// D: sends per second; none means no limit.
    #[schema(required)]
    pub per_seconds: Option<f64>,
    /// C: checks at once; none means no limit.
    #[schema(required)]
    pub max_concurrency: Option<i32>,
    /// All messages.
    pub depth: i64,
    /// Messages that may be taken now.
    pub waiting: i64,
    /// Messages under a lease.
    pub held: i64,
    /// Messages that come due later.
    pub backing_off: i64,
    /// Served per second, over 10 seconds.
    pub per_second_10s: f64,
    /// Served per second, over a minute.
    pub per_second_1m: f64,
    /// Served per second, over five minutes.
    pub per_second_5m: f64,
    /// `accepting` or `too_many_requests`.
    #[schema(pattern = "^(accepting|too_many_requests)$")]
    pub gate: String,
    /// The depth at which the gate closes.
    pub high_water: i32,
    /// The depth at which it opens again.
    pub low_water: i32,
    /// How long its oldest message has been in the queue, in seconds; 0 for an empty one.
    pub oldest_seconds: f64,
    /// Kinds whose requests wait here and that no live worker takes.
    pub unserved: Vec<String>,
}

/// One row of `maintenance_overview`.
#[derive(Debug, Clone, PartialEq, FromRow, Serialize)]
pub struct MaintenanceOverview {
    /// The duty.
    pub duty: String,
    /// For how many seconds it has been overdue.
    pub overdue_seconds: f64,
    /// Why it fails; none: it does not.
    pub error: Option<String>,
    /// How many requests it passes over, because it can neither end nor delete them.
    pub passed_over: i64,
    /// The first of them.
    pub passed_over_request: Option<RequestId>,
    /// What refuses that one.
    pub passed_over_error: Option<String>,
}

/// One row of `worker_overview`.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct WorkerOverview {
    /// The worker's name.
    pub name: String,
    /// The stages it runs.
    pub stages: Vec<String>,
    /// The queues it drains.
    pub queues: Vec<String>,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// When it last reported that it is alive.
    pub last_seen_at: DateTime<Utc>,
    /// When it stopped by itself.
    pub stopped_at: Option<DateTime<Utc>>,
    /// Whether it was seen within 30 seconds and has not stopped.
    pub alive: bool,
    /// How many messages it holds.
    pub held: i64,
}

/// A kind whose requests come to a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindOfQueue {
    /// The kind.
    pub name: String,
    /// Whether the policy of the queue's stage promises that each effect happens once.
    pub exactly_once: bool,
}

impl WorkerOverview {
    /// `alive`, `stopped` (by itself) or `lost`.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match (self.alive, self.stopped_at) {
            (true, _) => "alive",
            (false, Some(_)) => "stopped",
            (false, None) => "lost",
        }
    }
}

impl Store {
    /// Makes the queues and kinds of an example, if one is named, and writes the starter set of limits and nominal
    /// times, with the named marks of gates: `tidegate.initialise`. Returns the settings that it wrote.
    ///
    /// # Errors
    ///
    /// [`StoreError::Misuse`](crate::error::StoreError::Misuse) for an unknown example or unknown gates; a database
    /// error.
    pub async fn initialise(&self, example: Option<&str>, gates: Option<&str>) -> Result<Vec<Setting>> {
        run!(self, fetch_all query_as "initialise"(example, gates))
    }

    /// Requests by kind and status.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn request_overview(&self) -> Result<Vec<RequestCount>> {
        run!(self, fetch_all query_as "request_overview"())
    }

    /// Every queue: depth, holds, drain rates, limits, gate.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn queue_overview(&self) -> Result<Vec<QueueOverview>> {
        run!(self, fetch_all query_as "queue_overview"())
    }

    /// Every maintenance duty, how late it is, and what it cannot do.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn maintenance_overview(&self) -> Result<Vec<MaintenanceOverview>> {
        run!(self, fetch_all query_as "maintenance_overview"())
    }

    /// How many responses were deleted because no request had their reference.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn expired_responses(&self) -> Result<i64> {
        run!(self, fetch_one query_scalar "expired_responses"())
    }

    /// Every worker known.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn worker_overview(&self) -> Result<Vec<WorkerOverview>> {
        run!(self, fetch_all query_as "worker_overview"())
    }

    /// The stage a queue serves, and the kinds that use it now; `None` for an unknown queue.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn queue_kinds(&self, queue: &str) -> Result<Option<(Stage, Vec<KindOfQueue>)>> {
        let rows: Vec<(Stage, Option<String>, Option<bool>)> = run!(self, fetch_all query_as "queue_kinds"(queue))?;
        let stage = rows.first().map(|(stage, _, _)| *stage);
        let kinds = rows.into_iter().filter_map(|(_, name, exactly_once)| name.zip(exactly_once));
        let kinds = kinds.map(|(name, exactly_once)| KindOfQueue { name, exactly_once });
        Ok(stage.map(|stage| (stage, kinds.collect())))
    }

    /// Reports that a worker is alive, or stopping: `tidegate.worker_seen`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn worker_seen(
        &self,
        name: &str,
        stages: &[&str],
        queues: &[&str],
        kinds: &[String],
        stopping: bool,
    ) -> Result<()> {
        run!(self, execute query "worker_seen"(name, stages, queues, stopping, kinds)).map(|_| ())
    }

    /// Stops or resumes claims from a queue, or from all: `tidegate.pause`. Returns the queues that changed.
    ///
    /// # Errors
    ///
    /// Unknown queue, a database error.
    pub async fn pause(&self, queue: Option<&str>, paused: bool) -> Result<Vec<String>> {
        run!(self, fetch_all query_scalar "pause"(queue, paused, self.actor.as_deref(), None::<&str>))
    }

    /// Stops or resumes claims of a kind, in every queue: `tidegate.pause`. Returns whether that changed anything.
    ///
    /// # Errors
    ///
    /// Unknown kind, a database error.
    pub async fn pause_kind(&self, kind: &str, paused: bool) -> Result<bool> {
        let changed: Vec<String> =
            run!(self, fetch_all query_scalar "pause"(None::<&str>, paused, self.actor.as_deref(), kind))?;
        Ok(!changed.is_empty())
    }

    /// Runs the maintenance duties that are due: `tidegate.maintain`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn maintain(&self) -> Result<()> {
        run!(self, execute query "maintain"()).map(|_| ())
    }
}
