//! Requests, page by page.

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::{FromRow, Row as _, postgres::PgRow};
use uuid::Uuid;

use super::Store;
use crate::{
    error::Result,
    request::{Executed, RequestId, Status},
};

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/lists.sql");

/// Which requests to list.
#[derive(Debug, Clone, Default)]
pub struct PageQuery {
    /// Of this kind only, in snake case.
    pub kind: Option<String>,
    /// In one of these statuses; none: in any.
    pub statuses: Vec<Status>,
    /// Submitted at or after this time.
    pub since: Option<DateTime<Utc>>,
    /// Submitted before this time.
    pub until: Option<DateTime<Utc>>,
    /// Where the page before ended: its [`Page::next`].
    pub before: Option<Uuid>,
    /// Of this submitter only.
    pub submitter: Option<String>,
    /// In this queue only, waiting or held.
    pub queue: Option<String>,
    /// Whose last transition has this cause, or whose error this code.
    pub cause: Option<String>,
    /// Of which this is known.
    pub executed: Option<Executed>,
    /// With at least as many sends.
    pub attempts: Option<i32>,
    /// Requests at most.
    pub limit: i32,
}

impl PageQuery {
    /// The statuses, as the database's functions take them.
    pub(super) fn states(&self) -> Option<Vec<&'static str>> {
        states(&self.statuses)
    }
}

/// Statuses, as the database's functions take them: null for none.
pub(super) fn states(statuses: &[Status]) -> Option<Vec<&'static str>> {
    let states: Vec<_> = statuses.iter().map(|status| status.as_str()).collect();
    (!states.is_empty()).then_some(states)
}

/// Requests, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// May be empty although there is a next page, because a page reads a limited number of requests.
    pub requests: Vec<ListedRequest>,
    /// Where the next page begins; none after the last one.
    pub next: Option<Uuid>,
}

/// One request of a page.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize, utoipa::ToSchema)]
#[schema(as = FoundRequest)]
pub struct ListedRequest {
    /// The request.
    #[serde(rename = "job_id")]
    #[schema(value_type = Uuid)]
    pub id: RequestId,
    /// Its kind.
    pub kind: String,
    /// Its status.
    #[serde(rename = "state")]
    pub status: Status,
    /// The queue in which it waits or is held; null: in none.
    #[schema(required)]
    pub queue: Option<String>,
    /// Its submitter; null: it was submitted without one.
    #[sqlx(rename = "submitted_by")]
    #[schema(required)]
    pub submitter: Option<String>,
    /// When it was submitted.
    pub submitted_at: DateTime<Utc>,
    /// When it ended; null: it is live.
    #[schema(required)]
    pub finished_at: Option<DateTime<Utc>>,
    /// The code of its error; null: it has none.
    #[schema(required)]
    pub code: Option<String>,
}

/// A request that a worker could take now.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize, utoipa::ToSchema)]
pub struct WaitingRequest {
    /// The request.
    #[sqlx(flatten)]
    #[serde(flatten)]
    pub request: ListedRequest,
    /// Since when it could be taken.
    pub waiting_since: DateTime<Utc>,
}

/// The requests of one submitter in one queue.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize, utoipa::ToSchema)]
pub struct SubmitterCount {
    /// The queue.
    pub queue: String,
    /// The submitter; none: the requests without one.
    pub submitter: Option<String>,
    /// All of its requests in the queue, also those that back off.
    pub requests: i64,
    /// Those that a worker could take now.
    pub waiting: i64,
    /// Those that a worker holds.
    pub held: i64,
    /// Since when the oldest has been there.
    pub oldest_at: DateTime<Utc>,
    /// The quota of the submitter, in all queues; none: it has none.
    pub high_water: Option<i32>,
}

impl Store {
    /// One page of requests: `tidegate.list_requests`.
    ///
    /// # Errors
    ///
    /// Unknown kind or queue, a database error.
    pub async fn list_requests(&self, query: &PageQuery) -> Result<Page> {
        let rows: Vec<PgRow> = run!(self, fetch_all query "list_requests"(
            &query.kind, query.states(), query.since, query.before, &query.submitter,
            query.limit, &query.queue, query.until, &query.cause, query.executed.map(|executed| executed.as_str()),
            query.attempts
        ))?;
        let next = rows.first().map(|row| row.try_get("next_before")).transpose()?.flatten();
        // A row without an id carries only the beginning of the next page.
        let requests = rows.iter().filter(|row| !matches!(row.try_get("id"), Ok(None::<Uuid>)));
        Ok(Page { requests: requests.map(ListedRequest::from_row).collect::<sqlx::Result<_>>()?, next })
    }
    /// The requests that have waited longest, of all queues or of one: `tidegate.first_waiting`.
    ///
    /// # Errors
    ///
    /// Unknown queue, a database error.
    pub async fn first_waiting(&self, queue: Option<&str>, limit: i32) -> Result<Vec<WaitingRequest>> {
        run!(self, fetch_all query_as "first_waiting"(limit, queue))
    }

    /// Who has requests in the queues, or in one, those with the most first: `tidegate.submitter_counts`.
    ///
    /// # Errors
    ///
    /// Unknown queue, a database error.
    pub async fn submitter_counts(&self, queue: Option<&str>, limit: i32) -> Result<Vec<SubmitterCount>> {
        run!(self, fetch_all query_as "submitter_counts"(queue, limit))
    }
}
