//! What is learned of requests after their ends.

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::FromRow;

use super::Store;
use crate::{
    error::Result,
    request::{Executed, RequestId, Status},
};

/// A request that ended after a send that may have been executed, and of which nothing more is known.
#[derive(Debug, Clone, FromRow, Serialize)]
pub struct Unresolved {
    /// The request.
    #[serde(rename = "job_id")]
    pub id: RequestId,
    /// Its kind, in snake case.
    pub kind: String,
    /// Its status.
    #[serde(rename = "state")]
    pub status: Status,
    /// Why it ended.
    pub cause: String,
    /// Its submitter.
    pub submitter: Option<String>,
    /// The downstream's name for it, if a receipt had one.
    pub reference: Option<String>,
    /// Sends that may have been executed.
    pub sends: i32,
    /// When it ended.
    pub finished_at: DateTime<Utc>,
}

/// The outcome of a resolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// It is known now.
    Resolved,
    /// It was known before.
    Known,
    /// The downstream has said otherwise, and is believed.
    Kept {
        /// What the downstream has said.
        executed: Executed,
        /// How it has said so.
        source: String,
    },
    /// It lives, or nothing about its sends was ever unknown.
    NotUnresolved(Status),
}

impl Store {
    /// Requests that ended after a send that may have been executed, the oldest first: the view `tidegate.unresolved`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn unresolved(&self, kind: Option<&str>, limit: i64) -> Result<Vec<Unresolved>> {
        run!(self, fetch_all query_as "unresolved.sql"(kind, limit))
    }

    /// Says as an operator whether a request was executed, and how that is known: `tidegate.resolve`.
    ///
    /// # Errors
    ///
    /// Unknown request id, a note that is too long, a database error.
    pub async fn resolve(&self, id: RequestId, executed: Executed, note: Option<&str>) -> Result<Resolved> {
        let (outcome, status, known, source): (String, Status, Option<Executed>, Option<String>) =
            run!(self, fetch_one query_as "resolve.sql"(id.0, executed.as_str(), note, self.actor.as_deref()))?;
        Ok(match (&*outcome, known, source) {
            ("resolved", ..) => Resolved::Resolved,
            ("known", ..) => Resolved::Known,
            (_, Some(executed), Some(source)) => Resolved::Kept { executed, source },
            _ => Resolved::NotUnresolved(status),
        })
    }
}
