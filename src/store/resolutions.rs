//! What is learned of requests after their ends.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sqlx::{FromRow, Row, postgres::PgRow, types::Json};
use tokio_util::sync::CancellationToken;

use super::{
    Store,
    columns::{Columns, count, from_milliseconds},
    settles::check_response,
};
use crate::{
    error::{Result, StoreError},
    request::{Executed, JsonText, Phases, Request, RequestId, Status},
    stage::Receipt,
};

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/resolutions.sql");

/// What is known of a request that ended after a send that may have been executed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Resolution {
    /// Whether the downstream has executed it.
    pub executed: Executed,
    /// Who knows: `settle`, `response`, `search`, `receipt_taken_back`, `downstream` or `operator`.
    pub source: String,
    /// Since when.
    pub at: DateTime<Utc>,
    /// The verdict of a response that came too late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept: Option<bool>,
    /// The response that came too late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<JsonText>,
}

/// A request whose receipt is to be searched for.
#[derive(Debug, Clone)]
pub struct Search {
    /// The request.
    pub request: Request,
    /// The time limit of the search.
    pub timeout: Duration,
}

impl FromRow<'_, PgRow> for Search {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let mut columns = Columns::of(row);
        let (id, send_id, kind) = (columns.next()?, columns.next()?, columns.next()?);
        let payload = columns.next::<Json<_>>()?.0;
        let (submitter, attempt) = (columns.next()?, count(columns.next()?));
        Ok(Self {
            request: Request {
                id: RequestId(id),
                send_id: RequestId(send_id),
                kind,
                payload,
                attempt,
                attempts_max: attempt,
                submitter,
                // A search or an ask is no attempt.
                traceparent: None,
                deadline_at: columns.next()?,
                phases: Phases::read(&mut columns)?,
                lease_token: 0,
                cancellation: CancellationToken::new(),
            },
            timeout: from_milliseconds(columns.next::<i32>()?),
        })
    }
}

/// A request whose downstream is to be asked for its response.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The request, and the time limit of the ask.
    pub of: Search,
    /// The downstream's name for the request, if its receipt had one.
    pub reference: Option<String>,
}

impl FromRow<'_, PgRow> for Ask {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self { of: Search::from_row(row)?, reference: row.try_get("reference")? })
    }
}

/// What is not known of the ended requests of a kind; all kinds together counted up to 100,000.
#[derive(Debug, Clone, PartialEq, FromRow, Serialize)]
pub struct UnresolvedCounts {
    /// The kind, in snake case.
    pub kind: String,
    /// Its unresolved requests.
    pub unresolved: i64,
    /// The time since the oldest of them ended, in seconds; none: there is none.
    pub oldest_seconds: Option<f64>,
    /// Requests that two sources say different things about.
    pub contradicted: i64,
}

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
        run!(self, fetch_all query_as "unresolved"(kind, limit))
    }

    /// What is not known of ended requests, by kind; no row of a kind of which everything is known.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn unresolved_counts(&self) -> Result<Vec<UnresolvedCounts>> {
        run!(self, fetch_all query_as "unresolved_counts"())
    }

    /// Takes unresolved requests of these kinds whose receipts are to be searched for now: `tidegate.search_claim`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn search_claim(&self, kinds: &[String], batch: usize) -> Result<Vec<Search>> {
        let batch = i32::try_from(batch).unwrap_or(i32::MAX);
        run!(self, fetch_all query_as "search_claim"(kinds, batch))
    }

    /// Stores what a search has found, a receipt, or the downstream's promise never to execute the request:
    /// `tidegate.search_settle`. Of a response that cannot be stored, that it is there. Returns `resolved`, `recorded` or
    /// `dropped`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn search_settle(&self, id: RequestId, receipt: Option<&Receipt>) -> Result<String> {
        let reference = receipt.and_then(|receipt| receipt.reference.as_deref());
        let response = receipt.and_then(|receipt| receipt.response.as_ref());
        let settle = async |finding: &str, reference: Option<&str>, response: Option<&JsonText>| run!(self, fetch_one query_scalar "search_settle"(id.0, finding, reference, response));
        let found = receipt.map_or("never", |_| "receipt");
        let settled = match receipt.map_or(Ok(()), check_response) {
            Ok(()) => settle(found, reference, response).await,
            Err(unstorable) => Err(unstorable),
        };
        match settled {
            Err(StoreError::Unstorable(_)) if response.is_some() => settle("answered", None, None).await,
            settled => settled,
        }
    }

    /// Takes requests of these kinds whose downstream is to be asked for their response now: `tidegate.ask_claim`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn ask_claim(&self, kinds: &[String], batch: usize) -> Result<Vec<Ask>> {
        let batch = i32::try_from(batch).unwrap_or(i32::MAX);
        run!(self, fetch_all query_as "ask_claim"(kinds, batch))
    }

    /// Notes that there is no response to a request yet, and how long the downstream asks to wait: `tidegate.ask_settle`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn ask_settle(&self, id: RequestId, after: Option<Duration>) -> Result<()> {
        let after = after.map(|after| after.as_secs_f64());
        run!(self, execute query "ask_settle"(id.0, after)).map(drop)
    }

    /// Says whether a request was executed, and how that is known: `tidegate.resolve`. As an operator, or for the
    /// downstream, which is believed rather than an operator.
    ///
    /// # Errors
    ///
    /// Unknown request id, a note that is too long, a database error.
    pub async fn resolve(
        &self,
        id: RequestId,
        executed: Executed,
        note: Option<&str>,
        by_downstream: bool,
    ) -> Result<Resolved> {
        let (outcome, status, known, source): (String, Status, Option<Executed>, Option<String>) = run!(
            self,
            fetch_one query_as "resolve"(id.0, executed.as_str(), note, self.actor.as_deref(), by_downstream)
        )?;
        Ok(match (&*outcome, known, source) {
            ("resolved", ..) => Resolved::Resolved,
            ("known", ..) => Resolved::Known,
            (_, Some(executed), Some(source)) => Resolved::Kept { executed, source },
            _ => Resolved::NotUnresolved(status),
        })
    }
}
