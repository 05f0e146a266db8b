//! Requests, page by page.

use chrono::{DateTime, Utc};
use sqlx::FromRow;
use uuid::Uuid;

use super::{Store, words::decode};
use crate::{
    error::StoreError,
    request::{RequestId, Status},
};

/// Which requests of a kind to list.
#[derive(Debug, Clone, Default)]
pub struct PageWish {
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
    /// May be empty although there is a next page: a page looks at so many requests only.
    pub requests: Vec<ListedRequest>,
    /// Where the next page begins; none after the last one.
    pub next: Option<Uuid>,
}

/// One request of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedRequest {
    /// The request.
    pub id: RequestId,
    /// Its status.
    pub status: Status,
    /// Who submitted it.
    pub submitter: Option<String>,
    /// When it was submitted.
    pub submitted_at: DateTime<Utc>,
    /// When it ended, if it has.
    pub finished_at: Option<DateTime<Utc>>,
}

#[derive(FromRow)]
struct Row {
    id: Option<Uuid>,
    status: Option<String>,
    submitted_by: Option<String>,
    submitted_at: Option<DateTime<Utc>>,
    finished_at: Option<DateTime<Utc>>,
    next_before: Option<Uuid>,
}

impl Store {
    /// One page of a kind's requests: `tidegate.list_requests`.
    ///
    /// # Errors
    ///
    /// Unknown kind, database trouble.
    pub async fn list_requests(&self, wish: &PageWish) -> Result<Page, StoreError> {
        let statuses: Vec<_> = wish.statuses.iter().map(|status| status.as_str()).collect();
        let rows: Vec<Row> = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/list_requests.sql"))
                .bind(&wish.kind)
                .bind((!statuses.is_empty()).then_some(statuses))
                .bind(wish.since)
                .bind(wish.before)
                .bind(&wish.submitter)
                .bind(wish.limit),
            fetch_all
        );
        let next = rows.first().and_then(|row| row.next_before);
        let mut requests = Vec::with_capacity(rows.len());
        for row in rows {
            // A row without an id only tells where to go on.
            if let (Some(id), Some(status), Some(submitted_at)) = (row.id, row.status, row.submitted_at) {
                requests.push(ListedRequest {
                    id: RequestId(id),
                    status: decode(status)?,
                    submitter: row.submitted_by,
                    submitted_at,
                    finished_at: row.finished_at,
                });
            }
        }
        Ok(Page { requests, next })
    }
}
