//! Submissions of one request, or of several.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgConnection, Row, postgres::PgRow, types::Json};

use super::{Store, outlooks::Eta};
use crate::{
    error::{Result, StoreError},
    request::{JsonText, RequestId, Status},
    retry_after::RetryAfter,
};

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/submissions.sql");

/// Whether the gates may refuse a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Admission {
    /// They may.
    #[default]
    Enforce,
    /// They may not: the work was accepted before.
    Accepted,
}

impl Admission {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Accepted => "accepted",
        }
    }
}

/// What a key means that stands for a request already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SameKey {
    /// The same request if the payload is the same, else a mistake.
    #[default]
    Compare,
    /// The same request, whatever the payload.
    Replay,
}

impl SameKey {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Compare => "compare",
            Self::Replay => "replay",
        }
    }
}

/// One request to submit.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The kind, in snake case.
    pub kind: String,
    /// The payload, as JSON text.
    pub payload: JsonText,
    /// The caller's key: the same key and payload within the window is the same request.
    pub idempotency_key: Option<String>,
    /// Whether the key decides alone.
    pub same_key: SameKey,
    /// The submitter.
    pub submitter: Option<String>,
    /// Whether the gates may refuse it.
    pub admission: Admission,
    /// The earliest start.
    pub not_before: Option<DateTime<Utc>>,
    /// Its place in its caller's trace: a `traceparent` of W3C Trace Context. An invalid one is ignored.
    pub traceparent: Option<String>,
    /// Where its end is delivered: a URL of a host that an operator has allowed. A replay keeps that of the first.
    pub callback_url: Option<String>,
}

impl Submission {
    /// One without a key or a submitter, which gates may refuse.
    #[must_use]
    pub fn new(kind: impl Into<String>, payload: JsonText) -> Self {
        Self {
            kind: kind.into(),
            payload,
            idempotency_key: None,
            same_key: SameKey::default(),
            submitter: None,
            admission: Admission::default(),
            not_before: None,
            traceparent: None,
            callback_url: None,
        }
    }
}

/// The requests of a group. What is `None` no request has; else there is one for each.
#[derive(Debug, Clone, Copy, Default)]
pub struct GroupRequests<'a> {
    /// The payloads.
    pub payloads: &'a [JsonText],
    /// The callers' keys.
    pub idempotency_keys: Option<&'a [Option<String>]>,
    /// The submitters.
    pub submitters: Option<&'a [Option<String>]>,
    /// The places in their callers' traces.
    pub traceparents: Option<&'a [Option<String>]>,
    /// Where their ends are delivered.
    pub callback_urls: Option<&'a [Option<String>]>,
}

/// What the requests of a group have in common.
#[derive(Debug, Clone, Copy, Default)]
pub struct GroupTerms {
    /// Whether keys decide alone.
    pub same_key: SameKey,
    /// Whether the gates may refuse them.
    pub admission: Admission,
    /// The earliest start.
    pub not_before: Option<DateTime<Utc>>,
    /// The limit of the wait for a key of another transaction.
    pub key_patience: Option<Duration>,
}

/// The status and the ETA of a submitted request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ticket {
    /// The request, its caller's job id.
    pub id: RequestId,
    /// Its status.
    pub status: Status,
    /// How many waiting messages stand before it, when it is in a queue.
    pub position: Option<i64>,
    /// When to ask again; `None` when it has ended, and for the replays of a group, whose callers poll.
    pub eta: Option<Eta>,
}

/// The outcome of a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submitted {
    /// A new request.
    Accepted(Ticket),
    /// The earlier request of the same idempotency key.
    Replayed(Ticket),
    /// The gate is closed; nothing was stored.
    Refused {
        /// When to submit again.
        retry_after: RetryAfter,
    },
}

impl FromRow<'_, PgRow> for Submitted {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let (Some(id), Some(status)) = (row.try_get("id")?, row.try_get("status")?) else {
            let retry_after: Option<_> = row.try_get("retry_after_seconds")?;
            return Ok(Self::Refused { retry_after: retry_after.unwrap_or(RetryAfter::SOON) });
        };
        let ticket = Ticket { id, status, position: row.try_get("queue_position")?, eta: Eta::from_row(row, status)? };
        Ok(match row.try_get("outcome")? {
            "replayed" => Self::Replayed(ticket),
            _ => Self::Accepted(ticket),
        })
    }
}

impl Store {
    /// Submits one request: `tidegate.submit`, or `tidegate.submit_with_callback`.
    ///
    /// # Errors
    ///
    /// Unknown kind, kind without nominal times, key reused with another payload, a database error;
    /// [`CallbackRefused`](StoreError::CallbackRefused) for a callback URL that is not allowed.
    pub async fn submit(&self, submission: &Submission) -> Result<Submitted> {
        self.submit_within(None, submission, None).await
    }

    /// [`submit`](Self::submit) in a transaction of the caller's, if there is one, to start after a delay by the
    /// database's clock.
    pub(crate) async fn submit_within(
        &self,
        transaction: Option<&mut PgConnection>,
        submission: &Submission,
        delay: Option<Duration>,
    ) -> Result<Submitted> {
        let sql = match submission.callback_url {
            None => statement!("submit"),
            Some(_) => statement!("submit_with_callback"),
        };
        let query = sqlx::query_as(sql)
            .bind(&submission.kind)
            .bind(&submission.payload)
            .bind(&submission.idempotency_key)
            .bind(&submission.submitter)
            .bind(submission.admission.as_str())
            .bind(submission.not_before)
            .bind(delay.map(|delay| delay.as_secs_f64()))
            .bind(submission.same_key.as_str())
            .bind(&submission.traceparent);
        let query = match &submission.callback_url {
            None => query,
            Some(url) => query.bind(url),
        };
        let Some(transaction) = transaction else {
            return run!(self, query, fetch_one);
        };
        let submitted = query.fetch_one(transaction).await;
        self.errors.record(submitted.map_err(StoreError::from), &self.pool)
    }

    /// Submits several requests of one kind, all or none: `tidegate.submit_batch`. While a gate is closed, a batch with
    /// a new request in it is refused whole.
    ///
    /// # Errors
    ///
    /// As [`Store::submit`].
    pub async fn submit_batch(
        &self,
        kind: &str,
        payloads: &[JsonText],
        idempotency_keys: Option<&[Option<String>]>,
        submitter: Option<&str>,
        admission: Admission,
        traceparent: Option<&str>,
    ) -> Result<Vec<Submitted>> {
        let payloads: Vec<_> = payloads.iter().map(Json).collect();
        run!(self, fetch_all query_as "submit_batch"(
            kind, payloads, idempotency_keys, submitter, admission.as_str(), traceparent
        ))
    }

    /// Submits independent requests of one kind: `tidegate.submit_group`. While a gate is
    /// closed, each is refused or replayed by itself; an error is still an error for all.
    ///
    /// # Errors
    ///
    /// As [`Store::submit`]; of several submitters, one has a quota; a key was waited for too long
    /// (SQLSTATE 55P03).
    pub async fn submit_group(
        &self,
        kind: &str,
        requests: GroupRequests<'_>,
        terms: GroupTerms,
    ) -> Result<Vec<Submitted>> {
        let patience_ms = terms.key_patience.map(|time| i32::try_from(time.as_millis()).unwrap_or(i32::MAX));
        let payloads: Vec<_> = requests.payloads.iter().map(Json).collect();
        run!(self, fetch_all query_as "submit_group"(
            kind, payloads, requests.idempotency_keys, requests.submitters, terms.not_before, patience_ms,
            terms.admission.as_str(), terms.same_key.as_str(), requests.traceparents, requests.callback_urls
        ))
    }

    /// Submits several requests of one kind, all or none, under one key: `tidegate.submit_batch_once`.
    ///
    /// # Errors
    ///
    /// As [`Store::submit`].
    pub async fn submit_batch_once(
        &self,
        kind: &str,
        payloads: &[JsonText],
        idempotency_key: &str,
        submitter: Option<&str>,
        admission: Admission,
        traceparent: Option<&str>,
    ) -> Result<Vec<Submitted>> {
        let payloads: Vec<_> = payloads.iter().map(Json).collect();
        run!(self, fetch_all query_as "submit_batch_once"(
            kind, payloads, idempotency_key, submitter, admission.as_str(), traceparent
        ))
    }
}
