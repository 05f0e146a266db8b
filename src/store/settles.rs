//! Settles, and the transaction in which an embedder writes the effects of receipts. Each settle returns the requests
//! that moved; the lease of any other was lost.

use std::{borrow::Borrow, time::Duration};

use sqlx::{FromRow, PgConnection, Postgres, postgres::PgArguments, query::QueryAs};
use uuid::Uuid;

use super::{Lease, Moved, Store, columns::milliseconds};
use crate::{
    error::{Result, StoreError},
    json_text::objection,
    request::{RequestError, RequestId},
    stage::Receipt,
};

/// An outcome with the lease it settles, and figures of its call.
#[derive(Debug, Clone, PartialEq)]
pub struct Settle<T> {
    /// The lease of the request.
    pub lease: Lease,
    /// The outcome.
    pub outcome: T,
    /// How long the stage's call took; none: as long as the lease is held.
    pub took: Option<Duration>,
    /// Calls that were made beyond the first, to hedge it.
    pub hedges: u32,
}

impl<T> Settle<T> {
    /// An outcome without figures of its call.
    pub const fn new(lease: Lease, outcome: T) -> Self {
        Self { lease, outcome, took: None, hedges: 0 }
    }

    /// The same call with another outcome.
    pub(crate) const fn with<U>(&self, outcome: U) -> Settle<U> {
        Settle { lease: self.lease, outcome, took: self.took, hedges: self.hedges }
    }
}

/// A check that snoozes its request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snooze {
    /// The wait that the dependency asks for.
    pub after: Option<Duration>,
    /// Why the check itself failed; none: it has answered no.
    pub error: Option<RequestError>,
}

/// A send that is worth another attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Why this one did not succeed.
    pub error: RequestError,
    /// The wait that the downstream asks for.
    pub after: Option<Duration>,
    /// Whether the request may have left.
    pub may_have_left: bool,
}

/// A request whose readiness check passed.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Passed {
    /// The request.
    pub id: RequestId,
    /// The tx queue it is in now.
    pub queue: String,
    /// Whether that queue was empty before, so that its workers may be asleep.
    pub wake: bool,
}

type Query<'q> = QueryAs<'q, Postgres, Moved, PgArguments>;

/// Lease tokens, ids, how long calls took in milliseconds, and how often they were hedged.
type Columns = (Vec<i64>, Vec<Uuid>, Vec<Option<i32>>, Vec<i32>);

/// The columns that all settles have.
fn columns<T>(settles: &[Settle<T>]) -> Columns {
    let milliseconds = |took: Duration| i32::try_from(took.as_millis()).unwrap_or(i32::MAX);
    let row = |Settle { lease, took, hedges, .. }: &Settle<T>| {
        let hedges = i32::try_from(*hedges).unwrap_or(i32::MAX);
        (lease.token, lease.id, took.map(milliseconds), hedges)
    };
    settles.iter().map(row).collect()
}

/// One column of outcomes.
fn column<'a, T, V>(settles: &'a [Settle<T>], value: impl Fn(&'a T) -> V) -> Vec<V> {
    settles.iter().map(|settle| value(&settle.outcome)).collect()
}

fn receipt_query<'q, R: Borrow<Receipt>>(queue: &'q str, settles: &'q [Settle<R>]) -> Query<'q> {
    let (tokens, ids, took, hedges) = columns(settles);
    sqlx::query_as(statement!("settle_receipt.sql"))
        .bind(queue)
        .bind(tokens)
        .bind(ids)
        .bind(column(settles, |receipt| receipt.borrow().reference.as_deref()))
        .bind(column(settles, |receipt| receipt.borrow().response.as_ref()))
        .bind(took)
        .bind(hedges)
}

/// Refuses a response that HTTP refuses, too: no poll could return it.
pub(super) fn check_response(receipt: &Receipt) -> Result<()> {
    let response = receipt.response.as_ref();
    match response.and_then(|response| objection(response.get().as_bytes())) {
        None => Ok(()),
        Some(why) => Err(StoreError::Unstorable(why)),
    }
}

impl Store {
    /// `tidegate.settle_passed`: queued → processing.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn settle_passed<T>(&self, queue: &str, settles: &[Settle<T>]) -> Result<Vec<Passed>> {
        let (tokens, ids, took, hedges) = columns(settles);
        run!(self, fetch_all query_as "settle_passed.sql"(queue, tokens, ids, took, hedges))
    }

    /// `tidegate.settle_snooze`: checked again after the given wait, or that of the policy.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn settle_snooze<T: Borrow<Snooze>>(&self, queue: &str, settles: &[Settle<T>]) -> Result<Vec<Moved>> {
        let (tokens, ids, took, hedges) = columns(settles);
        run!(self, fetch_all query_as "settle_snooze.sql"(
            queue, tokens, ids,
            column(settles, |snooze| snooze.borrow().after.map(milliseconds)),
            column(settles, |snooze| snooze.borrow().error.as_ref().map(RequestError::to_json)),
            took, hedges
        ))
    }

    /// `tidegate.settle_failed`: queued → failure.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn settle_failed<T: Borrow<RequestError>>(
        &self,
        queue: &str,
        settles: &[Settle<T>],
    ) -> Result<Vec<Moved>> {
        let (tokens, ids, took, hedges) = columns(settles);
        let errors = column(settles, |error| error.borrow().to_json());
        run!(self, fetch_all query_as "settle_failed.sql"(queue, tokens, ids, errors, took, hedges))
    }

    /// `tidegate.settle_rejected`: `tx_in_flight` → failure.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn settle_rejected<T: Borrow<RequestError>>(
        &self,
        queue: &str,
        settles: &[Settle<T>],
    ) -> Result<Vec<Moved>> {
        let (tokens, ids, took, hedges) = columns(settles);
        let errors = column(settles, |error| error.borrow().to_json());
        run!(self, fetch_all query_as "settle_rejected.sql"(queue, tokens, ids, errors, took, hedges))
    }

    /// `tidegate.settle_receipt`: `tx_in_flight` → `receipt_received`, or completed for a `direct` receipt with
    /// response.
    ///
    /// # Errors
    ///
    /// A response that cannot be stored, a database error.
    pub async fn settle_receipt<T: Borrow<Receipt>>(&self, queue: &str, settles: &[Settle<T>]) -> Result<Vec<Moved>> {
        settles.iter().try_for_each(|settle| check_response(settle.outcome.borrow()))?;
        run!(self, receipt_query(queue, settles), fetch_all)
    }

    /// [`settle_receipt`](Self::settle_receipt) in a transaction of the caller's. A write for each returned request in
    /// the same transaction is there exactly once for each request that moved. The messages and rows stay locked until
    /// the commit.
    ///
    /// # Errors
    ///
    /// A response that cannot be stored, a database error. The transaction is lost then.
    pub async fn settle_receipt_in<R: Borrow<Receipt>>(
        &self,
        transaction: &mut PgConnection,
        queue: &str,
        settles: &[Settle<R>],
    ) -> Result<Vec<Moved>> {
        settles.iter().try_for_each(|settle| check_response(settle.outcome.borrow()))?;
        let moved = receipt_query(queue, settles).fetch_all(transaction).await;
        self.errors.record(moved.map_err(StoreError::from), &self.pool)
    }

    /// `tidegate.settle_retry`: `tx_in_flight` → processing, or failure when no attempt is left.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn settle_retry<T: Borrow<Retry>>(&self, queue: &str, settles: &[Settle<T>]) -> Result<Vec<Moved>> {
        let (tokens, ids, took, hedges) = columns(settles);
        run!(self, fetch_all query_as "settle_retry.sql"(
            queue, tokens, ids,
            column(settles, |retry| retry.borrow().error.to_json()),
            column(settles, |retry| retry.borrow().after.map(milliseconds)),
            column(settles, |retry| retry.borrow().may_have_left),
            took, hedges
        ))
    }

    /// Returns the id of a transaction that has begun, and limits each of its statements to `limit`.
    pub(crate) async fn begin_effects(&self, transaction: &mut PgConnection, limit: Duration) -> Result<String> {
        let begun = sqlx::query_scalar(statement!("effects_begin.sql"))
            .bind(milliseconds(limit).max(1))
            .fetch_one(transaction)
            .await;
        self.errors.record(begun.map_err(StoreError::from), &self.pool)
    }

    /// Makes sure that the transaction is still the same: after an end of it each statement would commit by itself; and
    /// that it has not failed: PostgreSQL answers the commit of a failed one without an error.
    pub(crate) async fn check_effects(&self, transaction: &mut PgConnection, begun: &str) -> Result<()> {
        let query = sqlx::query_scalar(statement!("effects_check.sql"));
        let now: Option<String> = query.fetch_one(transaction).await?;
        if now.as_deref() == Some(begun) {
            return Ok(());
        }
        Err(StoreError::Misuse("the effect has ended the transaction of its receipt".to_owned()))
    }
}
