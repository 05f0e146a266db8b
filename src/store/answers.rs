//! The downstream's responses, and ends by hand.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::{FromRow, PgConnection, types::Json};
use uuid::Uuid;

use super::{PageQuery, Store};
use crate::{
    error::{Result, StoreError},
    request::{JsonText, RequestError, RequestId, Status},
};

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/answers.sql");

/// A response, share or verdict of the downstream; as JSON, the body of `POST /v1/responses`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Response {
    /// The request, when the downstream knows it.
    #[serde(rename = "job_id", skip_serializing_if = "Option::is_none")]
    pub id: Option<RequestId>,
    /// The reference of its receipt, otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Which share this is, for requests that collect several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The verdict, for proofs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept: Option<bool>,
    /// The response itself, as JSON text.
    pub response: JsonText,
}

/// The outcome of a response.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
#[non_exhaustive]
pub struct Responded {
    /// The request it was for; none when the receipt with its reference has not come yet.
    #[sqlx(rename = "request_id")]
    pub id: Option<RequestId>,
    /// The request's status now.
    pub status: Option<Status>,
    /// `completed`, `rejected`, `stored`, `duplicate`, `early` or `late`.
    pub outcome: String,
}

/// A row of `respond_many`.
#[derive(FromRow)]
struct OneOfMany {
    #[sqlx(flatten)]
    responded: Responded,
    refusal: Option<String>,
}

impl OneOfMany {
    fn into_result(self) -> Result<Responded> {
        let request = self.responded.id.map(|id| id.to_string()).unwrap_or_default();
        match self.responded.outcome.as_str() {
            "unknown" => Err(StoreError::UnknownRequest(format!("there is no request {request}"))),
            "misfit" => Err(StoreError::Misuse(format!("request {request}: {}", self.refusal.unwrap_or_default()))),
            _ => Ok(self.responded),
        }
    }
}

/// The outcome of a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// It will not be sent, or not again.
    Cancelled,
    /// A worker is sending it; unless that succeeds, it ends as cancelled.
    Cancelling,
    /// The downstream took it, or it has ended.
    NotCancellable(Status),
    /// There is no such request.
    Unknown,
}

/// One batch of `cancel_requests`.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct CancelStep {
    /// Requests that have ended (or would).
    pub cancelled: i64,
    /// Requests that are being sent, and end as cancelled unless that succeeds.
    pub cancelling: i64,
    /// Both, those that have ended first.
    pub ids: Vec<Uuid>,
    /// The begin of the next batch; none after the last one.
    #[sqlx(rename = "next_before")]
    pub next: Option<Uuid>,
}

/// The outcome of a failure by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failed {
    /// It has failed now.
    Failed,
    /// It had ended before.
    Ended(Status),
    /// There is no such request.
    Unknown,
}

impl Store {
    /// Stores a response of the downstream: `tidegate.respond`.
    ///
    /// # Errors
    ///
    /// Unknown request id, a response that does not fit the request's flow, a database error.
    pub async fn respond(&self, response: &Response) -> Result<Responded> {
        self.respond_within(None, response, None).await
    }

    /// Stores several responses, 1000 at most: `tidegate.respond_many`. Each has a result of its own, in their order. It
    /// waits for a lock as long as `lock_patience` allows.
    ///
    /// # Errors
    ///
    /// A database error, which is one for all; a lock was waited for too long (SQLSTATE 55P03). Of a single response:
    /// unknown request id, or it does not fit the request's flow.
    pub async fn respond_many(
        &self,
        responses: &[Response],
        lock_patience: Option<Duration>,
    ) -> Result<Vec<Result<Responded>>> {
        // A single one costs less without the preparations for several.
        if let [response] = responses {
            return match self.respond_within(None, response, lock_patience).await {
                Err(error @ (StoreError::UnknownRequest(_) | StoreError::Misuse(_))) => Ok(vec![Err(error)]),
                other => Ok(vec![Ok(other?)]),
            };
        }
        self.respond_many_within(None, responses, lock_patience).await
    }

    /// [`respond_many`](Self::respond_many) in a transaction of the caller's, if there is one.
    pub(crate) async fn respond_many_within(
        &self,
        transaction: Option<&mut PgConnection>,
        responses: &[Response],
        lock_patience: Option<Duration>,
    ) -> Result<Vec<Result<Responded>>> {
        fn each<T>(responses: &[Response], member: fn(&Response) -> Option<T>) -> Option<Vec<Option<T>>> {
            let members: Vec<_> = responses.iter().map(member).collect();
            members.iter().any(Option::is_some).then_some(members)
        }
        let contents: Vec<_> = responses.iter().map(|response| Json(&response.response)).collect();
        let ids = each(responses, |response| response.id.map(|id| id.0));
        let references = each(responses, |response| response.reference.clone());
        let parts = each(responses, |response| response.part.clone());
        let accepts = each(responses, |response| response.accept);
        let query = sqlx::query_as(statement!("respond_many"))
            .bind(contents)
            .bind(ids)
            .bind(references)
            .bind(parts)
            .bind(accepts)
            .bind(lock_patience.map(milliseconds));
        let results: Vec<OneOfMany> = match transaction {
            None => run!(self, query, fetch_all)?,
            Some(transaction) => {
                let results = query.fetch_all(transaction).await;
                self.errors.record(results.map_err(StoreError::from), &self.pool)?
            }
        };
        Ok(results.into_iter().map(OneOfMany::into_result).collect())
    }

    /// [`respond`](Self::respond) in a transaction of the caller's, if there is one.
    pub(crate) async fn respond_within(
        &self,
        transaction: Option<&mut PgConnection>,
        response: &Response,
        lock_patience: Option<Duration>,
    ) -> Result<Responded> {
        let query = sqlx::query_as(statement!("respond"))
            .bind(&response.response)
            .bind(response.id.map(|id| id.0))
            .bind(&response.reference)
            .bind(&response.part)
            .bind(response.accept)
            .bind(lock_patience.map(milliseconds));
        let Some(transaction) = transaction else {
            return run!(self, query, fetch_one);
        };
        let responded = query.fetch_one(transaction).await;
        self.errors.record(responded.map_err(StoreError::from), &self.pool)
    }

    /// Fails a request that awaits its response: `tidegate.fail_receipt`, of an id or of a receipt's reference. Returns
    /// the request; none: none awaits a response there.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn fail_receipt(
        &self,
        id: Option<RequestId>,
        reference: Option<&str>,
        error: &RequestError,
    ) -> Result<Option<RequestId>> {
        run!(self, fetch_optional query_scalar "fail_receipt"(id.map(|id| id.0), reference, error.to_json()))
    }

    /// Cancels a request that waits, or ends one that is being sent unless that succeeds: `tidegate.cancel`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn cancel(&self, id: RequestId) -> Result<Cancelled> {
        let (outcome, status): (String, Option<Status>) = run!(self, fetch_one query_as "cancel"(id.0))?;
        Ok(match (outcome.as_str(), status) {
            ("cancelled", _) => Cancelled::Cancelled,
            ("cancelling", _) => Cancelled::Cancelling,
            (_, Some(status)) => Cancelled::NotCancellable(status),
            (_, None) => Cancelled::Unknown,
        })
    }

    /// Cancels one bounded batch of the requests that a query names, or those with these ids, as
    /// [`cancel`](Self::cancel) does: `tidegate.cancel_requests`. With `dry_run` it only counts.
    ///
    /// # Errors
    ///
    /// A query that names nothing, or statuses that cannot be cancelled; unknown kind or queue, a database error.
    pub async fn cancel_requests(&self, query: &PageQuery, ids: Option<&[Uuid]>, dry_run: bool) -> Result<CancelStep> {
        run!(self, fetch_one query_as "cancel_requests"(
            &query.kind, query.states(), query.since, query.until, &query.submitter, &query.queue, query.before,
            query.limit, dry_run, ids
        ))
    }

    /// Ends a live request as an internal error, for a reason that its caller receives: `tidegate.fail_request`.
    ///
    /// # Errors
    ///
    /// A reason that is empty or too long, a database error.
    pub async fn fail_request(&self, id: RequestId, reason: &str) -> Result<Failed> {
        let (outcome, status): (String, Option<Status>) =
            run!(self, fetch_one query_as "fail_request"(id.0, reason, self.actor.as_deref()))?;
        Ok(match (outcome.as_str(), status) {
            ("failed", _) => Failed::Failed,
            (_, Some(status)) => Failed::Ended(status),
            (_, None) => Failed::Unknown,
        })
    }
}

fn milliseconds(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}
