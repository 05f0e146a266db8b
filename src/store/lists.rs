//! Requests, page by page.

use chrono::{DateTime, Utc};
use sqlx::{FromRow, Row as _, postgres::PgRow};
use uuid::Uuid;

use super::Store;
use crate::{
    error::Result,
    request::{RequestId, Status},
};

/// Which requests of a kind to list.
#[derive(Debug, Clone, Default)]
pub struct PageQuery {
    /// The kind, in snake case.
    pub kind: String,
    /// In one of these statuses; none: in any.
    pub statuses: Vec<Status>,
    /// Submitted at or after this time.
    pub since: Option<DateTime<Utc>>,
    /// Where the page before ended: its [`Page::next`].
    pub before: Option<Uuid>,
    /// Of this submitter only.
    pub submitter: Option<String>,
    /// Requests at most.
    pub limit: i32,
}

/// Requests of one kind, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// May be empty although there is a next page, because a page reads a limited number of requests.
    pub requests: Vec<ListedRequest>,
    /// Where the next page begins; none after the last one.
    pub next: Option<Uuid>,
}

/// One request of a page.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ListedRequest {
    /// The request.
    pub id: RequestId,
    /// Its status.
    pub status: Status,
    /// Its submitter.
    #[sqlx(rename = "submitted_by")]
    pub submitter: Option<String>,
    /// When it was submitted.
    pub submitted_at: DateTime<Utc>,
    /// When it ended, if it has.
    pub finished_at: Option<DateTime<Utc>>,
}

impl Store {
    /// One page of a kind's requests: `tidegate.list_requests`.
    ///
    /// # Errors
    ///
    /// Unknown kind, a database error.
    pub async fn list_requests(&self, query: &PageQuery) -> Result<Page> {
        let statuses: Vec<_> = query.statuses.iter().map(|status| status.as_str()).collect();
        let rows: Vec<PgRow> = run!(self, fetch_all query "list_requests.sql"(
            &query.kind, (!statuses.is_empty()).then_some(statuses), query.since, query.before, &query.submitter,
            query.limit
        ))?;
        let next = rows
            .first()
            .map(|row| row.try_get("next_before"))
            .transpose()?
            .flatten();
        // A row without an id carries only the beginning of the next page.
        let requests = rows.iter().filter(|row| !matches!(row.try_get("id"), Ok(None::<Uuid>)));
        Ok(Page {
            requests: requests.map(ListedRequest::from_row).collect::<sqlx::Result<_>>()?,
            next,
        })
    }
}
