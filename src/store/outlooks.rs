//! Outlooks: the status and place of a request with their reasons, and when to ask again.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use sqlx::{FromRow, Row, postgres::PgRow, types::Json};

use super::{Resolution, Store, columns::from_milliseconds};
use crate::{
    error::Result,
    request::{Executed, JsonText, RequestError, RequestId, Status},
    retry_after::RetryAfter,
};

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/outlooks.sql");

/// When to ask for a request again, and when its answer is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Eta {
    /// When to ask again.
    pub retry_after: RetryAfter,
    /// The median time until the answer; known for observed ETAs.
    pub p50: Option<Duration>,
    /// The time until the answer with a probability of 90 %; known for observed ETAs.
    pub p90: Option<Duration>,
}

impl Eta {
    /// That of the request which is expected to end last; `None` of none. With the jitter of that one: the maximum over
    /// all jitters would be nearly the same for every batch.
    #[must_use]
    pub fn last(etas: &[Self]) -> Option<Self> {
        let all_observed = etas.iter().all(|eta| eta.p50.is_some());
        let last = etas.iter().max_by_key(|eta| (eta.p50.filter(|_| all_observed), eta.retry_after));
        last.copied()
    }

    /// `None` when the request has ended, or the row has no time.
    pub(super) fn from_row(row: &PgRow, status: Status) -> sqlx::Result<Option<Self>> {
        let retry_after: Option<RetryAfter> = row.try_get("retry_after_seconds")?;
        let in_time = |column| Ok::<_, sqlx::Error>(row.try_get::<Option<i64>, _>(column)?.map(from_milliseconds));
        let (p50, p90) = (in_time("eta_p50_ms")?, in_time("eta_p90_ms")?);
        let eta = retry_after.map(|retry_after| Self { retry_after, p50, p90 });
        Ok(eta.filter(|_| !status.is_terminal()))
    }
}

/// The answer to a poll of one request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Outlook {
    /// The request.
    pub id: RequestId,
    /// Its kind, in snake case.
    pub kind: String,
    /// Its status.
    pub status: Status,
    /// `readiness_queue`, `checking`, `tx_queue`, `tx_in_flight`, `awaiting_response` or `finished`.
    pub place: String,
    /// The queue it is in.
    pub queue: Option<String>,
    /// How many waiting messages stand before it.
    pub position: Option<i64>,
    /// Time in the current status; of one that has ended, since then.
    pub elapsed: Duration,
    /// When to ask again; `None` when it has ended.
    pub eta: Option<Eta>,
    /// When it was submitted.
    pub submitted_at: DateTime<Utc>,
    /// When it ended, if it has.
    pub finished_at: Option<DateTime<Utc>>,
    /// The response, when it has one.
    pub response: Option<JsonText>,
    /// The error of a request that ended in one; while it is live, that of its last check or send, if that has failed.
    pub error: Option<RequestError>,
    /// The error of its last check or send, if a deadline, its attempts or an operator ended it after that had failed.
    pub last_error: Option<RequestError>,
    /// Whether it is being sent, and ends as cancelled unless that succeeds.
    pub cancelling: bool,
    /// Whether the downstream has executed it, once it has ended.
    pub executed: Option<Executed>,
    /// What is known of one that failed or timed out after a send that may have been executed.
    pub resolution: Option<Resolution>,
    /// Its submitter.
    pub submitter: Option<String>,
    /// Whether submitters share the keys of its kind, and so its requests.
    pub is_shared: bool,
    /// The request as which it was submitted again, after it had failed.
    pub redriven_as: Option<RequestId>,
}

impl FromRow<'_, PgRow> for Outlook {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let status = row.try_get("status")?;
        Ok(Self {
            id: row.try_get("id")?,
            kind: row.try_get("kind")?,
            status,
            place: row.try_get("place")?,
            queue: row.try_get("queue")?,
            position: row.try_get("queue_position")?,
            elapsed: Duration::try_from_secs_f64(row.try_get("elapsed_seconds")?).unwrap_or_default(),
            eta: Eta::from_row(row, status)?,
            submitted_at: row.try_get("submitted_at")?,
            finished_at: row.try_get("finished_at")?,
            response: row.try_get("response")?,
            error: row.try_get("error")?,
            last_error: row.try_get("last_error")?,
            cancelling: row.try_get("cancelling")?,
            executed: row.try_get("executed")?,
            resolution: row.try_get::<Option<Json<_>>, _>("resolution")?.map(|json| json.0),
            submitter: row.try_get("submitter")?,
            is_shared: row.try_get("is_shared")?,
            redriven_as: row.try_get("redriven_as")?,
        })
    }
}

/// What a submission would be told now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quote {
    /// The gates admit it.
    Accepted {
        /// How many waiting messages would be before it.
        position: i64,
        /// When to ask for the answer.
        eta: Eta,
    },
    /// A gate refuses it.
    Refused {
        /// When to submit it again.
        retry_after: RetryAfter,
    },
}

impl FromRow<'_, PgRow> for Quote {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let retry_after = row.try_get("retry_after_seconds")?;
        if row.try_get::<&str, _>("outcome")? == "refused" {
            return Ok(Self::Refused { retry_after });
        }
        let in_time = |column| Ok::<_, sqlx::Error>(row.try_get::<Option<i64>, _>(column)?.map(from_milliseconds));
        let eta = Eta { retry_after, p50: in_time("eta_p50_ms")?, p90: in_time("eta_p90_ms")? };
        Ok(Self::Accepted { position: row.try_get("queue_position")?, eta })
    }
}

/// The kind and the submitter of a request.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Owner {
    /// Its kind.
    pub kind: String,
    /// Its submitter.
    pub submitter: Option<String>,
}

/// One reason: a code for programs, a sentence for people, and the figures in it.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct Reason {
    /// Such as `paused`.
    pub reason: String,
    /// A sentence for people.
    pub sentence: String,
    /// The figures of the sentence, by name.
    pub figures: Value,
}

impl Store {
    /// Where a request stands; `None` for an unknown id.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn outlook(&self, id: RequestId) -> Result<Option<Outlook>> {
        Ok(self.outlooks(&[id]).await?.pop().flatten())
    }

    /// Where each of these requests stands, in one statement: `tidegate.request_outlooks`; `None` for an unknown id.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn outlooks(&self, ids: &[RequestId]) -> Result<Vec<Option<Outlook>>> {
        let known: Vec<_> = ids.iter().map(|id| (*id, None)).collect();
        let progress = self.progress(&known).await?;
        Ok(progress.into_iter().map(|found| Some(found?.outlook)).collect())
    }

    /// What a submission of this kind would be told now: `tidegate.quote`.
    ///
    /// # Errors
    ///
    /// [`StoreError::UnknownKind`](crate::error::StoreError::UnknownKind), missing nominal times, a database error.
    pub async fn quote(&self, kind: &str, submitter: Option<&str>) -> Result<Quote> {
        run!(self, fetch_one query_as "quote"(kind, submitter))
    }

    /// The kind and the submitter of a request; `None` for an unknown id. Reads no more than that.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn owner(&self, id: RequestId) -> Result<Option<Owner>> {
        run!(self, fetch_optional query_as "request_owner"(id.0))
    }

    /// The reasons of a request's status and place, the decisive one first: `tidegate.explain`.
    ///
    /// # Errors
    ///
    /// [`StoreError::UnknownRequest`](crate::error::StoreError::UnknownRequest), a database error.
    pub async fn explain(&self, id: RequestId) -> Result<Vec<Reason>> {
        run!(self, fetch_all query_as "explain"(id.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_retry_after_of_a_batch_is_that_of_its_last_request_whatever_the_jitter_of_the_others() {
        let etas = [(60, 90), (62, 70), (61, 80)].map(|(p50, seconds)| Eta {
            retry_after: RetryAfter::seconds(seconds),
            p50: Some(Duration::from_secs(p50)),
            p90: None,
        });
        assert_eq!(Eta::last(&etas).unwrap().retry_after, RetryAfter::seconds(70));
    }
}
