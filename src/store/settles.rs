//! Reporting outcomes. Each method returns what moved: a request that is missing was not this holder's any more.

use std::{borrow::Borrow, time::Duration};

use sqlx::{FromRow, PgConnection, Postgres, postgres::PgArguments, query::QueryAs};
use uuid::Uuid;

use super::{
    Lease, Store,
    leases::{columns, milliseconds},
    words::decode,
};
use crate::{
    error::StoreError,
    request::{RequestError, RequestId, Status},
    stage::Receipt,
};

/// An outcome with the lease it settles, and what its call was like.
#[derive(Debug, Clone, PartialEq)]
pub struct Settle<T> {
    /// The hold on the request.
    pub lease: Lease,
    /// What became of it.
    pub outcome: T,
    /// How long the stage's call took; none: as long as the lease is held.
    pub took: Option<Duration>,
    /// Calls that were made beyond the first, to hedge it.
    pub hedges: u32,
}

impl<T> Settle<T> {
    /// An outcome of which nothing else is known.
    pub const fn new(lease: Lease, outcome: T) -> Self {
        Self {
            lease,
            outcome,
            took: None,
            hedges: 0,
        }
    }

    /// The same call with another outcome.
    pub(crate) fn with<U>(self, outcome: U) -> Settle<U> {
        Settle {
            lease: self.lease,
            outcome,
            took: self.took,
            hedges: self.hedges,
        }
    }
}

/// A check that did not let its request pass, for now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snooze {
    /// The dependency's own wish when to ask again.
    pub after: Option<Duration>,
    /// Why the check itself failed; none: it has said no.
    pub error: Option<RequestError>,
}

/// A send that is worth another attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Why this one did not succeed.
    pub error: RequestError,
    /// The downstream's own wish when to try again.
    pub after: Option<Duration>,
    /// Whether the request may have left.
    pub may_have_left: bool,
}

/// A request that moved, and where it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// The request.
    pub id: RequestId,
    /// Its status now.
    pub status: Status,
}

#[derive(FromRow)]
pub(super) struct MovedRow {
    id: Uuid,
    status: String,
}

impl TryFrom<MovedRow> for Moved {
    type Error = StoreError;

    fn try_from(row: MovedRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: RequestId(row.id),
            status: decode(row.status)?,
        })
    }
}

/// A request whose readiness check passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// The request.
    pub id: RequestId,
    /// The tx queue it is in now.
    pub queue: String,
    /// Whether nothing waited in that queue before, so that its workers may be asleep.
    pub wake: bool,
}

fn moved(rows: Vec<MovedRow>) -> Result<Vec<Moved>, StoreError> {
    rows.into_iter().map(TryInto::try_into).collect()
}

type Query<'q> = QueryAs<'q, Postgres, MovedRow, PgArguments>;

/// The leases of outcomes, in columns.
fn leases<T>(settles: &[Settle<T>]) -> (Vec<i64>, Vec<Uuid>) {
    let leases: Vec<_> = settles.iter().map(|settle| settle.lease).collect();
    columns(&leases)
}

/// One column of outcomes.
fn column<'a, T, V>(settles: &'a [Settle<T>], value: impl Fn(&'a T) -> V) -> Vec<V> {
    settles.iter().map(|settle| value(&settle.outcome)).collect()
}

/// How long calls took, in milliseconds.
fn took<T>(settles: &[Settle<T>]) -> Vec<Option<i32>> {
    settles
        .iter()
        .map(|settle| {
            settle
                .took
                .map(|took| i32::try_from(took.as_millis()).unwrap_or(i32::MAX))
        })
        .collect()
}

fn hedges<T>(settles: &[Settle<T>]) -> Vec<i32> {
    settles
        .iter()
        .map(|settle| i32::try_from(settle.hedges).unwrap_or(i32::MAX))
        .collect()
}

fn receipt_query<'q, R: Borrow<Receipt>>(queue: &'q str, settles: &'q [Settle<R>]) -> Query<'q> {
    let (tokens, ids) = leases(settles);
    sqlx::query_as(include_str!("../../sql/queries/settle_receipt.sql"))
        .bind(queue)
        .bind(tokens)
        .bind(ids)
        .bind(column(settles, |receipt| receipt.borrow().reference.as_deref()))
        .bind(column(settles, |receipt| receipt.borrow().response.as_ref()))
        .bind(took(settles))
        .bind(hedges(settles))
}

impl Store {
    /// `tidegate.settle_passed`: queued → processing.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn settle_passed(&self, queue: &str, settles: &[Settle<()>]) -> Result<Vec<Passed>, StoreError> {
        let (tokens, ids) = leases(settles);
        let rows: Vec<(Uuid, String, bool)> = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/settle_passed.sql"))
                .bind(queue)
                .bind(tokens)
                .bind(ids)
                .bind(took(settles))
                .bind(hedges(settles)),
            fetch_all
        );
        Ok(rows
            .into_iter()
            .map(|(id, queue, wake)| Passed {
                id: RequestId(id),
                queue,
                wake,
            })
            .collect())
    }

    /// `tidegate.settle_snooze`: checked again after the wait given, or as the policy says.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn settle_snooze(&self, queue: &str, settles: &[Settle<Snooze>]) -> Result<Vec<Moved>, StoreError> {
        let (tokens, ids) = leases(settles);
        let rows = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/settle_snooze.sql"))
                .bind(queue)
                .bind(tokens)
                .bind(ids)
                .bind(column(settles, |snooze| snooze.after.map(milliseconds)))
                .bind(column(settles, |snooze| {
                    snooze.error.as_ref().map(RequestError::to_json)
                }))
                .bind(took(settles))
                .bind(hedges(settles)),
            fetch_all
        );
        moved(rows)
    }

    /// `tidegate.settle_failed`: queued → failure.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn settle_failed(&self, queue: &str, settles: &[Settle<RequestError>]) -> Result<Vec<Moved>, StoreError> {
        let sql = include_str!("../../sql/queries/settle_failed.sql");
        self.settle_ended(sql, queue, settles).await
    }

    /// `tidegate.settle_rejected`: `tx_in_flight` → failure.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn settle_rejected(
        &self,
        queue: &str,
        settles: &[Settle<RequestError>],
    ) -> Result<Vec<Moved>, StoreError> {
        let sql = include_str!("../../sql/queries/settle_rejected.sql");
        self.settle_ended(sql, queue, settles).await
    }

    async fn settle_ended(
        &self,
        sql: &'static str,
        queue: &str,
        settles: &[Settle<RequestError>],
    ) -> Result<Vec<Moved>, StoreError> {
        let (tokens, ids) = leases(settles);
        let rows = ask!(
            self,
            sqlx::query_as(sql)
                .bind(queue)
                .bind(tokens)
                .bind(ids)
                .bind(column(settles, RequestError::to_json))
                .bind(took(settles))
                .bind(hedges(settles)),
            fetch_all
        );
        moved(rows)
    }

    /// `tidegate.settle_receipt`: `tx_in_flight` → `receipt_received`, or completed for a `direct` receipt with response.
    ///
    /// # Errors
    ///
    /// A response that cannot be stored, database trouble.
    pub async fn settle_receipt(&self, queue: &str, settles: &[Settle<Receipt>]) -> Result<Vec<Moved>, StoreError> {
        moved(ask!(self, receipt_query(queue, settles), fetch_all))
    }

    /// [`settle_receipt`](Self::settle_receipt) in a transaction of the caller's, who commits it: what else the
    /// transaction writes is there exactly once for each request that moved, and only if it is written after a look
    /// at what moved. The messages and rows stay locked until the end of the transaction.
    ///
    /// # Errors
    ///
    /// A response that cannot be stored, database trouble. The transaction is lost then.
    pub async fn settle_receipt_in<R: Borrow<Receipt>>(
        &self,
        transaction: &mut PgConnection,
        queue: &str,
        settles: &[Settle<R>],
    ) -> Result<Vec<Moved>, StoreError> {
        let rows = receipt_query(queue, settles).fetch_all(transaction).await;
        let settled = rows.map_err(StoreError::from).and_then(moved);
        settled.inspect_err(|error| self.troubles.note(error, &self.pool))
    }

    /// `tidegate.settle_retry`: `tx_in_flight` → processing, or failure when no attempt is left.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn settle_retry(&self, queue: &str, settles: &[Settle<Retry>]) -> Result<Vec<Moved>, StoreError> {
        let (tokens, ids) = leases(settles);
        let rows = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/settle_retry.sql"))
                .bind(queue)
                .bind(tokens)
                .bind(ids)
                .bind(column(settles, |retry| retry.error.to_json()))
                .bind(column(settles, |retry| retry.after.map(milliseconds)))
                .bind(column(settles, |retry| retry.may_have_left))
                .bind(took(settles))
                .bind(hedges(settles)),
            fetch_all
        );
        moved(rows)
    }
}
